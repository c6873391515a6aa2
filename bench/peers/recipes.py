"""One recipe a peer: get the newest source a package carries and build it as its authors ship it.

A recipe leaves the library at `target` and returns a Built. Common to all: optimised with the
authors' own level, no debug checks, thread-local storage in the initial-exec model (what a
preloaded library can use, and what primalloc uses), default settings, C++ operators included.
"""

import os
import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from sources import (WORK, Unavailable, crate, debian_file, machine, run, source_copy,
                     wheel_file)

JOBS = 2
MIMALLOC3_WHEEL = "cmeel-mimalloc==3.4.3"
SHARED = ["-shared", "-fPIC", "-ftls-model=initial-exec", "-Wl,-z,now", "-Wl,-z,relro"]


@dataclass
class Built:
    """What a recipe made: version, origin, and what it needs in a program's environment."""
    version: str
    source: str
    environment: dict = field(default_factory=dict)


def first_match(pattern, path):
    """The first group of the first match of `pattern` in a file."""
    found = re.search(pattern, path.read_text(errors="replace"))
    return found.group(1) if found else "unknown"


def mimalloc_from_crate(peer, line, target):
    """Compile one line (v2 or v3) of mimalloc as its CMake project does for the shared library."""
    folder, crate_version = crate("libmimalloc-sys")
    source = source_copy(peer, folder / "c_src" / "mimalloc" / line)
    run(["cc", "-O3", "-std=gnu11", *SHARED, "-fvisibility=hidden", "-fno-builtin-malloc",
         "-DNDEBUG", "-DMI_BUILD_RELEASE", "-DMI_MALLOC_OVERRIDE", "-DMI_SHARED_LIB",
         "-DMI_SHARED_LIB_EXPORT", "-Iinclude", "-Isrc", "src/static.c", "-o", target, "-pthread"],
        source / "log", cwd=source)
    number = int(first_match(r"MI_MALLOC_VERSION\s+(\d+)", source / "include" / "mimalloc.h"))
    version = f"{number // 10000}.{number // 100 % 100}.{number % 100}"
    return Built(version, f"crate libmimalloc-sys {crate_version}")


def mimalloc3(target):
    """The wheel carries a newer release than the crate, as a library built by its own project."""
    try:
        library = wheel_file("mimalloc3", MIMALLOC3_WHEEL, "/lib/libmimalloc.so")
    except Unavailable:
        return mimalloc_from_crate("mimalloc3", "v3", target)
    shutil.copy(library, target)
    return Built(MIMALLOC3_WHEEL.split("==")[1], f"wheel {MIMALLOC3_WHEEL}")


def mimalloc2(target):
    return mimalloc_from_crate("mimalloc2", "v2", target)


def jemalloc(target):
    """Its own configure and make, with default settings."""
    folder, crate_version = crate("tikv-jemalloc-sys")
    source = source_copy("jemalloc", folder / "jemalloc")
    version = crate_version.partition("+")[2]
    shutil.copy(folder / "configure" / "configure", source / "configure")
    run(["sh", "./configure", f"--with-version={version}", "--disable-static", "--enable-doc=no"],
        source / "log", cwd=source)
    run(["make", f"-j{JOBS}", "build_lib_shared"], source / "log", cwd=source)
    shutil.copy((source / "lib" / "libjemalloc.so").resolve(), target)
    return Built(version.split("-")[0], f"crate tikv-jemalloc-sys {crate_version}")


def snmalloc(target):
    """Its own CMake project; the shim is the library that its authors preload."""
    folder, crate_version = crate("snmalloc-sys")
    source = source_copy("snmalloc", folder / "upstream")
    out = source / "out"
    run(["cmake", "-S", source, "-B", out, "-DCMAKE_BUILD_TYPE=Release",
         "-DSNMALLOC_BUILD_TESTING=OFF"], source / "log")
    run(["cmake", "--build", out, "--target", "snmallocshim", "-j", JOBS], source / "log")
    shutil.copy(out / "libsnmallocshim.so", target)
    return Built(crate_version, f"crate snmalloc-sys {crate_version}")


def rpmalloc(target):
    """The 1.4 line, the newest that a package carries, with its authors' release flags."""
    folder, crate_version = crate("rpmalloc-sys")
    source = source_copy("rpmalloc", folder / "rpmalloc")
    run(["cc", "-O3", "-funroll-loops", "-std=c11", *SHARED, "-D_GNU_SOURCE=1", "-DNDEBUG",
         "-DENABLE_PRELOAD=1", "-DENABLE_OVERRIDE=1", "-fno-builtin-malloc", "-fvisibility=hidden",
         "rpmalloc/rpmalloc.c", "-o", target, "-pthread", "-ldl"], source / "log", cwd=source)
    version = first_match(r"^\s*(\d+\.\d+\.\d+)", source / "CHANGELOG")
    return Built(f"{version}+{crate_version.partition('+')[2]}",
                 f"crate rpmalloc-sys {crate_version}")


