# SPDX-License-Identifier: MIT
"""torch's blocks, announced: without a GPU with tensors of the CPU and a host device, and on graphs of a GPU."""

import ctypes
import gc
import importlib.util

import pytest

HAS_TORCH = importlib.util.find_spec("torch") is not None
pytestmark = pytest.mark.skipif(not HAS_TORCH, reason="this Python has no torch: phonograph.torch was not tested")
HAS_GPU = False
if HAS_TORCH:
    import torch

    HAS_GPU = torch.cuda.is_available()
    import phonograph
    import phonograph.torch as pt
    from phonograph.torch.announced import Announced
    from phonograph.torch.blocks import Blocks, index_of
on_a_gpu = pytest.mark.skipif(not HAS_GPU, reason="torch has no GPU here: announced blocks were not tested on graphs of torch")

FRAME = {"name": "make", "filename": "model.py", "line": 7}


@pytest.mark.parametrize(("device", "index"), [(None, 3), ("cuda", 3), ("cuda:1", 1), (2, 2)])
def test_devices_have_their_number(monkeypatch, device, index):
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 3)
    assert index_of(device) == index


def test_what_is_no_gpu_has_none():
    with pytest.raises(ValueError, match="'cpu' is none"):
        index_of("cpu")


def snapshot(*tensors, pool=(0, 0)):
    """As torch's allocator would show the tensors' memory."""
    return [
        {
            "device": 0, "stream": 0, "address": tensor.data_ptr(), "segment_pool_id": pool,
            "blocks": [{"size": tensor.nbytes, "state": "active_allocated", "frames": [FRAME]}],
        }
        for tensor in tensors
    ]  # fmt: skip


def places(*tensors):
    return [(tensor.data_ptr(), tensor.nbytes, tensor) for tensor in tensors]


@pytest.fixture
def announced():
    with phonograph.Device("host:threads=1") as device:
        yield Announced(device)


@pytest.fixture
def reader(announced):
    """Makes a graph whose kernel reads the tensor, with the check of inputs."""
    device = announced._device
    stream = device.stream()
    sums = (ctypes.c_float * 1)()

    def add_all(_, arguments):
        sums[0] = sum((ctypes.c_float * arguments.n).from_address(arguments.x))

    kernel = device.kernel("add_all", parameters=[("n", ctypes.c_uint32), ("x", phonograph.address("in", "n", 4))], host=add_all)

    def make(tensor):
        graph = phonograph.Graph()
        with graph.capture(stream, check_input_liveness=True):
            stream.launch(kernel, tensor.numel(), tensor.data_ptr(), grid=1, block=1)
        return graph

    make.stream = stream
    yield make
    stream.synchronize()


def test_a_freed_tensor_refuses_the_replay(announced, reader):
    x = torch.ones(300)
    announced.update(Blocks(snapshot(x)), places(x))
    graph = reader(x)
    graph.replay(reader.stream)
    (entry,) = graph.inputs
    assert entry["foreign"] and entry["proved"] and entry["bytes"] == 1200
    assert entry["allocated_at"] == "float32[300]\nmodel.py:7 make"
    reader.stream.synchronize()
    view = x[3:]
    del x
    graph.replay(reader.stream)  # the view keeps the storage
    reader.stream.synchronize()
    del view
    gc.collect()
    with pytest.raises(phonograph.StaleInput, match=r"another allocator \(float32\[300\]\)"):
        graph.replay(reader.stream)
    assert "torch_announced.py" in graph.inputs[0]["freed_at"] and len(announced) == 0


def test_a_tensor_at_the_same_address_is_told_apart(announced, reader):
    memory = torch.ones(300)

    def alias():
        """A storage of its own at the same place."""
        return torch.frombuffer((ctypes.c_float * 300).from_address(memory.data_ptr()), dtype=torch.float32)

    x = alias()
    announced.update(Blocks(snapshot(x)), places(x))
    graph = reader(x)
    del x
    gc.collect()
    x = alias()
    announced.update(Blocks(snapshot(x)), places(x))
    with pytest.raises(phonograph.StaleInput, match="replaced"):
        graph.replay(reader.stream)
    again = reader(x)
    again.replay(reader.stream)
    reader.stream.synchronize()


