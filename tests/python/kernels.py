# SPDX-License-Identifier: MIT
"""Kernels: forms, parameters, the lives of functions and of the memory that they use. On the host device."""

import ctypes
import gc
import threading
import weakref

import numpy
import pytest

import phonograph as ph
from conftest import SAXPY, floats, saxpy
from phonograph.bindings import core

pytestmark = pytest.mark.skipif("__import__('os').environ.get('PH_TEST_DEVICE', 'host') != 'host'")


def test_function_of_python(device, stream, axpy):
    x, y = stream.array(numpy.arange(8, dtype="float32")), stream.zeros(8)
    stream.launch(axpy, 8, 2.0, x, y)
    assert y.to_numpy().tolist() == [0, 2, 4, 6, 8, 10, 12, 14]


def test_addresses_as_numbers(device, stream, axpy):
    """An integer of numpy's is an address, not an array of one."""
    x, y = stream.array(numpy.ones(4, "float32")), stream.zeros(4)
    stream.launch(axpy, 4, 1.0, x.address, numpy.uint64(y.address))
    assert y.to_numpy().tolist() == [1] * 4


def test_blocks_and_shared_memory(device, stream):
    seen = []

    def host(range_, arguments):
        for block in range(range_.begin, range_.end):
            ctypes.c_int.from_address(range_.shared).value = block
            seen.append((tuple(range_.grid), tuple(range_.block), ctypes.c_int.from_address(range_.shared).value, arguments.k))

    kernel = device.kernel("blocks", parameters=[("k", ctypes.c_int)], host=host)
    stream.launch(kernel, 5, grid=(2, 3), block=4, shared_bytes=64)
    stream.synchronize()
    assert sorted(seen) == [((2, 3, 1), (4, 1, 1), block, 5) for block in range(6)]


def test_compiled_functions(device, stream):
    """By ctypes, as a type of the bindings, and as an integer (as cffi gives one)."""
    seen = []

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
    def compiled(range_, arguments):
        seen.append(ctypes.c_int.from_address(arguments).value)

    as_number = ctypes.cast(compiled, ctypes.c_void_p).value
    for number, form in enumerate((compiled, as_number, core.ph_host_kernel_fn(as_number))):
        kernel = device.kernel("compiled", parameters=[("k", ctypes.c_int)], host=form)
        stream.launch(kernel, number)
        stream.synchronize()
    assert seen == [0, 1, 2]


def test_without_parameters(device, stream):
    seen = []
    kernel = device.kernel("none", parameters=[], host=lambda range_, arguments: seen.append(1))
    stream.launch(kernel)
    stream.synchronize()
    assert seen == [1]


def test_misuse(device, stream, axpy):
    x = stream.zeros(8)
    with pytest.raises(TypeError, match=r"saxpy takes 4 arguments \(n, a, x, y\), not 2"):
        stream.launch(axpy, 1, 2)
    with pytest.raises(TypeError):
        stream.launch(axpy, "one", 2.0, x, x)
    with pytest.raises(TypeError, match="float is no array"):
        stream.launch(axpy, 1, 2.0, 3.5, x)
    with pytest.raises(ph.ArgumentError, match=r"saxpy: x: .* not contiguous.*numpy\.ascontiguousarray"):
        stream.launch(axpy, 4, 2.0, numpy.zeros(8, "float32")[::2], x)
    with pytest.raises(ph.ArgumentError):
        stream.launch(axpy, 1, 2.0, x, x, block=2000)
    with pytest.raises(ph.UnsupportedError):
        device.kernel("cuda_only", parameters=[], cuda='extern "C" __global__ void cuda_only() {}')
    with pytest.raises(TypeError, match="waits for Python's lock"):
        device.kernel("k", parameters=[], host=lambda *_: None, host_inline=True)
    with pytest.raises(TypeError, match="host is a str"):
        device.kernel("k", parameters=[], host="f")
    axpy.close()
    with pytest.raises(ph.ArgumentError):
        stream.launch(axpy, 1, 2.0, x, x)


def test_an_array_that_is_not_as_declared_is_refused(device, stream, axpy):
    x, y = stream.zeros(8), numpy.zeros(16, "float32")
    for count in (9, -1):  # an unsigned number
        with pytest.raises(ph.ArgumentError, match=rf"saxpy: x: the array has 8 elements, and n says {count % 2**32};"):
            stream.launch(axpy, count, 2.0, x, y)
    with pytest.raises(ph.ArgumentError, match="saxpy: y: the array has 4 elements, and n says 8"):
        stream.launch(axpy, 8, 2.0, x, y[:4])
    with pytest.raises(ph.ArgumentError, match="saxpy: x: elements of float64 have 8 bytes, .* declared with 4; .*astype"):
        stream.launch(axpy, 8, 2.0, numpy.zeros(8), y)
    with pytest.raises(ph.ArgumentError, match="saxpy: x: the array has 4 elements, and n says 8"):
        stream.launch(axpy, 8, 2.0, numpy.zeros(8, "float16"), y)
    stream.launch(axpy, 8, 2.0, numpy.ones(32, "uint8"), y)  # bytes, enough of them
    stream.launch(axpy, 8, 2.0, x.address, y[:8].ctypes.data)  # numbers are the caller's word
    stream.launch(axpy, 4, 2.0, x, y)  # less than the array has
    stream.synchronize()
    vectors = device.kernel("vectors", parameters=[("n", ctypes.c_uint64), ("x", ph.address("in", "n", 16))], host=lambda *_: None)
    stream.launch(vectors, 4, y)
    with pytest.raises(ph.ArgumentError, match="vectors: x: the array has 4 elements, and n says 5"):
        stream.launch(vectors, 5, y)


