"""Trees for the rule on traps."""

from house.fixture import Case

TABLE = "".join(f'TRAP({number}, "breaks things")\n' for number in range(1, 59))
C_TESTS = "".join(f"static void test_t{number:02}_is_mended(void **state) {{}}\n"
                  f"RUN(test_t{number:02}_is_mended)\n" for number in range(1, 58))
PYTHON_TEST = ("@pytest.mark.prove\n@pytest.mark.parametrize('a', [1,\n    2])\n"
               "def test_t58_is_small(a):\n    pass\n")
GOOD = {"tests/traps/traps.def": TABLE, "tests/api/test_all.c": C_TESTS,
        "tests/traps/test_all.py": PYTHON_TEST}

CASES = [
    Case("a test for each", None, GOOD),
    Case("a trap without a test", "T58 has no test", GOOD | {"tests/traps/test_all.py": ""}),
    Case("a C test that is not run", "T07 has no test", GOOD | {
        "tests/api/test_all.c": C_TESTS.replace("RUN(test_t07_is_mended)\n", "")}),
    Case("a trap that is not in the table", "T58 is missing", {
        "tests/traps/traps.def": TABLE.replace('TRAP(58, "breaks things")\n', "")}),
    Case("a test of no trap", "there is no trap of this number",
         GOOD | {"tests/traps/test_more.py": "def test_t59_new():\n    pass\n"}),
]
