# SPDX-License-Identifier: MIT
"""bench/torch_host.py: operators of the host device on one thread beside PyTorch's on the CPU on one thread, in one process,
in turn.

usage: torch_host.py LIBRARY [rounds] [file to append JSON lines to]
LIBRARY: libphonograph_nn.so. A row has the least tenth of both, as other programs on the machine
only add to a time, and the ratio of these. Ends with 77 and one line where PyTorch
is missing."""
import ctypes
import json
import sys
import time

NO_TORCH = 77
REPEATS = 8  # calls before the end of the work is awaited
F32, I64 = 1, 6


def load_torch():
    try:
        import torch
    except ImportError as error:
        print(f"torch_host: needs PyTorch: {error}")
        sys.exit(NO_TORCH)
    torch.set_num_threads(1)
    return torch


class Shape(ctypes.Structure):
    _fields_ = [("rank", ctypes.c_size_t), ("dim", ctypes.c_int64 * 8)]


class Axes(ctypes.Structure):
    _fields_ = [("count", ctypes.c_size_t), ("axis", ctypes.c_int * 8)]


class Phonograph:
    """The few calls that the cases need."""

    def __init__(self, path):
        self.lib = lib = ctypes.CDLL(path)
        for name in ("ph_add", "ph_sum", "ph_sum_over", "ph_softmax", "ph_gelu", "ph_gelu_tanh", "ph_embedding"):
            getattr(lib, name).restype = ctypes.c_void_p
        self.device, self.stream, self.tape = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
        self.ok(lib.ph_device_open(ctypes.byref(self.device), b"host:threads=1", None))
        self.ok(lib.ph_stream_create(ctypes.byref(self.stream), self.device, None))
        self.ok(lib.ph_tape_create(ctypes.byref(self.tape), self.stream, None))

    @staticmethod
    def ok(status):
        if status:
            sys.exit(f"torch_host: a call failed with status {status}")

    def wrap(self, tensor, dtype):
        """The memory of a contiguous tensor of PyTorch's, which must live longer."""
        out = ctypes.c_void_p()
        shape = Shape(tensor.dim(), (ctypes.c_int64 * 8)(*tensor.shape))
        self.ok(self.lib.ph_tensor_wrap(ctypes.byref(out), self.device, dtype, shape, None,
                                        ctypes.c_void_p(tensor.data_ptr()), None, None))
        return out

    def call(self, name, *args):
        if not getattr(self.lib, name)(self.tape, *args):
            sys.exit(f"torch_host: {name} failed")
        self.ok(self.lib.ph_tape_clear(self.tape))

    def end(self):
        self.ok(self.lib.ph_stream_synchronize(self.stream))


def cases(torch, ph):
    functional = torch.nn.functional
    x, y = torch.randn(1024, 1024), torch.randn(1024, 1024)
    column, row = torch.randn(1024, 1), torch.randn(1024)
    large = torch.randn(4096, 4096)
    table, index = torch.randn(50304, 768), torch.randint(0, 50304, (1024,))
    keep = [x, y, column, row, large, table, index]
    w = {id(t): ph.wrap(t, I64 if t is index else F32) for t in keep}

    def of(t):
        return w[id(t)]

    yield "add, 1024 x 1024", lambda: x + y, lambda: ph.call("ph_add", of(x), of(y))
    yield "add a row", lambda: x + row, lambda: ph.call("ph_add", of(x), of(row))
    yield "add a column", lambda: x + column, lambda: ph.call("ph_add", of(x), of(column))
    yield "sum, 1024 x 1024", lambda: x.sum(), lambda: ph.call("ph_sum", of(x))
    yield "sum, 4096 x 4096", lambda: large.sum(), lambda: ph.call("ph_sum", of(large))
    yield "sum along rows", lambda: x.sum(1), lambda: ph.call("ph_sum_over", of(x), Axes(1, (ctypes.c_int * 8)(1)), False)
    yield "sum along columns", lambda: x.sum(0), lambda: ph.call("ph_sum_over", of(x), Axes(1, (ctypes.c_int * 8)(0)), False)
    yield ("sum along rows, 4096 x 4096", lambda: large.sum(1),
           lambda: ph.call("ph_sum_over", of(large), Axes(1, (ctypes.c_int * 8)(1)), False))
    yield ("sum along columns, 4096 x 4096", lambda: large.sum(0),
           lambda: ph.call("ph_sum_over", of(large), Axes(1, (ctypes.c_int * 8)(0)), False))
    yield "softmax", lambda: functional.softmax(x, -1), lambda: ph.call("ph_softmax", of(x), -1)
    yield "gelu", lambda: functional.gelu(x), lambda: ph.call("ph_gelu", of(x))
    yield ("gelu (tanh)", lambda: functional.gelu(x, approximate="tanh"), lambda: ph.call("ph_gelu_tanh", of(x)))
    yield ("embedding, 1024 of 50304 x 768", lambda: functional.embedding(index, table),
           lambda: ph.call("ph_embedding", of(table), of(index)))


def time_of(body, end):
    start = time.perf_counter_ns()
    for _ in range(REPEATS):
        body()
    end()
    return (time.perf_counter_ns() - start) / REPEATS


def least_tenth(values):
    return sorted(values)[len(values) // 10]


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    torch = load_torch()
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 31
    ph = Phonograph(sys.argv[1])
    out = open(sys.argv[3], "a", encoding="utf-8") if len(sys.argv) > 3 else None
    print(f"{'us, one thread':<34} {'library':>10} {'PyTorch':>10} {'ratio':>7}")
    for what, theirs, ours in cases(torch, ph):
        a, b = [], []
        for i in range(-3, rounds):
            one, other = time_of(ours, ph.end), time_of(theirs, lambda: None)
            if i >= 0:
                a.append(one)
                b.append(other)
        mine, beside = least_tenth(a), least_tenth(b)
        print(f"{what:<34} {mine / 1e3:>10.1f} {beside / 1e3:>10.1f} {mine / beside:>7.2f}", flush=True)
        if out:
            for side, value in (("phonograph", mine), ("PyTorch", beside)):
                line = {"bench": "torch_host", "what": f"one thread: {what}", "side": side, "ns": round(value)}
                out.write(json.dumps(line | ({"limit": 1} if side == "PyTorch" else {})) + "\n")


if __name__ == "__main__":
    main()
