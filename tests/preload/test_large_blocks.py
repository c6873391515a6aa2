"""Blocks of many kilobytes: memory that lies free serves again, and is not asked after for ever."""

import pytest

from harness import require


@pytest.mark.parametrize(
    ("pattern", "most"),
    [("heads", 95), ("aligned", 85), ("many_aligned", 250), ("resized", 150)])
def test_free_memory_serves_again(harness, fixtures, pattern, most):
    """Peaks in MiB; glibc has 79, 92, 209 and 58."""
    result = harness.run_preloaded([fixtures("large_patterns.c"), pattern])
    assert int(result.stdout) <= most


@pytest.mark.parametrize("pattern", ["up_and_down", "unused"])
def test_the_same_again_asks_the_kernel_little(harness, fixtures, library, pattern):
    """A thousand rounds of a large block that comes and goes."""
    require("strace")
    output = harness.directory / "trace"
    program = fixtures("large_patterns.c")
    harness.run(["strace", "-f", "-qq", "-o", output, "-E", f"LD_PRELOAD={library}",
                 "-e", "trace=memory,mincore", program, pattern])
    assert len(output.read_text().splitlines()) < 2000
