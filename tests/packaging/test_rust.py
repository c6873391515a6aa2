"""The crate in bindings/rust as another crate takes it; its own tests run by cargo test."""

import shutil

from conftest import ROOT, need, run

VERSION = (ROOT / "VERSION").read_text().strip()
TARGET = ROOT / "build" / "cargo-bindings"


def test_cargo_add_path(tmp_path):
    need("cargo")
    crate = tmp_path / "words"
    shutil.copytree(ROOT / "examples" / "rust", crate, ignore=shutil.ignore_patterns("target"))
    manifest = crate / "Cargo.toml"
    lines = manifest.read_text().splitlines(keepends=True)
    manifest.write_text("".join(line for line in lines if not line.startswith("primalloc =")))
    run("cargo", "add", "--quiet", "--path", ROOT / "bindings" / "rust", cwd=crate)
    answer = run("cargo", "run", "--quiet", "--target-dir", TARGET, "--", "a", "b", "a", cwd=crate)
    assert answer == f"primalloc {VERSION} serves Rust\n2 a\n1 b\n"


def test_the_feature_override(tmp_path):
    need("cargo")
    said = run("cargo", "test", "--quiet", "--locked", "--features", "override", "--test", "global",
               "--target-dir", TARGET, "--manifest-path", ROOT / "bindings" / "rust" / "Cargo.toml")
    assert "test result: ok" in said
