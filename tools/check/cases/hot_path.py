"""A small allocator for the rule on the hot path: one free list of blocks of one size."""

import json
import platform

from house.fixture import Case

SOURCE = r"""
static void *head;
static char room[1 << 20];
static unsigned long used;
static void *carve(unsigned long n) { used += 262144; return room + used - 262144; }
void *malloc(unsigned long n) {
    void *block = head;
    if (__builtin_expect(!block, 0)) return carve(n);
    EXTRA
    head = *(void **)block;
    return block;
}
void free(void *block) {
    if (__builtin_expect(!block, 0)) return;
    *(void **)block = head;
    head = block;
}
void *realloc(void *block, unsigned long n) { return block; }
unsigned long malloc_usable_size(void *block) { return 262144; }
void *_Znwm(unsigned long n) { return malloc(n); }
void _ZdlPv(void *block) { free(block); }
void _ZdlPvm(void *block, unsigned long n) { free(block); }
"""
SLOW = 'for (volatile int i = 0; i < 9; i++) {}'


def build(golden_is_kept):
    """Builds the library and writes its own counts as golden; then perhaps makes it slower."""
    def prepare(tree):
        import hot_path
        compile_library(tree, "")
        hot_path.update(tree, quiet=True)
        if not golden_is_kept:
            compile_library(tree, SLOW)
    return prepare


def compile_library(tree, extra):
    (tree.build / "lib").mkdir(parents=True, exist_ok=True)
    tree.path("allocator.c").write_text(SOURCE.replace("EXTRA", extra))
    tree.run("gcc", "-shared", "-fPIC", "-O2", "-fno-builtin", "-fcf-protection=none", "-o",
             tree.build / "lib/libprimalloc.so", "allocator.c")


def without_golden(tree):
    compile_library(tree, "")
    tree.path("tests/golden").mkdir(parents=True)
    tree.path("tests/golden/hot_path.json").write_text(json.dumps({"pdp11": {}}))


CASES = [
    Case("as counted before", None, prepare=build(True)),
    Case("another count", "the golden count is", prepare=build(False)),
    Case("too many", "28 allowed", prepare=build(False)),
    Case("nothing to compare with", f"nothing for {platform.machine()}", prepare=without_golden),
]
