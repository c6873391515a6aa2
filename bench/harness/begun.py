"""A run that goes on: what raw.json keeps of its passes becomes a campaign's past.

Passes of two builds or of two choices of rows would be no run at all, so the sources, the rows and
the allocators must be those of the passes before.
"""

import datetime

from .allocators import all_allocators, serving
from .campaign import Sample
from .environment import BenchError, read_json
from .machine import measured_sources
from .rows import load_rows


# What Campaign.raw keeps; "second_runs" is newer than the runs that are kept.
PARTS = {"machine", "seed", "passes", "allocators", "rows", "skipped", "failures", "samples"}


def read(folder):
    """The run that the folder has."""
    path = folder / "raw.json"
    if not path.exists():
        raise BenchError(f"{folder} has no raw.json; bench/run.py writes it")
    raw = read_json(path)
    if not isinstance(raw, dict) or not PARTS <= raw.keys():
        raise BenchError(f"{path} is no run of bench/run.py")
    return raw


def load(folder):
    """The same, if it may go on here."""
    raw = read(folder)
    if raw["machine"].get("sources") != measured_sources():
        raise BenchError(f"{folder / 'raw.json'} is of commit {raw['machine']['commit']}, whose "
                         f"sources or rows are not those here")
    return raw


def chosen(raw):
    """Its rows and allocators."""
    rows = {row.name: row for row in load_rows()}
    allocators = {(one.name, one.version, one.source): one for one in all_allocators()}
    wanted = [(one["name"], one["version"], one["source"]) for one in raw["allocators"]]
    missing = [" ".join(one) for one in wanted if one not in allocators]
    if missing:
        raise BenchError(f"the run that goes on has allocators that are not here: "
                         f"{', '.join(missing)}")
    return ([rows[row["name"]] for row in raw["rows"]],
            serving([allocators[one] for one in wanted]))


def facts(raw):
    """Those of its beginning, and when it went on."""
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    return raw["machine"] | {"continued": now}


def restore(campaign, raw):
    """Put its passes into a campaign. What was left out of the last of them stays left out."""
    campaign.samples = [Sample(**one) for one in raw["samples"]]
    campaign.passes = raw["passes"]
    campaign.skipped = dict(raw["skipped"])
    campaign.second_runs = raw.get("second_runs", [])
    campaign.failures = {(one["row"], one["allocator"]): one["reason"] for one in raw["failures"]}
    pairs = {(row["name"], one["name"]) for row in raw["rows"] for one in raw["allocators"]}
    last = {(one.row, one.allocator) for one in campaign.samples
            if one.pass_number == raw["passes"]}
    campaign.far_behind = pairs - last - campaign.failures.keys()
