# SPDX-License-Identifier: MIT
"""PYTHONPATH=build/release/python python3 bench/python_calls.py [ROUNDS]: what a call of the library costs from Python.

By ctypes, with Python's lock released (CDLL) and kept (PyDLL), by the compiled module, and as a method of the objects. Each number
is the median over rounds of 2,000 calls on the host device, without the loop's own time.
"""

import ctypes
import statistics
import sys
import time

import phonograph
from phonograph import hot
from phonograph.bindings import core

CALLS = 2000


def loop_time(function, arguments):
    numbers = range(CALLS)
    begin = time.perf_counter_ns()
    for _ in numbers:
        function(*arguments)
    return time.perf_counter_ns() - begin


def empty_loop_time(_, arguments):
    numbers = range(CALLS)
    begin = time.perf_counter_ns()
    for _ in numbers:
        pass
    return time.perf_counter_ns() - begin


def measure(rounds, stream, rows):
    """Median nanoseconds of each row, the rows in turns."""
    times = [[] for _ in rows]
    for _ in range(rounds):
        for found, (_, function, arguments) in zip(times, rows):
            empty = empty_loop_time(function, arguments)
            found.append((loop_time(function, arguments) - empty) / CALLS)
            stream.synchronize()
    return [statistics.median(found) for found in times]


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 31
    device = phonograph.Device("host:threads=1")
    stream, graph = device.stream(), phonograph.Graph()
    x = stream.zeros(64, "uint8")
    with graph.capture(stream):
        stream.fill(x, 1)
    kept = core._library.plain("ph_graph_replay", ctypes.c_int, (ctypes.c_void_p, ctypes.c_void_p), short=True)
    ctypes_hot = hot.by_ctypes()
    pair, one = (graph.handle, stream.handle), (graph.handle,)
    rows = [
        ("an empty function of Python", lambda: None, ()),
        ("ph_graph_epoch, ctypes, lock kept", ctypes_hot["ph_graph_epoch"], one),
        ("ph_graph_replay, ctypes, lock released", ctypes_hot["ph_graph_replay"], pair),
        ("ph_graph_replay, ctypes, lock kept", kept, pair),
        ("Graph.replay(stream)", graph.replay, (stream,)),
        ("Graph.epoch", lambda: graph.epoch, ()),
        ("Stream.fill(array, 1)", stream.fill, (x, 1)),
    ]
    if hot.COMPILED:
        rows[4:4] = [
            ("ph_graph_epoch, compiled, lock kept", hot.ph_graph_epoch, one),
            ("ph_graph_replay, compiled, lock released", hot.ph_graph_replay, pair),
        ]
    for (name, *_), found in zip(rows, measure(rounds, stream, rows)):
        print(f"{name:44} {found:8.0f} ns")


if __name__ == "__main__":
    main()
