"""The public headers as programs use them."""

import pytest

from conftest import FIXTURES, ROOT, need, run

LIBRARY = ROOT / "build" / "lib"
FAMILY = {"malloc", "calloc", "realloc", "reallocarray", "aligned_alloc", "posix_memalign",
          "malloc_usable_size", "mallinfo2", "strdup", "strndup"}


@pytest.mark.parametrize(("compiler", "standard"), [
    ("gcc", "gnu11"), ("gcc", "gnu2x"), ("g++", "gnu++11"), ("g++", "gnu++20")])
@pytest.mark.parametrize("way", ["include", "command line"])
def test_the_override_header_leaves_no_malloc(tmp_path, compiler, standard, way):
    source = tmp_path / ("override.cc" if compiler == "g++" else "override.c")
    text = (FIXTURES / "override.c").read_text()
    options = []
    if way == "command line":
        text = text.replace('#include "primalloc-override.h"\n', "")
        options = ["-include", "primalloc-override.h"]
    source.write_text(text)
    run(compiler, f"-std={standard}", "-O1", "-fno-builtin", "-Wall", "-Wextra", "-Werror",
        f"-I{ROOT}/include", *options, "-c", source, "-o", tmp_path / "override.o")
    undefined = set(run("nm", "-u", tmp_path / "override.o").split())
    assert undefined & FAMILY == set()
    run(compiler, tmp_path / "override.o", LIBRARY / "libprimalloc_prefixed.a", "-pthread",
        "-o", tmp_path / "override")
    assert run(tmp_path / "override") == "override: good\n"


@pytest.mark.parametrize(("compiler", "standard"), [
    ("gcc", "c89"), ("gcc", "c99"), ("clang", "c99"), ("g++", "c++98"), ("g++", "c++20"),
    ("clang++", "c++98"), ("clang++", "c++20")])
def test_a_strict_program_includes_the_headers(tmp_path, compiler, standard):
    need(compiler)
    is_cxx = compiler.endswith("++")
    source = tmp_path / ("strict.cc" if is_cxx else "strict.c")
    warnings = "-Wold-style-cast" if is_cxx else "-Wdeclaration-after-statement"
    for text in ("#include <primalloc.h>", "#include <primalloc-override.h>",
                 "#include <primalloc-family.h>\nPRIMALLOC_FAMILY(my, 64)"):
        source.write_text(f"{text}\nint main(void) {{ return 0; }}\n")
        run(compiler, f"-std={standard}", "-Wall", "-Wextra", "-Wpedantic", "-Wshadow",
            "-Wconversion", warnings, "-Werror", f"-I{ROOT}/include", "-fsyntax-only", source)


@pytest.mark.parametrize(("compiler", "standard", "options"), [
    ("g++", "c++11", ()), ("g++", "c++14", ("-DNEW_DELETE",)), ("g++", "c++17", ()),
    ("g++", "c++20", ("-DNEW_DELETE",)), ("clang++", "c++17", ("-DNEW_DELETE",)),
    ("clang++", "c++20", ())])
def test_the_standard_library_on_primalloc(tmp_path, compiler, standard, options):
    need(compiler)
    run(compiler, f"-std={standard}", "-fno-builtin", "-pedantic", "-Wall", "-Wextra", "-Werror",
        *options, f"-I{ROOT}/include", FIXTURES / "standard_library.cc",
        LIBRARY / "libprimalloc_prefixed.a", "-pthread", "-o", tmp_path / "program")
    assert run(tmp_path / "program") == "standard library: good\n"


RESOURCES = """
#include <cstdio>
#include "primalloc.hpp"
int main() {
    prim::heap heap;
    prim::heap_resource of_heap(heap);
    for (std::pmr::memory_resource *resource :
         {(std::pmr::memory_resource *)prim::default_resource(),
          (std::pmr::memory_resource *)&of_heap}) {
        for (std::size_t alignment = 1; alignment <= 4096; alignment *= 2) {
            resource->deallocate(resource->allocate(100, alignment), 100, alignment);
        }
    }
    std::puts("good");
}
"""


def test_checks_find_no_fault_in_memory_resources(tmp_path):
    need("g++")
    (tmp_path / "resources.cc").write_text(RESOURCES)
    run("g++", "-std=c++17", f"-I{ROOT}/include", tmp_path / "resources.cc",
        LIBRARY / "libprimalloc_prefixed.a", "-pthread", "-o", tmp_path / "program")
    assert run("env", "PRIMALLOC_CHECK=full", tmp_path / "program") == "good\n"


@pytest.mark.parametrize(("compiler", "standard"), [
    ("g++", "c++11"), ("g++", "c++14"), ("g++", "c++17"), ("g++", "c++20"), ("clang++", "c++11"),
    ("clang++", "c++20")])
def test_heaps_under_the_standard_library(tmp_path, compiler, standard):
    need(compiler)
    run(compiler, f"-std={standard}", "-fno-builtin", "-pedantic", "-Wall", "-Wextra", "-Werror",
        f"-I{ROOT}/include", FIXTURES / "heaps.cc", LIBRARY / "libprimalloc_prefixed.a", "-pthread",
        "-o", tmp_path / "program")
    assert run(tmp_path / "program") == "heaps: good\n"


def test_memory_resources_under_checks(tmp_path):
    """What they free was allocated as they say, whatever alignment the container states."""
    run("g++", "-std=c++17", "-O1", "-fno-builtin", f"-I{ROOT}/include", FIXTURES / "resources.cc",
        LIBRARY / "libprimalloc_prefixed.a", "-pthread", "-o", tmp_path / "program")
    assert run(tmp_path / "program", MALLOC_CHECK_="3") == "resources: good\n"


@pytest.mark.parametrize("header", ["primalloc.hpp", "primalloc-new-delete.hpp"])
@pytest.mark.parametrize("standard", ["c++11", "c++20"])
def test_headers_of_cxx_without_exceptions_and_types(header, standard):
    run("g++", f"-std={standard}", "-fno-exceptions", "-fno-rtti", "-fsyntax-only", "-pedantic",
        "-Wall", "-Wextra", "-Werror", f"-I{ROOT}/include", "-x", "c++", ROOT / "include" / header)
