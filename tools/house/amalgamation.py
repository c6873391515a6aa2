"""One C file out of all of src/, for programs that compile an allocator, not install one."""

import re
from pathlib import Path

from house.source import c_functions, matching_brace, strip_c, strip_directives, without_c_comments

FILE, HEADER = "primalloc.c", "primalloc.h"
OWN_INCLUDE = re.compile(r'^#include "([^"]+)"[^\n]*\n', re.MULTILINE)
SYSTEM_INCLUDE = re.compile(r"^#include (<[^>]+>)[^\n]*\n", re.MULTILINE)
GUARD = re.compile(r"#ifndef (PRIM_\w+_H)\n#define \1\n")
WORD = re.compile(r"(?<![\w.])(?<!->)[A-Za-z_]\w*")
MEMBER = re.compile(r"\w+(?=\s*(?:\[[^\]]*\])*\s*[;,:])")
KEYWORD = re.compile(r"enum|struct|union|void|static|const|sizeof|_[A-Z]\w*|ElfW")
MACRO_CALL = re.compile(r"^[A-Z]{2}[A-Z_]*\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)",
                        re.MULTILINE)
# Weak so that a shared library works without threads; here they bring libc's objects along.
CXX_OPERATOR = re.compile(r"_Z(n[wa]|d[la])")
WEAK_THREADS = re.compile(r"^#pragma weak pthread_\w+\n", re.MULTILINE)

PROLOGUE = """\
/* primalloc.c - primalloc @VERSION@, all of its source in one file, written by tools/amalgamate.
 *
 *     cc -O2 -c primalloc.c                          prim_malloc and all that primalloc.h declares
 *     cc -O2 -c -DPRIMALLOC_OVERRIDE=1 primalloc.c   malloc, free, operator new and so on as well
 *
 * Link the program with -pthread. No other flag is needed; the names that this file defines all
 * begin with prim_, but for those that it overrides.
 *
@LICENSE@ */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#ifndef PRIMALLOC_OVERRIDE
#define PRIMALLOC_OVERRIDE 0
#endif
#pragma GCC diagnostic push /* of programs that warn of what gcc and clang let through */
#pragma GCC diagnostic ignored "-Wpedantic"
#pragma GCC diagnostic ignored "-Wshadow"

@INCLUDES@
#include "primalloc.h"

/* clang knows these too. Functions that old C libraries lack are compared with NULL. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Waddress"
#ifdef __clang__
#pragma GCC diagnostic ignored "-Wpointer-bool-conversion"
#endif

/* Names that several of the files share must clash with none of the program's. */
@RENAMES@
#if PRIMALLOC_OVERRIDE /* The program may have operators of its own. */
@OPERATORS@#endif
"""
EPILOGUE = "\n#pragma GCC diagnostic pop\n"


def without_bodies(code):
    """Stripped C text with what braces hold left out."""
    depth, kept = 0, []
    for character in code:
        depth -= character == "}"
        if depth == 0:
            kept.append(character)
        depth += character == "{"
    return "".join(kept)


def file_scope_names(text):
    """What a C file defines outside functions: functions, variables, types, constants, macros.
    A name too many does no harm."""
    code = strip_directives(strip_c(text))
    names = {name for name, _, _ in c_functions(text)}
    names |= set(re.findall(r"\b(?:struct|union|enum)\s+(\w+)\s*\{", code))
    for body in re.findall(r"\benum\b[^{};()]*\{([^{}]*)\}", code):
        names |= set(re.findall(r"(?:^|,)\s*(\w+)", body))
    for statement in re.split(r"[;}]", MACRO_CALL.sub("", without_bodies(code))):
        declared = re.sub(r"__attribute__\s*\(\(.*\)\)|\s=.*", " ", statement, flags=re.DOTALL)
        if declared.strip():
            names |= set(re.findall(r"(\w+)\s*(?:\[[^=]*\]|\([^()]*\))?\s*(?:\{)?\s*$", declared))
            names |= set(re.findall(r"(\w+)\s*\(", declared))
    return {name for name in names if not KEYWORD.fullmatch(name)}


def shared_names(header):
    """Functions and variables that a header of ours declares for another file to define."""
    code = without_bodies(strip_directives(strip_c(header)))
    names = set()
    for statement in re.split(r"[;}]", code):
        bare = re.sub(r"__attribute__\s*\(\(.*?\)\)|\{", " ", statement, flags=re.DOTALL)
        if re.search(r"\b(PRIM_INLINE|static|typedef)\b", bare):
            continue
        function = re.search(r"\w[\w\s*]*?\b(\w+)\s*\([^{}]*\)\s*$", bare)
        variable = re.search(r"\bextern\b.*?(\w+)\s*(?:\[[^\]]*\])*\s*$", bare, re.DOTALL)
        names |= {match.group(1) for match in (function or variable,) if match}
    return names


def member_places(code):
    """Where the members of structures are declared."""
    places = set()
    for match in re.finditer(r"\b(?:struct|union)\b[\w\s]*\{", code):
        end = matching_brace(code, match.end() - 1)
        places |= {member.start() for member in MEMBER.finditer(code, match.end(), end)}
    return places


