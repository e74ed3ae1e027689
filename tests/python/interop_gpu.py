# SPDX-License-Identifier: MIT
"""phonograph.cupy and phonograph.cuda_core with the libraries themselves, on a GPU."""

import importlib.util

import numpy
import pytest


def usable(name):
    """Whether that library is there, and has a GPU."""
    try:
        if importlib.util.find_spec(name) is None:
            return False
        if name == "cupy":
            import cupy

            return cupy.cuda.runtime.getDeviceCount() > 0
        from cuda.core import Device

        Device(0).set_current()
        return True
    except Exception:  # what a library without a GPU raises is its own
        return False


HAS_CUPY, HAS_CUDA_CORE = usable("cupy"), usable("cuda.core") if importlib.util.find_spec("cuda") else False
needs_cupy = pytest.mark.skipif(not HAS_CUPY, reason="no CuPy with a GPU here: phonograph.cupy was not tested with it")
needs_cuda_core = pytest.mark.skipif(not HAS_CUDA_CORE, reason="no cuda.core with a GPU here: phonograph.cuda_core was not tested with it")
if HAS_CUPY:
    import cupy
if HAS_CUPY or HAS_CUDA_CORE:
    import phonograph
    import phonograph.cuda_core as pcc
    import phonograph.cupy as pc


def captured(stream, x, y):
    """A cupy.cuda.Graph of y = x + 1 on the stream."""
    with stream:
        cupy.add(x, 1, out=y)  # compiles the kernel
        stream.begin_capture()
        cupy.add(x, 1, out=y)
        return stream.end_capture()


def aligned(value):
    """1024 numbers at a multiple of 4096, the alignment that two captures at such places prove."""
    whole = cupy.full(4096, value, dtype="float32")
    begin = -whole.data.ptr % 4096 // 4
    return whole[begin : begin + 1024]


@needs_cupy
def test_a_graph_of_cupy_is_copied_and_replayed():
    stream = cupy.cuda.Stream(non_blocking=True)
    x, y = cupy.arange(1000, dtype="float32"), cupy.zeros(1000, dtype="float32")
    cupy.cuda.Device().synchronize()
    theirs = captured(stream, x, y)
    graph = pc.import_graph(theirs)
    ours = pc.stream(stream)
    y.fill(0)
    cupy.cuda.Device().synchronize()
    graph.replay(ours)
    ours.synchronize()
    assert (y == x + 1).all()
    (node,) = graph.record().nodes
    assert node["kind"] == "kernel" and "add" in node["name"]
    y.fill(0)
    cupy.cuda.Device().synchronize()
    theirs.launch(stream)
    stream.synchronize()
    assert (y == x + 1).all()


@needs_cupy
def test_new_inputs_for_a_graph_that_cupy_launches():
    stream = cupy.cuda.Stream(non_blocking=True)
    x, other, y, third = (aligned(value) for value in (1, 2, 0, 7))
    cupy.cuda.Device().synchronize()
    theirs, second = captured(stream, x, y), captured(stream, other, y)
    view, proof = pc.view_graph(theirs), pc.import_graph(second)
    assert view.prove_slots(proof, x=(phonograph.asarray(x), phonograph.asarray(other))) == {"x": ""}
    view.set_slots(x=phonograph.asarray(third))
    theirs.launch(stream)
    stream.synchronize()
    assert (y == 8).all()
    with pytest.raises(phonograph.StateError):
        view.replay(pc.stream(stream))


@needs_cupy
def test_arrays_of_cupy_are_arrays_here():
    stream = pc.stream(cupy.cuda.Stream(non_blocking=True))
    x = cupy.arange(16, dtype="float32")
    cupy.cuda.Device().synchronize()
    y = stream.array(x)
    stream.synchronize()
    assert (cupy.asarray(y) == x).all()


@needs_cuda_core
def test_a_graph_of_cuda_core_is_copied_and_viewed():
    from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch

    device = Device(0)
    device.set_current()
    text = 'extern "C" __global__ void add_one(float *y, const float *x, int n) { int i = threadIdx.x; if (i < n) y[i] = x[i] + 1; }'
    program = Program(text, "c++", ProgramOptions(arch=f"sm_{''.join(map(str, device.compute_capability))}"))
    kernel = program.compile("cubin").get_kernel("add_one")
    core_stream = device.create_stream()
    ours = pcc.stream(core_stream)
    x, y = ours.zeros(64), ours.zeros(64)
    ours.fill(x, 4)
    ours.synchronize()
    builder = device.create_graph_builder()
    builder.begin_building()
    launch(builder, LaunchConfig(grid=1, block=64), kernel, y.address, x.address, numpy.int32(64))
    builder.end_building()
    graph = pcc.import_graph(builder, ours.device)
    graph.replay(ours)
    ours.synchronize()
    result = ours.pinned(64)
    ours.copy(result, y)
    ours.synchronize()
    assert (result.to_numpy() == 5).all()
    executable = builder.complete()
    view = pcc.view_graph(builder, executable, ours.device)
    assert [node["name"] for node in view.record().nodes] == ["add_one"]
    with pytest.raises(TypeError, match="executable alone"):
        pcc.import_graph(executable, ours.device)
    view.close()
