"""Heap profiles: estimates against what the program itself says, the files against their documented
format, and every tool that is to read them."""

import json
import math
import os
import pathlib
import re
import shutil
import statistics
import subprocess

import pytest

import pprof
from harness import require

ROOT = pathlib.Path(__file__).resolve().parents[2]
PPROF_VERSION = "v0.0.0-20230207041349-798e818bf904"  # Debian 12's Go builds it
RATE = 16384


@pytest.fixture
def program(fixtures):
    return fixtures("profile_sites.c")


@pytest.fixture
def symbols(program, harness):
    return pprof.Symbols(program, lambda command: harness.run(command).stdout.decode())


@pytest.fixture
def profiled(harness, program):
    """Runs the program; returns what it printed and the directory with the files."""

    def run(settings, *arguments, **options):
        changes = {"PRIMALLOC_PROFILE": settings}
        result = harness.run_preloaded([program, *arguments], changes=changes, **options)
        return json.loads(result.stdout or "{}"), harness.directory

    return run


@pytest.fixture(scope="session")
def google_pprof():
    """Google's own reader, built from the Go module proxy once for this tree."""
    directory = ROOT / "build" / "tools"
    if not (directory / "pprof").exists():
        require("go")
        environment = {**os.environ, "GOBIN": str(directory), "GOFLAGS": "-mod=mod"}
        subprocess.run(["go", "install", f"github.com/google/pprof@{PPROF_VERSION}"], check=True,
                       env=environment, capture_output=True, timeout=600)
    return directory / "pprof"


def by_site(profile, symbols):
    """Sums of all values by the innermost function of the program."""
    sums = {}
    for sample in profile.samples:
        names = [name for name in map(symbols.name, sample.frames) if name]
        if names:
            site = sums.setdefault(names[0], dict.fromkeys(sample.values, 0))
            for view, value in sample.values.items():
                site[view] += value
    return sums


def sigma_of(objects, mean_size, rate):
    """Standard deviation of an estimated number of objects, as a share of it: each of n objects is
    seen with probability p and then counts 1/p."""
    p = 1 - math.exp(-mean_size / rate)
    return math.sqrt((1 - p) / p / objects)


RARE = math.erfc(3 / math.sqrt(2))  # what is farther off than three standard deviations
NEVER = 1e-9


def chance_of(estimate, true, objects, rate):
    """How often chance alone puts an estimate as far off as this one, or farther: the samples are a
    binomial number. Where few are expected, a normal distribution says "never" too early: of three,
    twelve come once in 15,000 times, and are more than five standard deviations off."""
    p = 1 - math.exp(-true / objects / rate)
    seen = round(estimate * p * objects / true)
    step = 1 if seen > objects * p else -1
    tail, term = 0.0, 1.0
    while 0 <= seen <= objects and term > tail * 1e-6:
        term = math.exp(math.lgamma(objects + 1) - math.lgamma(seen + 1)
                        - math.lgamma(objects - seen + 1) + seen * math.log(p)
                        + (objects - seen) * math.log1p(-p)) if p < 1 else float(seen == objects)
        tail, seen = tail + term, seen + step
    return min(1.0, 2 * tail)


def allowed_rare(count):
    """How many of so many estimates may be rare; more than this come once in a million times."""
    p = RARE
    term = (1 - p) ** count
    total, most = term, 0
    while total < 1 - 1e-6:
        term *= (count - most) / (most + 1) * p / (1 - p)
        total += term
        most += 1
    return most


def test_estimates_are_near_the_truth(profiled, symbols):
    truth, directory = profiled(f"h.pb.gz,rate={RATE}", 60000)
    profile = pprof.Profile(directory / "h.pb.gz")
    sites = by_site(profile, symbols)
    rare = 0
    for name, (objects, size, live_objects, live_size) in truth.items():
        if name == "site_mixed":
            continue  # two sizes: below, by bytes
        for seen, true, count in ((sites[name]["alloc_space"], size, objects),
                                  (sites[name]["inuse_space"], live_size, live_objects)):
            chance = chance_of(seen, true, count, RATE)
            assert chance > NEVER, (name, seen, true)
            rare += chance < RARE
        assert chance_of(sites[name]["alloc_objects"] * size / objects, size, objects, RATE) > NEVER
    assert rare <= allowed_rare(2 * (len(truth) - 1))
    assert abs(sites["site_mixed"]["alloc_space"] / truth["site_mixed"][1] - 1) < 0.15
    total = sum(row[1] for row in truth.values())
    assert abs(profile.total("alloc_space") / total - 1) < 0.1


