"""results.md: the tables for reading in a repository."""

from .asked import asked_table
from .curves import curve_facts, curve_tables
from .tables import all_tables

MARKS = {"best": "**{}**", "ahead": "**{}**", "behind": "_{}_", "": "{}"}


def fact_lines(raw):
    machine = raw["machine"]
    return [f"- {key.replace('_', ' ')}: {value}" for key, value in machine.items()] + [
        f"- passes: {raw['passes']}, interleaved; seed {raw['seed']}"]


def allocator_lines(raw):
    return [f"- {one['name']} {one['version']} ({one['source']})" for one in raw["allocators"]]


def markdown_table(table):
    def line(texts):
        return "| " + " | ".join(text.replace("|", "\\|") for text in texts) + " |"
    lines = [f"## {table.title}", "", table.note, "", line(table.header),
             line(["---"] * table.left + ["---:"] * (len(table.header) - table.left))]
    lines += [line([MARKS[cell.mark].format(cell.text) for cell in row]) for row in table.rows]
    return "\n".join(lines)


def markdown_report(analysis, curves):
    raw = analysis.raw
    tables = [asked_table(analysis, curves), *all_tables(analysis), *curve_tables(curves)]
    facts = fact_lines(raw)
    if curves:
        facts.append(f"- curves, each in a run of its own: {curve_facts(curves)}")
    parts = ["# Benchmark results", "\n".join(facts), "## Allocators",
             "\n".join(allocator_lines(raw)), *(markdown_table(table) for table in tables)]
    return "\n\n".join(parts) + "\n"
