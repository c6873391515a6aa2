"""What tools/docs writes from the tables and from the public header is in the tree as it would
write it now, and the header tells of each symbol what docs/reference has to say."""

from house.documents import render_all
from house.reference import HEADER, problems_of
from house.report import Outcome


def check(tree):
    problems = []
    documents = render_all(tree)
    for path, text in documents.items():
        if not tree.exists(path):
            problems.append(f"{path}: is missing; `make docs` writes it")
        elif tree.read(path) != text:
            problems.append(f"{path}: is out of date; `make docs` writes it anew")
    problems += problems_of(tree) if tree.exists(HEADER) else []
    return Outcome(f"{len(documents)} documents", problems)
