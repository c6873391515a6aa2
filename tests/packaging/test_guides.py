"""What docs/guides shows is true: every command is run, every program compiled and run, every
setting accepted and every name declared."""

import os
import re
import subprocess
import time

import pytest

from conftest import FIXTURES, ROOT, need, run
from test_rust import TARGET, fresh_crate

GUIDES = ROOT / "docs" / "guides"
LIBRARY = ROOT / "build" / "lib"
TOOL = ROOT / "build" / "bin" / "primalloc"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SETTING = re.compile(r"\bPRIMALLOC_[A-Z_]+=[^\s`;]+")
NAME = re.compile(r"\bprim_\w+|\bprim::\w+")
SERVICE = "import json\nprint(len(json.dumps([str(i) for i in range(1000)])))\n"
PROGRAM = ('#include "primalloc.h"\n#include <stdlib.h>\n'
           "int main(void) { void *p = malloc(9), *q = prim_malloc(9); free(p); prim_free(q); }\n")


def blocks(*languages):
    """(a name for the test, the text) of every fenced block in these languages."""
    return [pytest.param(text, id=f"{path.stem}-{number}")
            for path in sorted(GUIDES.glob("*.md"))
            for number, (language, text) in enumerate(BLOCK.findall(path.read_text()))
            if language in languages]


@pytest.fixture(scope="session")
def place(tmp_path_factory, amalgamation):
    """A folder with what the guides' commands speak of, and an installation below local/."""
    folder = tmp_path_factory.mktemp("guides")
    (folder / "service.py").write_text(SERVICE)
    (folder / "program.c").write_text(PROGRAM)
    for path in amalgamation.iterdir():
        if path.suffix in (".c", ".h"):
            (folder / path.name).write_text(path.read_text())
    (folder / "local").mkdir()
    (folder / "local" / "lib").symlink_to(LIBRARY)
    return folder


def test_every_block_says_what_it_is():
    known = {"sh", "c", "cpp", "rust", "text"}
    found = [(path.name, language) for path in sorted(GUIDES.glob("*.md"))
             for language, _ in BLOCK.findall(path.read_text())]
    assert found and [one for one in found if one[1] not in known] == []


@pytest.mark.parametrize("text", blocks("sh"))
def test_commands(place, text):
    if re.search(r"(^| )primalloc ", text, re.MULTILINE) and not (
            ROOT / "build" / "bin" / "primalloc").exists():
        pytest.skip("the tool is not built")
    if re.search(r" ruby ", text):
        need("ruby")
    commands = text.replace("/usr/local/", f"{place}/local/")
    path = f"{ROOT}/build/bin:{os.environ['PATH']}"
    run("bash", "-euo", "pipefail", "-c", commands, cwd=place, PATH=path)


@pytest.mark.parametrize("text", blocks("c"))
def test_programs_in_c(tmp_path, text):
    if "int main(" not in text:
        text += "int main(void) { return 0; }\n"
    (tmp_path / "program.c").write_text(text)
    run("cc", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function", f"-I{ROOT}/include",
        "program.c", LIBRARY / "libprimalloc_prefixed.a", "-pthread", "-o", "program", cwd=tmp_path)
    run(tmp_path / "program", cwd=tmp_path)


@pytest.mark.parametrize("text", blocks("cpp"))
def test_programs_in_cxx(tmp_path, text):
    (tmp_path / "program.cc").write_text(text)
    run("c++", "-std=c++11", "-Wall", "-Wextra", "-Werror", f"-I{ROOT}/include", "program.cc",
        LIBRARY / "libprimalloc_prefixed.a", "-pthread", "-o", "program", cwd=tmp_path)
    run(tmp_path / "program", cwd=tmp_path)


@pytest.mark.parametrize("text", blocks("rust"))
def test_programs_in_rust(tmp_path, text):
    need("cargo")
    crate = fresh_crate(tmp_path, "guide", text)
    run("cargo", "run", "--quiet", "--target-dir", TARGET, cwd=crate)


