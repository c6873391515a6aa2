"""What `make install` and `make deb` put on a system, and the examples built from there."""

import os
import platform
import re
import shutil
import subprocess

import pytest

from conftest import ROOT, need, run

EXAMPLES = ROOT / "examples"
TOOL = ROOT / "build" / "bin" / "primalloc"
VERSION = (ROOT / "VERSION").read_text().strip()
WORDS = ("a", "b", "a")
ANSWER = {"1 b", "2 a"}


@pytest.fixture(scope="session")
def installed(tmp_path_factory):
    """A prefix that DESTDIR put elsewhere than where it was said to be."""
    stage = tmp_path_factory.mktemp("stage")
    run("tools/install", "/opt/primalloc", "library", DESTDIR=str(stage))
    return stage / "opt" / "primalloc"


def counts(program, **environment):
    """The first line of an example program, after its answer was seen to be right."""
    first, *answer = run(program, *WORDS, **environment).splitlines()
    assert set(answer) == ANSWER
    assert run(program, **environment).splitlines() == [first]  # of no words, the same
    return first


def build(source, folder, *options, **environment):
    run("cmake", "-S", source, "-B", folder, *options, **environment)
    run("cmake", "--build", folder, "--parallel", "2")
    return folder


def needed(program):
    return re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-dW", program))


def test_cmake_finds_the_package(installed, tmp_path):
    folder = build(EXAMPLES / "c", tmp_path, f"-DCMAKE_PREFIX_PATH={installed}")
    assert "libprimalloc.so.0" in needed(folder / "words")
    for program in ("words", "words_static", "words_prefixed"):
        assert counts(folder / program) == f"primalloc {VERSION} serves malloc"
    for program in ("words_static", "words_prefixed"):
        assert "libprimalloc.so.0" not in needed(folder / program)
    assert "malloc" in run("nm", folder / "words_static").split()
    names = run("nm", folder / "words_prefixed")
    assert not re.search(r" T malloc$", names, re.MULTILINE)
    assert not re.search(r" U (malloc|free)(@|$)", names, re.MULTILINE)


def what_cmake_finds(installed, folder, asked):
    (folder / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.16)\nproject(asks LANGUAGES C)\n"
        f"find_package(primalloc {asked})\nmessage(STATUS \"found: ${{primalloc_FOUND}}\")\n")
    said = run("cmake", "-S", folder, "-B", folder / "b", f"-DCMAKE_PREFIX_PATH={installed}")
    return re.search("found: (.*)", said)[1] in ("1", "TRUE")


@pytest.mark.parametrize(("asked", "is_right"), [(VERSION, True), ("0.0.1", False), ("9.0", False)])
def test_cmake_compares_versions(installed, tmp_path, asked, is_right):
    assert what_cmake_finds(installed, tmp_path, f"{asked} QUIET") == is_right


@pytest.mark.parametrize(("asked", "is_right"), [
    ("static prefixed", True), ("static OPTIONAL_COMPONENTS gone", True), ("static gone", False)])
def test_cmake_finds_components(installed, tmp_path, asked, is_right):
    assert what_cmake_finds(installed, tmp_path, f"QUIET COMPONENTS {asked}") == is_right


def test_pkg_config_finds_the_package(installed, tmp_path):
    need("pkg-config", "make")
    shutil.copytree(EXAMPLES / "c", tmp_path, dirs_exist_ok=True)
    path = {"PKG_CONFIG_PATH": str(installed / "lib" / "pkgconfig")}
    run("make", "words", "words_prefixed", cwd=tmp_path, **path)
    said = counts(tmp_path / "words", LD_LIBRARY_PATH=str(installed / "lib"))
    assert said == f"primalloc {VERSION} serves malloc"
    assert counts(tmp_path / "words_prefixed") == f"primalloc {VERSION} serves malloc"
    assert run("pkg-config", "--modversion", "primalloc", **path).strip() == VERSION


