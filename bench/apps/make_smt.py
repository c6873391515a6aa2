"""Writes a problem for an SMT solver: make_smt.py OUTPUT [HOLES].

The pigeonhole principle in Boolean form (one pigeon more than holes, no two in one hole) beside a
system of difference constraints with a cycle that cannot be satisfied: both parts are refuted.
"""

import sys


def pigeons(holes):
    lines = [f"(declare-const p{p}_{h} Bool)" for p in range(holes + 1) for h in range(holes)]
    for p in range(holes + 1):
        lines.append("(assert (or " + " ".join(f"p{p}_{h}" for h in range(holes)) + "))")
    for h in range(holes):
        for p in range(holes + 1):
            lines += [f"(assert (or (not p{p}_{h}) (not p{q}_{h})))" for q in range(p)]
    return lines


def differences(count):
    lines = [f"(declare-const x{i} Int)" for i in range(count)]
    for i in range(count):
        near, far = (i + 1) % count, (i * 7 + 3) % count
        lines.append(f"(assert (or (< x{i} x{near}) (< (+ x{i} {i % 5}) x{far})))")
        lines.append(f"(assert (=> (< x{i} x{far}) (> (* 2 x{near}) (+ x{i} x{far}))))")
    return lines


def main():
    output, *rest = sys.argv[1:]
    holes = int(rest[0]) if rest else 8
    with open(output, "w", encoding="ascii") as file:
        file.write("\n".join(["(push)", *pigeons(holes), "(check-sat)", "(pop)",
                              "(push)", *differences(60), "(check-sat)", "(pop)"]) + "\n")


main()
