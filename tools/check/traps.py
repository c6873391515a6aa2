"""Every trap of tests/traps/traps.def has a test that carries its number."""

from house.report import Outcome
from house.traps import COUNT, TRAPS, traps


def check(tree):
    found = traps(tree)
    problems = [f"{TRAPS}: T{number:02} is missing" for number in range(1, COUNT + 1)
                if number not in found]
    problems += [f"{TRAPS}: T{number:02} has no test: no function test_t{number:02}_* below tests/"
                 for number, (_, tests) in sorted(found.items()) if not tests]
    count = sum(len(tests) for _, tests in found.values())
    return Outcome(f"{len(found)} traps, {count} tests", problems)
