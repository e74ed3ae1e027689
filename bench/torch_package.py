# SPDX-License-Identifier: MIT
"""bench/torch_package.py: what phonograph.torch costs the host, beside torch's own graphs: replays, new inputs, inspect.

usage: torch_package.py [rounds] [file to append JSON lines to]
PYTHONPATH names the package. All sides of a line take turns in one run; a round is the mean of 100 calls. Ends with 77 and one line where
PyTorch or a GPU is missing."""
import gc
import importlib.util
import json
import statistics
import sys
import time

NO_GPU, CALLS, NODES = 77, 100, 1000
SIZE = (8, 128, 512)  # of a bf16 input, 1 MiB


def load_torch():
    if importlib.util.find_spec("torch") is None:
        print("torch_package: needs PyTorch")
        sys.exit(NO_GPU)
    import torch

    if not torch.cuda.is_available():
        print("torch_package: needs a GPU: torch.cuda.is_available() says no")
        sys.exit(NO_GPU)
    return torch


class Lines:
    def __init__(self, torch, rounds, out):
        self.torch, self.rounds, self.out = torch, rounds, out
        print(f"{'ns of the host, a call':<44} {'side':<24} {'median':>12} {'10 %':>12} {'90 %':>12}")

    def compare(self, what, sides, calls=CALLS, before=()):
        """sides: {name: function}, which take turns. before: {name: what comes before a round of it, and is not timed}."""
        before = dict(before)
        times = {name: [] for name in sides}
        for number in range(-3, self.rounds):
            for name, call in sides.items():
                self.torch.cuda.synchronize()
                if name in before:
                    before[name]()
                started = time.perf_counter_ns()
                for _ in range(calls):
                    call()
                if number >= 0:
                    times[name].append((time.perf_counter_ns() - started) / calls)
        self.torch.cuda.synchronize()
        for name, found in times.items():
            tenths = statistics.quantiles(found, n=10)
            values = {"ns": round(statistics.median(found)), "p10": round(tenths[0]), "p90": round(tenths[-1])}
            print(f"{what:<44} {name:<24} {values['ns']:>12} {values['p10']:>12} {values['p90']:>12}", flush=True)
            if self.out:
                line = {"bench": "torch_package", "what": what, "side": name, **values, "rounds": self.rounds}
                self.out.write(json.dumps(line) + "\n")


def warm(torch, body):
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            body()
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()


def captured(torch, kind, graph, body, **options):
    warm(torch, body)
    made = kind()
    with graph(made, **options):
        made.kept = body()
    return made


def watch(graph, inputs):
    graph._inputs = inputs
    graph._set_due()


def replays(torch, pt, lines):
    x = torch.ones(100, device="cuda")
    theirs = torch.cuda.CUDAGraph()
    warm(torch, lambda: 2 * x)
    with torch.cuda.graph(theirs):
        _ = 2 * x
    ours = captured(torch, pt.CUDAGraph, pt.graph, lambda: 2 * x)
    checked = captured(torch, pt.CUDAGraph, pt.graph, lambda: 2 * x, check_input_liveness=True)
    annotated = captured(torch, pt.CUDAGraph, pt.graph, lambda: 2 * x, enable_annotations=True)
    lines.compare("replay", {"phonograph.torch": ours.replay, "torch": theirs.replay})
    # One graph, so that the sides differ in nothing else.
    inputs = checked._inputs
    lines.compare(
        "replay with liveness", {"phonograph.torch": checked.replay, "the same graph, without": checked.replay, "torch": theirs.replay},
        before={"phonograph.torch": lambda: watch(checked, inputs), "the same graph, without": lambda: watch(checked, None)},
    )  # fmt: skip
    watch(checked, inputs)
    lines.compare("replay with annotations", {"phonograph.torch": annotated.replay, "torch": theirs.replay})


