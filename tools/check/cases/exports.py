"""Small libraries for the rule on exported symbols."""

from house.fixture import Case

TABLE = 'EXPORT(malloc, C, "C11")\nEXPORT(prim_malloc, PRIM, "C11")\n'
PRIMALLOC = "void *prim_malloc(unsigned long n) { return (void *)n; }\n"
MALLOC = "void *malloc(unsigned long n) { return (void *)n; }\n"
FLAGS = ["-fPIC", "-O1", "-fno-builtin", "-nostartfiles", "-fvisibility=default"]


def files(extra="", prefixed_extra="", table=TABLE):
    return {"src/api/exports.def": table, "all.c": PRIMALLOC + MALLOC + extra,
            "prefixed.c": PRIMALLOC + prefixed_extra}


def build(*options):
    def prepare(tree):
        library = tree.build / "lib"
        library.mkdir(parents=True)
        for source in ("all", "prefixed"):
            tree.run("gcc", *FLAGS, "-c", f"{source}.c", "-o", f"{source}.o")
        tree.run("gcc", *FLAGS, "-shared", "-o", library / "libprimalloc.so", "all.o",
                 "-Wl,--no-as-needed", *options)
        tree.run("ar", "rcs", library / "libprimalloc.a", "all.o")
        tree.run("ar", "rcs", library / "libprimalloc_prefixed.a", "prefixed.o")
    return prepare


CASES = [
    Case("as listed", None, files(), build()),
    Case("one too many", "exports helper", files("void helper(void) {}\n"), build()),
    Case("one too few", "does not export free",
         files(table=TABLE + 'EXPORT(free, C, "")\n'), build()),
    Case("a clash in a static link", "helper can clash",
         files("__attribute__((visibility(\"hidden\"))) void helper(void) {}\n"), build()),
    Case("libc's name in the prefixed archive", "libprimalloc_prefixed.a: the global symbol free",
         files(prefixed_extra="void free(void *p) { (void)p; }\n"), build()),
    Case("another library", "needs the library libm.so.6", files(), build("-lm")),
    Case("an unknown symbol", "needs elsewhere, which libc does not have",
         files("void elsewhere(void);\nvoid *prim_use(void) { elsewhere(); return 0; }\n",
               table=TABLE + 'EXPORT(prim_use, PRIM, "")\n'), build()),
    Case("too new a libc", "GLIBC_2.28 is the newest allowed",
         files("int gettid(void);\nvoid *prim_use(void) { return (void *)(long)gettid(); }\n",
               table=TABLE + 'EXPORT(prim_use, PRIM, "")\n'), build()),
    Case("much static TLS", "24 bytes of static TLS",
         files("static __thread long cache[3];\nvoid *prim_use(void) { return cache; }\n",
               table=TABLE + 'EXPORT(prim_use, PRIM, "")\n'), build()),
]
