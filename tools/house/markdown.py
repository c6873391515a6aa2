"""A look at Markdown: code spans, links and headings, fenced blocks left out."""

import re

FENCE = re.compile(r"^(```|~~~).*?^\1[^\n]*$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
LINK = re.compile(r"(?<![!\\])\[[^\]\n]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*$", re.MULTILINE)


def without_fences(text):
    """The text with fenced code blanked; every line stays in its place."""
    return FENCE.sub(lambda match: re.sub(r"[^\n]", "", match.group(0)), text)


def _found(pattern, text):
    for match in pattern.finditer(text):
        yield text.count("\n", 0, match.start()) + 1, match.group(1)


def code_spans(text):
    """(line, content) of every `code span` outside fences."""
    return list(_found(SPAN, without_fences(text)))


def links(text):
    """(line, target) of every link outside fences and code spans."""
    return list(_found(LINK, SPAN.sub("", without_fences(text))))


def anchors(text):
    """The names that the headings of a document can be linked by."""
    names = set()
    for match in HEADING.finditer(without_fences(text)):
        plain = re.sub(r"[^\w\- ]", "", match.group(1).lower())
        names.add(plain.replace(" ", "-"))
    return names
