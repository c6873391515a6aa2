"""Files of heap profiles: whose name they have, what they take the place of, when they come."""

import os
import shutil
import stat

import pprof


def test_two_processes_do_not_overwrite_each_other(harness, fixtures):
    program = fixtures("profile_sites.c")
    command = ["bash", "-c", f"{program} 100 >/dev/null; {program} 100 >/dev/null; true"]
    for settings in ("h.%p.pb.gz,rate=4K", "h.pb.gz,rate=4K"):
        harness.run_preloaded(command, changes={"PRIMALLOC_PROFILE": settings})
    own = list(harness.directory.glob("h.*.pb.gz"))
    # The last command's file, and beside it that of the shell, which had begun before.
    assert (harness.directory / "h.pb.gz").exists() and len(own) == 4
    for path in own:
        assert pprof.Profile(path).facts["program"].split()[0] == path.name.split(".")[1]
    assert not list(harness.directory.glob("*.part"))


def test_a_child_of_a_confined_process_has_its_own(harness, fixtures):
    for name, count in (("a.%p.pb.gz", 2), ("b.pb.gz", 1)):
        harness.run_preloaded([fixtures("confined_child.c")],
                              changes={"PRIMALLOC_PROFILE": f"{name},rate=1"})
        own = list(harness.directory.glob(f"{name[0]}.*.pb.gz"))
        held = [pprof.Profile(path).total("inuse_space") for path in own]
        assert sorted(held) == [1_500_000, 3_600_000][-count:]
        for path in own:
            assert pprof.Profile(path).facts["program"].split()[0] == path.name.split(".")[1]
    assert pprof.Profile(harness.directory / "b.pb.gz").total("inuse_space") == 1_500_000
    harness.run_preloaded([fixtures("confined_child.c")], changes={"PRIMALLOC_PROFILE": "c.heap"})
    assert "/confined_child\n" in (harness.directory / "c.heap").read_text()


def test_names_are_utf_8(harness, fixtures):
    """Other readers refuse a file with a string that is not, as a name cut by the system is, or a
    path in another code."""
    directory = os.fsencode(harness.directory) + b"/caf\xe9"
    named = os.fsdecode(directory) + "/ä€𝄞ä€𝄞"  # of which the system keeps 15 bytes
    os.mkdir(directory)
    shutil.copy(fixtures("profile_sites.c"), named)
    harness.run_preloaded([named, 2000], changes={"PRIMALLOC_PROFILE": "h.pb.gz,rate=1"})
    profile = pprof.Profile(harness.directory / "h.pb.gz")
    assert {sample.labels["thread"] for sample in profile.samples} == {"ä€𝄞ä€?"}
    assert profile.mappings[1].path.endswith("/caf?/ä€𝄞ä€𝄞")


def test_a_file_that_cannot_be_written_is_named(harness):
    settings = {"PRIMALLOC_PROFILE": "/nonexistent/h.pb.gz"}
    result = harness.run_preloaded(["true"], changes=settings)
    assert result.stderr.decode() == "primalloc: cannot write the profile /nonexistent/h.pb.gz\n"


def test_a_limit_on_the_size_of_files_ends_no_program(harness):
    """The kernel sends SIGXFSZ to who writes beyond it."""
    settings = {"PRIMALLOC_PROFILE": "h.pb.gz"}
    result = harness.run_preloaded(["bash", "-c", "ulimit -f 0; exit 3"], changes=settings,
                                   check=False)
    assert result.stderr == b"primalloc: cannot write the profile h.pb.gz\n"
    assert result.returncode == 3 and not list(harness.directory.iterdir())