def test_the_minimal_library_is_installed(installed, tmp_path):
    need("pkg-config")
    path = {"PKG_CONFIG_PATH": str(installed / "lib" / "pkgconfig")}
    flags = run("pkg-config", "--cflags", "--libs", "primalloc-minimal", **path).split()
    run("cc", "-o", tmp_path / "words", EXAMPLES / "c" / "words.c", *flags)
    assert "libprimalloc-minimal.so.0" in needed(tmp_path / "words")
    said = counts(tmp_path / "words", LD_LIBRARY_PATH=str(installed / "lib"))
    assert said == f"primalloc {VERSION} serves malloc"
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.16)\nproject(small LANGUAGES C)\n"
        "find_package(primalloc REQUIRED)\n"
        f"add_executable(words {EXAMPLES}/c/words.c)\n"
        "target_link_libraries(words PRIVATE primalloc::minimal_static)\n")
    folder = build(tmp_path, tmp_path / "build", f"-DCMAKE_PREFIX_PATH={installed}")
    assert counts(folder / "words") == f"primalloc {VERSION} serves malloc"


@pytest.mark.parametrize("name", ["primalloc", "primalloc-minimal"])
def test_t12_a_static_link_asks_for_malloc(installed, tmp_path, name):
    """By pkg-config and by CMake, for a program in which only libc calls malloc."""
    need("pkg-config")
    source = ROOT / "tests" / "traps" / "fixtures" / "only_libc_calls.c"
    path = {"PKG_CONFIG_PATH": str(installed / "lib" / "pkgconfig")}
    flags = run("pkg-config", "--static", "--libs", name, **path).split()
    run("cc", "-static", "-o", tmp_path / "only", source, *flags)
    assert run(tmp_path / "only") == "ours\n"
    target = "static" if name == "primalloc" else "minimal_static"
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.16)\nproject(only LANGUAGES C)\n"
        f"find_package(primalloc REQUIRED)\nadd_executable(only {source})\n"
        f"target_link_libraries(only PRIVATE primalloc::{target})\n")
    folder = build(tmp_path, tmp_path / "build", f"-DCMAKE_PREFIX_PATH={installed}")
    assert run(folder / "only") == "ours\n"


def test_each_function_has_a_manual_page(installed):
    pages = installed / "share" / "man" / "man3"
    exports = (ROOT / "src" / "api" / "exports.def").read_text()
    functions = re.findall(r"^EXPORT\((\w+), PRIM,", exports, re.MULTILINE)
    assert len(functions) > 60
    for name in functions:
        text = (pages / f"{name}.3").read_text()
        link = re.fullmatch(r"\.so man3/(\w+\.3)\n", text)
        assert name in (pages / link[1] if link else pages / f"{name}.3").read_text(), name
    need("groff")
    for page in pages.iterdir():
        said = run("groff", "-man", "-Tutf8", "-ww", "-z", f"-I{pages.parent}", page)
        assert said == "", page
    assert "prim_heap_new (3)" in (pages / "primalloc.3").read_text()


def test_documents_that_manual_pages_name_are_there(installed):
    share = installed / "share"
    assert "share/doc/primalloc/docs" in (share / "man" / "man3" / "primalloc.3").read_text()
    pages = [page.read_text() for page in (share / "man" / "man3").iterdir()]
    named = {name for page in pages for name in re.findall(r"docs/[\w-]+\.md", page)}
    assert len(named) > 3
    for name in named:
        assert (share / "doc" / "primalloc" / name).is_file()


def test_fetch_content_of_a_checkout(tmp_path):
    folder = build(EXAMPLES / "cxx", tmp_path, f"-DPRIMALLOC_SOURCE={ROOT}")
    assert counts(folder / "words") == f"primalloc {VERSION} serves new"
    built = {path.name for path in folder.rglob("libprimalloc*")}
    assert "libprimalloc.a" not in built, "what is not linked is not built"


HOLDS = f"""
add_subdirectory({ROOT} primalloc)
foreach(kind primalloc static)
  add_executable(words_${{kind}} {EXAMPLES}/c/words.c)
  set_target_properties(words_${{kind}} PROPERTIES C_STANDARD 11)
  target_link_libraries(words_${{kind}} PRIVATE primalloc::${{kind}})
endforeach()
"""


def hold(folder, settings, *options, kinds=("primalloc", "static"), **environment):
    """A project with settings of its own that holds primalloc, built; and its programs, run."""
    (folder / "CMakeLists.txt").write_text(
        f"cmake_minimum_required(VERSION 3.16)\nproject(holds LANGUAGES C)\n{settings}{HOLDS}")
    built = build(folder, folder / "build", *options, **environment)
    for kind in kinds:
        assert counts(built / f"words_{kind}") == f"primalloc {VERSION} serves malloc"


