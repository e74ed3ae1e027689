# SPDX-License-Identifier: MIT
"""Kernels of CUDA C text, on the GPU of PH_TEST_DEVICE. The software libcuda is told their functions."""

import ctypes

import numpy
import pytest

import phonograph as ph
from conftest import SAXPY, saxpy
from phonograph.bindings import core

TEXT = """
extern "C" __global__ void saxpy(unsigned n, float a, const float *x, float *y)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] += a * x[i];
}
"""


class Arguments(ctypes.Structure):
    _fields_ = [("n", ctypes.c_uint32), ("a", ctypes.c_float), ("x", ctypes.c_void_p), ("y", ctypes.c_void_p)]


@core.ph_host_kernel_fn
def whole(range_, arguments):
    if range_.contents.begin == 0:
        saxpy(None, Arguments.from_address(arguments))


@pytest.fixture
def kernel(device):
    if not device.is_cuda:
        pytest.skip("a GPU's")
    driver = ctypes.CDLL("libcuda.so.1")
    if hasattr(driver, "fake_cuda_exports"):
        register = ctypes.c_void_p.in_dll(driver, "fake_cuda_exports").value
        ctypes.CFUNCTYPE(None, ctypes.c_char_p, core.ph_host_kernel_fn)(register)(b"saxpy", whole)
    try:
        return device.kernel("saxpy", parameters=SAXPY, cuda=TEXT, options="-DN=4")
    except ph.UnsupportedError as error:
        pytest.skip(str(error))


def test_launch_capture_and_slots(device, stream, kernel):
    x, y = stream.array(numpy.arange(512, dtype="float32")), stream.zeros(512)
    stream.launch(kernel, 512, 1.0, x, y, grid=4, block=128)
    assert (y.to_numpy() == numpy.arange(512)).all()
    graph = ph.Graph()
    with graph.capture(stream, check_input_liveness=True, enable_annotations=True):
        with ph.annotate(stream, "forward"):
            stream.launch(kernel, 512, 2.0, x, y, grid=(4,), block=(128, 1, 1))
    graph.slot("x", x)
    other = stream.array(numpy.full(512, 1, "float32"))
    graph.replay(stream)
    graph.replay(stream, x=other)
    assert (y.to_numpy() == numpy.arange(512) * 3 + 2).all()
    assert graph.record().nodes[0]["name"] == "saxpy"
    y.free()
    with pytest.raises(ph.StaleInput, match="saxpy"):
        graph.replay(stream)
    stream.synchronize()


def test_arrays_of_another_library(device, stream, kernel):
    """Whatever has __cuda_array_interface__ or __dlpack__ is an argument."""

    class Other:
        def __init__(self, array):
            self.__cuda_array_interface__ = {**array.__cuda_array_interface__, "stream": None}

    class Tensor:
        def __init__(self, array):
            self.__dlpack__, self.__dlpack_device__ = array.__dlpack__, array.__dlpack_device__

    x, y = stream.array(numpy.ones(64, "float32")), stream.zeros(64)
    stream.launch(kernel, 64, 1.0, Other(x), Tensor(y), block=64)
    assert (y.to_numpy() == 1).all()


def test_a_capture_that_other_code_began(device, stream, kernel):
    """Nobody would let go of a function there: it is refused, and the capture goes on."""
    driver = ctypes.CDLL("libcuda.so.1")

    def entry(name):
        found = ctypes.c_void_p()
        assert driver.cuGetProcAddress(name, ctypes.byref(found), 12000, ctypes.c_uint64(0)) == 0
        return ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(found.value)

    number, graph = ctypes.c_void_p(stream.__cuda_stream__()[1]), ctypes.c_void_p()
    x = stream.zeros(4)
    ph.check(core.ph_context_push_cuda(device.handle))
    try:
        assert entry(b"cuStreamBeginCapture")(number, 1) == 0
        stream.fill(x, 0)
        with pytest.raises(ph.StateError, match="capture that other code began"):
            stream.call(lambda: None)
        assert entry(b"cuStreamEndCapture")(number, ctypes.addressof(graph)) == 0
        assert entry(b"cuGraphDestroy")(graph, None) == 0
    finally:
        core.ph_context_pop_cuda(device.handle)


def test_a_kernel_for_the_host_device_alone_is_refused(device, stream, kernel):
    with pytest.raises(ph.UnsupportedError):
        device.kernel("host_only", parameters=[], host=lambda *_: None)
