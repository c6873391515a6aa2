"""What tools/docs writes from the tables is in the tree as it would write it now."""

from house.documents import render_all
from house.report import Outcome


def check(tree):
    problems = []
    documents = render_all(tree)
    for path, text in documents.items():
        if not tree.exists(path):
            problems.append(f"{path}: is missing; `make docs` writes it")
        elif tree.read(path) != text:
            problems.append(f"{path}: is out of date; `make docs` writes it anew")
    return Outcome(f"{len(documents)} documents", problems)