def test_a_project_with_settings_of_its_own(tmp_path):
    """Those that change what a compiler is given for each file are not ours."""
    hold(tmp_path, """
set(CMAKE_INTERPROCEDURAL_OPTIMIZATION ON)
set(CMAKE_UNITY_BUILD ON)
set(CMAKE_C_STANDARD 90)
set(CMAKE_C_EXTENSIONS OFF)
add_compile_options(-Werror -Wconversion -Wunused-macros)
""")


def test_a_project_under_a_sanitizer(tmp_path):
    """Asked for ours, it serves before that is set up; a shared one leaves malloc to that."""
    hold(tmp_path, """
add_compile_options(-fsanitize=address)
add_link_options(-fsanitize=address)
""", kinds=["static"])


def test_a_project_with_tools_of_its_own(tmp_path):
    """A launcher before its compiler, and a linker that is not GNU ld."""
    need("ld.gold")
    hold(tmp_path, "", "-DCMAKE_EXE_LINKER_FLAGS=-fuse-ld=gold",
         "-DCMAKE_SHARED_LINKER_FLAGS=-fuse-ld=gold", CC="env cc")


def test_a_project_under_a_sanitizer_of_clang(tmp_path):
    """Its runtime is in the program, not in shared libraries."""
    need("clang")
    hold(tmp_path, "", "-DCMAKE_C_FLAGS=-fsanitize=undefined", CC="clang")


def test_clang_builds_for_another_machine(tmp_path):
    """What is put together by a command of its own is so for that machine, too."""
    need("clang", "aarch64-linux-gnu-ld")
    run("cmake", "-S", ROOT, "-B", tmp_path, "-DCMAKE_SYSTEM_NAME=Linux",
        "-DCMAKE_SYSTEM_PROCESSOR=aarch64", "-DCMAKE_C_COMPILER=clang",
        "-DCMAKE_C_COMPILER_TARGET=aarch64-linux-gnu")
    run("cmake", "--build", tmp_path, "--target", "primalloc", "primalloc_static")
    for name in ("libprimalloc.so", "libprimalloc.a"):
        header = run("readelf", "-h", tmp_path / "lib" / name)
        assert set(re.findall(r"Machine: +(\S+)", header)) == {"AArch64"}


def test_add_subdirectory(tmp_path):
    """Configured only: FetchContent has built it the same way."""
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.16)\nproject(holds LANGUAGES C)\n"
        f"add_subdirectory({ROOT} primalloc)\nadd_executable(words {EXAMPLES}/c/words.c)\n"
        "target_link_libraries(words PRIVATE primalloc::static)\n"
        "foreach(name primalloc static prefixed minimal minimal_static)\n"
        "  if(NOT TARGET primalloc::${name})\n"
        "    message(FATAL_ERROR \"primalloc::${name} is missing\")\n  endif()\nendforeach()\n")
    run("cmake", "-S", tmp_path, "-B", tmp_path / "build")
    installs = (tmp_path / "build" / "primalloc" / "cmake_install.cmake").read_text()
    assert "libprimalloc" not in installs, "a project that holds primalloc installs its own files"


def test_a_project_that_holds_and_installs_it(tmp_path):
    """PRIMALLOC_INSTALL: what is installed has been built, linked or not, and is found."""
    folder = build(EXAMPLES / "cxx", tmp_path / "holds", f"-DPRIMALLOC_SOURCE={ROOT}",
                   "-DPRIMALLOC_INSTALL=ON", "-DCMAKE_INSTALL_LIBDIR=lib")
    run("cmake", "--install", folder, "--prefix", tmp_path / "prefix")
    folder = build(EXAMPLES / "c", tmp_path / "finds", f"-DCMAKE_PREFIX_PATH={tmp_path}/prefix")
    for program in ("words", "words_static", "words_prefixed"):
        assert counts(folder / program) == f"primalloc {VERSION} serves malloc"


