"""Handlers of fork that the program's libraries register before our constructor runs."""

import os

import pytest

from conftest import library_path


def with_library(fixtures, *options, output):
    library = fixtures("fork_handlers.c", "-shared", "-DLIBRARY", output="libhandlers.so")
    return fixtures("fork_handlers.c", *options, "-Wl,--no-as-needed", str(library),
                    f"-Wl,-rpath,{library.parent}", output=output)


@pytest.fixture
def program(fixtures):
    return fixtures("fork_handlers.c", output="without_library")


WATCHED = [{}, {"MALLOC_CHECK_": "3"}, {"PRIMALLOC_PROFILE": "p.%p.pb.gz,rate=4K"},
           {"PRIMALLOC_LEAK_CHECK": "normal", "PRIMALLOC_LEAK_EXIT": "0"},
           {"PRIMALLOC_HARDENED": "1"}]


@pytest.mark.parametrize("changes", WATCHED, ids=lambda changes: "".join(changes) or "plain")
def test_locks_of_other_handlers_are_taken_before_ours(harness, fixtures, changes):
    """Ours are registered first: theirs allocate, and wait for who allocates, without our locks."""
    program = with_library(fixtures, output="with_library")
    assert harness.run_preloaded([program, "storm"], changes=changes).stdout == b"forked\n"


def test_the_same_with_the_archive(harness, fixtures):
    archive = str(library_path("libprimalloc.a"))
    program = with_library(fixtures, "-Wl,-u,malloc", archive, output="with_archive")
    assert harness.run([program, "storm"], environment=dict(os.environ)).stdout == b"forked\n"


def test_what_is_freed_meanwhile_waits_for_the_profile(harness, program):
    """A sampled block that a handler frees between ours is forgotten when no lock is held."""
    changes = {"PRIMALLOC_PROFILE": "p.pb.gz,rate=16"}
    assert harness.run_preloaded([program, "deferred"], changes=changes).stdout == b"forked\n"


def test_children_of_a_program_that_began_to_check_late(harness, program):
    assert harness.run_preloaded([program, "mcheck"]).stdout == b"forked\n"


def test_who_flushes_all_files_meanwhile_can_allocate(harness, fixtures):
    """libc's list of files is waited for before our locks are taken, as libc's own malloc does."""
    assert harness.run_preloaded([fixtures("fork_files.c")]).stdout == b"forked\n"
