#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""bench/digits_runs.py: examples/digits on the host device, run after run: how much less time a
replayed step takes than an eager one, by the medians of each run.

usage: digits_runs.py DIGITS [runs] [file to append JSON lines to]
DIGITS: the program, build/release/bin/digits. Run from the folder of the source. A ratio is of the
replayed step to the eager one; the aim is at most 1 / 1.2 in each run.
"""
import json
import re
import statistics
import subprocess
import sys
import tempfile

LIMIT = 1 / 1.2
MEDIANS = re.compile(r"time per step, median\s+([\d.]+) (us|ms)\s+([\d.]+) (us|ms)")
UNITS = {"us": 1.0, "ms": 1e3}


def run(program, folder):
    """The medians of a step in us: eager, replayed."""
    done = subprocess.run([program, "--device", "host", "--report", folder + "/report.html"],
                          text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    found = MEDIANS.search(done.stdout)
    if done.returncode or not found:
        sys.exit(f"digits_runs: {program} ended with {done.returncode}:\n{done.stdout[-2000:]}")
    eager, eager_unit, replayed, replayed_unit = found.groups()
    return float(eager) * UNITS[eager_unit], float(replayed) * UNITS[replayed_unit]


def main():
    if not 2 <= len(sys.argv) <= 4:
        sys.exit(__doc__)
    runs = int(sys.argv[2]) if len(sys.argv) > 2 else 30
    pairs = []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(runs):
            pairs.append(run(sys.argv[1], folder))
            eager, replayed = pairs[-1]
            print(f"run {number + 1}: eager {eager:.1f} us, replayed {replayed:.1f} us: "
                  f"{eager / replayed:.2f}", flush=True)
    ratios = sorted(replayed / eager for eager, replayed in pairs)
    missed = sum(ratio > LIMIT for ratio in ratios)
    print(f"of {runs} runs: middle {1 / statistics.median(ratios):.2f}, worst {1 / ratios[-1]:.2f}, "
          f"{missed} below 1.2")
    if len(sys.argv) > 3:
        with open(sys.argv[3], "a", encoding="utf-8") as out:
            for what, ratio in (("middle", statistics.median(ratios)), ("worst", ratios[-1])):
                out.write(json.dumps({"bench": "digits_runs", "what": f"digits: the {what} run",
                                      "side": "phonograph", "runs": runs,
                                      "ratio": round(ratio, 3), "limit": 0.833}) + "\n")


if __name__ == "__main__":
    main()
