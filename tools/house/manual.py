"""man/*.3: the public header's sections as manual pages, one each, under the name of its first
function; the others' names are in its first line, for links to be made of when it is installed."""

import re

from house.header import read_header

HEADER = "include/primalloc.h"
FOLDER = "man"
NOTE = r'.\" Written by tools/docs from {}; change it there and run `make docs`.'
NAMES = r'.\" names: '
INDEX = "primalloc"
PROGRAMS = """Programs use these functions when they are linked with
.BR libprimalloc ,
or by their own names beside the C library's malloc when they are linked with
.BR libprimalloc_prefixed.a ;
under
.B LD_PRELOAD
they are there as well, to be found by
.BR dlsym (3)."""


def escaped(text):
    """Text in which nothing is a request of roff's."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", text, flags=re.MULTILINE)


def head(title, name, summary, *notes):
    return [*notes, f'.TH {title.upper()} 3 "" primalloc "primalloc"', ".SH NAME",
            f"{name} \\- {escaped(summary)}"]


def paragraphs(comment):
    lines = []
    for paragraph in comment.paragraphs:
        lines += [".PP", escaped(paragraph)]
    return lines


def facts(entry):
    lines = []
    for name, text in entry.comment.facts.items():
        lines += [".TP", f".I {name}", escaped(text)]
    return lines


def names_of(section):
    return [name for entry in section.entries for name in entry.names("function")]


def section_page(section):
    names = names_of(section)
    lines = head(names[0], ", ".join(names), section.comment.title, NOTE.format(HEADER),
                 NAMES + " ".join(names[1:]))
    lines += [".SH SYNOPSIS", ".nf", ".B #include <primalloc.h>"]
    for entry in section.entries:
        lines += [".PP", *(escaped(text) for _, _, text in entry.declarations)]
    lines += [".fi", ".SH DESCRIPTION", *paragraphs(section.comment)]
    for entry in section.entries:
        if entry.comment.paragraphs or entry.comment.facts:
            lines += [f".SS {', '.join(entry.names())}", *paragraphs(entry.comment), *facts(entry)]
    for name, text in section.comment.facts.items():
        lines += [f".SH {name.upper()}", escaped(text)]
    return "\n".join([*lines, ".SH SEE ALSO", f".BR {INDEX} (3),", ".BR malloc (3)"]) + "\n"


def index_page(sections):
    lines = head(INDEX, INDEX, "memory allocator that replaces malloc", NOTE.format(HEADER))
    lines += [".SH SYNOPSIS", ".B #include <primalloc.h>", ".SH DESCRIPTION", PROGRAMS]
    for section in sections:
        names = names_of(section)
        lines += [".TP", f".BR {names[0]} (3)", escaped(f"{section.comment.title}: " + ", ".join(
            names) + ".")]
    lines += [".SH FILES", ".TP", ".I share/doc/primalloc/docs",
              "below the prefix of the installation: what these pages call docs."]
    return "\n".join([*lines, ".SH SEE ALSO", f".BR {INDEX} (1),", ".BR malloc (3)"]) + "\n"


def manual_pages(tree):
    """{path: text}; nothing in a tree without the header."""
    if not tree.exists(HEADER):
        return {}
    sections = [section for section in read_header(tree, HEADER) if names_of(section)]
    pages = {f"{FOLDER}/{names_of(section)[0]}.3": section_page(section) for section in sections}
    return pages | ({f"{FOLDER}/{INDEX}.3": index_page(sections)} if sections else {})