def test_what_checks_put_around_blocks_is_not_the_programs(harness, program, symbols):
    changes = {"PRIMALLOC_PROFILE": "h.pb.gz,rate=1024", "MALLOC_CHECK_": "1"}
    harness.run_preloaded([program, 3000], changes=changes)
    sites = by_site(pprof.Profile(harness.directory / "h.pb.gz"), symbols)
    for name, size in (("site_tiny", 16), ("site_zeroed", 700), ("site_aligned", 3000),
                       ("site_grown", 5000), ("site_large", 400000)):
        mean = sites[name]["alloc_space"] / sites[name]["alloc_objects"]
        assert abs(mean / size - 1) < 0.01, (name, mean)


def test_the_mean_of_many_runs_is_the_truth(profiled, symbols):
    """`make prove` takes more samples, so that the mean can be held to one in a hundred. Of single
    estimates, no more are rare than chance has there, and none is one that chance never has."""
    is_long = float(os.environ.get("PRIM_TEST_SCALE", "1")) > 1
    sums, runs, rate, rounds = {}, *((200, 512, 20000) if is_long else (40, RATE, 3000))
    for _ in range(runs):
        truth, directory = profiled(f"h.pb.gz,rate={rate}", rounds)
        for name, site in by_site(pprof.Profile(directory / "h.pb.gz"), symbols).items():
            sums.setdefault(name, []).append(site["alloc_space"])
    rare, all_of_them = 0, 0
    for name, (objects, size, _, _) in truth.items():
        mean = sum(sums[name]) / runs
        sigma = sigma_of(objects * runs, 40 if name == "site_mixed" else size / objects, rate)
        print(f"{name}: mean of {runs} runs {mean / size:.4f} of the truth, sigma {sigma:.4f}")
        assert abs(mean / size - 1) < 4.5 * sigma + 0.0005, (name, mean, size, sigma)
        assert not is_long or abs(mean / size - 1) < 0.01, (name, mean, size)
        if name != "site_mixed":
            chances = [chance_of(seen, size, objects, rate) for seen in sums[name]]
            rare += sum(chance < RARE for chance in chances)
            assert all(chance > NEVER for chance in chances), (name, min(chances))
            all_of_them += runs
    print(f"{rare} of {all_of_them} estimates are rare")
    assert rare <= allowed_rare(all_of_them)


def test_a_budget_leaves_sums_unbiased(profiled, symbols):
    """What a budget makes rarer counts for more: means are the truth, as far as the spread of the
    runs says, and the file tells what happened. The slower the machine, the fewer the samples that
    the budget pays and the wider the spread: runs go on until their mean says something."""
    fewest, most, ratios, runs = 60, 1200, {}, 0

    def error_of(seen):
        return statistics.stdev(seen) / math.sqrt(len(seen))

    while runs < fewest or (runs < most and max(map(error_of, ratios.values())) > 0.15):
        truth, directory = profiled("h.pb.gz,rate=1K,budget=0.01", 20000)
        profile = pprof.Profile(directory / "h.pb.gz")
        assert profile.period == 1024
        samples, stretched, times = profile.triples("stretched")[0]
        assert samples > stretched > 10 and times >= 4 and times & (times - 1) == 0
        sites = by_site(profile, symbols)
        for name, (_, size, _, _) in truth.items():
            seen = sites.get(name, {"alloc_space": 0})["alloc_space"]
            ratios.setdefault(name, []).append(seen / size)
        runs += 1
    for name, seen in ratios.items():
        mean, error = statistics.mean(seen), error_of(seen)
        print(f"{name}: mean of {runs} runs {mean:.4f} of the truth, error {error:.4f}")
        # Rare samples count for so much that runs without one lie closer together than they should.
        assert abs(mean - 1) < 6 * max(error, 0.06) + 0.01, (name, mean, error)
        assert error < 0.2, (name, error)


def test_without_a_rate_there_is_a_budget(profiled):
    _, directory = profiled("h.pb.gz", 200000)
    assert pprof.Profile(directory / "h.pb.gz").period == 512 << 10
    _, directory = profiled("exact.pb.gz,rate=1K", 20000)
    assert "stretched" not in pprof.Profile(directory / "exact.pb.gz").facts