def test_malloc_is_replaced_by_a_library_with_versions(installed, tmp_path):
    """A definition with a version of ours would not serve malloc@GLIBC_2.2.5."""
    library = installed / "lib" / "libprimalloc.so"
    versions = run("readelf", "-sW", "--dyn-syms", library)
    assert re.search(r" malloc$", versions, re.MULTILINE)
    assert re.search(r" prim_malloc@@PRIMALLOC_0.1$", versions, re.MULTILINE)
    statistics = tmp_path / "statistics"
    run("ls", "/", LD_PRELOAD=str(library), PRIMALLOC_STATS="full",
        PRIMALLOC_STATS_OUTPUT=str(statistics))
    assert re.search(r"program=ls allocations=[1-9]", statistics.read_text())


def test_all_files_can_live_with_a_shadow_stack(installed):
    """One object without the mark, preloaded or linked, takes it from the whole process."""
    if platform.machine() != "x86_64":
        pytest.skip("x86 alone marks objects so")
    for name in ("libprimalloc.so", "libprimalloc-minimal.so", "libprimalloc.a",
                 "libprimalloc-minimal.a", "libprimalloc_prefixed.a"):
        assert "SHSTK" in run("readelf", "-n", installed / "lib" / name), name


@pytest.mark.skipif(not TOOL.exists(), reason="the tool is not built")
def test_a_relative_prefix(tmp_path):
    """Library and tool lie below the same one, wherever DESTDIR puts that."""
    run(ROOT / "tools" / "install", "usr", cwd=tmp_path, DESTDIR=str(tmp_path / "stage"))
    prefix = tmp_path / "stage" / tmp_path.relative_to("/") / "usr"
    assert (prefix / "lib" / "libprimalloc.so").exists() and (prefix / "bin" / "primalloc").exists()


def by_make(target, *settings):
    """What is built stays as it is."""
    return run("make", "--no-print-directory", "-o", "all", "-o", "tool", target, *settings)


def test_uninstall_removes_what_install_put(tmp_path):
    """And leaves what others put there, before and after, folders that were empty among it."""
    where = ("PREFIX=/opt/ours", f"DESTDIR={tmp_path}/stage")
    prefix = tmp_path / "stage" / "opt" / "ours"
    (prefix / "share" / "man").mkdir(parents=True)
    by_make("install", *where)
    by_make("install", *where, "LIBDIR=lib64")
    (prefix / "include" / "theirs.h").touch()
    assert {path.parent.name for path in prefix.rglob("libprimalloc.a")} == {"lib", "lib64"}
    by_make("uninstall", *where)
    left = {str(path.relative_to(prefix)) for path in prefix.rglob("*")}
    assert left == {"share", "share/man", "include", "include/theirs.h"}
    fresh = (f"PREFIX={tmp_path}/new",)
    by_make("install", *fresh)
    by_make("uninstall", *fresh)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("folder", ["lib/some-triplet", "/opt/ours/lib/some-triplet"])
def test_the_folder_of_libraries_is_chosen(tmp_path, folder):
    by_make("install", "PREFIX=/opt/ours", f"DESTDIR={tmp_path}/stage", f"LIBDIR={folder}")
    prefix = tmp_path / "stage" / "opt" / "ours"
    libraries = prefix / "lib" / "some-triplet"
    assert {path.parent for path in prefix.rglob("libprimalloc*.a")} == {libraries}
    program = build(EXAMPLES / "c", tmp_path / "build",
                    f"-Dprimalloc_DIR={libraries}/cmake/primalloc") / "words"
    assert counts(program) == f"primalloc {VERSION} serves malloc"


@pytest.mark.parametrize(("settings", "reason"), [
    (("PREFIX=",), "PREFIX is empty"), (("PREFIX=/usr", "LIBDIR=/lib64"), "not below PREFIX"),
    (("PREFIX=/usr", "LIBDIR=../lib"), "not below PREFIX")])
def test_places_that_cannot_be(tmp_path, settings, reason):
    done = subprocess.run(["make", "-o", "all", "install", f"DESTDIR={tmp_path}", *settings],
                          cwd=ROOT, text=True, capture_output=True)
    assert done.returncode != 0 and reason in done.stderr and list(tmp_path.iterdir()) == []


