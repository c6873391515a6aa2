"""The `.def` tables: each line is MACRO(field, field, ...)."""

import re

from house.source import without_c_comments

OPTIONS = "src/settings/options.def"
KNOBS = "src/settings/glibc_knobs.def"
EXPORTS = "src/api/exports.def"
FIGURES = "src/watch/figures.def"
STRING = re.compile(r'"((?:\\.|[^"\\])*)"')


def _split(text):
    """The fields of one entry: commas inside strings and parentheses do not divide."""
    fields, depth, in_string, current = [], 0, False, ""
    previous = ""
    for character in text:
        if character == '"' and previous != "\\":
            in_string = not in_string
        if not in_string:
            depth += {"(": 1, ")": -1}.get(character, 0)
            if character == "," and depth == 0:
                fields.append(current)
                current, previous = "", ""
                continue
        current, previous = current + character, character
    return fields + [current]


def _value(field):
    pieces = STRING.findall(field)
    return "".join(pieces).replace('\\"', '"') if pieces or '""' in field else field.strip()


def entries(text, macro):
    """The fields of every entry of one macro, comments left out, adjacent strings joined."""
    code = without_c_comments(text)
    found = []
    for match in re.finditer(rf"^[ \t]*{macro}\(", code, re.MULTILINE):
        depth, in_string, index = 1, False, match.end()
        while depth:
            character = code[index]
            if character == '"' and code[index - 1] != "\\":
                in_string = not in_string
            elif not in_string:
                depth += {"(": 1, ")": -1}.get(character, 0)
            index += 1
        found.append([_value(field) for field in _split(code[match.end():index - 1])])
    return found


def options(tree):
    names = ["name", "type", "when", "default", "minimum", "maximum", "unit", "sentence"]
    return [dict(zip(names, fields)) for fields in entries(tree.read(OPTIONS), "OPTION")]


def knobs(tree):
    names = ["name", "environment", "parameter", "number", "type", "minimum", "maximum", "action",
             "option", "sentence"]
    return [dict(zip(names, fields)) for fields in entries(tree.read(KNOBS), "KNOB")]


def exports(tree):
    names = ["symbol", "group", "source"]
    return [dict(zip(names, fields)) for fields in entries(tree.read(EXPORTS), "EXPORT")]


def figures(tree, macro="FIGURE"):
    """The statistics of the process, of a class with CLASS_FIGURE, of a heap with HEAP_FIGURE."""
    names = ["name", "group", "kind", "sentence"]
    return [dict(zip(names, fields)) for fields in entries(tree.read(FIGURES), macro)]