def test_a_storm_of_short_blocks_is_no_peak(harness, fixtures):
    """A sample of the storm stands for gigabytes, of which a single block lives at a time. On a
    slow machine the budget pays a dozen samples of its 15 GB: only the order of the sum is sure.
    The last point of the timeline is what lives by all samples, those of kept blocks among them
    for which a busy machine had no budget."""
    path = harness.directory / "storm.pb.gz"
    harness.run_preloaded([fixtures("profile_storm.c")], changes={"PRIMALLOC_PROFILE": str(path)})
    profile = pprof.Profile(path)
    samples, stretched, times = profile.triples("stretched")[0]
    assert samples > stretched > 0 and times >= 64
    assert profile.total("alloc_space") > 1e9
    assert 1e6 < profile.total("peak_space") < max(40e6, profile.total("inuse_space") + 1e5)
    *moments, last = [point[1] for point in profile.triples("timeline")]
    assert max(moments) < 40e6
    assert abs(last - profile.total("inuse_space")) < 1e5


def test_the_file_is_as_documented(profiled, symbols, program):
    _, directory = profiled(f"h.pb.gz,rate={RATE}", 2000, "free")
    profile = pprof.Profile(directory / "h.pb.gz")
    assert profile.types == pprof.VIEWS
    assert profile.shown == "inuse_space" and profile.period == RATE
    assert profile.time_ns > 1.7e18 and 0 < profile.duration_ns < 60e9
    assert profile.facts["format"] == "primalloc-heap 1"
    assert profile.facts["library"] == (ROOT / "VERSION").read_text().strip()
    assert re.fullmatch(r"\d+ profile_sites", profile.facts["program"])
    assert profile.facts["event"] == "0 exit" and profile.facts["lost"] == "0"
    first = profile.mappings[1]
    assert first.path == str(program) and len(first.build_id) == 40
    for sample in profile.samples:
        assert sample.values["alloc_space"] > 0 and sample.labels == {"thread": "profile_sites"}
        assert sample.frames[-1].mapping == first  # _start
        for frame in sample.frames:
            assert frame.mapping.start <= frame.address < frame.mapping.limit
            assert "libprimalloc" not in frame.mapping.path
    times = [point[0] for point in profile.triples("timeline")]
    assert times == sorted(times) and 1 <= len(times) <= 512
    _, peak_bytes, _ = map(int, profile.facts["peak"].split())
    assert max(point[1] for point in profile.triples("timeline")) <= peak_bytes
    assert profile.total("peak_space") == pytest.approx(peak_bytes, abs=len(profile.samples))
    for fact, view in (("alloc_sizes", "alloc"),):
        for unit, column in (("objects", 1), ("space", 2)):
            total = sum(triple[column] for triple in profile.triples(fact))
            assert total == pytest.approx(profile.total(f"{view}_{unit}"), abs=200)
    assert profile.total("inuse_space") < profile.total("peak_space") / 2  # the kept ones are freed
    assert profile.total("growth_space") == profile.total("inuse_space")


def test_a_program_is_named_without_its_main_thread(harness, fixtures):
    program = fixtures("leak_roots.c", output="program_of_threads")
    for name in ("h.pb.gz", "h.heap"):
        harness.run_preloaded([program, "without_a_main_thread"],
                              changes={"PRIMALLOC_PROFILE": f"{name},rate=1"})
    assert pprof.Profile(harness.directory / "h.pb.gz").mappings[1].path == str(program)
    assert str(program) in (harness.directory / "h.heap").read_text()


def test_a_program_is_named_that_the_loader_was_told_to_start(harness, program, symbols):
    loader = re.search(r"interpreter: (\S+)\]", harness.run(["readelf", "-lW", program])
                       .stdout.decode())[1]
    (harness.directory / "a program").symlink_to(program)
    settings = {"PRIMALLOC_PROFILE": "h.pb.gz,rate=1"}
    harness.run_preloaded([loader, "./a program", 2000], changes=settings)
    profile = pprof.Profile(harness.directory / "h.pb.gz")
    assert os.path.samefile(profile.mappings[1].path, program)


def test_exact_mode_is_exact(profiled, symbols):
    truth, directory = profiled("h.pb.gz,rate=1", 2000)
    profile = pprof.Profile(directory / "h.pb.gz")
    views = ("alloc_objects", "alloc_space", "inuse_objects", "inuse_space")
    sites = by_site(profile, symbols)
    assert profile.period == 1
    assert {name: [sites[name][view] for view in views] for name in truth} == truth


