# SPDX-License-Identifier: MIT
"""use_allocator: each test in a process of its own, as torch's allocator is set once. On the host device without a GPU."""

import importlib.util

import pytest
from conftest import run_child

HAS_TORCH = importlib.util.find_spec("torch") is not None
pytestmark = pytest.mark.skipif(not HAS_TORCH, reason="this Python has no torch: phonograph.torch was not tested")
HAS_GPU = False
if HAS_TORCH:
    import torch

    HAS_GPU = torch.cuda.is_available()
    from phonograph.torch.allocator import as_torch
    from phonograph.torch.blocks import Blocks
on_a_gpu = pytest.mark.skipif(not HAS_GPU, reason="torch has no GPU here: torch's memory was not taken from phonograph")

HOST = """
import ctypes
import torch, phonograph, phonograph.torch as pt
from phonograph.torch import allocator
pt.use_allocator()
pt.use_allocator()
hooks = allocator._hooks
device = phonograph.Device("host:threads=1")
stream = device.stream()
hooks.ph_torch_set_device.argtypes = (ctypes.c_int, ctypes.c_void_p)
assert hooks.ph_torch_set_device(0, device.handle) == 0
hooks.ph_torch_malloc.argtypes = (ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p)
hooks.ph_torch_malloc.restype = ctypes.c_void_p
hooks.ph_torch_free.argtypes = (ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p)
def pools():
    return sorted({segment["segment_pool_id"] for segment in pt.memory_snapshot(0)})
"""


def passes(text):
    status, out, err = run_child(text)
    assert status == 0, out + err


def test_torch_calls_the_hooks_with_its_pools_and_filters():
    passes(
        HOST
        + """
p = hooks.ph_torch_malloc(1000, 0, stream.handle)
assert pt.memory_allocated(0) == 1024 and pools() == [(0, 0)]
torch._C._cuda_beginAllocateCurrentThreadToPool(0, (0, 7))
q = hooks.ph_torch_malloc(1000, 0, stream.handle)
assert pools() == [(0, 0), (0, 7)], pools()
torch._C._cuda_endAllocateToPool(0, (0, 7))
hooks.ph_torch_free(q, 1000, 0, stream.handle)
r = hooks.ph_torch_malloc(1000, 0, stream.handle)
assert r != q
try:
    torch._C._cuda_endAllocateToPool(0, (0, 7))
except RuntimeError as error:
    assert "is not begun" in str(error)
else:
    raise AssertionError("a second end")
torch._C._cuda_releasePool(0, (0, 7))
assert pt.memory_stats(0)["segments"] >= 1 and pt.max_memory_allocated(0) == 2048
for pointer in (p, r):
    hooks.ph_torch_free(pointer, 1000, 0, stream.handle)
pt.reset_peak_memory_stats(0)
assert pt.max_memory_allocated(0) == 0 and pt.memory_reserved(0) > 0
stream.synchronize()
"""
    )


def test_filters_of_other_threads_route_nothing():
    passes(
        HOST
        + """
import threading
torch._C._cuda_beginAllocateCurrentThreadToPool(0, (0, 7))
found = []
thread = threading.Thread(target=lambda: found.append(hooks.ph_torch_malloc(1000, 0, stream.handle)))
thread.start()
thread.join()
assert found[0] and pools() == [(0, 0)], pools()
torch._C._cuda_endAllocateToPool(0, (0, 7))
torch._C._cuda_releasePool(0, (0, 7))
hooks.ph_torch_free(found[0], 1000, 0, stream.handle)
"""
    )


def test_what_torch_refuses_has_its_reason():
    passes(
        HOST
        + """
for call in (lambda: torch._C._cuda_memorySnapshot((0, 0)), lambda: torch._C._cuda_memoryStats(0)):
    try:
        call()
    except (RuntimeError, TypeError) as error:
        assert "does not yet support" in str(error) or "incompatible" in str(error), str(error)
    else:
        raise AssertionError("torch answered")
"""
    )


def test_statistics_need_the_allocator():
    passes(
        """
import phonograph, phonograph.torch as pt
try:
    pt.memory_allocated(0)
except phonograph.StateError as error:
    assert "use_allocator" in str(error)
else:
    raise AssertionError("there is no allocator")
"""
    )


def test_snapshots_have_torchs_layout():
    blocks = [
        {"address": "0x1000", "size": 512, "requested": 400, "state": "allocated", "generation": 9},
        {"address": "0x1200", "size": 512, "requested": 0, "state": "free", "generation": 0},
    ]
    segment = {"address": "0x1000", "size": 1024, "pool": [0, 2], "stream": 4, "type": "small", "allocated": 512, "active": 512,
               "requested": 400, "blocks": blocks}  # fmt: skip
    (found,) = as_torch({"segments": [segment]}, 1, tuple)
    assert found["segment_pool_id"] == (0, 2) and found["device"] == 1
    known = Blocks([found])
    assert known.find(0x1100).is_active and known.find(0x1100).requested == 400 and not known.find(0x1300).is_active


# ---- on a GPU ----


@on_a_gpu
def test_a_training_step_and_its_graph_on_our_memory():
    passes(
        """
import torch, phonograph.torch as pt
pt.use_allocator()
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 256)).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
x = torch.randn(64, 256, device="cuda")
assert pt.memory_allocated() > 2 * 4 * 256 * 512
def step():
    optimizer.zero_grad(set_to_none=True)
    loss = net(x).square().mean()
    loss.backward()
    optimizer.step()
    return loss
side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    for _ in range(3):
        step()
torch.cuda.current_stream().wait_stream(side)
before = [parameter.detach().clone() for parameter in net.parameters()]
eager = [step().item() for _ in range(3)]
with torch.no_grad():
    for parameter, value in zip(net.parameters(), before):
        parameter.copy_(value)
graph = pt.CUDAGraph()
with pt.graph(graph):
    loss = step()
with torch.no_grad():
    for parameter, value in zip(net.parameters(), before):
        parameter.copy_(value)
replayed = []
for _ in range(3):
    graph.replay()
    replayed.append(loss.item())
assert replayed == eager, (replayed, eager)
names = {segment["segment_pool_id"] for segment in pt.memory_snapshot()}
assert tuple(graph.pool()) in names and (0, 0) in names, names
report = pt.inspect(graph, x=x, net=net)
assert "float32[64, 256] x" in [text for entry in report.inputs for text in entry["tensors"]]
reserved = pt.memory_reserved()
del loss
graph.reset()
del report
torch.cuda.empty_cache()
assert pt.memory_reserved() < reserved
try:
    torch.empty(1 << 42, device="cuda")
except RuntimeError as error:
    assert "out of memory" in str(error)
else:
    raise AssertionError("4 TiB were there")
y = torch.ones(1000, device="cuda")
assert y.sum().item() == 1000
"""
    )


@on_a_gpu
def test_after_the_first_allocation_it_is_refused():
    passes(
        """
import torch, phonograph, phonograph.torch as pt
torch.zeros(1, device="cuda")
try:
    pt.use_allocator()
except phonograph.StateError as error:
    assert "before anything uses CUDA" in str(error)
else:
    raise AssertionError("the allocator was swapped")
"""
    )
