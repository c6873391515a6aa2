"""The built libraries define what src/api/exports.def lists, need libc alone and hide the rest."""

import re

from house import tables
from house.report import Outcome

SHARED, STATIC = "lib/libprimalloc.so", "lib/libprimalloc.a"
PREFIXED = "lib/libprimalloc_prefixed.a"
TLS_BYTES_MOST = 16
GLIBC_NEWEST = (2, 28)
LIBRARIES = re.compile(r"libc\.so\.6|ld-linux.*\.so\.\d+")

# As functions they are older than GLIBC_NEWEST, but built on a newer glibc they carry the version
# with which they moved from libpthread and libdl into libc or, as fstat, became symbols of their
# own. A library built on an old system asks for what is there.
GIVEN_NEW_VERSIONS = {
    "fstat", "stat", "lstat",
    "dlsym", "dlvsym", "dladdr", "dlopen", "dlclose", "pthread_key_create", "pthread_setspecific",
    "pthread_getspecific", "pthread_create", "pthread_join", "pthread_detach", "pthread_once",
    "pthread_sigmask", "pthread_atfork", "pthread_setname_np", "pthread_kill", "pthread_key_delete",
    "pthread_getattr_np", "pthread_attr_setstacksize", "pthread_getcpuclockid",
}
# Weak: there only when the program brings them, and looked at before they are used.
WEAK_ALLOWED = re.compile(r"__gmon_start__|_ITM_\w+|__cxa_\w+|__rseq_\w+|_ZN?St\w+|_ZT[IV]St\w+")


def nm(tree, library, *options):
    """(symbol, kind) of each line that nm prints."""
    lines = tree.run("nm", *options, tree.build / library).splitlines()
    return [(fields[-1], fields[-2]) for fields in map(str.split, lines) if len(fields) >= 2
            and len(fields[-2]) == 1]


def shared_problems(tree, wanted):
    defined = {name.split("@")[0] for name, kind in nm(tree, SHARED, "-D", "--defined-only")
               if kind != "A"}  # a version's own name
    problems = [f"{SHARED}: does not export {name}" for name in sorted(wanted - defined)]
    return problems + [f"{SHARED}: exports {name}, which {tables.EXPORTS} does not list"
                       for name in sorted(defined - wanted)]


def needs_problems(tree):
    """Undefined symbols: of libc, and no newer than the oldest system we run on."""
    problems = []
    for name, kind in nm(tree, SHARED, "-D", "--undefined-only"):
        symbol, _, version = name.partition("@")
        number = re.fullmatch(r"@?GLIBC_(\d+)\.(\d+)(?:\.\d+)?", version)
        if not version:
            if kind not in "wv" or not WEAK_ALLOWED.fullmatch(symbol):
                problems.append(f"{SHARED}: needs {symbol}, which libc does not have")
        elif not number:
            problems.append(f"{SHARED}: needs {symbol} of {version.lstrip('@')}")
        elif tuple(map(int, number.groups())) > GLIBC_NEWEST and symbol not in GIVEN_NEW_VERSIONS:
            problems.append(f"{SHARED}: needs {symbol} of {version.lstrip('@')}; "
                            f"GLIBC_{GLIBC_NEWEST[0]}.{GLIBC_NEWEST[1]} is the newest allowed")
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", tree.run("readelf", "-dW", tree.build / SHARED))
    return problems + [f"{SHARED}: needs the library {name}" for name in needed
                       if not LIBRARIES.fullmatch(name)]


def tls_bytes(tree):
    for line in tree.run("readelf", "-lW", tree.build / SHARED).splitlines():
        fields = line.split()
        if fields and fields[0] == "TLS":
            return int(fields[5], 16)
    return 0


def archive_problems(tree, wanted, prefixed):
    problems = []
    for library, allowed in ((STATIC, wanted), (PREFIXED, prefixed)):
        defined = {name for name, kind in nm(tree, library, "-g", "--defined-only") if kind != "N"}
        problems += [f"{library}: the global symbol {name} can clash in a static link"
                     for name in sorted(defined - allowed) if not name.startswith("prim_")]
        problems += [f"{library}: does not define {name}" for name in sorted(allowed - defined)]
    return problems


def check(tree):
    exports = tables.exports(tree)
    wanted = {export["symbol"] for export in exports}
    prefixed = {export["symbol"] for export in exports if export["group"] == "PRIM"}
    archived = {export["symbol"] for export in exports if export["group"] != "START"}
    problems = shared_problems(tree, wanted) + needs_problems(tree)
    problems += archive_problems(tree, archived, prefixed)
    bytes_of_tls = tls_bytes(tree)
    if bytes_of_tls > TLS_BYTES_MOST:
        problems.append(f"{SHARED}: {bytes_of_tls} bytes of static TLS; {TLS_BYTES_MOST} allowed, "
                        "so that dlopen can load it late")
    return Outcome(f"{len(wanted)} symbols, {bytes_of_tls} bytes of static TLS", problems)
