"""Trees for the rule on words."""

from house.fixture import Case

CASES = [
    Case("plain words", None,
         {"a.c": "/* mktemp wants XXXXXX; AID; a session of the server. */\n"}),
    Case("something left for later", "a.c:2", {"a.c": "\n/* TO" "DO: later */\n"}),
    Case("something known to be wrong", "mend it", {"src/a.h": "// FIX" "ME\n"}),
    Case("a tool that wrote it", "the project only", {"README.md": "By an assis" "tant.\n"}),
    Case("a number of a tracker", "say what it is about", {"a.md": "See issue" " #7.\n"}),
]