def test_links_and_devices_are_written_through(harness):
    here = harness.directory
    (here / "old.pb.gz").write_bytes(b"old")
    os.mkfifo(here / "pipe")
    for link, target in (("link", "old.pb.gz"), ("dangling", "new.pb.gz"), ("device", "/dev/null"),
                         ("to_pipe", "pipe")):
        (here / link).symlink_to(target)
        result = harness.run_preloaded(["true"], changes={"PRIMALLOC_PROFILE": link})
        wanted = f"primalloc: cannot write the profile {link}\n" if link == "to_pipe" else ""
        assert result.stderr.decode() == wanted
        assert os.readlink(here / link) == target
    for name in ("old.pb.gz", "new.pb.gz"):
        assert pprof.Profile(here / name).facts["program"].endswith("true")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    assert stat.S_ISFIFO(os.stat(here / "pipe").st_mode)
    assert len(list(here.iterdir())) == 7


def test_a_file_that_is_written_anew_keeps_its_mode_and_owner(harness):
    path = harness.directory / "h.pb.gz"
    path.write_bytes(b"old")
    path.chmod(0o640)
    owner = 4711 if os.geteuid() == 0 else os.geteuid()
    os.chown(path, owner, -1)
    harness.run_preloaded(["true"], changes={"PRIMALLOC_PROFILE": "h.pb.gz"})
    assert pprof.Profile(path).facts["program"].endswith("true")
    assert (stat.S_IMODE(path.stat().st_mode), path.stat().st_uid) == (0o640, owner)


def test_files_by_time_when_the_clock_was_set_back(harness, fixtures):
    environment = harness.preloaded(PRIMALLOC_PROFILE="heap,rate=4K,seconds=1")
    result = harness.run([fixtures("clock_set_back.c"), "heap"], environment=environment)
    assert result.stdout in (b"none 0\n", b"skipped\n")


def test_a_block_is_not_in_use_more_often_when_a_file_is_written(harness, fixtures):
    """That so many bytes were allocated shows at a sample. The block which that one comes from is
    freed at once, like all of the storm, and would be in use in each of the files."""
    setting = f"{harness.directory / 'storm.pb.gz'},rate=1M,bytes=1G"
    harness.run_preloaded([fixtures("profile_storm.c")], changes={"PRIMALLOC_PROFILE": setting})
    files = sorted(harness.directory.glob("storm.*pb.gz"))
    assert len(files) > 8
    for path in files:
        profile = pprof.Profile(path)
        assert 4096 not in [size for size, _, _ in profile.triples("live_sizes")]
        assert profile.total("inuse_space") <= profile.total("peak_space") + 100
        assert profile.total("peak_space") <= profile.total("alloc_space") + 100


def test_a_file_that_a_call_wrote_is_the_processs_own(harness, fixtures):
    """And has its name at the end, too: only those of other processes are left alone."""
    program = fixtures("dumps_own_profile.c")
    for _ in range(2):  # the second takes the place of the first one's
        harness.run_preloaded([program, "h.pb.gz"],
                              changes={"PRIMALLOC_PROFILE": "h.pb.gz,rate=1"})
        assert [path.name for path in harness.directory.glob("h.*")] == ["h.pb.gz"]
        profile = pprof.Profile(harness.directory / "h.pb.gz")
        assert profile.facts["event"].split()[1] == "exit"
        assert profile.total("inuse_space") >= 4000


def test_a_plugin_that_was_built_anew_is_another(harness, fixtures):
    """In the same place, of the same name, and with the loader's entry where the first one had it:
    its build ID tells, by which readers find its symbols."""
    built = [fixtures("rebuilt_plugin.c", "-shared", f"-DSIZE={size}", "-Wl,--build-id",
                      output=f"rebuilt_{size}.so") for size in (1000, 2000)]
    for path in built:
        shutil.copy(path, harness.directory)
    command = [fixtures("rebuilt_plugin.c"), *(path.name for path in built), "./plugin.so"]
    result = harness.run_preloaded(command, changes={"PRIMALLOC_PROFILE": "h.pb.gz,rate=1"})
    first, second = result.stdout.split()
    profile = pprof.Profile(harness.directory / "h.pb.gz")
    plugins = [mapping for mapping in profile.mappings.values()
               if mapping.path.endswith("plugin.so")]
    assert first != second or len({mapping.build_id for mapping in plugins}) == 2, plugins
