"""The allocators to measure: primalloc twice, glibc, and whatever peers bench/peers/build made."""

import json
import os
from dataclasses import dataclass, field, replace
from pathlib import Path

from .environment import BUILD, ROOT, BenchError
from .takeover import check_takes_over

LIBRARY = BUILD / "lib" / "libprimalloc.so"
PEERS = BUILD / "peers"
OURS = "primalloc"
AGAIN = "primalloc-again"
# Peers with a curve or a column of their own, where there is no room for all.
WELL_KNOWN = ("glibc", "jemalloc", "mimalloc3", "tcmalloc")
# Left out of a default selection to save its time: by name they can always be asked for.
NOT_IN_FULL = {"hardened"}
NOT_IN_QUICK = NOT_IN_FULL | {"scudo", "rpmalloc", "mimalloc2"}


@dataclass(frozen=True)
class Allocator:
    """One way to run a program: a library to preload (None: libc's own) and its environment."""
    name: str
    library: Path | None
    version: str
    source: str
    environment: dict = field(default_factory=dict, hash=False)

    @property
    def is_peer(self):
        return self.name not in (OURS, AGAIN)

    def facts(self):
        """What a result keeps of it."""
        return {"name": self.name, "version": self.version, "source": self.source}

    def assignments(self):
        """NAME=VALUE strings for the environment of a measured program, and only of that."""
        values = [f"{name}={value}" for name, value in self.environment.items()]
        return values + ([f"LD_PRELOAD={self.library}"] if self.library else [])


def own_allocators():
    """primalloc twice: how much the two entries differ is what this machine can't tell apart."""
    if not LIBRARY.exists():
        return []
    version = (ROOT / "VERSION").read_text().strip()
    return [Allocator(name, LIBRARY, version, "build/lib/libprimalloc.so")
            for name in (OURS, AGAIN)]


def peer_allocators():
    """The libraries in build/peers, in the order of versions.json."""
    versions = PEERS / "versions.json"
    if not versions.exists():
        return []
    return [Allocator(name, PEERS / f"{name}.so", entry["version"], entry["source"],
                      entry["environment"])
            for name, entry in json.loads(versions.read_text()).items()
            if (PEERS / f"{name}.so").exists()]


def all_allocators():
    glibc = Allocator("glibc", None, os.confstr("CS_GNU_LIBC_VERSION").split()[-1], "libc's own")
    return [*own_allocators(), glibc, *peer_allocators()]


def default_allocators(quick):
    """All, less those that cost the most and decide the least."""
    left_out = NOT_IN_QUICK if quick else NOT_IN_FULL
    return [one for one in all_allocators() if one.name not in left_out]


def chosen_allocators(wanted, quick=False):
    """Those of a list with commas, else the default ones; each was seen to serve a program."""
    return serving(named_allocators(wanted.split(",")) if wanted else default_allocators(quick))


def serving(allocators):
    """The allocators, unless one of them leaves programs to libc's malloc: with a wrong library the
    loader only warns, and its name would stand at libc's figures."""
    for one in allocators:
        if one.library:
            check_takes_over(one.library, one.assignments())
    return allocators


def named_allocators(wanted):
    """Those of a list of words, each NAME or NAME=PATH, with ;VARIABLE=VALUE where a setting is to
    be measured: `hardened=build/lib/libprimalloc.so;PRIMALLOC_HARDENED=1`."""
    known = {allocator.name: allocator for allocator in all_allocators()}
    chosen = []
    for word in wanted:
        named, *settings = word.split(";")
        name, _, path = named.partition("=")
        if path:
            library = Path(path).resolve()
            if not library.exists():
                raise BenchError(f"there is no library {path} for the allocator {name}")
            allocator = Allocator(name, library, "given by path", str(library))
        elif name in known:
            allocator = known[name]
        elif name in (OURS, AGAIN):
            raise BenchError(f"{LIBRARY} is not built; run make first")
        else:
            raise BenchError(f"no allocator is called {name}; there are {', '.join(known)}. "
                             f"bench/peers/build makes the peers; NAME=PATH names any library")
        chosen.append(with_settings(allocator, settings))
    doubled = {one.name for one in chosen if [other.name for other in chosen].count(one.name) > 1}
    if doubled:
        raise BenchError(f"two allocators are called {', '.join(sorted(doubled))}; NAME=PATH gives "
                         f"one another name")
    return chosen


def with_settings(allocator, settings):
    """The allocator under VARIABLE=VALUE words, which its source names so that reports do."""
    if not settings:
        return allocator
    for setting in settings:
        if not setting.partition("=")[0].isidentifier() or "=" not in setting:
            raise BenchError(f"'{setting}' of the allocator {allocator.name} is not VARIABLE=VALUE")
    environment = allocator.environment | dict(one.split("=", 1) for one in settings)
    return replace(allocator, environment=environment,
                   source=f"{allocator.source} with {' '.join(settings)}")