def new_inputs(torch, pt, lines):
    """A kernel of cuBLAS has 1,720 bytes of parameters, one of torch 32: the driver takes more for the first."""
    weight = torch.randn(SIZE[2], SIZE[2], device="cuda", dtype=torch.bfloat16)
    new_input(torch, pt, lines, "replay with a new input of 1 MiB", lambda x: x @ weight)
    new_input(torch, pt, lines, "replay with a new input of 1 MiB, kernel of torch", lambda x: x * 2)


def new_input(torch, pt, lines, what, body):
    def aligned():
        count = 2 * SIZE[0] * SIZE[1] * SIZE[2]
        room = torch.empty(count + 4096, device="cuda", dtype=torch.uint8)
        skip = -room.data_ptr() % 4096
        return room[skip : skip + count].view(torch.bfloat16).view(SIZE).normal_()

    x, gap, second, third = aligned(), torch.empty(123 << 12, device="cuda"), aligned(), aligned()
    pool, stream, graphs = torch.cuda.graph_pool_handle(), torch.cuda.Stream(), []
    warm(torch, lambda: body(x))
    for source in (x, x, second):
        y = None
        made = pt.CUDAGraph()
        with pt.graph(made, pool=pool, stream=stream):
            y = body(source)
        graphs.append(made)
    del gap
    _, real, other = graphs
    if real.prove_slots(other, x=(x, second))["x"]:
        print("torch_package: the input was not proved to be rebound")
        return
    given = [second, third]
    theirs = captured(torch, torch.cuda.CUDAGraph, torch.cuda.graph, lambda: body(x))

    def rebind():
        given.reverse()
        real.replay(x=given[0])

    def copy():
        given.reverse()
        x.copy_(given[0])
        theirs.replay()

    sides = {"phonograph.torch": rebind, "torch, copy_ and replay": copy, "torch, no new input": theirs.replay}
    lines.compare(what, sides)
    lines.compare(f"{what}: the same graph, no new input", {"phonograph.torch": real.replay, "torch": theirs.replay})
    del y


def looks(torch, pt, lines):
    from phonograph.torch.storages import live_tensors

    x = torch.ones(1000, device="cuda")

    def body():
        y = x
        for _ in range(NODES):
            y = y + 1
        return y

    graph = captured(torch, pt.CUDAGraph, pt.graph, body)
    sides = {
        "phonograph.torch": lambda: pt.inspect(graph), "and its inputs": lambda: pt.inspect(graph).inputs,
        "and all nodes and words": lambda: pt.inspect(graph).nodes, "and its text": lambda: str(pt.inspect(graph)),
        "live tensors alone": live_tensors, "Python's list of all objects": gc.get_objects,
    }  # fmt: skip
    lines.compare(f"inspect of {NODES} nodes", sides, calls=1)

    def capture(kind, context, **options):
        made = kind()
        with context(made, **options):
            body()

    def scoped():
        made = pt.CUDAGraph()
        with pt.graph(made, enable_annotations=True):
            y = x
            for _ in range(NODES // 10):
                with pt.annotate("ten"):
                    for _ in range(10):
                        y = y + 1

    sides = {
        "phonograph.torch": lambda: capture(pt.CUDAGraph, pt.graph), "torch": lambda: capture(torch.cuda.CUDAGraph, torch.cuda.graph),
        "with liveness": lambda: capture(pt.CUDAGraph, pt.graph, check_input_liveness=True), "with 100 scopes": scoped,
    }  # fmt: skip
    lines.compare(f"capture of {NODES} nodes", sides, calls=1)


def main():
    torch = load_torch()
    import phonograph.torch as pt

    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 31
    out = open(sys.argv[2], "a", encoding="utf-8") if len(sys.argv) > 2 else None
    of = f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, Python {sys.version.split()[0]}, {len(gc.get_objects())} objects"
    print(f"torch_package: {of}, medians of {rounds} rounds")
    lines = Lines(torch, rounds, out)
    replays(torch, pt, lines)
    new_inputs(torch, pt, lines)
    looks(torch, pt, lines)
    if out:
        out.close()


main()
