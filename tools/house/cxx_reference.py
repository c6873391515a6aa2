"""docs/reference/cxx.md: what the headers for C++ declare, from their comments and declarations."""

import re

from house.header import parser

HEADER = "include/primalloc.hpp"
OTHER_HEADERS = ["include/primalloc-new-delete.hpp"]
INNER = "detail"
CLASSES = ("class_specifier", "struct_specifier")
PUBLIC = {"class_specifier": ["  public:"], "struct_specifier": []}
WITH_MEMBERS = ("preproc_if", "preproc_ifdef", "namespace_definition", "declaration_list")


class Entry:
    """A declaration and the comment right before it."""

    def __init__(self, node, comment):
        self.line = node.start_point[0] + 1
        self.name = name_of(node)
        self.comment = comment
        self.code = declaration(node)


def inner(node):
    """What a template declares; any other node itself."""
    return node.named_children[-1] if node.type == "template_declaration" else node


def name_of(node):
    node = inner(node)
    found = node.child_by_field_name("name")
    while found is None and node.child_by_field_name("declarator"):
        node = node.child_by_field_name("declarator")
        found = node if node.type == "identifier" else None
        if node.type in ("pointer_declarator", "reference_declarator") and found is None:
            node = next((child for child in node.named_children
                         if child.type == "function_declarator"), node)
            found = node.child_by_field_name("declarator")
    return found.text.decode() if found else ""


def is_definition(node):
    """Not a class that is only named."""
    node = inner(node)
    return node.type not in CLASSES or node.child_by_field_name("body") is not None


def comment_of(lines):
    return " ".join(re.sub(r"^// ?", "", line).strip() for line in lines)


def without_body(node):
    """A function's text up to its body."""
    bodies = [part.start_byte - node.start_byte for part in walk(node)
              if part.type in ("compound_statement", "field_initializer_list")]
    if not bodies:
        return node.text.decode()
    return node.text[:min(bodies)].decode().rstrip() + ";"


def walk(node):
    yield node
    for child in node.named_children:
        yield from walk(child)


def declaration(node):
    kind = inner(node)
    if kind.type in CLASSES:
        body = kind.child_by_field_name("body")
        head = node.text[:body.start_byte - node.start_byte].decode().rstrip()
        members = member_lines(body, kind.type == "struct_specifier")
        if not members:
            return head + " { ... };"
        return "\n".join([head + " {", *PUBLIC[kind.type], *members, "};"])
    if kind.type == "function_definition":
        return without_body(node)
    return node.text.decode().rstrip(";") + ";"


def member_lines(body, is_public):
    """The public members, each without its body, in the order and groups of the source."""
    lines, end = [], body.start_point[0]
    for node in body.named_children:
        if node.type == "access_specifier":
            is_public = node.text.decode() == "public"
        elif is_public:
            first = node.start_point[0]
            text = node.text.decode() if node.type == "comment" else without_body(node)
            if node.type not in ("comment", "function_definition", "template_declaration"):
                text = text.rstrip(";") + ";"
            if node.type == "comment" and first == end and lines:
                lines[-1] += f"  {text}"
            else:
                lines += [""] if lines and first > end + 1 else []
                lines += dedented(text)
        end = node.end_point[0]
    return lines


def dedented(text):
    """Below four spaces, whatever the continuation lines had."""
    first, *rest = text.splitlines()
    return ["    " + first, *rest]


def entries_of(node, found):
    comment, last = [], -2
    for child in node.named_children:
        row = child.start_point[0]
        if child.type == "comment":
            comment = [*comment, child.text.decode()] if row == last + 1 else [child.text.decode()]
        else:
            said = comment_of(comment) if row == last + 1 else ""
            if child.type in WITH_MEMBERS:
                if name_of(child) != INNER:
                    entries_of(child, found)
            elif child.type.startswith("preproc") or child.type == "identifier":
                pass
            elif name_of(child) not in ("", "prim") and is_definition(child):
                found.append(Entry(child, said))
            comment = []
        last = child.end_point[0] - (child.end_point[1] == 0)
    return found


def head_of(text):
    """(the first line's words, paragraphs) of the comment that a header begins with."""
    lines = []
    for line in text.splitlines():
        if not line.startswith("//"):
            break
        lines.append(line[2:].strip())
    paragraphs = " ".join(line or "\n" for line in lines[1:]).split("\n")
    return lines[0].split(" - ", 1)[1], [part.strip() for part in paragraphs if part.strip()]


def read_cxx(tree):
    return entries_of(parser("cpp").parse(tree.path(HEADER).read_bytes()).root_node, [])


def problems_of_cxx(tree):
    """What the header does not tell."""
    return [f"{HEADER}:{entry.line}: {entry.name} has no comment right before it"
            for entry in read_cxx(tree) if not entry.comment]


def cxx_lines(tree, prose):
    """The page's lines; `prose` makes Markdown of a comment."""
    title, paragraphs = head_of(tree.read(HEADER))
    lines = ["# C++\n", f"`#include <primalloc.hpp>`: {prose(title)}\n"]
    lines += [f"{prose(paragraph)}\n" for paragraph in paragraphs]
    for path in OTHER_HEADERS:
        title, paragraphs = head_of(tree.read(path))
        lines += [f"`#include <{path.split('/')[1]}>`: {prose(title)}\n"]
        lines += [f"{prose(paragraph)}\n" for paragraph in paragraphs]
    for entry in read_cxx(tree):
        lines += [f"## prim::{entry.name}\n", f"```cpp\n{entry.code}\n```\n",
                  f"{prose(entry.comment)}\n"]
    return lines
