"""Trees for the rule on layers."""

from house.fixture import Case

LAYERS = {"src/LAYERS": "base\nos\n", "src/base/bits.h": "", "src/os/memory.h": ""}

CASES = [
    Case("a lower layer", None,
         LAYERS | {"src/os/memory.c": '#include "os/memory.h"\n#include "base/bits.h"\n'}),
    Case("a public header", None,
         LAYERS | {"include/primalloc.h": "", "src/base/bits.c": '#include "primalloc.h"\n'}),
    Case("a higher layer", "above its own layer",
         LAYERS | {"src/base/bits.c": '#include "os/memory.h"\n'}),
    Case("no folder in the name", "not written",
         LAYERS | {"src/base/bits.c": '#include "bits.h"\n'}),
    Case("a missing file", "does not exist",
         LAYERS | {"src/base/bits.c": '#include "base/none.h"\n'}),
    Case("a source file", "includes the source file",
         LAYERS | {"src/base/bits.c": '#include "base/other.c"\n', "src/base/other.c": ""}),
    Case("a circle", "circle of includes",
         LAYERS | {"src/base/one.h": '#include "base/two.h"\n',
                   "src/base/two.h": '#include "base/one.h"\n'}),
    Case("a folder without a layer", "not named in src/LAYERS",
         LAYERS | {"src/extra/file.c": ""}),
    Case("a layer without a folder", "there is no folder",
         LAYERS | {"src/LAYERS": "base\nos\npages\n"}),
]