def test_threads_are_told_apart(profiled):
    _, directory = profiled(f"h.pb.gz,rate={RATE}", 10, "threads")
    profile = pprof.Profile(directory / "h.pb.gz")
    seen = {}
    for sample in profile.samples:
        name = sample.labels["thread"]
        seen[name] = seen.get(name, 0) + sample.values["alloc_space"]
    for name in ("first-thread", "second-thread"):
        assert seen[name] == pytest.approx(20000 * 300, rel=0.3)


def test_short_threads_are_told_apart(profiled):
    _, directory = profiled("h.pb.gz,rate=1", 0, "short")
    seen = {}
    for sample in pprof.Profile(directory / "h.pb.gz").samples:
        name = sample.labels["thread"]
        seen[name] = seen.get(name, 0) + sample.values["alloc_objects"]
    assert [seen.get(f"short-{number}") for number in (1, 2, 3)] == [10, 10, 10]


@pytest.mark.parametrize("rate", [RATE, 1])
def test_tags_are_told_apart(profiled, rate):
    _, directory = profiled(f"h.pb.gz,rate={rate}", 0, "tags")
    seen = {}
    for sample in pprof.Profile(directory / "h.pb.gz").samples:
        sums = seen.setdefault(sample.labels.get("tag"), dict.fromkeys(sample.values, 0))
        for view, value in sample.values.items():
            sums[view] += value
    for name in ("odd", "even"):
        assert seen[name]["alloc_space"] == pytest.approx(10000 * 300, rel=0.4 if rate > 1 else 0)
        assert seen[name]["inuse_space"] == 0
    shrunk = seen["shrunk"]["inuse_space"]
    assert shrunk == pytest.approx(20000 * 600, rel=0.4 if rate > 1 else 0)
    in_use = seen["grown"]["inuse_space"] + seen.get(None, {"inuse_space": 0})["inuse_space"]
    assert 5000000 <= in_use < 5200000  # the one block, once, wherever it was counted


@pytest.mark.parametrize("rate", [RATE, 1])
def test_blocks_aligned_at_an_offset_are_there(profiled, rate):
    _, directory = profiled(f"h.pb.gz,rate={rate}", 0, "offset")
    samples = pprof.Profile(directory / "h.pb.gz").samples
    sums = {view: sum(sample.values[view] for sample in samples)
            for view in ("alloc_space", "inuse_space")}
    for view, blocks in (("alloc_space", 20000), ("inuse_space", 10000)):
        assert sums[view] == pytest.approx(blocks * 300, rel=0.4 if rate > 1 else 0.05)


def test_a_forked_child_goes_on_in_a_file_of_its_own(profiled, symbols):
    _, directory = profiled("h.pb.gz,rate=1K", 600, "fork")
    parent = pprof.Profile(directory / "h.pb.gz")
    children = [path for path in directory.glob("h.*.pb.gz")]
    assert len(children) == 1
    child = pprof.Profile(children[0])
    assert child.facts["program"].split()[0] == children[0].name.split(".")[1]
    large = [by_site(profile, symbols)["site_large"]["alloc_objects"]
             for profile in (parent, child)]
    assert large[1] == large[0] + 1  # what was before the fork, and one more
    assert child.total("inuse_space") == pytest.approx(parent.total("inuse_space"), rel=0.05)


def test_files_by_signal_by_bytes_and_at_peaks(profiled):
    _, directory = profiled("h.pb.gz,rate=4K,signal=USR2", 3000, "signal", "signal")
    events = [pprof.Profile(directory / name).facts["event"]
              for name in ("h.0000.pb.gz", "h.0001.pb.gz", "h.pb.gz")]
    assert events == ["0 signal", "1 signal", "2 exit"]
    assert pprof.Profile(directory / "h.pb.gz").total("growth_space") < 20000
    _, directory = profiled("b.pb.gz,rate=4K,bytes=2M", 3000)
    files = sorted(directory.glob("b.0*.pb.gz"))
    assert len(files) >= 3
    profiles = [pprof.Profile(path) for path in files]
    assert all(profile.facts["event"].endswith(" bytes") for profile in profiles)
    growth = profiles[1].total("growth_space")
    lived = [profile.total("inuse_space") for profile in profiles]
    assert growth == pytest.approx(lived[1] - lived[0], abs=100)
    _, directory = profiled("p.pb.gz,rate=4K,peak", 3000, "free")
    peaks = [pprof.Profile(path) for path in directory.glob("p.0*.pb.gz")]
    assert peaks and all(profile.facts["event"].endswith(" peak") for profile in peaks)


