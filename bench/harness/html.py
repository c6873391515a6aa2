"""results.html: one page that needs nothing beside it, in the reader's light or dark theme."""

from pathlib import Path

import jinja2

from .asked import asked_table
from .curves import curve_facts, curve_plots, curve_tables
from .plots import bar_plot, corner_plot, rows_plot
from .svg import THEME
from .tables import all_tables

TEMPLATES = Path(__file__).resolve().parent / "templates"


def template(name):
    loader = jinja2.FileSystemLoader(TEMPLATES)
    environment = jinja2.Environment(loader=loader, autoescape=True, trim_blocks=True,
                                     lstrip_blocks=True)
    environment.globals["theme"] = THEME
    return environment.get_template(name)


def html_report(analysis, curves):
    overview = [
        ("Time against memory",
         "Each allocator's geometric means over all rows. Who stands in the tinted corner is "
         "faster and smaller than the best peers of the rows.", corner_plot(analysis)),
        ("Time", "Geometric mean over all rows of the ratio to each row's best peer.",
         bar_plot(analysis, "time", "Time")),
        ("Peak memory", "The same for the peak resident size and each row's thriftiest peer.",
         bar_plot(analysis, "rss", "Peak memory")),
    ]
    details = [
        ("Time, row by row", "Left of the line is faster than the row's best peer. The pale dot is "
         "the control.", rows_plot(analysis, "time", "Time, row by row")),
        ("Peak RSS, row by row", "Left of the line is smaller than the row's thriftiest peer.",
         rows_plot(analysis, "rss", "Peak RSS, row by row")),
    ]
    tables = all_tables(analysis)
    return template("results.html.j2").render(
        raw=analysis.raw, asked=asked_table(analysis, curves), overview=overview, details=details,
        overall=tables[0], tables=tables[1:], curves=curve_plots(curves),
        curve_tables=curve_tables(curves), curve_facts=curve_facts(curves))


def graphs_page(facts, allocators, passes, sections):
    """The page of bench/graphs.py: [(heading, note, [picture])]."""
    return template("graphs.html.j2").render(
        facts=facts, allocators=allocators, passes=passes, sections=sections)
