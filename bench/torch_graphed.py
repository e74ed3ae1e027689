# SPDX-License-Identifier: MIT
"""bench/torch_graphed.py: PyTorch's side of bench/nn_graphed.c and nn_buckets.c: the same networks through torch.cuda.make_graphed_callables, eagerly and as one
graph, and 35 inference graphs in one pool, on the GPU.

usage: torch_graphed.py [rounds] [file to append JSON lines to]
Calls include what Python takes to make them. Ends with 77 and one line where PyTorch or a GPU is missing."""
import contextlib
import copy
import gc
import json
import sys
import time
from unittest import mock

NO_GPU = 77
LAYERS, BATCH, WIDTH = 8, 32, 256
BUFFERS = 64  # that inputs are taken from in turn
MAKINGS = 15
SERVED_LAYERS, SERVED_WIDTH = 16, 2048
SIZES = sorted([1, 2, 4] + list(range(8, 257, 8)), reverse=True)


def load_torch():
    try:
        import torch
    except ImportError as error:
        print(f"torch_graphed: needs PyTorch: {error}")
        sys.exit(NO_GPU)
    if not torch.cuda.is_available():
        print("torch_graphed: needs a GPU: torch.cuda.is_available() says no")
        sys.exit(NO_GPU)
    return torch


class Timing:
    def __init__(self, torch, rounds, out):
        self.torch, self.rounds, self.out = torch, rounds, out
        self.stream = torch.cuda.Stream()
        print(f"{'us':<44} {'side':<10} {'cpu':>12} {'whole':>12}")

    def run(self, body, warm_up=20):
        cpu, whole = [], []
        for i in range(-warm_up, self.rounds):
            start = time.perf_counter_ns()
            body()
            submitted = time.perf_counter_ns()
            self.stream.synchronize()
            if i >= 0:
                cpu.append(submitted - start)
                whole.append(time.perf_counter_ns() - start)
        return middle(cpu), middle(whole)

    def capture(self, body):
        for _ in range(3):
            body()
        self.torch.cuda.synchronize()
        graph = self.torch.cuda.CUDAGraph()
        with self.torch.cuda.graph(graph, stream=self.stream):
            body()
        return graph

    def line(self, what, side, result):
        print(f"{what:<44} {side:<10} {result[0] / 1e3:>12.2f} {result[1] / 1e3:>12.2f}", flush=True)
        self.json(what, side, {"cpu_ns": result[0], "whole_ns": result[1], "rounds": self.rounds})

    def json(self, what, side, values):
        if self.out:
            self.out.write(json.dumps({"bench": "torch_graphed", "what": what, "side": f"torch {side}", **values,
                                       "torch": self.torch.__version__}) + "\n")


def middle(values):
    return sorted(values)[len(values) // 2]


def make_net(torch):
    layers = []
    for _ in range(LAYERS):
        layers += [torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers).cuda()


def measure_making(torch, t, net, x):
    times = []
    for _ in range(MAKINGS):
        module = copy.deepcopy(net)  # it is changed in place
        torch.cuda.synchronize()
        start = time.perf_counter_ns()
        torch.cuda.make_graphed_callables(module, (x,))
        times.append(time.perf_counter_ns() - start)
        del module
    t.line("making the callable", "graphed", (middle(times), middle(times)))


class Calls:
    """What is measured, on a network that is plain or graphed."""

    def __init__(self, torch, net, xs, ys, grad):
        self.torch, self.net, self.xs, self.ys, self.grad = torch, net, xs, ys, grad
        self.parameters = list(net.parameters())
        self.optimizer = torch.optim.SGD(self.parameters, lr=1e-3, foreach=True)
        self.fixed_x, self.fixed_y = torch.randn_like(xs[0]), torch.randn_like(ys[0])
        self.at = 0

    def zero_grad(self):
        for parameter in self.parameters:
            parameter.grad = None

    def forward_no_grad(self):
        with self.torch.no_grad():
            self.net(self.fixed_x)

    def forward(self):
        self.net(self.fixed_x)

    def forward_backward(self):
        self.zero_grad()
        self.net(self.fixed_x).backward(self.grad)

    def step_on(self, x, y):
        self.zero_grad()
        self.torch.nn.functional.mse_loss(self.net(x), y).backward()
        self.optimizer.step()

    def step_fixed(self):
        self.step_on(self.fixed_x, self.fixed_y)

    def step_new(self):
        self.at = (self.at + 1) % BUFFERS
        self.step_on(self.xs[self.at], self.ys[self.at])

    def copy_and_replay(self, graph):
        self.at = (self.at + 1) % BUFFERS
        self.fixed_x.copy_(self.xs[self.at])
        self.fixed_y.copy_(self.ys[self.at])
        graph.replay()


def measure_calls(t, plain, graphed):
    for what, name in (("forward, no grad", "forward_no_grad"), ("forward", "forward"),
                       ("forward + backward", "forward_backward")):
        t.line(what, "eager", t.run(getattr(plain, name)))
        t.line(what, "one graph", t.run(t.capture(getattr(plain, name)).replay))
        t.line(what, "graphed", t.run(getattr(graphed, name)))


def measure_steps(t, plain, graphed):
    t.line("training step", "eager", t.run(plain.step_new))
    graph = t.capture(plain.step_fixed)
    t.line("training step", "one graph", t.run(lambda: plain.copy_and_replay(graph)))
    t.line("training step, inputs where they were", "one graph", t.run(graph.replay))
    t.line("training step", "graphed", t.run(graphed.step_new))


# ---- 35 inference graphs ---- the largest first, in one pool.
def make_callables(torch, t, net, rows):
    functions = tuple((lambda x: net(x)) for _ in SIZES)
    samples = tuple((rows[:size],) for size in SIZES)
    return torch.cuda.make_graphed_callables(functions, samples, pool=torch.cuda.graph_pool_handle())


def make_graphs(torch, t, net, rows, warm_up=True):
    """By hand: each size runs once, as PyTorch's documentation asks, and is captured; outputs are let go, so that the graphs share all of the pool."""
    pool, graphs = torch.cuda.graph_pool_handle(), []
    for size in SIZES:
        if warm_up:
            net(rows[:size])
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool, stream=t.stream):
            net(rows[:size])
        graphs.append(graph)
    return graphs


