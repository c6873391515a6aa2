#!/usr/bin/env python3
"""Measure primalloc and its peers on the rows of rows.toml, and report ratios that can be trusted.

Examples:
  bench/run.py                                  the quick selection, under 5 minutes
  bench/run.py --full                           every row, under 55 minutes
  bench/run.py --rows 't-test1*' --passes 10    some rows, a given number of passes
  bench/run.py --allocators primalloc,glibc,mine=/tmp/mine.so
  bench/run.py --allocators 'primalloc,hard=build/lib/libprimalloc.so;PRIMALLOC_HARDENED=1'
  bench/run.py --report build/bench-results     draw the report again from raw.json
  bench/run.py --continue build/bench-results   more passes, where a slow hour had room for few
"""

import argparse
import time
from pathlib import Path

from harness.allocators import AGAIN, LIBRARY, OURS
from harness.command import above_zero, make_folder, scratch_folder, tidy_end
from harness.environment import BUILD, BenchError, build_workloads, enter_venv, write_json

QUICK_MINUTES = 4.4
FULL_MINUTES = 50.0
RESULTS = BUILD / "bench-results"
CURVES = "curves.json"
# What a run that is there has decided for itself.
CHOICE = ("quick", "full", "rows", "allocators", "seed", "out")


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    extent = parser.add_mutually_exclusive_group()
    extent.add_argument("--quick", action="store_true", help="the quick rows (the default)")
    extent.add_argument("--full", action="store_true", help="every row")
    parser.add_argument("--rows", metavar="PATTERN",
                        help="comma-separated shell patterns of row names or groups, of all rows")
    parser.add_argument("--allocators", metavar="A,B",
                        help="names, or NAME=PATH of a library; ;VARIABLE=VALUE adds a setting")
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--passes", type=above_zero(int), metavar="N",
                        help="instead of a time budget")
    length.add_argument("--minutes", type=above_zero(float), metavar="M",
                        help=f"time budget (quick {QUICK_MINUTES:g}, full {FULL_MINUTES:g})")
    parser.add_argument("--seed", type=int, help="of the order of trials; printed and kept")
    parser.add_argument("--out", type=Path, metavar="DIR",
                        help="where raw.json, results.md and results.html go "
                             "(build/bench-results)")
    parser.add_argument("--report", type=Path, metavar="DIR",
                        help="measure nothing: draw the report of DIR/raw.json again")
    parser.add_argument("--continue", dest="begun", type=Path, metavar="DIR",
                        help="go on with the run of DIR/raw.json, of the same sources, and draw it")
    options = parser.parse_args()
    refuse_idle_options(parser, options)
    options.out = options.report or options.begun or options.out or RESULTS
    return options


def refuse_idle_options(parser, options):
    """An option that would change nothing is a misunderstanding."""
    def given(names):
        return [name for name in names if getattr(options, name) not in (None, False)]
    if options.begun and (idle := given((*CHOICE, "report"))):
        parser.error(f"--continue goes on with the choice of its run: no --{idle[0]} with it")
    if options.report and (idle := given((*CHOICE, "passes", "minutes"))):
        parser.error(f"--report draws a run as it was: no --{idle[0]} with it")
    if options.quick and options.rows:
        parser.error("--rows takes its rows from all of them: no --quick with it")


def chosen(options, quick):
    """The rows and allocators that the options ask for."""
    from harness.allocators import chosen_allocators
    from harness.rows import load_rows, select_rows

    rows = select_rows(load_rows(), options.rows, quick)
    return rows, chosen_allocators(options.allocators, quick)


def lacking(allocators):
    """What a default selection should have and has not."""
    names = {one.name for one in allocators}
    if OURS not in names:
        yield f"{LIBRARY} is not built: measuring the peers alone"
    if names <= {OURS, AGAIN, "glibc"}:
        yield "glibc is the only peer; bench/peers/build builds more"


def measure(options):
    """Run the campaign that the options ask for; what raw.json keeps."""
    from harness import begun
    from harness.campaign import Campaign
    from harness.machine import machine_facts
    from harness.terminal import Reporter

    raw = begun.load(options.begun) if options.begun else None
    make_folder(options.out)
    quick = not (options.full or options.rows or raw)
    rows, allocators = begun.chosen(raw) if raw else chosen(options, quick)
    build_workloads()
    facts = begun.facts(raw) if raw else machine_facts()
    seed = raw["seed"] if raw else options.seed
    seed = int(time.time()) if seed is None else seed
    minutes = options.minutes or (QUICK_MINUTES if quick else FULL_MINUTES)
    with (scratch_folder("bench") as scratch,
          Reporter(len(rows) * len(allocators)) as reporter):
        for warning in [] if options.allocators or raw else lacking(allocators):
            reporter.console.print(f"[yellow]{warning}[/]")
        reporter.console.print(f"{len(rows)} rows under {', '.join(one.name for one in allocators)}"
                               f"; seed {seed}", highlight=False)
        campaign = Campaign(rows, allocators, seed, Path(scratch), reporter)
        if raw:
            begun.restore(campaign, raw)
        campaign.run(minutes, options.passes)
    return campaign.raw(facts)


def write_report(raw, out):
    """Write results.md, results.html and the picture; (the analysis, the curves). What
    bench/curves.py left in the folder becomes part of it."""
    from harness.analysis import Analysis
    from harness.curves import read_curves
    from harness.html import html_report
    from harness.markdown import markdown_report
    from harness.plots import corner_plot

    make_folder(out)
    analysis = Analysis(raw)
    if not any(analysis.comparisons.values()):
        raise BenchError(f"no peer has run a row, so there is nothing to compare with; what was "
                         f"measured is in {out / 'raw.json'}")
    curves = read_curves(out / CURVES)
    (out / "results.md").write_text(markdown_report(analysis, curves))
    (out / "results.html").write_text(html_report(analysis, curves))
    (out / "corner.svg").write_text(corner_plot(analysis).svg(stands_alone=True))
    return analysis, curves


def main():
    options = arguments()
    enter_venv()
    with tidy_end("interrupted before there was anything to report"):
        if options.report:
            from harness.begun import read
            raw = read(options.report)
        else:
            raw = measure(options)
            write_json(options.out / "raw.json", raw)
        analysis, curves = write_report(raw, options.out)
        from harness.terminal import print_report
        print_report(analysis, curves)
        names = ("results.html", "results.md", "raw.json")
        print("\n" + "\n".join(str(options.out / name) for name in names))


if __name__ == "__main__":
    main()
