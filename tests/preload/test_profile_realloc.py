"""Heap profiles of blocks that realloc leaves where they are, or moves: what is not sampled must
do as the sampled do, else blocks that grow step by step hide from a profile, or count twice."""

import json
import math

import pytest

import pprof

RATE = 65536


@pytest.fixture
def program(fixtures):
    return fixtures("profile_realloc.c")


def by_case(profile, program, harness, cases):
    """Objects and bytes in use by the innermost function that is a case."""
    symbols = pprof.Symbols(program, lambda command: harness.run(command).stdout.decode())
    sums = {name: [0, 0] for name in cases}
    for sample in profile.samples:
        for name in map(symbols.name, sample.frames):
            if name in sums:
                sums[name][0] += sample.values["inuse_objects"]
                sums[name][1] += sample.values["inuse_space"]
                break
    return sums


@pytest.mark.parametrize("rate", [1, RATE])
def test_resized_blocks_count_as_they_are(harness, program, rate):
    result = harness.run_preloaded([program], changes={"PRIMALLOC_PROFILE": f"h.pb.gz,rate={rate}"})
    truth = json.loads(result.stdout)
    profile = pprof.Profile(harness.directory / "h.pb.gz")
    sums = by_case(profile, program, harness, truth)
    for name, (count, size) in truth.items():
        objects, space = sums[name]
        # The probability is that of the size at the last draw, which may be less by a fifth.
        p = 1 - math.exp(-size * 0.8 / rate)
        allowed = 6 * math.sqrt((1 - p) / p / count) + 0.001
        assert abs(objects / count - 1) < allowed, (name, objects, count, allowed)
        assert abs(space / (count * size) - 1) < allowed, (name, space, count * size, allowed)


def sums_of(harness, program, rate):
    settings = {"PRIMALLOC_PROFILE": f"h.pb.gz,rate={rate}"}
    harness.run_preloaded([program], changes=settings)
    profile = pprof.Profile(harness.directory / "h.pb.gz")
    sums = {}
    for sample in profile.samples:
        for name, value in sample.values.items():
            sums[name] = sums.get(name, 0) + value
    return sums


def test_a_block_that_stays_is_no_new_allocation(harness, fixtures):
    """However often its size changes; where every call is recorded, each realloc is one."""
    program = fixtures("resized_often.c")
    blocks, size, calls, sizes = 8, 1 << 20, 100000, 1000
    last = sum(size - i % sizes for i in range(calls - blocks, calls))
    sampled = sums_of(harness, program, RATE)
    assert blocks <= sampled["alloc_objects"] <= blocks + 8, sampled
    assert blocks <= sampled["inuse_objects"] <= blocks + 8, sampled
    assert last <= sampled["inuse_space"] <= last + RATE * 8, sampled
    exact = sums_of(harness, program, 1)
    assert exact["alloc_objects"] == calls + blocks, exact
    assert exact["inuse_objects"] == blocks and exact["inuse_space"] == last, exact
