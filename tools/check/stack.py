"""The deepest chain of calls below malloc, free and realloc takes at most 4 KiB of stack (T47).

gcc tells of each function its frame, with the return address, and whom it calls
(-fcallgraph-info=su). Where calls through pointers go stands below; libc's functions are not
counted, but for its free and realloc. Measured are the library as released and with its
assertions."""

import os
import re
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from house.report import Outcome

BYTES_MOST = 4096
ROOTS = ["malloc", "free", "realloc", "calloc", "memalign", "_Znwm", "_ZdlPv"]
FLAVOURS = {"release": [], "checked": ["-DPRIM_CHECKED=1"]}
OPTIONS = ["-std=gnu11", "-O2", "-fPIC", "-fvisibility=hidden", "-ftls-model=initial-exec",
           "-fexceptions", "-fno-builtin-malloc", "-fno-builtin-calloc", "-fno-builtin-realloc",
           "-fno-builtin-free", "-D_GNU_SOURCE", "-Isrc", "-Iinclude", "-fcallgraph-info=su"]
INDIRECT = "__indirect_call"

# What the calls through pointers reach: the allocator's own.
FOLLOWED = {
    "for_each_set": {"trim", "prepare_fork", "end_fork", "reset_lock"},
    "slab_set_for_each": {"trim_set", "purge_set", "lock_set", "unlock_set", "reset_set",
                          "add_totals", "add_returnable"},
    "read_mounts": {"read_processors", "read_memory"},
    "lock_rank_entered": {"may_take_locks"},
}
# What they reach is libc's, which gcc tells nothing of: bytes below them, rounded up from what a
# painted stack showed of glibc 2.36 (free 360, realloc 504, over 20,000 calls of all sizes).
BELOW = {"libc_heap_release": 512, "libc_heap_reallocate": 512}
# Those that call the program, its C++ library, the kernel's own library, or a feature that is off
# until asked for, which has stack needs of its own. A caller that stands in none of these is a
# violation.
NOT_FOLLOWED = {"current_handler", "new_failed", "complain", "arena_release", "malloc_wished",
                "sampler_allocate", "sampler_end", "sampler_placed_size", "sampler_release_placed",
                "begin", "watcher_allocate", "watcher_reallocate", "watcher_release",
                "watcher_usable_size", "machine_processor", "read_clock", "deferred_free_call"}
# They end the process or report a defect of ours: how deep they are is of no consequence.
LAST_WORDS = {"assert_failed"}

NODE = re.compile(r'^node: { title: "([^"]+)" label: "([^"]*)"')
EDGE = re.compile(r'^edge: { sourcename: "([^"]+)" targetname: "([^"]+)"')
FRAME = re.compile(r"\\n(\d+) bytes \(([a-z,]+)\)")


class Graph:
    def __init__(self):
        self.frames, self.calls, self.dynamic = {}, {}, set()

    def read(self, text):
        for line in text.splitlines():
            node, edge = NODE.match(line), EDGE.match(line)
            if node and (frame := FRAME.search(node[2])):
                self.frames[node[1]] = int(frame[1]) + BELOW.get(plain(node[1]), 0)
                if frame[2] == "dynamic":
                    self.dynamic.add(node[1])
            elif edge:
                self.calls.setdefault(edge[1], set()).add(edge[2])

    def callees(self, name):
        """What a function calls, as far as it is followed, without what has no body here."""
        for callee in sorted(self.calls.get(name, ())):
            if callee == INDIRECT:
                wanted = FOLLOWED.get(plain(name), ())
                yield from (target for target in self.frames if plain(target) in wanted)
            elif callee in self.frames and plain(callee) not in LAST_WORDS:
                yield callee

    def strays(self, roots):
        """Callers through pointers, within reach, of which nobody has said where they go."""
        seen, waiting = set(), list(roots)
        while waiting:
            name = waiting.pop()
            if name not in seen:
                seen.add(name)
                waiting += self.callees(name)
        return sorted(name for name in seen if INDIRECT in self.calls.get(name, ())
                      and plain(name) not in {*FOLLOWED, *BELOW, *NOT_FOLLOWED})

    def deepest(self, root):
        """(bytes, chain) below a function; a function on the chain is not entered again."""
        found, on_chain = {}, set()

        def walk(name):
            if name not in found:
                on_chain.add(name)
                below = [walk(callee) for callee in self.callees(name) if callee not in on_chain]
                on_chain.remove(name)
                size, chain = max(below, default=(0, []), key=lambda result: result[0])
                found[name] = self.frames[name] + size, [name, *chain]
            return found[name]

        return walk(root)


def plain(name):
    return name.rpartition(":")[2]


def graph_of(tree, flavour):
    graph, folder = Graph(), Path(tempfile.mkdtemp(prefix="primalloc-stack-"))

    def compile_one(path):
        target = folder / (path.replace("/", "-") + ".o")
        tree.run("gcc", *OPTIONS, *FLAVOURS[flavour], "-c", path, "-o", target)
        return target.with_suffix(".ci").read_text()

    try:
        sources = [path for path in tree.files("src", suffixes={".c"})]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            for text in pool.map(compile_one, sources):
                graph.read(text)
    finally:
        shutil.rmtree(folder)
    return graph


def check(tree):
    problems, words = [], []
    for flavour in FLAVOURS:
        graph = graph_of(tree, flavour)
        roots = [root for root in ROOTS if root in graph.frames]
        results = [graph.deepest(root) for root in roots]
        problems += [f"{flavour}: {name} calls through a pointer; say where in tools/check/stack.py"
                     for name in graph.strays(roots)]
        problems += [f"{flavour}: {name} takes stack by a number known at run time only"
                     for name in sorted(graph.dynamic)]
        for root, (size, chain) in zip(roots, results):
            if size > BYTES_MOST:
                steps = " > ".join(f"{plain(name)} {graph.frames[name]}" for name in chain)
                problems.append(f"{flavour}: {root} takes {size} bytes of stack: {steps}")
        if not roots:
            problems.append("none of malloc's family is defined in src/")
        words.append(f"{flavour} {max((size for size, _ in results), default=0)}")
    return Outcome(f"bytes below {', '.join(ROOTS[:3])}: {', '.join(words)}", problems)
