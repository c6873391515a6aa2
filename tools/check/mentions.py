"""Documents, comments and memcheck's suppressions name only what is there: files, functions,
options, sections."""

import fnmatch
import os
import re

from house import markdown, tables
from house.report import Outcome
from house.source import c_comments, without_c_comments
from house.tree import C_SUFFIXES

SOURCE_SUFFIXES = {".c", ".h", ".hpp", ".cc", ".cpp", ".def", ".rs", ".py", ".md", ".toml", ".txt",
                   ".sh", ".json", ".cmake", ".in"}
PATH = re.compile(r"[\w.\-*]+(/[\w.\-*]+)*/?$")
CALL = re.compile(r"([A-Za-z_]\w*)\(\)?$")
IDENTIFIER = re.compile(r"(?=.*[a-z])[a-z]\w*_\w*$|PRIM(ALLOC)?_[A-Z]\w*$")
CONSTANT = re.compile(r"[A-Z][A-Z0-9]*_[A-Z0-9_]*$")  # of the code where decisions name one
WORD = re.compile(r"[A-Za-z_]\w*")
FRAME = re.compile(r"\s*fun:([A-Za-z]\w*)$")  # of a suppression; the loader's begin with _
FILE_NAME = re.compile(r"[\w\-]+\.[a-z0-9.]+")
PLACEHOLDER = re.compile(r"(^|/)(DIR|FILE|NAME|PATH|PREFIX|PROGRAM|RULE)([/.]|$)")

# Names of the world outside that documents and comments may speak of.
OUTSIDE = {
    "vm.overcommit_memory", "max_map_count", "perf_event_open", "smaps_rollup", "std_pmr",
    "x86_64", "new_handler", "bad_alloc", "get_new_handler", "clock_gettime", "pthread_create",
    "pthread_exit", "dl_iterate_phdr", "sched_getcpu", "cpu_id", "fork", "vfork", "dlopen",
    "dlclose", "dlsym", "mmap", "munmap", "madvise", "mremap", "mprotect", "abort", "exit", "_exit",
    "main", "pthread_atfork", "pthread_key_create", "sigaltstack", "getenv", "setenv",
    "MADV_COLLAPSE", "MADV_POPULATE_WRITE",
}


class Names:
    """Everything that a document may name."""

    def __init__(self, tree):
        self.tree = tree
        self.paths = set(tree.files())
        self.folders = {folder for path in self.paths for folder in self._parents(path)}
        self.layers = tree.read("src/LAYERS").split() if tree.exists("src/LAYERS") else []
        self.words = set(OUTSIDE)
        self.written_files = set()  # names of files that a program of the project writes or reads
        for path in self.paths:
            if self._is_source(path):
                code = self._code(path)
                self.words.update(WORD.findall(code))
                self.written_files.update(FILE_NAME.findall(code))
        if tree.exists(tables.OPTIONS):
            self.words.update(f"PRIMALLOC_{option['name'].upper()}"
                              for option in tables.options(tree))

    @staticmethod
    def _is_source(path):
        name = os.path.basename(path)
        return (name == "CMakeLists.txt" or "." not in name
                or os.path.splitext(name)[1] in SOURCE_SUFFIXES - {".md", ".txt"})

    def _code(self, path):
        text = self.tree.read(path)
        is_c = os.path.splitext(path)[1] in C_SUFFIXES | {".def"}
        return without_c_comments(text) if is_c else text

    @staticmethod
    def _parents(path):
        while "/" in path:
            path = path.rsplit("/", 1)[0]
            yield path

    def has_path(self, name, where):
        """Whether a file or folder of this name is there: from the root, from the document's own
        folder, below src/, or, for a bare file name, anywhere."""
        name = name.rstrip("/")
        candidates = [name, os.path.normpath(os.path.join(os.path.dirname(where), name)),
                      f"src/{name}"]
        for candidate in candidates:
            if candidate in self.paths or candidate in self.folders:
                return True
            if "*" in candidate and fnmatch.filter(self.paths, candidate):
                return True
        return "/" not in name and (name in self.written_files or any(
            fnmatch.fnmatch(os.path.basename(path), name) for path in self.paths))

    def looks_like_path(self, name):
        if not PATH.match(name) or PLACEHOLDER.search(name) or name.startswith("build"):
            return False
        first = name.split("/")[0]
        if "/" in name:
            return first in self.layers or self.tree.exists(first) or \
                os.path.splitext(name)[1] in SOURCE_SUFFIXES
        return os.path.splitext(name)[1] in SOURCE_SUFFIXES

    def missing(self, span, where):
        """Why a code span names something that is not there, or None."""
        if self.looks_like_path(span):
            return None if self.has_path(span, where) else f"there is no file `{span}`"
        call = CALL.match(span)
        is_constant = CONSTANT.match(span) and where.startswith("docs/decisions/")
        name = call.group(1) if call else span if IDENTIFIER.match(span) or is_constant else None
        if name and name not in self.words:
            return f"`{name}` occurs nowhere in the source"
        return None


def broken_link(names, where, target):
    """Why a link leads nowhere, or None. Links out of the tree are left alone."""
    if re.match(r"[a-z]+:", target):
        return None
    path, _, anchor = target.partition("#")
    full = os.path.normpath(os.path.join(os.path.dirname(where), path)) if path else where
    if full not in names.paths and full not in names.folders:
        return f"the link to {target} leads nowhere"
    if anchor and full.endswith(".md") and anchor not in markdown.anchors(names.tree.read(full)):
        return f"{full} has no heading for #{anchor}"
    return None


def check(tree):
    names = Names(tree)
    documents = [path for path in tree.files(suffixes={".md"}) if path != "CHANGELOG.md"]
    problems, spans, links = [], 0, 0
    for path in documents:
        text = tree.read(path)
        for line, span in markdown.code_spans(text):
            spans += 1
            reason = names.missing(span, path)
            problems += [f"{path}:{line}: {reason}"] if reason else []
        for line, target in markdown.links(text):
            links += 1
            reason = broken_link(names, path, target)
            problems += [f"{path}:{line}: {reason}"] if reason else []
    for path in tree.files("src", "include", suffixes={".c", ".h", ".def", ".hpp"}):
        for line, comment in c_comments(tree.read(path)):
            for span in re.findall(r"`([^`\n]+)`", comment):
                spans += 1
                reason = names.missing(span, path)
                problems += [f"{path}:{line}: {reason}"] if reason else []
    for path in tree.files(suffixes={".supp"}):
        for line, text in enumerate(tree.read(path).splitlines(), 1):
            frame = FRAME.match(text)
            spans += frame is not None
            if frame and frame[1] not in names.words:
                problems.append(f"{path}:{line}: `{frame[1]}` occurs nowhere in the source")
    return Outcome(f"{len(documents)} documents, {spans} names, {links} links", problems)
