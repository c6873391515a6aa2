"""Small libraries for the rule on what a release promised."""

from house.fixture import Case

SOURCE = "void *prim_malloc(unsigned long n) { return (void *)n; }\nvoid extra(void) {}\n"
GOLDEN = "soname libprimalloc.so.0\nprim_malloc@PRIMALLOC_0.1\n"
README = "It has 13 KiB stripped.\n"


def build(soname="libprimalloc.so.0", version="PRIMALLOC_0.1", bytes_more=0):
    def prepare(tree):
        library = tree.build / "lib" / "libprimalloc.so"
        library.parent.mkdir(parents=True)
        tree.path("map").write_text(f"{version} {{ prim_*; }};\n")
        tree.path("more.c").write_text(f"char extra_bytes[{bytes_more} + 1] = {{1}};\n")
        tree.run("gcc", "-shared", "-fPIC", "-o", library, "all.c", "more.c",
                 f"-Wl,-soname,{soname}", "-Wl,--version-script=map")
    return prepare


def files(golden=GOLDEN, readme=README):
    return {"all.c": SOURCE, "tests/golden/abi.txt": golden, "README.md": readme}


CASES = [
    Case("as promised", None, files(), build()),
    Case("another soname", "soname libprimalloc.so.0 of tests/golden/abi.txt is gone", files(),
         build(soname="libprimalloc.so.1")),
    Case("another version", "prim_malloc@PRIMALLOC_0.1 of tests/golden/abi.txt is gone", files(),
         build(version="PRIMALLOC_0.2")),
    Case("a symbol gone", "prim_free@PRIMALLOC_0.1 of tests/golden/abi.txt is gone",
         files(golden=GOLDEN + "prim_free@PRIMALLOC_0.1\n"), build()),
    Case("too large", "204800 allowed", files(), build(bytes_more=220000)),
    Case("no size told", "tells no size", files(readme=""), build()),
    Case("another size told", "tells 90 KiB", files(readme="90 KiB stripped\n"), build()),
]