@pytest.mark.parametrize("settings, wrong", [
    ("h.pb.gz,rat=5,peak", "rat=5,peak"), ("h.pb.gz,rate=", "rate="),
    ("h.pb.gz,signal=NO", "signal=NO"), ("h.pb.gz,peak,signal=9", "signal=9"),
    ("rate=64K", "rate=64K"), ("peak,rate=64K", "peak,rate=64K"),
    ("1", "1"), ("On,rate=64K", "On,rate=64K"), ("0", "0"),
])
def test_wrong_settings_get_one_line(harness, settings, wrong):
    result = harness.run_preloaded(["true"], changes={"PRIMALLOC_PROFILE": settings})
    lines = result.stderr.decode().splitlines()
    assert len(lines) == 1 and lines[0].endswith(f" wrong from here: {wrong}")
    assert not list(harness.directory.iterdir())


def test_growth_is_that_since_a_file_that_was_written(harness):
    script = ("import ctypes; c = ctypes.CDLL(None); c.malloc(5000000); "
              "c.prim_profile_dump(b'/nonexistent/h.pb.gz'); c.prim_profile_dump(b'second.pb.gz')")
    settings = {"PRIMALLOC_PROFILE": "h.pb.gz,rate=1"}
    harness.run_preloaded(["python3", "-c", script], changes=settings)
    profile = pprof.Profile(harness.directory / "second.pb.gz")
    assert profile.total("growth_space") == profile.total("inuse_space") > 5000000


@pytest.mark.parametrize("rate", [1, 1024])
def test_a_block_stays_what_it_was_if_realloc_fails(harness, rate):
    script = ("import ctypes; c = ctypes.CDLL(None); c.malloc.restype = ctypes.c_void_p; "
              "block = ctypes.c_void_p(c.malloc(50000000)); "
              "c.realloc.argtypes = [ctypes.c_void_p, ctypes.c_size_t]; "
              "assert c.realloc(block, 1 << 62) == 0; c.prim_profile_dump(b'kept.pb.gz')")
    harness.run_preloaded(["python3", "-c", script],
                          changes={"PRIMALLOC_PROFILE": f"h.pb.gz,rate={rate}"})
    samples = pprof.Profile(harness.directory / "kept.pb.gz").samples
    ours = [sample.values for sample in samples if sample.values["alloc_space"] >= 50000000]
    assert [(values["alloc_space"], values["inuse_space"]) for values in ours] == [
        (50000000, 50000000)]


def test_python_has_whole_stacks(harness, tmp_path):
    """Debian's python3 has no frame pointers."""
    script = tmp_path / "work.py"
    script.write_text("import json\nx = [json.dumps([i] * 100) for i in range(30000)]\n")
    settings = {"PRIMALLOC_PROFILE": "h.pb.gz,rate=64K"}
    harness.run_preloaded(["/usr/bin/python3", script], changes=settings)
    profile = pprof.Profile(harness.directory / "h.pb.gz")
    main = profile.mappings[1]
    assert os.path.realpath("/usr/bin/python3") == os.path.realpath(main.path)
    whole = [sample for sample in profile.samples
             if sample.frames[-1].mapping == main or len(sample.frames) == 127]
    assert len(profile.samples) > 20
    assert len(whole) >= 0.99 * len(profile.samples)
    assert max(len(sample.frames) for sample in profile.samples) > 15


