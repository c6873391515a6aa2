"""Objects of an ordinary Python program: trees, dictionaries, lists, strings, sets.

With PYTHONMALLOC=malloc every object of the interpreter is a block of malloc.
"""

TREE_DEPTH = 13
TREES = 20
RECORDS = 100_000


class Node:
    __slots__ = ("left", "right", "weight")

    def __init__(self, left, right, weight):
        self.left = left
        self.right = right
        self.weight = weight


def tree_of(depth):
    if depth == 0:
        return Node(None, None, 1)
    left, right = tree_of(depth - 1), tree_of(depth - 1)
    return Node(left, right, left.weight + right.weight)


def tree_count(tree):
    return 1 if tree.left is None else tree_count(tree.left) + tree_count(tree.right)


def records_of(count):
    return [
        {"id": i, "name": f"record {i}", "tags": [f"tag-{i % 97}", str(i)], "score": i / 7}
        for i in range(count)
    ]


def main():
    for _ in range(TREES):
        tree = tree_of(TREE_DEPTH)
        assert tree_count(tree) == tree.weight == 2**TREE_DEPTH
    records = records_of(RECORDS)
    by_tag = {}
    for record in records:
        by_tag.setdefault(record["tags"][0], []).append(record)
    best = sorted(records, key=lambda record: (-(record["id"] % 1009), record["name"]))
    names = {record["name"].upper() for record in best[: RECORDS // 2]}
    text = ",".join(sorted(names))
    assert len(by_tag) == 97 and len(text.split(",")) == RECORDS // 2
    print(len(by_tag), best[0]["name"], len(text))


main()
