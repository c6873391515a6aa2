#!/usr/bin/env python3
"""Write the list of rows in bench/README.md anew from bench/rows.toml.

With --check nothing is written: the exit status is 1 when the list is not what rows.toml says.
"""

import argparse
import sys
from harness.environment import BENCH
from harness.rows import load_rows

README = BENCH / "README.md"
BEGIN = "<!-- rows: written by bench/readme.py from bench/rows.toml -->"
END = "<!-- end of rows -->"


def rows_section():
    """One table a group, in the order of rows.toml."""
    rows = load_rows()
    lines = [f"{len(rows)} rows; {sum(row.quick for row in rows)} of them, marked ·, are in the "
             f"quick selection."]
    for group in dict.fromkeys(row.group for row in rows):
        lines += ["", f"### {group}", "", "| row | threads | what it stresses |", "|---|---:|---|"]
        lines += [f"| `{row.name}`{' ·' if row.quick else ''} | {row.threads} | {row.about} |"
                  for row in rows if row.group == group]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--check", action="store_true", help="only tell whether it is up to date")
    options = parser.parse_args()
    old = README.read_text()
    before, after = old.partition(BEGIN)[0], old.partition(END)[2]
    new = f"{before}{BEGIN}\n{rows_section()}\n{END}{after}"
    if options.check and new != old:
        sys.exit(f"{README} does not list the rows of rows.toml; run bench/readme.py")
    if not options.check:
        README.write_text(new)


if __name__ == "__main__":
    main()