def replace_words(text, renamed):
    """The text with words renamed where they are neither members nor in strings and comments."""
    code, pieces, end = strip_c(text), [], 0
    members = member_places(code)
    for match in WORD.finditer(code):
        if match.group(0) in renamed and match.start() not in members:
            pieces += [text[end:match.start()], renamed[match.group(0)]]
            end = match.end()
    return "".join(pieces) + text[end:]


class Amalgamation:
    def __init__(self, tree):
        self.tree = tree
        layers = tree.read("src/LAYERS").split()
        self.sources = [path for layer in layers
                        for path in tree.files(f"src/{layer}", suffixes={".c"})
                        if Path(path).name not in ("start_main.c", "start_dlopen.c", "unwatched.c")]
        self.headers = [path for layer in layers
                        for path in tree.files(f"src/{layer}", suffixes={".h", ".def"})]
        self.names = {path: file_scope_names(tree.read(path))
                      for path in self.sources + self.headers if not path.endswith(".def")}
        self.system, self.included, self.exported = {}, set(), set()

    def own(self, path):
        """The text of a file of ours without its includes of the system's headers."""
        text = self.tree.read(path)
        for header in SYSTEM_INCLUDE.findall(without_c_comments(text)):
            self.system[header] = True
        return WEAK_THREADS.sub("", SYSTEM_INCLUDE.sub("", text))

    def include(self, match):
        path = f"src/{match.group(1)}"
        if match.group(1) == HEADER or path in self.included:
            return ""
        text = self.own(path)
        if path.endswith(".def"):
            return OWN_INCLUDE.sub(self.include, text)
        self.included.add(path)
        guard = GUARD.search(text)
        text = text[:guard.start()] + text[guard.end():text.rindex("#endif")]
        text = OWN_INCLUDE.sub(self.include, text)
        if shared_names(text) & self.exported:
            return text
        return (f"#pragma GCC visibility push(hidden)\n{text.strip()}\n"
                "#pragma GCC visibility pop\n")

    def source(self, path):
        """One file, its private names made its own, its macros gone after it."""
        text = self.own(path)
        others = set().union(*(self.names[other] for other in self.names if other != path))
        macros = sorted(set(re.findall(r"^#define (\w+)", text, re.MULTILINE))
                        - set(re.findall(r"^#ifndef (\w+)", text, re.MULTILINE)))
        private = {name for name in self.names[path] - self.common
                   if not name.startswith("__")}  # which are the linker's, or libc's
        stem = "_".join(Path(path).with_suffix("").parts[1:])
        renamed = {name: f"{stem}_c_{name}" for name in private & others}
        text = OWN_INCLUDE.sub(self.include, replace_words(text, renamed))
        text += "".join(f"#undef {name}\n" for name in macros)
        if Path(path).name.startswith("standard_"):
            text = f"#if PRIMALLOC_OVERRIDE\n{text}#endif\n"
        elif Path(path).name == "prim.c":
            text = f"#if !PRIMALLOC_OVERRIDE\n{text}#endif\n"
        return f"\n/* {'-' * 20} {path} {'-' * 20} */\n\n{text}"

    def text(self, exported):
        self.exported = exported
        self.shared = set().union(*(shared_names(self.tree.read(path)) for path in self.headers
                                    if path.endswith(".h"))) - exported
        # What a header names and does not define is one structure in every file.
        code = " ".join(strip_c(self.tree.read(path)) for path in self.headers
                        if path.endswith(".h"))
        structure = r"\b(?:struct|union)\s+(\w+)"
        named = (set(re.findall(structure, code))
                 - set(re.findall(structure + r"\s*\{", code)))
        self.common = self.shared | exported | named
        # All headers come first: a source file may include some of them conditionally.
        body = "".join(OWN_INCLUDE.sub(self.include, f'#include "{path[len("src/"):]}"\n')
                       for path in self.headers if path.endswith(".h"))
        body += "".join(self.source(path) for path in self.sources)
        license_text = "".join(f" * {line}".rstrip() + "\n"
                               for line in self.tree.read("LICENSE").strip().splitlines())
        parts = {
            "VERSION": self.tree.read("VERSION").strip(),
            "LICENSE": license_text.rstrip("\n"),
            "INCLUDES": "".join(f"#include {name}\n" for name in sorted(self.system)),
            "RENAMES": "".join(f"#define {name} prim_internal_{name}\n"
                               for name in sorted(self.shared)),
            "OPERATORS": "".join(f"#pragma weak {name}\n" for name in sorted(exported)
                                 if CXX_OPERATOR.match(name)),
        }
        prologue = re.sub(r"@(\w+)@", lambda match: parts[match.group(1)], PROLOGUE)
        undefine = "".join(f"#undef {name}\n" for name in sorted(self.shared))
        text = prologue + body + EPILOGUE + undefine + "#pragma GCC diagnostic pop\n"
        return re.sub(r"\n{3,}", "\n\n", text)