def test_a_read_only_array_is_only_read(device, stream, axpy):
    x, y = numpy.frombuffer(bytes(32), "float32"), stream.zeros(8)
    stream.launch(axpy, 8, 2.0, x, y)
    stream.launch(axpy, 8, 2.0, bytes(32), y)
    with pytest.raises(ph.ArgumentError, match=r'saxpy: y: the array is read-only, .* address\("in"\)'):
        stream.launch(axpy, 8, 2.0, y, x)
    unknown = device.kernel("unknown", parameters=[("x", ph.address), ("y", ph.address())], host=lambda *_: None)
    for pair in ((x, y), (y, x)):
        with pytest.raises(ph.ArgumentError, match="unknown: [xy]: the array is read-only"):
            stream.launch(unknown, *pair)
    stream.launch(unknown, x.ctypes.data, y)
    stream.synchronize()


def test_what_a_kernel_raises_comes_at_the_next_wait(device, stream):
    kernel = device.kernel("bad", parameters=[], host=lambda *_: {}["key"])
    stream.launch(kernel)
    with pytest.raises(ph.CallerError, match="KeyError"):
        stream.synchronize()


def test_declared_access_finds_races(device, stream, axpy):
    x, y = stream.zeros(8), stream.zeros(8)
    graph = ph.Graph()
    with device.stream() as side, graph.capture(stream):
        side.wait(stream.record())
        side.launch(axpy, 8, 1.0, x, y)
        stream.launch(axpy, 8, 1.0, x, y)
        stream.wait(side.record())
    races = graph.races()
    assert len(races) == 1 and races[0]["certain"] and races[0]["bytes"] == 32


def test_a_launched_function_lives_until_it_has_run(device, stream):
    gate, seen = threading.Event(), []

    def host(range_, arguments):
        seen.append(1)

    gone = weakref.ref(host)
    stream.call(gate.wait)
    kernel = device.kernel("late", parameters=[], host=host)
    stream.launch(kernel)
    del kernel, host
    gc.collect()
    assert gone() is not None and seen == []
    gate.set()
    stream.synchronize()
    assert seen == [1]
    gc.collect()
    assert gone() is None


def test_a_captured_function_lives_as_long_as_the_graphs(device, stream):
    seen = []

    def host(range_, arguments):
        seen.append(arguments.k)

    gone = weakref.ref(host)
    kernel = device.kernel("captured", parameters=[("k", ctypes.c_int)], host=host)
    inner, outer = ph.Graph(), ph.Graph()
    with inner.capture(stream):
        stream.launch(kernel, 3)
    del kernel, host
    with outer.capture(stream):
        inner.replay(stream)
    inner.close()
    gc.collect()
    outer.replay(stream)
    outer.close()  # waits for the replay
    assert seen == [3]
    gc.collect()
    assert gone() is None


def test_memory_of_numpy_lives_until_the_kernel_has_run(device, stream, axpy):
    gate = threading.Event()
    y = stream.zeros(8)
    x = numpy.full(8, 3, "float32")
    gone = weakref.ref(x)
    stream.call(gate.wait)
    stream.launch(axpy, 8, 1.0, x, y)
    del x
    gc.collect()
    assert gone() is not None
    gate.set()
    assert y.to_numpy().tolist() == [3] * 8
    gc.collect()
    assert gone() is None


def test_memory_of_numpy_lives_as_long_as_the_graph(device, stream, axpy):
    y, x = stream.zeros(8), numpy.full(8, 3, "float32")
    gone, graph = weakref.ref(x), ph.Graph()
    with graph.capture(stream):
        stream.launch(axpy, 8, 1.0, x, y)
    x[:] = 4
    del x
    gc.collect()
    graph.replay(stream)
    graph.replay(stream)
    assert y.to_numpy().tolist() == [8] * 8
    graph.reset()
    gc.collect()
    assert gone() is None


def test_numpy_stays_writable_from_both_sides(device, stream, axpy):
    """A graph over arrays of numpy: no copy in, no copy out."""
    x, y = numpy.ones(16, "float32"), numpy.zeros(16, "float32")
    graph = ph.Graph()
    with graph.capture(stream):
        stream.launch(axpy, 16, 2.0, x, y)
    for step in range(3):
        x[:] = step
        graph.replay(stream)
        stream.synchronize()
    assert (y == 6).all()


def test_scalar_slots(device, stream, axpy):
    x, y, graph = stream.zeros(4), stream.zeros(4), ph.Graph()
    stream.fill(x, 1.0)
    with graph.capture(stream):
        stream.launch(axpy, 4, 2.0, x, y)
    graph.declare_scalar("a", 0, 4, ctypes.c_float(2))
    graph.replay(stream, a=10.0)
    graph.replay(stream, a=ctypes.c_float(1))
    assert y.to_numpy().tolist() == [11] * 4
    with pytest.raises(ph.ArgumentError):
        graph.declare_scalar("b", 0, 0, ctypes.c_uint32(5))  # not what was captured


def test_one_kernel_of_two_devices_is_refused(axpy):
    with ph.Device("host:threads=1") as other, other.stream() as stream:
        x = stream.zeros(4)
        with pytest.raises(ph.WrongDevice):
            stream.launch(axpy, 4, 1.0, x, x)


def test_helpers_are_those_of_the_kernel(device):
    kernel = device.kernel("saxpy", parameters=SAXPY, host=saxpy)
    assert kernel.parameters == ("n", "a", "x", "y") and "Kernel" in repr(kernel)
    assert floats(ctypes.addressof(ctypes.c_float(2)), 1).shape == (1,)
