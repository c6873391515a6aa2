"""docs/reference: the interface, from the public header's comments and the table of symbols."""

import re

from house import tables
from house.cxx_reference import HEADER as CXX_HEADER
from house.cxx_reference import cxx_lines, problems_of_cxx, read_cxx
from house.header import read_header

HEADER = "include/primalloc.h"
FOLDER = "docs/reference"
NOTE = "<!-- Written by tools/docs from {}; change it there and run `make docs`. -->\n"
FACTS = {"Sizes": "sizes", "Alignment": "alignment", "Errors": "errors", "Threads": "threads"}
GIVES_BLOCK = re.compile(r"^(void|char) \*\w|^int \w*memalign\(")
CODE = re.compile(r"(?<![\w`/.:])((?:std|prim)(?:::\w+)+|[A-Za-z]\w*_\w+|\w+\(3\)|"
                  r"[A-Z_]{4,}_?[A-Z]*|\*\w+)(?![\w`(])")
DOCUMENT = re.compile(r"\bdocs/([\w/]+\.md)\b")


def slug(title):
    return re.sub(r"[^a-z0-9]+", "-", title.lower().replace("'", "")).strip("-")


def page_of(section):
    return f"{FOLDER}/{slug(section.comment.title)}.md"


def wanted_facts(text):
    """What must be known of a function: of those that give a block its size and alignment, too."""
    always = ["Errors", "Threads"]
    return ["Sizes", "Alignment", *always] if GIVES_BLOCK.match(text) else always


def fact_of(section, entry, name):
    """What an entry says itself, else its section; what goes wrong is said at each."""
    own = entry.comment.facts.get(name)
    return own if own or name == "Errors" else section.comment.facts.get(name)


def problems_of(tree):
    """What the header does not tell."""
    sources = {row["symbol"] for row in tables.exports(tree)}
    declared, problems = set(), []
    for section in read_header(tree, HEADER):
        for entry in section.entries:
            where = f"{HEADER}:{entry.line}"
            if not entry.comment.paragraphs and not entry.names("macro"):
                problems.append(f"{where}: {entry.names()[0]} has no comment right before it")
            if entry.comment.stray:
                problems.append(f"{where}: {entry.names()[0]}: `{entry.comment.stray}` stands "
                                "behind a fact: indent it by two blanks to go on with that")
            for kind, name, text in entry.declarations:
                if kind == "function":
                    declared.add(name)
                    problems += [
                        f"{where}: {name}: no line `{fact}:` in its comment or its section's"
                        for fact in wanted_facts(text) if not fact_of(section, entry, fact)]
                    problems += [] if name in sources else [
                        f"{where}: {name} is not in {tables.EXPORTS}, which tells its source"]
    problems += [f"{HEADER}: does not declare {row['symbol']} of {tables.EXPORTS}"
                 for row in tables.exports(tree)
                 if row["group"] == "PRIM" and row["symbol"] not in declared]
    return problems + (problems_of_cxx(tree) if tree.exists(CXX_HEADER) else [])


def prose(text):
    """A comment's text as Markdown: names as code, documents as links."""
    text = CODE.sub(lambda match: f"`{match.group(1)}`", text)
    return DOCUMENT.sub(r"[docs/\1](../\1)", text)


def source_of(source):
    own = re.sub(r"^primalloc\.h(, )?", "", source)
    return prose(source) if own == source else prose(own or "primalloc's own")


def function_rows(section, entry, sources):
    functions = [(name, text) for kind, name, text in entry.declarations if kind == "function"]
    if not functions:
        return []
    wanted = {fact for _, text in functions for fact in wanted_facts(text)}
    rows = ["| | |", "|---|---|"]
    rows += [f"| {word} | {prose(fact_of(section, entry, fact) or '')} |"
             for fact, word in FACTS.items() if fact in wanted]
    origins = {source_of(sources.get(name, "")) for name, _ in functions}
    if len(origins) == 1:
        return [*rows, f"| source | {origins.pop()} |", ""]
    rows += [f"| source of `{name}` | {source_of(sources.get(name, ''))} |"
             for name, _ in functions]
    return [*rows, ""]


def entry_lines(section, entry, sources):
    lines = [f"## {', '.join(entry.names())}\n", "```c"]
    lines += [text for _, _, text in entry.declarations] + ["```\n"]
    lines += [f"{prose(paragraph)}\n" for paragraph in entry.comment.paragraphs]
    return lines + function_rows(section, entry, sources)


def section_page(section, sources):
    lines = [NOTE.format(f"{HEADER} and {tables.EXPORTS}"), f"# {section.comment.title}\n"]
    lines += [f"{prose(paragraph)}\n" for paragraph in section.comment.paragraphs]
    lines += [f"**{fact}.** {prose(text)}\n" for fact, text in section.comment.facts.items()]
    for entry in section.entries:
        lines += entry_lines(section, entry, sources)
    return "\n".join(lines).rstrip() + "\n"


def cxx_page(tree):
    lines = [NOTE.format(CXX_HEADER), *cxx_lines(tree, prose)]
    return "\n".join(lines).rstrip() + "\n"


def index_page(sections, cxx_names):
    lines = [NOTE.format(HEADER), "# Reference\n", (
        "All that [primalloc.h](../../include/primalloc.h) declares, section by section.\n"
        "The standard names (`malloc`, `free`, `operator new` and so on) do what those with\n"
        "the prefix `prim_` do; [symbols](../symbols.md) lists all that the library exports.\n"
        "[The page for C++](cxx.md) has what primalloc.hpp adds; for Rust there is `cargo doc` in\n"
        "`bindings/rust`.\n")]
    lines += ["| section | functions |", "|---|---|"]
    for section in sections:
        page = page_of(section).rsplit("/", 1)[1]
        names = [f"[`{name}`]({page}#{heading(entry)})" for entry in section.entries
                 for name in entry.names("function")]
        lines.append(f"| [{section.comment.title}]({page}) | {', '.join(names)} |")
    if cxx_names:
        names = [f"[`prim::{name}`](cxx.md#prim{name})" for name in cxx_names]
        lines.append(f"| [C++](cxx.md) | {', '.join(names)} |")
    return "\n".join(lines) + "\n"


def heading(entry):
    """The anchor of an entry's heading."""
    return re.sub(r"[^\w\- ]", "", ", ".join(entry.names()).lower()).replace(" ", "-")


def reference_documents(tree):
    """{path: text}; nothing in a tree without the header."""
    if not tree.exists(HEADER):
        return {}
    sections = read_header(tree, HEADER)
    sources = {row["symbol"]: row["source"] for row in tables.exports(tree)}
    pages = {page_of(section): section_page(section, sources) for section in sections}
    cxx_names = []
    if tree.exists(CXX_HEADER):
        cxx_names = [entry.name for entry in read_cxx(tree)]
        pages[f"{FOLDER}/cxx.md"] = cxx_page(tree)
    return {f"{FOLDER}/README.md": index_page(sections, cxx_names)} | pages
