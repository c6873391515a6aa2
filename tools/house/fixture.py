"""Small trees that stand in for the project, so that a rule can be seen to fail."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable, Optional

from house.tree import Tree


@dataclass
class Case:
    """One tree and what a rule must say of it: a piece of one of its problems, or None when it must
    have no complaint. `prepare` builds what the rule looks at beside the files."""

    name: str
    expected: Optional[str]
    files: dict = field(default_factory=dict)
    prepare: Optional[Callable] = None


def plant(folder, case):
    """Writes the files of a case below the folder and returns them as a tree."""
    for relative, text in case.files.items():
        path = Path(folder) / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        if text.startswith("#!"):
            path.chmod(0o755)
    tree = Tree(folder)
    if case.prepare:
        case.prepare(tree)
    return tree


def judge(case, problems):
    """Why a rule's answer is wrong for this case, or None."""
    if case.expected is None:
        return f"complains of a good tree: {problems[0]}" if problems else None
    if not problems:
        return "has no complaint of a bad tree"
    if not any(case.expected in problem for problem in problems):
        return f"expected '{case.expected}', found: {problems[0]}"
    return None