def make_graphs_at_once(torch, t, net, rows):
    """Without that run: each size has run in this program, so nothing is done for the first time in a capture."""
    return make_graphs(torch, t, net, rows, warm_up=False)


def make_graphs_fast(torch, t, net, rows, warm_up=True):
    """With the collections that every capture begins with left out, as inference servers do."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch("gc.collect", lambda: None))
        stack.enter_context(mock.patch("torch.cuda.empty_cache", lambda: None))
        return make_graphs(torch, t, net, rows, warm_up)


def make_graphs_fast_at_once(torch, t, net, rows):
    return make_graphs_fast(torch, t, net, rows, warm_up=False)


def collect(torch):
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    return torch.cuda.mem_get_info()[0], torch.cuda.memory_reserved()


def measure_server(torch, t, net, rows, side, make):
    times = []
    for i in range(MAKINGS):
        free, reserved = collect(torch)
        start = time.perf_counter_ns()
        made = make(torch, t, net, rows)
        torch.cuda.synchronize()
        times.append(time.perf_counter_ns() - start)
        if i == MAKINGS - 1:
            t.line("35 inference graphs", side, (middle(times), middle(times)))
            free_after, reserved_after = collect(torch)
            print(f"  the pool: {(reserved_after - reserved) / 2**20:.2f} MiB reserved; taken from the device "
                  f"{(free - free_after) / 2**20:.2f} MiB")
            t.json("35 inference graphs, memory", side,
                   {"pool_reserved": reserved_after - reserved, "device": free - free_after})
        del made


def measure_servers(torch, t):
    layers = [torch.nn.Linear(SERVED_WIDTH, SERVED_WIDTH) for _ in range(SERVED_LAYERS)]
    net = torch.nn.Sequential(*layers).cuda().half().requires_grad_(False)
    rows = torch.randn(SIZES[0], SERVED_WIDTH, device="cuda", dtype=torch.float16)
    for size in SIZES:  # what is done once for each size, whoever does it
        net(rows[:size])
    measure_server(torch, t, net, rows, "graphed", make_callables)
    with torch.no_grad():
        measure_server(torch, t, net, rows, "by hand", make_graphs)
        measure_server(torch, t, net, rows, "by hand, no gc", make_graphs_fast)
        measure_server(torch, t, net, rows, "by hand, no eager run", make_graphs_at_once)
        measure_server(torch, t, net, rows, "by hand, no eager run, no gc", make_graphs_fast_at_once)


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 301
    if rounds < 1 or len(sys.argv) > 3:
        print(__doc__, file=sys.stderr)
        return 2
    torch = load_torch()
    torch.backends.cuda.matmul.allow_tf32 = False
    out = open(sys.argv[2], "a", encoding="utf-8") if len(sys.argv) > 2 else None
    print(f"torch_graphed: {torch.cuda.get_device_name()}, PyTorch {torch.__version__}, CUDA {torch.version.cuda}, "
          f"Python {sys.version.split()[0]}; medians of {rounds} rounds, of {MAKINGS} where something is made")
    t = Timing(torch, rounds, out)
    with torch.cuda.stream(t.stream):
        net = make_net(torch)
        xs, ys = ([torch.randn(BATCH, WIDTH, device="cuda") for _ in range(BUFFERS)] for _ in range(2))
        grad = torch.randn(BATCH, WIDTH, device="cuda")
        measure_making(torch, t, net, xs[0])
        graphed = torch.cuda.make_graphed_callables(copy.deepcopy(net), (torch.randn_like(xs[0]),))
        plain, graphed = Calls(torch, net, xs, ys, grad), Calls(torch, graphed, xs, ys, grad)
        measure_calls(t, plain, graphed)
        measure_steps(t, plain, graphed)
        del plain, graphed, net
        measure_servers(torch, t)
    if out:
        out.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
