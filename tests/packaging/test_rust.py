"""The crate in bindings/rust as another crate takes it; its own tests run by cargo test."""

import re

import pytest

from conftest import ROOT, defined_names, need, run

VERSION = (ROOT / "VERSION").read_text().strip()
TARGET = ROOT / "build" / "cargo-bindings"


def fresh_crate(folder, name, source):
    """A crate as a user makes it, with a source of its own, that takes ours by its path."""
    need("cargo")
    run("cargo", "new", "--quiet", "--vcs", "none", "--name", name, folder / name)
    (folder / name / "src" / "main.rs").write_text(source)
    run("cargo", "add", "--quiet", "--path", ROOT / "bindings" / "rust", cwd=folder / name)
    return folder / name


def test_cargo_add_path(tmp_path):
    source = (ROOT / "examples" / "rust" / "src" / "main.rs").read_text()
    crate = fresh_crate(tmp_path, "words", source)
    answer = run("cargo", "run", "--quiet", "--target-dir", TARGET, "--", "a", "b", "a", cwd=crate)
    assert answer == f"primalloc {VERSION} serves Rust\n2 a\n1 b\n"


def test_the_program_of_the_readme(tmp_path):
    need("cargo")
    text = (ROOT / "bindings" / "README.md").read_text()
    source, = re.findall(r"^```rust\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    run("cargo", "run", "--quiet", "--target-dir", TARGET,
        cwd=fresh_crate(tmp_path, "readme", source))


def test_every_feature_stands_in_the_readme():
    features = (ROOT / "bindings" / "rust" / "Cargo.toml").read_text().split("[features]")[1]
    names = re.findall(r"^([\w-]+) = ", features.split("[dependencies]")[0], re.MULTILINE)
    text = (ROOT / "bindings" / "README.md").read_text()
    assert names and [name for name in names if f"| `{name}` |" not in text] == []


def test_the_feature_override(tmp_path):
    need("cargo")
    said = run("cargo", "test", "--quiet", "--locked", "--features", "override", "--test", "global",
               "--target-dir", TARGET, "--manifest-path", ROOT / "bindings" / "rust" / "Cargo.toml")
    assert "test result: ok" in said


@pytest.mark.parametrize("flags", ["", "-flto"])
def test_a_program_keeps_what_is_not_ours(tmp_path, flags):
    """Without the feature `override` its names are primalloc's alone, all of them."""
    need("cargo")
    run("cargo", "build", "--quiet", "--locked", "--target-dir", tmp_path, "--manifest-path",
        ROOT / "bindings" / "rust" / "Cargo.toml", CFLAGS=flags)
    archive, = tmp_path.glob("debug/build/primalloc-*/out/libprimalloc.a")
    names = defined_names(archive)
    assert "prim_malloc" in names
    assert {name for name in names if not name.startswith("prim_")} == set()
