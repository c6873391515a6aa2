"""Pages of a real program's profiles, made once: by the tool as users have it."""

import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FIXTURES = pathlib.Path(__file__).parent / "fixtures"
MARKUP = "<script>alert(1)</script>"


def built(path: pathlib.Path) -> pathlib.Path:
    if not path.exists():
        pytest.fail(f"{path} is missing: run `make` first")
    return path


@pytest.fixture(scope="session")
def primalloc():
    """Runs the tool; PRIM_TEST_TOOL names another than the one in build/bin."""
    tool = built(pathlib.Path(os.environ.get("PRIM_TEST_TOOL", ROOT / "build/bin/primalloc")))
    library = built(ROOT / "build/lib/libprimalloc.so")

    def run(*words, status=0):
        done = subprocess.run([str(tool), *(str(word) for word in words)], text=True, timeout=600,
                              env=os.environ | {"PRIMALLOC_LIBRARY": str(library)},
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE)
        assert done.returncode == status, f"{words}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done

    return run


@pytest.fixture(scope="session")
def pages(primalloc, tmp_path_factory) -> pathlib.Path:
    """The directory of profile.html, report.html, leaks.html and diff.html, with the JSON."""
    directory = tmp_path_factory.mktemp("pages")
    program, object_file = directory / "shop", directory / "shop.o"
    for command in (
        ["gcc", "-O1", "-fno-builtin", "-pthread", "-c", FIXTURES / "shop.c", "-o", object_file],
        ["objcopy", f"--redefine-sym=named_like_markup={MARKUP}", object_file],
        ["gcc", "-pthread", "-o", program, object_file],
    ):
        subprocess.run([str(word) for word in command], check=True, timeout=600)
    before, after = directory / "before.pb.gz", directory / "after.pb.gz"
    page = {verb: f"--html={directory / verb}.html"
            for verb in ("profile", "report", "leaks", "diff")}
    primalloc("profile", "--rate=1", f"--keep={before}", page["profile"], "--", program)
    primalloc("profile", "--rate=1", f"--keep={after}", "--", program, "more")
    primalloc("report", page["report"], f"--json={directory / 'report.json'}", after)
    primalloc("leaks", page["leaks"], "--", program, status=23)
    primalloc("diff", page["diff"], before, after)
    return directory
