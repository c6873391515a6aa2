#!/usr/bin/env python3
"""Keep a full run as the results that a release is judged by, and show them in README.md.

    bench/publish.py NAME [--from build/bench-results]

Copies raw.json and curves.json to bench/results/NAME, draws the report there, and writes the
section of README.md between its marks anew: the picture, the means, and plainly where
primalloc is not first.
"""

import argparse
import shutil
from pathlib import Path

from harness.command import tidy_end
from harness.environment import BENCH, BUILD, ROOT, BenchError, enter_venv
from run import write_report

README = ROOT / "README.md"
RESULTS = BENCH / "results"
BEGIN = "<!-- results: written by bench/publish.py -->"
END = "<!-- end of results -->"
KEPT = ("raw.json", "curves.json")
# So many rows are named that are not first; the report has them all.
NAMED = 8


def means_table(analysis):
    """One line an allocator, the fastest first, without the control."""
    from harness.allocators import AGAIN, OURS
    found = [(time, rss, name) for name in analysis.names if name != AGAIN
             and (time := analysis.mean(name, "time")) and (rss := analysis.mean(name, "rss"))]
    lines = ["| allocator | time | peak memory |", "|---|--:|--:|"]
    for time, rss, name in sorted(found, key=lambda one: one[0].value):
        marked = f"**{name}**" if name == OURS else name
        lines.append(f"| {marked} | {time.value:.2f} | {rss.value:.2f} |")
    return lines


def not_first_text(analysis, metric, what, ours):
    """On how many rows the best peer is ahead, and those where we are farthest behind."""
    rows = [(row, one.ratios[ours].value, one.best)
            for row, one in analysis.not_first(metric)]
    if not rows:
        return f"The best peer takes less {what} on no row."
    named = ", ".join(f"`{row}` {ratio:.2f} ({best})" for row, ratio, best in rows[:NAMED])
    return (f"On {len(rows)} of {len(analysis.rows)} rows the best peer takes less {what}. "
            f"Where primalloc is farthest behind, it takes so many times as much: {named}.")


def failures_text(analysis):
    """Which rows a mean lacks."""
    failed = [f"{name} on `{row}`" for row, name in analysis.failures]
    return f" Without rows on which the program failed: {', '.join(failed)}." if failed else ""


def results_section(analysis, folder):
    from harness.allocators import OURS
    place = folder.relative_to(ROOT)
    raw = analysis.raw
    return "\n".join([
        f"![Time against memory, primalloc and its peers]({place}/corner.svg)", "",
        f"Each figure is an allocator's time, or peak memory, divided by that of primalloc's best "
        f"peer on the same row: geometric means over {len(analysis.rows)} rows, from small loops "
        f"to real programs, in {raw['passes']} interleaved passes on {raw['machine']['cores']} "
        f"cores. Less is better; below 1.00 beats even the best peer.{failures_text(analysis)}", "",
        *means_table(analysis), "",
        "**Where primalloc is not first.** " + not_first_text(analysis, "time", "time", OURS)
        + " " + not_first_text(analysis, "rss", "peak memory", OURS), "",
        f"[The whole report]({place}/results.md) says line by line what was asked and what was "
        f"measured."])


def publish(source, folder):
    """Copy what was measured, draw its report, and show it in README.md."""
    from harness.allocators import OURS
    from harness.begun import read
    raw = read(source)
    if OURS not in [one["name"] for one in raw["allocators"]]:
        raise BenchError(f"primalloc is not among the allocators of {source}")
    before, mark, rest = README.read_text().partition(BEGIN)
    if not mark or END not in rest:
        raise BenchError(f"{README} has no section between '{BEGIN}' and '{END}'")
    folder.mkdir(parents=True, exist_ok=True)
    if source.resolve() != folder.resolve():
        for name in KEPT:
            (folder / name).unlink(missing_ok=True)
            if (source / name).exists():
                shutil.copyfile(source / name, folder / name)
    analysis, _ = write_report(raw, folder)
    section = results_section(analysis, folder)
    README.write_text(f"{before}{BEGIN}\n{section}\n{END}{rest.partition(END)[2]}")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", help="of the folder in bench/results")
    parser.add_argument("--from", dest="source", type=Path, default=BUILD / "bench-results",
                        metavar="DIR", help="where bench/run.py left its results")
    options = parser.parse_args()
    enter_venv()
    with tidy_end():
        folder = RESULTS / options.name
        publish(options.source, folder)
    print(f"{folder}\n{README}")


if __name__ == "__main__":
    main()