def test_updates_change_what_has_changed_alone(announced):
    x, y = torch.ones(300), torch.ones(400)
    announced.update(Blocks(snapshot(x, y)), places(x))
    known = {address: entry.announced.generation for address, entry in announced._known.items()}
    announced.update(Blocks(snapshot(x, y)), places(x, y))  # y has a tensor of Python now
    assert {address: entry.announced.generation for address, entry in announced._known.items()} == known
    announced.update(Blocks(snapshot(x, y[:200])), places(x, y))  # another size
    assert announced._known[y.data_ptr()].announced.generation > known[y.data_ptr()]
    announced.update(Blocks(snapshot(x)), places(x))
    assert len(announced) == 1 and list(announced._known) == [x.data_ptr()]
    announced.end()
    assert len(announced) == 0


def test_blocks_of_private_pools_are_not_announced(announced):
    x = torch.ones(300)
    announced.update(Blocks(snapshot(x, pool=(0, 3))), places(x))
    assert len(announced) == 0


# ---- on a GPU ----

TWICE = """
extern "C" __global__ void twice(float *y, const float *x) { y[threadIdx.x] = 2 * x[threadIdx.x]; }
"""


@on_a_gpu
def test_an_imported_graph_knows_of_freed_tensors():
    """A copy's source is proved an address: the replay is refused, also where a tensor lies there again."""
    x, y = torch.ones(1 << 20, device="cuda"), torch.zeros(1 << 20, device="cuda")
    graph = torch.cuda.CUDAGraph(keep_graph=True)
    with torch.cuda.graph(graph):
        y.copy_(x)
    imported = pt.import_graph(graph, check_input_liveness=True)
    stream = imported.device.stream()
    imported.replay(stream)
    stream.synchronize()
    assert torch.equal(y, x)
    found = {entry["address"]: entry for entry in imported.inputs}
    assert found[x.data_ptr()]["foreign"] and found[x.data_ptr()]["bytes"] == x.nbytes
    place = x.data_ptr()
    del x
    with pytest.raises(phonograph.StaleInput, match="another allocator"):
        imported.replay(stream)
    x = torch.full((1 << 20,), 2.0, device="cuda")
    assert x.data_ptr() == place  # torch gives the block again
    with pytest.raises(phonograph.StaleInput):
        imported.replay(stream)
    assert pt.announce_blocks() > 0
    with pytest.raises(phonograph.StaleInput, match="replaced"):
        imported.replay(stream)
    imported.close()


@on_a_gpu
def test_the_freed_input_of_a_custom_kernel_is_found():
    """A kernel of this library, launched into a capture of torch's, on memory of torch's."""
    device = phonograph.torch.report.device_of(torch.cuda.current_device())
    kernel = device.kernel(
        "twice", parameters=[("y", phonograph.address("out")), ("x", phonograph.address("in"))], cuda=TWICE
    )
    x, y = torch.ones(64, device="cuda"), torch.zeros(64, device="cuda")
    pt.announce_blocks()
    stream, graph = device.stream(), phonograph.Graph()
    with graph.capture(stream, check_input_liveness=True):
        stream.launch(kernel, y.data_ptr(), x.data_ptr(), grid=1, block=64)
    graph.replay(stream)
    stream.synchronize()
    assert torch.equal(y, 2 * torch.ones_like(y))
    place = x.data_ptr()
    del x
    with pytest.raises(phonograph.StaleInput, match=r"float32\[64\]"):
        graph.replay(stream)
    x = torch.ones(64, device="cuda")
    pt.announce_blocks()
    if x.data_ptr() == place:
        with pytest.raises(phonograph.StaleInput, match="replaced"):
            graph.replay(stream)
    graph.close()
