"""results.html: one page that needs nothing beside it."""

import base64
from pathlib import Path

import jinja2

from .plots import corner_plot, rows_plot
from .tables import all_tables

TEMPLATES = Path(__file__).resolve().parent / "templates"


def template(name):
    loader = jinja2.FileSystemLoader(TEMPLATES)
    return jinja2.Environment(loader=loader, autoescape=True, trim_blocks=True,
                              lstrip_blocks=True).get_template(name)


def html_report(analysis):
    pictures = [
        ("Time against memory",
         "Each allocator's geometric means over all rows; the tinted corner, faster and smaller "
         "than the best peer of every row, is where nobody stood.", corner_plot(analysis)),
        ("Time, row by row", "Left of the line is faster than the row's best peer.",
         rows_plot(analysis, "time")),
        ("Peak RSS, row by row", "Left of the line is smaller than the row's thriftiest peer.",
         rows_plot(analysis, "rss")),
    ]
    return template("results.html.j2").render(
        raw=analysis.raw, pictures=pictures, tables=all_tables(analysis))


def graphs_page(facts, allocators, passes, sections):
    """The page of bench/graphs.py: [(heading, note, [PNG path])], the pictures embedded."""
    embedded = [(heading, note, [base64.b64encode(path.read_bytes()).decode()
                                 for path in paths]) for heading, note, paths in sections]
    return template("graphs.html.j2").render(
        facts=facts, allocators=allocators, passes=passes, sections=embedded)
