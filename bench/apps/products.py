#!/usr/bin/env python3
"""Products of two square matrices by numpy's OpenBLAS, a fresh result each time.

    products.py [SIDE] [TURNS] [RESULTS]

In each turn so many results (1) come to be, and all are dropped before the next. The first turns
warm up: code, work areas and threads of the library come to be. Of the further ones the minor page
faults of the whole process are counted.
"""

import resource
import sys
import time

import numpy as np

WARM_UP = 10


def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def main():
    side = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    turns = int(sys.argv[2]) if len(sys.argv) > 2 else 30
    count = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    left = np.arange(side * side, dtype=np.float64).reshape(side, side) % 7
    right = left.T % 5
    expected = left[1] @ right[:, 2]
    for turn in range(WARM_UP + turns):
        if turn == WARM_UP:
            faults_before, cpu_before_s = faults(), time.process_time()
        results = [left @ right for _ in range(count)]
        if results[-1][1, 2] != expected:
            sys.exit("products.py: the product is wrong")
        del results
    faults_after, cpu_after_s = faults(), time.process_time()
    products = turns * count
    print(f"figure faults_per_product {(faults_after - faults_before) / products:g}")
    print(f"figure cpu_ms_per_product {(cpu_after_s - cpu_before_s) * 1e3 / products:g}")


if __name__ == "__main__":
    main()