def test_no_sample_is_lost_or_wrong_in_a_storm(library):
    """Threads, forks, libraries that come and go, leak checks; `make prove` takes half an hour."""
    done = subprocess.run([ROOT / "tools" / "proofs" / "profile_storm", "--minutes", "0", "--round",
                           "3", "--threads", "40", "--library", library], capture_output=True,
                          text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout


def test_google_pprof_reads_it(profiled, harness, google_pprof, program):
    require("dot")
    profiled(f"a.pb.gz,rate={RATE}", 3000)
    profiled(f"b.pb.gz,rate={RATE}", 9000)

    def run(*arguments):
        environment = harness.environment(PPROF_TMPDIR=str(harness.directory))
        return harness.run([google_pprof, *arguments], environment=environment).stdout.decode()

    top = run("-top", "-sample_index=alloc_space", "a.pb.gz")
    assert "site_medium" in top and "site_large" in top and "Type: alloc_space" in top
    assert "site_large" in run("-top", "a.pb.gz")
    assert run("-svg", "a.pb.gz").count("<svg") == 1
    difference = run("-top", "-sample_index=alloc_space", "-diff_base", "a.pb.gz", "b.pb.gz")
    assert re.search(r"B .*site_medium", difference)
    assert "primalloc-heap 1" in run("-comments", "a.pb.gz")
    lines = run("-list", "site_large", "a.pb.gz") if shutil.which("addr2line") else "site_large"
    assert "site_large" in lines


def test_code_behind_a_gap_is_the_programs(harness, fixtures, google_pprof):
    """As optimisers of binaries put it; to the loader such a program is several objects."""
    program = fixtures("profile_apart.c", "-Wl,--section-start=.apart=0x900000")
    harness.run_preloaded([program], changes={"PRIMALLOC_PROFILE": "h.pb.gz,rate=1"})
    own = {frame.mapping.path for sample in pprof.Profile(harness.directory / "h.pb.gz").samples
           for frame in sample.frames[:1]}
    assert own == {str(program)}
    environment = harness.environment(PPROF_TMPDIR=str(harness.directory))
    top = harness.run([google_pprof, "-top", "h.pb.gz"], environment=environment).stdout.decode()
    assert "site_near" in top and "site_apart" in top


GOLDEN = ROOT / "tests" / "golden" / "profile"  # profile_sites with 20 rounds, rate=1


def test_recorded_files_are_read_as_they_were(harness, google_pprof):
    """What was written once can be read for ever, by our reader and by Google's, in both forms."""
    recorded = pprof.Profile(GOLDEN / "sites.pb.gz")
    assert recorded.types == pprof.VIEWS and recorded.period == 1
    assert recorded.facts["format"] == "primalloc-heap 1"
    totals = {view: recorded.total(view) for view in ("alloc_objects", "alloc_space",
                                                      "inuse_objects", "inuse_space")}
    assert totals == {"alloc_objects": 110, "alloc_space": 499317,
                      "inuse_objects": 26, "inuse_space": 432638}
    for name in ("sites.pb.gz", "sites.heap"):
        for view, total in totals.items():
            top = harness.run([google_pprof, "-top", "-unit=B", f"-sample_index={view}",
                               GOLDEN / name]).stdout.decode()
            assert f" of {total}B total" in top, (name, view, top)


def test_a_program_that_does_the_same_writes_the_same(profiled):
    """All but addresses, times and numbers of processes is as in the recorded files."""

    def shape(path):
        profile = pprof.Profile(path)
        rows = sorted((sorted(sample.values.items()), sorted(sample.labels.items()))
                      for sample in profile.samples)
        sizes = [profile.triples(fact) for fact in ("live_sizes", "alloc_sizes")]
        return profile.types, profile.shown, list(profile.facts), rows, sizes

    def sites(path):
        text = path.read_text().split("MAPPED_LIBRARIES:")[0]
        return sorted(line.split(" @ ")[0].strip() for line in text.splitlines())

    for name, form in (("sites.pb.gz", shape), ("sites.heap", sites)):
        _, directory = profiled(f"{name},rate=1", 20)
        assert form(directory / name) == form(GOLDEN / name)


@pytest.mark.parametrize("name", ["h.heap", "h.txt"])
def test_the_older_form_is_read_by_both(profiled, harness, program, google_pprof, name):
    require("jeprof")
    truth, directory = profiled(f"{name},rate=1K", 3000)
    text = (directory / name).read_text()
    assert re.match(r"heap profile: \d+: \d+ \[\d+: \d+\] @ heapprofile\n", text)
    assert "\nMAPPED_LIBRARIES:\n" in text and str(program) in text
    shown = harness.run(["jeprof", "--text", "--alloc_space", program, name]).stdout.decode()
    total = float(re.search(r"Total: ([\d.]+) B|Total: ([\d.]+) MB", shown)[0].split()[1])
    assert total * 2**20 == pytest.approx(sum(row[1] for row in truth.values()), rel=0.15)
    assert "site_medium" in shown
    assert "site_medium" in harness.run(
        [google_pprof, "-top", "-sample_index=alloc_space", program, name]).stdout.decode()