def test_packages_are_built_by_as_many_as_said(tmp_path):
    """By a cmake that tells what it is asked, and does nothing; and where no compiler is GCC."""
    asked = tmp_path / "asked"
    (tmp_path / "gcc").write_text("#!/bin/sh\nexit 127\n")
    (tmp_path / "gcc").chmod(0o755)
    (tmp_path / "cc").symlink_to(shutil.which("cc"))
    (tmp_path / "cmake").write_text(
        f'#!/bin/sh\necho "$@" >>{asked}\ncase $1 in --build) exit 1; esac\n')
    (tmp_path / "cmake").chmod(0o755)
    said = by_make("deb", "-n", "JOBS=3").replace("build/deb", str(tmp_path / "deb"))
    subprocess.run(["sh", "-c", said], cwd=ROOT, check=False,
                   env=os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"})
    assert re.search(r"--parallel 3$", asked.read_text(), re.MULTILINE)


def test_the_same_bytes_from_any_folder(tmp_path):
    """With what tells a debugger of files, and so with the number by which one finds that."""
    parts = ("CMakeLists.txt", "VERSION", "cmake", "docs", "include", "man", "src")
    for source, folder in (("one", "one/build"), ("another/place", "elsewhere")):
        for part in parts:
            (tmp_path / source / part).parent.mkdir(parents=True, exist_ok=True)
            copy = shutil.copytree if (ROOT / part).is_dir() else shutil.copyfile
            copy(ROOT / part, tmp_path / source / part)
        run("cmake", "-S", tmp_path / source, "-B", tmp_path / folder)
        run("cmake", "--build", tmp_path / folder, "--parallel", "2", "--target", "primalloc",
            "primalloc_prefixed")
    for name in ("libprimalloc.so", "libprimalloc_prefixed.a"):
        one, another = (tmp_path / folder / "lib" / name for folder in ("one/build", "elsewhere"))
        assert one.read_bytes() == another.read_bytes(), name


@pytest.fixture(scope="session")
def packages(tmp_path_factory):
    """{name: path} of the Debian packages."""
    need("dpkg-deb")
    folder = tmp_path_factory.mktemp("deb")
    return {path.rsplit("/", 1)[-1].split("_")[0]: path
            for path in run("tools/deb", folder).split()}


def test_debian_packages_say_what_they_are(packages):
    assert {"libprimalloc0", "libprimalloc-minimal0", "libprimalloc-dev"} <= set(packages)
    for path in packages.values():
        fields = run("dpkg-deb", "--field", path, "Version", "Depends", "Maintainer", "Description")
        assert f"Version: {VERSION}\n" in fields
        assert "installed.txt" not in run("dpkg-deb", "--contents", path), "dpkg's own list does"


def test_debian_packages_as_lintian_sees_them(packages):
    need("lintian")
    said = run("lintian", "--allow-root", "--suppress-tags",
               "bogus-mail-host,bogus-mail-host-in-debian-changelog",
               *packages.values())
    assert said == "", "the maintainer's address is given by DEBEMAIL; all else is ours"


def test_debian_packages_installed_and_removed(packages, tmp_path):
    """By dpkg below a root of its own, where libc6 is not, hence --force-depends."""
    root = tmp_path / "root"
    (root / "var" / "lib" / "dpkg" / "updates").mkdir(parents=True)
    (root / "var" / "lib" / "dpkg" / "status").touch()
    dpkg = ("dpkg", f"--root={root}", "--force-not-root", "--force-depends",
            f"--log={tmp_path}/log", "--no-triggers")
    run(*dpkg, "--install", *packages.values())
    assert run(*dpkg, "--verify", *packages) == ""
    library = next(root.rglob("libprimalloc.so.0"))
    assert library.stat().st_size <= 200 << 10
    zsh = root / "usr" / "share" / "zsh" / "vendor-completions"
    assert "primalloc" not in packages or (zsh / "_primalloc").exists(), "where Debian's looks"
    folder = build(EXAMPLES / "c", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={root}/usr")
    assert counts(folder / "words") == f"primalloc {VERSION} serves malloc"
    assert counts(folder / "words_static") == f"primalloc {VERSION} serves malloc"
    run(*dpkg, "--remove", *packages)
    left = [path for path in root.rglob("*") if "primalloc" in path.name
            and "var/lib/dpkg" not in str(path)]
    assert left == []
