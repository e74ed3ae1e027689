# SPDX-License-Identifier: MIT
"""bench/torch_replay.py: torch.cuda.CUDAGraph.replay of the chains of bench/cuda_replay.c, in the same JSON lines.

usage: torch_replay.py [rounds] [file to append JSON lines to]
The launch alone includes what Python takes to make the call. Ends with 77 and one line where PyTorch or a GPU is missing."""
import json
import sys
import time

NO_GPU = 77
ITEMS = 1024
WARM_UP = 20


def load_torch():
    try:
        import torch
    except ImportError as error:
        print(f"torch_replay: needs PyTorch: {error}")
        sys.exit(NO_GPU)
    if not torch.cuda.is_available():
        print("torch_replay: needs a GPU: torch.cuda.is_available() says no")
        sys.exit(NO_GPU)
    return torch


def summary(samples):
    samples.sort()
    n = len(samples)
    return samples[n // 10], samples[n // 2], samples[n - 1 - n // 10]


def clock_cost():
    samples = []
    for _ in range(1001):
        start = time.perf_counter_ns()
        samples.append(time.perf_counter_ns() - start)
    return summary(samples)[1]


def capture(torch, nodes):
    """y = x + 1, to and fro between two cells."""
    cells = [torch.zeros(ITEMS, dtype=torch.int32, device="cuda") for _ in range(2)]
    graph = torch.cuda.CUDAGraph()
    torch.add(cells[0], 1, out=cells[1])  # loaded before the capture
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        for i in range(nodes):
            torch.add(cells[i % 2], 1, out=cells[(i + 1) % 2])
    return graph, cells


def measure(graph, stream, rounds, wait, clock):
    samples = []
    for i in range(WARM_UP + rounds):
        start = time.perf_counter_ns()
        graph.replay()
        if wait:
            stream.synchronize()
        ns = time.perf_counter_ns() - start - clock
        if not wait:
            stream.synchronize()
        if i >= WARM_UP:
            samples.append(ns)
    return summary(samples)


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 1001
    if rounds < 1 or len(sys.argv) > 3:
        print(__doc__, file=sys.stderr)
        return 2
    torch = load_torch()
    out = open(sys.argv[2], "a", encoding="utf-8") if len(sys.argv) > 2 else None
    clock = clock_cost()
    device = torch.cuda.get_device_name()
    print(f"torch_replay: {device}, PyTorch {torch.__version__}, CUDA {torch.version.cuda}, Python {sys.version.split()[0]}; "
          f"medians of {rounds} rounds, {clock} ns for the clock taken off")
    print(f"{'ns':<22} {'nodes':>6}  {'side':<26} {'median':>12} {'10 %':>12} {'90 %':>12}")
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for nodes in (1, 10, 100, 1000):
            graph, cells = capture(torch, nodes)
            for what, wait in (("launch", False), ("launch and wait", True)):
                low, median, high = measure(graph, stream, rounds, wait, clock)
                print(f"{what:<22} {nodes:>6}  {'CUDAGraph.replay':<26} {median:>12.1f} {low:>12.1f} {high:>12.1f}")
                if out:
                    out.write(json.dumps({"bench": "torch_replay", "what": what, "nodes": nodes, "side": "CUDAGraph.replay",
                                          "ns": median, "p10": low, "p90": high, "rounds": rounds,
                                          "torch": torch.__version__}) + "\n")
            del graph, cells
    if out:
        out.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
