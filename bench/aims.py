#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Says of each aim for speed whether a run kept it, a line for each.

usage: bench/aims.py FILE [FILE...]

FILE has the JSON lines that benchmarks wrote. The last line of each measurement counts. An aim
is the most that the library's median may be: a time, or a multiple of what stands beside it in
the same run. "not in this run": no line of it is there. Ends with 0 whatever was kept: benchmarks
are not tests.
"""
import json
import pathlib
import sys

# What is said, (bench, what, nodes, side), the figure, the most; and what stands beside it, if the
# most is a multiple of that.
GPT2 = "GPT-2 step, batch 4 x "
ANY = "attention, any order, bf16"
BUCKETS = ("nn_buckets", "35 inference graphs", None)
US, MS = 1e3, 1e6


def torch_nn(what):
    return ("torch_nn", what, None, "torch graph")


def nn(what, side="graph"):
    return ("nn_kernels", what, None, side)


def gpt2(size, side="graph"):
    return ("nn_gpt2", GPT2 + size, None, side)


AIMS = [
    ("attention bf16, forward", nn(ANY), "whole_ns", 1, torch_nn(ANY)),
    ("the same, ph_set_benchmark", nn(ANY, "benchmark"), "whole_ns", 1, torch_nn(ANY)),
    ("attention bf16, forward + backward", nn(ANY + ", forward + backward"), "whole_ns", 1,
     torch_nn(ANY + ", forward + backward")),
    ("the same, ph_set_benchmark", nn(ANY + ", forward + backward", "benchmark"), "whole_ns", 1,
     torch_nn(ANY + ", forward + backward")),
    ("attention bf16, deterministic, forward", nn("attention, bf16"), "whole_ns", 1,
     torch_nn("attention, bf16")),
    ("attention bf16, deterministic, forward + backward",
     nn("attention, bf16, forward + backward"), "whole_ns", 1,
     torch_nn("attention, bf16, forward + backward")),
    ("linear bf16, forward + backward", nn("linear, bf16, forward + backward"), "whole_ns",
     105 * US, None),
    ("GPT-2 step bf16, 4 x 64", gpt2("64, bf16"), "whole_ns", 3.0 * MS, None),
    ("GPT-2 step bf16, 4 x 1024", gpt2("1024, bf16"), "whole_ns", 9.5 * MS, None),
    ("GPT-2 step TF32, 4 x 64", gpt2("64"), "whole_ns", 3.6 * MS, None),
    ("GPT-2 step TF32, 4 x 1024", gpt2("1024"), "whole_ns", 18 * MS, None),
    ("capture of 100 kernels", ("cuda_capture", "begin to end", 100, "phonograph, keep_graph"),
     "ns", 1.4, ("cuda_capture", "begin to end", 100, "the driver")),
    ("35 graphs by hand, upload deferred", (*BUCKETS, "by hand, no eager run, upload deferred"),
     "cpu_ns", 3.4 * MS, None),
    ("35 graphs as callables", (*BUCKETS, "graphed"), "cpu_ns", 10 * MS, None),
    ("35 graphs as callables, no warm-up", (*BUCKETS, "graphed, no warm-up"), "cpu_ns", 10 * MS,
     None),
    ("the same, upload deferred", (*BUCKETS, "graphed, no warm-up, upload deferred"), "cpu_ns",
     10 * MS, None),
    ("graphed forward, no gradient, host", ("nn_graphed", "forward, no grad", None, "graphed"),
     "cpu_ns", 1.5 * US, None),
    ("graphed forward, host", ("nn_graphed", "forward", None, "graphed"), "cpu_ns", 1.5 * US,
     None),
    ("graphed forward + backward, host", ("nn_graphed", "forward + backward", None, "graphed"),
     "cpu_ns", 5 * US, None),
    *((f"replay with one new address, {n} nodes", ("cuda_slots", "another address", n,
                                                   "phonograph"), "ns", 1.05,
       ("cuda_slots", "another address", n, "the driver")) for n in (1, 10, 100)),
    *((f"host device, {what}", ("torch_host", what, None, "phonograph"), "ns", 1,
       ("torch_host", what, None, "PyTorch"))
      for what in (f"one thread: {case}" for case in (
          "sum, 1024 x 1024", "sum, 4096 x 4096", "sum along rows", "sum along columns",
          "add a column", "softmax", "gelu", "embedding, 1024 of 50304 x 768"))),
    ("digits, replayed of eager, the worst run",
     ("digits_runs", "digits: the worst run", None, "phonograph"), "ratio", 1 / 1.2,
     None),
]


def read(paths):
    """(bench, what, nodes, side) -> the last line."""
    found = {}
    for path in paths:
        for text in pathlib.Path(path).read_text().splitlines():
            line = json.loads(text)
            if "what" in line and "bench" in line:
                found[line["bench"], line["what"], line.get("nodes"), line.get("side")] = line
    return found


def show(value, figure):
    if figure == "ratio":
        return f"{value:.2f}"
    for unit, size in (("ms", MS), ("us", US)):
        if value >= size:
            return f"{value / size:.4g} {unit}"
    return f"{value:.4g} ns"


def judge(found, aim):
    _, key, figure, most, beside = aim
    line, other = found.get(key), found.get(beside) if beside else None
    if not line or figure not in line or beside and (not other or figure not in other):
        return "not in this run"
    value, text = line[figure], show(line[figure], figure)
    if beside:
        value /= other[figure]
        text += f", {value:.2f} of {show(other[figure], figure)} ({beside[3]})"
    limit = f"{most:g}" if beside else show(most, figure)
    return f"{text}; at most {limit}: " + ("kept" if value <= most else "NOT KEPT")


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    try:
        found = read(sys.argv[1:])
    except (OSError, ValueError, KeyError) as error:
        sys.exit(f"aims: {error}")
    print("aims:")
    for aim in AIMS:
        print(f"  {aim[0]}: {judge(found, aim)}")


if __name__ == "__main__":
    main()
