"""A profile of ten million samples: how large its file is, and that the tool opens it."""

import gzip

import synthetic

BYTES_MAX = 10_000_000
SAMPLES = 10_000_000


def test_ten_million_samples_are_a_small_file(primalloc, tmp_path):
    path = tmp_path / "large.pb.gz"
    path.write_bytes(gzip.compress(synthetic.profile(SAMPLES, 20_000), compresslevel=6))
    assert path.stat().st_size <= BYTES_MAX
    shown = primalloc("report", f"--html={tmp_path / 'large.html'}", path).stdout
    assert "large, process 4711" in shown and "total " in shown
    assert (tmp_path / "large.html").stat().st_size < 5_000_000
