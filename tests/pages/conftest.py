"""Pages of a real program's profiles, made once: by the tool as users have it."""

import os
import pathlib
import subprocess

import html5lib
import pytest

from browser import Browser

ROOT = pathlib.Path(__file__).resolve().parents[2]
FIXTURES = pathlib.Path(__file__).parent / "fixtures"
MARKUP = "<script>alert(1)</script>"
REPORTS = ["compare", "advise", "explain", "faults", "watch"]


def parse(path):
    """Fails where a page is not well-formed HTML."""
    parser = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False)
    return parser.parse(path.read_text(encoding="utf-8"))


def built(path: pathlib.Path) -> pathlib.Path:
    if not path.exists():
        pytest.fail(f"{path} is missing: run `make` first")
    return path


@pytest.fixture
def browser(tmp_path):
    return Browser(tmp_path)


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


@pytest.fixture(scope="session")
def reports(primalloc, tmp_path_factory) -> pathlib.Path:
    """The directory of a page of each kind of REPORTS, about a shell that is given markup."""
    directory = tmp_path_factory.mktemp("reports")
    page = {kind: f"--html={directory / kind}.html" for kind in REPORTS}
    shell = ["sh", "-c", f": '{MARKUP}'; sleep 0.5"]
    candidates = f"--with=glibc,primalloc:purge_delay=0,glibc:A={MARKUP}"
    for verb in ("compare", "advise"):
        primalloc(verb, page[verb], candidates, "--runs=4", "--warmup=0", "--", *shell)
    primalloc("faults", page["faults"], "--", *shell)
    primalloc("watch", page["watch"], "--every=20ms", "--", *shell)
    with subprocess.Popen(["sleep", "60"]) as process:
        primalloc("explain", page["explain"], str(process.pid))
        process.kill()
    return directory
