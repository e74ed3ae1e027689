#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares the benchmarks of this tree with those of another one, an older commit's say, in one run.

usage: bench/against.py OTHER_TREE NAME[,NAME...] [--turns N] [--rounds N] [--device host|cuda]

Builds the GPU's benchmarks, and those of libphonograph_nn, of both trees in release mode, and runs
them in turn, N times each. Of benchmarks that write JSON lines, prints for each line of the
library's own side the median, least and most over the turns, of both trees, and the ratio of the
medians: below 1 this tree is faster. A line that only one tree has is left out, and counted.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent.parent
FIGURES = ("ns", "cpu_ns", "whole_ns")


def build(tree, names):
    """The programs, built where ./build.sh puts them."""
    targets = ["bench_" + name for name in names]
    for command in (["cmake", "--preset", "release", "-DPH_BENCH_GPU=ON"],
                    ["cmake", "--build", "--preset", "release", "--target", *targets]):
        done = subprocess.run(command, cwd=tree, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, check=False)
        if done.returncode:
            sys.exit(f"against: {' '.join(command)} failed in {tree}:\n{done.stdout[-4000:]}")
    return {name: tree / "build" / "release" / "bench" / ("bench_" + name) for name in names}


def run(program, rounds, device):
    """What one run measured: (what, nodes, side, figure) -> nanoseconds."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "lines"
        environment = dict(os.environ, PH_BENCH_DEVICE=device)
        subprocess.run([program, str(rounds), str(path)], env=environment, check=False,
                       stdout=subprocess.DEVNULL)
        lines = [json.loads(line) for line in path.read_text().splitlines()]
    found = {}
    for line in lines:
        for figure in FIGURES:
            if figure in line:
                key = (line.get("what"), line.get("nodes"), line.get("side"), figure)
                found[key] = line[figure]
    return found


def medians(runs):
    """The median of each key that every run has."""
    keys = set(runs[0]).intersection(*runs[1:])
    return {key: statistics.median(one[key] for one in runs) for key in keys}


def own_sides(name, runs):
    """The first side of each comparison is the library's; in the benchmarks of modules all are."""
    seen, own = set(), set()
    for what, nodes, side, _ in runs[0]:
        if (what, nodes) not in seen or name.startswith("nn_"):
            seen.add((what, nodes))
            own.add((what, nodes, side))
    return own


def spread(median, runs, key):
    """The median over the turns, the least and the most of them."""
    values = [run[key] for run in runs]
    return " ".join(f"{value / 1e3:10.3f}" for value in (median[key], min(values), max(values)))


def compare(name, mine, theirs, turns, rounds, device):
    here, there = [], []
    for turn in range(turns):
        pair = [(here, mine), (there, theirs)]
        for kept, program in pair if turn % 2 == 0 else reversed(pair):
            kept.append(run(program, rounds, device))
    own, a, b = own_sides(name, here), medians(here), medians(there)
    print(f"\n{name} on {device}, {turns} turns of {rounds} rounds; microseconds")
    print(f"{'what':52} {'nodes':>6} {'figure':>9} {'here':>10} {'least':>10} {'most':>10} "
          f"{'other':>10} {'least':>10} {'most':>10} {'ratio':>6}")
    for key in here[0]:
        what, nodes, side, figure = key
        if (what, nodes, side) in own and key in a and key in b and b[key] > 0:
            print(f"{what + ', ' + side:52.52} {nodes or '':>6} {figure:>9} {spread(a, here, key)} "
                  f"{spread(b, there, key)} {a[key] / b[key]:6.3f}")
    alone = len(set(a) ^ set(b))
    if alone:
        print(f"({alone} lines are of one tree alone)")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("other", type=pathlib.Path)
    parser.add_argument("names")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=101)
    parser.add_argument("--device", choices=("host", "cuda"), default="cuda")
    args = parser.parse_args()
    names = args.names.split(",")
    mine, theirs = build(HERE, names), build(args.other.resolve(), names)
    for name in names:
        compare(name, mine[name], theirs[name], args.turns, args.rounds, args.device)
    return 0


if __name__ == "__main__":
    sys.exit(main())