def test_a_running_process(place):
    """The debugger's commands of that guide, to a process that waits: each is answered as told."""
    need("gdb")
    text = (GUIDES / "running-process.md").read_text()
    commands = [line for line in text.splitlines() if line.startswith(("gdb ", "tr "))]
    program = "import sys; print(len('x' * (64 << 20)), flush=True); sys.stdin.read()"
    waiting = subprocess.Popen(
        ["python3", "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
        env=os.environ | {"LD_PRELOAD": str(LIBRARY / "libprimalloc.so"), "PRIMALLOC_PURGE": "0"},
        cwd=place)
    try:
        assert waiting.stdout.readline() == f"{64 << 20}\n"
        told = []
        for command in commands:
            command = command.replace("PID", str(waiting.pid)).replace("/tmp/", f"{place}/")
            answer = run("bash", "-c", f"{command} 2>&1 || true", cwd=place)
            if "ptrace: Operation not permitted" in answer:
                pytest.skip("nobody may attach to a process here")
            told += re.findall(r"^\$1 = (.*)|^(PRIMALLOC_PURGE=0)$", answer, re.MULTILINE)
    finally:
        errors = waiting.communicate()[1]
    assert ["".join(one) for one in told] == ["PRIMALLOC_PURGE=0", "1", "0", "0", "0"]
    assert "the heap's address space" in errors and (place / "now.pb.gz").stat().st_size > 100
    assert waiting.returncode == 0 and not list(place.glob("*rate*"))


def test_a_running_process_by_the_tool(place):
    """The tool's commands of that guide, as they stand there but for the time."""
    text = (GUIDES / "running-process.md").read_text()
    commands = [line for line in text.splitlines()
                if re.match(r"primalloc (trim|set|profile --pid) ", line)]
    assert len(commands) == 3
    program = "import sys; print(len('x' * (64 << 20)), flush=True); sys.stdin.read()"
    waiting = subprocess.Popen(
        ["python3", "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        env=os.environ | {"LD_PRELOAD": str(LIBRARY / "libprimalloc.so"), "PRIMALLOC_PURGE": "0"},
        text=True, cwd=place)
    try:
        assert waiting.stdout.readline() == f"{64 << 20}\n"
        told = []
        for command in commands:
            command = command.replace("PID", str(waiting.pid)).replace("1m", "10ms")
            words = command.removeprefix("primalloc")
            told.append(run("bash", "-c", f"{TOOL}{words} 2>&1 || true", cwd=place))
            if "the kernel" in told[-1]:
                pytest.skip("nobody may trace a process here")
    finally:
        waiting.communicate()
    assert "less than before" in told[0] and "soft_limit is 256 MiB, was auto" in told[1]
    assert "what was allocated before is not in it" in told[2] and waiting.returncode == 0


JAVA = """class Main { public static void main(String[] words) throws Exception {
    System.out.println("begins");
    System.in.read();
} }"""


def test_a_signal_to_java(place):
    """The command of the guide, its signal too, to a program that waits: it goes on."""
    need("java", "javac")
    text = (GUIDES / "languages.md").read_text()
    command = re.search(r"^PRIMALLOC_PROFILE=java.*?\.jar$", text, re.MULTILINE | re.DOTALL)[0]
    signal = re.search(r"^kill (-\w+) PID$", text, re.MULTILINE)[1]
    (place / "Main.java").write_text(JAVA)
    run("javac", "Main.java", cwd=place)
    command = command.replace("-jar service.jar", "Main").replace("/usr/local/", f"{place}/local/")
    waiting = subprocess.Popen(["bash", "-c", f"echo $$; exec env {command}"],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=place)
    number = waiting.stdout.readline().strip()
    assert waiting.stdout.readline() == "begins\n"
    run("kill", signal, number)
    ends = time.monotonic() + 60
    while not list(place.glob(f"java.{number}.0000.*")) and time.monotonic() < ends:
        if waiting.poll() is not None:
            break
        time.sleep(0.05)
    waiting.communicate("goes on\n")
    assert waiting.returncode == 0
    assert {path.name for path in place.glob("java.*")} == {
        f"java.{number}.0000.pb.gz", f"java.{number}.pb.gz"}


# What the program calls of primalloc's is there with the preload only.
ASKED = """#define _GNU_SOURCE
#include <dlfcn.h>
#include "primalloc.h"
#define prim_malloc_usable_size(block) \\
    ((size_t (*)(const void *))dlsym(RTLD_DEFAULT, "prim_malloc_usable_size"))(block)
"""


def test_a_library_for_musl(place):
    """The guide's line for Alpine, by Debian's compiler for musl: a program of musl runs on it."""
    need("musl-gcc")
    text = (GUIDES / "services.md").read_text()
    line = re.search(r"^cc (.* primalloc\.c) -o /usr/local/lib/(\S+)$", text, re.MULTILINE)
    run("bash", "-c", f"musl-gcc {line[1]} -o {line[2]}", cwd=place)
    (place / "asked.h").write_text(ASKED)
    run("musl-gcc", "-O1", "-fno-builtin", "-w", "-include", "asked.h", f"-I{place}",
        FIXTURES / "embed.c", "-o", "embed", "-pthread", cwd=place)
    # The shell that it starts is none of musl's here.
    assert run(place / "embed", LD_PRELOAD=str(place / line[2]),
               PRIMALLOC_ONLY_EXE="1") == "embed: good\n"


def test_junk_is_that_of_jemalloc():
    """The bytes that who comes from there knows: of new blocks and of freed ones."""
    row = re.search(r"`junk:true` \| `(\w+)=(\w+)`", (GUIDES / "from-jemalloc.md").read_text())
    program = ("import ctypes as c\nlibc = c.CDLL(None)\nlibc.malloc.restype = c.c_void_p\n"
               "block = libc.malloc(1000)\nnew = c.string_at(block + 500, 1)\n"
               "libc.free(c.c_void_p(block))\nprint(new.hex(), c.string_at(block + 500, 1).hex())")
    said = run("python3", "-c", program, LD_PRELOAD=str(LIBRARY / "libprimalloc.so"),
               **{row[1]: row[2]})
    assert said == "a5 5a\n"


def test_settings_are_accepted(tmp_path):
    """The library says one line about each that it does not understand."""
    found = {setting for path in GUIDES.glob("*.md") for setting in SETTING.findall(
        path.read_text())}
    assert len(found) > 10
    for setting in sorted(found):
        name, value = setting.split("=", 1)
        value = value.replace("/tmp/", f"{tmp_path}/")
        done = subprocess.run(["/bin/true"], env=os.environ | {
            "LD_PRELOAD": str(LIBRARY / "libprimalloc.so"), name: value},
            text=True, capture_output=True, cwd=tmp_path)
        if name not in ("PRIMALLOC_VERBOSE", "PRIMALLOC_SHOW_STATS", "PRIMALLOC_LEAK_CHECK"):
            assert (done.returncode, done.stderr) == (0, ""), setting


def test_names_are_declared():
    declared = "".join(path.read_text() for path in (ROOT / "include").iterdir())
    for path in sorted(GUIDES.glob("*.md")):
        for name in NAME.findall(path.read_text()):
            bare = name.replace("prim::", "")
            assert name == "prim_" or re.search(rf"\b{bare}\b", declared), f"{path.name}: {name}"