def tcmalloc_sources(source):
    """The files that the crate's build script lists, with malloc itself for its bridge."""
    listed = re.findall(r'"(c_src/[^"]+\.(?:cc|S))"',
                        (source / "build.rs").read_text(errors="replace"))
    bridges = {"c_src/malloc_bridge.cc", "c_src/malloc_extension_bridge.cc"}
    return [name for name in listed if name not in bridges] + [
        "c_src/tcmalloc/tcmalloc/tcmalloc.cc"]


def tcmalloc(target):
    """Google's TCMalloc: compile the files, unpatched, with the malloc override that upstream has.

    glibc registers restartable sequences before TCMalloc can; TCMalloc's documentation asks to
    turn that off, since its per-CPU caches need a registration of their own.
    """
    folder, crate_version = crate("libtcmalloc-sys")
    source = source_copy("tcmalloc", folder)
    flags = ["-O2", "-std=c++17", "-fPIC", "-DNDEBUG", "-DTCMALLOC_INTERNAL_8K_PAGES",
             "-fno-semantic-interposition", "-ftls-model=initial-exec", "-w",
             "-Ic_src/abseil-cpp", "-Ic_src/tcmalloc"]
    names = tcmalloc_sources(source)
    objects = [source / "objects" / (name.replace("/", "_") + ".o") for name in names]
    (source / "objects").mkdir()

    def compile_one(pair):
        name, output = pair
        run(["c++", *flags, "-c", name, "-o", output], output.with_suffix(".log"), cwd=source)

    with ThreadPoolExecutor(JOBS) as pool:
        list(pool.map(compile_one, zip(names, objects)))
    run(["c++", "-shared", "-Wl,-Bsymbolic-functions", "-Wl,-z,now", "-Wl,--gc-sections",
         *objects, "-o", target, "-pthread"], source / "log", cwd=source)
    dated = first_match(r"(\d{4}-\d\d-\d\d)", source / "CHANGELOG.md")
    return Built(f"of {dated}", f"crate libtcmalloc-sys {crate_version}",
                 {"GLIBC_TUNABLES": "glibc.pthread.rseq=0"})


def gperftools(target):
    """No package carries a newer source than Debian's library."""
    library, version = debian_file("gperftools", "libtcmalloc-minimal4",
                                   "usr/lib/*/libtcmalloc_minimal.so.4")
    shutil.copy(library, target)
    return Built(version, f"Debian package libtcmalloc-minimal4 {version}")


def scudo(target):
    """The newest of LLVM's runtime packages that this Debian has."""
    for release in (22, 19, 16, 14):
        package = f"libclang-rt-{release}-dev"
        try:
            library, version = debian_file(
                "scudo", package, f"usr/lib/llvm-{release}/lib/clang/*/lib/linux/"
                f"libclang_rt.scudo_standalone-{machine()}.so")
        except Unavailable:
            continue
        shutil.copy(library, target)
        return Built(version.split(":")[-1].split("~")[0].split("-")[0],
                     f"Debian package {package} {version}")
    raise Unavailable("no libclang-rt package with scudo can be had; try apt-get update")


def hardened(target):
    """GrapheneOS's hardened_malloc in its default configuration; outside the default selection."""
    folder, crate_version = crate("hardened-malloc-sys")
    source = source_copy("hardened", folder)
    settings = [f"-D{line.strip()}" for line in (source / "config-default.conf").read_text()
                .splitlines() if line.strip() and not line.startswith("#")]
    vendor = source / "vendor" / "hardened-malloc"
    common = ["-O3", "-fPIC", "-ftls-model=initial-exec", "-fvisibility=hidden", "-w",
              "-D_GNU_SOURCE", f"-I{vendor / 'include'}", f"-I{vendor}", *settings]
    for name in ("chacha", "h_malloc", "memory", "pages", "random", "util"):
        run(["cc", "-std=c2x", "-include", "stdalign.h", *common, "-c", vendor / f"{name}.c",
             "-o", source / f"{name}.o"], source / "log")
    run(["c++", "-std=c++20", *common, "-c", vendor / "new.cc", "-o", source / "new.o"],
        source / "log")
    run(["c++", "-shared", "-Wl,-z,now", *sorted(source.glob("*.o")), "-o", target, "-pthread"],
        source / "log")
    return Built(crate_version, f"crate hardened-malloc-sys {crate_version}")


def debian_fallback(package, pattern):
    """A recipe for Debian's older library, for when the newest source can't be built."""
    def recipe(target):
        library, version = debian_file(f"{target.stem}-debian", package, pattern)
        shutil.copy(library, target)
        return Built(version, f"Debian package {package} {version}, an older release")
    return recipe


# name -> recipes in order of preference; the order of names is the order of tables.
PEERS = {
    "mimalloc3": [mimalloc3],
    "mimalloc2": [mimalloc2, debian_fallback("libmimalloc2.0", "usr/lib/*/libmimalloc.so.2.*")],
    "jemalloc": [jemalloc, debian_fallback("libjemalloc2", "usr/lib/*/libjemalloc.so.2")],
    "tcmalloc": [tcmalloc],
    "gperftools": [gperftools],
    "snmalloc": [snmalloc],
    "rpmalloc": [rpmalloc],
    "scudo": [scudo],
    "hardened": [hardened],
}


def lower_priority():
    """Building must not disturb whoever else uses the machine."""
    os.nice(10)
    WORK.mkdir(parents=True, exist_ok=True)
