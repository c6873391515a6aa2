"""The public header as a parser sees it: sections, and what each declares with its comment."""

import importlib
import re
import site
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SECTION = re.compile(r"== (.+) ==$")
FACT = re.compile(r"(Sizes|Alignment|Errors|Threads):\s+(.*)")
FOR_CXX = re.compile(rb"^#ifdef __cplusplus$.*?^#endif$", re.MULTILINE | re.DOTALL)


@dataclass
class Comment:
    """Paragraphs of text, and the facts that its last lines state."""

    title: str = ""
    paragraphs: list = field(default_factory=list)
    facts: dict = field(default_factory=dict)
    stray: str = ""  # a line behind a fact that is not indented: torn from it


@dataclass
class Entry:
    """Declarations that one comment describes."""

    line: int
    comment: Comment
    declarations: list = field(default_factory=list)  # (kind, name, text)

    def names(self, *kinds):
        return [name for kind, name, _ in self.declarations if not kinds or kind in kinds]


@dataclass
class Section:
    comment: Comment
    entries: list = field(default_factory=list)


def parser(language="c"):
    """tree-sitter's parser for C or C++ ("cpp"), from build/venv if this Python has none."""
    name = f"tree_sitter_{language}"
    try:
        grammar = importlib.import_module(name).language()
    except ImportError:
        subprocess.run([ROOT / "tools" / "venv", "tools/requirements.txt"], check=True)
        for folder in (ROOT / "build" / "venv" / "lib").glob("python3*/site-packages"):
            site.addsitedir(folder)
        grammar = importlib.import_module(name).language()
    tree_sitter = importlib.import_module("tree_sitter")
    return tree_sitter.Parser(tree_sitter.Language(grammar))


def read_comment(text):
    comment, paragraph, fact = Comment(), [], None
    lines = [re.sub(r"^\s*\* ?", "", line) for line in text[2:-2].strip().splitlines()]
    for line in lines + [""]:
        title, stated = SECTION.match(line.strip()), FACT.match(line)
        if title:
            comment.title = title.group(1)
        elif stated:
            fact = stated.group(1)
            comment.facts[fact] = stated.group(2).strip()
        elif fact and line.startswith("  "):
            comment.facts[fact] += " " + line.strip()
        elif line.strip():
            comment.stray = comment.stray or (line.strip() if fact else "")
            paragraph, fact = paragraph + [line.strip()], None
        if paragraph and (stated or not line.strip()):
            comment.paragraphs.append(" ".join(paragraph))
            paragraph = []
    return comment


def declared_name(node):
    """The name that a declaration gives: the innermost declarator's."""
    while node.child_by_field_name("declarator"):
        node = node.child_by_field_name("declarator")
    return node.text.decode()


def described(node):
    """(kind, name) of a declaration, or None."""
    if node.type in ("struct_specifier", "enum_specifier"):
        return node.type.split("_")[0], node.child_by_field_name("name").text.decode()
    if node.type == "declaration":
        return "function", declared_name(node)
    if node.type == "type_definition":
        return "type", declared_name(node)
    if node.type == "preproc_def":
        return "macro", node.child_by_field_name("name").text.decode()
    return None


def read_header(tree, path):
    """The sections of a header. A comment belongs to what follows it without an empty line."""
    text = tree.path(path).read_bytes()
    text = FOR_CXX.sub(lambda match: re.sub(rb"[^\n]", b" ", match.group(0)), text)
    root = parser().parse(text).root_node
    if root.has_error:
        raise ValueError(f"{path}: is not what the parser takes for C")
    guard = next(node for node in root.children if node.type == "preproc_ifdef")
    sections, entry, comment, end = [], None, None, 0
    for node in guard.children[3:]:
        line = node.start_point[0] + 1
        if node.type == "comment":
            comment = read_comment(node.text.decode())
            if comment.title:
                sections.append(Section(comment))
                comment = None
            entry = None
        elif described(node) and sections:
            kind, name = described(node)
            if entry is None or (comment is None and line > end + 1):
                entry = Entry(line, comment or Comment())
                sections[-1].entries.append(entry)
                comment = None
            semicolon = ";" if node.type.endswith("_specifier") else ""
            entry.declarations.append((kind, name, node.text.decode().rstrip() + semicolon))
        end = node.end_point[0] + (node.end_point[1] > 0)
    return sections
