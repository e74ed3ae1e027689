# SPDX-License-Identifier: MIT
"""Arrays: in and out of other libraries without copies."""

import gc
import weakref

import numpy
import pytest

import phonograph as ph

NAMES = ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64",
         "complex64", "complex128"]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_there_and_back(stream, name):
    ours = numpy.arange(24).reshape(2, 3, 4).astype(name)
    array = stream.array(ours)
    assert array.shape == (2, 3, 4) and array.dtype.name == name and array.nbytes == ours.nbytes and len(array) == 2
    assert (array.to_numpy() == ours).all()


def test_numpy_sees_host_memory(device, stream):
    x = stream.zeros((2, 3))
    if device.is_cuda:
        assert not hasattr(x, "__array_interface__")
        with pytest.raises(TypeError, match="to_numpy"):
            x.numpy()
        assert x.__cuda_array_interface__["data"] == (x.address, False)
        assert x.__cuda_array_interface__["stream"] == stream.__cuda_stream__()[1]
        return
    stream.synchronize()
    view = numpy.asarray(x)
    assert view.ctypes.data == x.address and view.shape == (2, 3)
    view[1, 2] = 5
    assert x.to_numpy()[1, 2] == 5
    assert not hasattr(x, "__cuda_array_interface__")


def test_a_view_keeps_the_memory(device, stream):
    x = stream.pinned(1000)
    before = device.memory["pinned"]
    view = numpy.asarray(x)
    view[:] = 3
    del x
    gc.collect()
    assert device.memory["pinned"] == before and (view == 3).all()
    del view
    assert device.memory["pinned"] < before


def test_memory_goes_with_the_last_view(device, stream):
    x = stream.empty((4, 256))
    before = device.memory["allocated"]
    y = x.reshape(-1)
    assert y.shape == (1024,) and y.address == x.address
    del x
    assert device.memory["allocated"] == before
    y.free()
    assert device.memory["allocated"] < before
    with pytest.raises(ValueError, match="no view of shape"):
        y.reshape(3)


def test_dlpack_out(device, stream):
    if device.is_cuda:
        x = stream.empty((3, 2), "int32")
        assert x.__dlpack_device__() == (2, device.ordinal)
        assert "dltensor" in repr(x.__dlpack__(stream=-1))
        return
    x = stream.array(numpy.arange(6, dtype="int32").reshape(3, 2))
    assert x.__dlpack_device__() == (1, 0)
    view = numpy.from_dlpack(x)
    assert view.ctypes.data == x.address and view.tolist() == [[0, 1], [2, 3], [4, 5]]
    before = device.memory["allocated"]
    del x
    assert device.memory["allocated"] == before
    del view
    gc.collect()
    assert device.memory["allocated"] < before


def test_a_capsule_that_nobody_takes_lets_go(device, stream):
    for version in (None, (1, 0)):
        x = stream.empty(100)
        stream.synchronize()
        before = device.memory["allocated"]
        capsule = x.__dlpack__(stream=-1 if device.is_cuda else None, max_version=version)
        del x
        assert device.memory["allocated"] == before
        del capsule
        assert device.memory["allocated"] < before


def test_dlpack_refusals(device, stream):
    x = stream.empty(4)
    with pytest.raises(BufferError, match="copy=True"):
        x.__dlpack__(copy=True)
    with pytest.raises(BufferError, match="on device"):
        x.__dlpack__(dl_device=(4, 0))
    only = ph.asarray(b"abcd")
    with pytest.raises(BufferError, match="read-only"):
        only.__dlpack__()
    assert "versioned" in repr(only.__dlpack__(max_version=(1, 0)))
    if not device.is_cuda:
        with pytest.raises(ValueError, match="a stream is named"):
            x.__dlpack__(stream=3)


class Exporter:
    """Another library's tensor, old or new DLPack."""

    def __init__(self, array, new):
        self.array, self.new = array, new

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __dlpack__(self, **arguments):
        if not self.new and "max_version" in arguments:
            raise TypeError("an unexpected keyword argument: max_version")
        if "stream" not in arguments and self.array.stream is not None and self.array.stream.device.is_cuda:
            arguments["stream"] = None
        return self.array.__dlpack__(**arguments)


@pytest.mark.parametrize("new", [False, True])
def test_dlpack_in(device, stream, new):
    x = stream.array(numpy.arange(6, dtype="float32").reshape(2, 3))
    gone = weakref.ref(x)
    y = ph.asarray(Exporter(x, new), stream)
    assert (y.address, y.shape, y.dtype, y.is_contiguous) == (x.address, (2, 3), x.dtype, True)
    del x
    gc.collect()
    assert gone() is not None  # the other library's owner lives
    assert y.to_numpy(stream).tolist() == [[0, 1, 2], [3, 4, 5]]
    del y
    gc.collect()
    assert gone() is None


def test_numpys_own_dlpack():
    class Only:  # DLPack alone, not the array interface
        def __init__(self, array):
            self.__dlpack__, self.__dlpack_device__ = array.__dlpack__, array.__dlpack_device__

    ours = numpy.arange(6.0).reshape(2, 3)
    y = ph.asarray(Only(ours.T))
    assert y.address == ours.ctypes.data and y.shape == (3, 2) and y.strides == (8, 24) and not y.is_contiguous


def test_numpy_in():
    ours = numpy.arange(10, dtype="int16")[::2]
    y = ph.asarray(ours)
    assert y.address == ours.ctypes.data and y.strides == (4,) and not y.is_contiguous and y.is_foreign
    ours.flags.writeable = False
    assert ph.asarray(ours).readonly


def test_a_view_of_ours_knows_its_stream(device, stream):
    if device.is_cuda:
        pytest.skip("numpy sees no memory of a GPU")
    x = stream.zeros((4, 4))
    assert ph.asarray(numpy.asarray(x)[1:, 2]).stream is stream and ph.asarray(numpy.zeros(3)).stream is None


def test_a_closed_stream_leaves_its_arrays(device):
    stream = device.stream()
    x = stream.zeros(4, "uint8")
    stream.fill(x, 3)
    stream.close()
    capsule = x.__dlpack__()
    if device.is_cuda:
        assert x.__cuda_array_interface__["stream"] is None
    with device.stream() as other:
        assert x.to_numpy(other).tolist() == [3] * 4
    del capsule


def test_buffers_in():
    raw = bytearray(b"\x01\x02\x03")
    y = ph.asarray(raw)
    assert y.dtype.name == "uint8" and y.nbytes == 3
    numpy.asarray(y)[0] = 9
    assert raw[0] == 9
    assert ph.asarray(b"abc").readonly
    with pytest.raises(TypeError, match="a float is no array"):
        ph.asarray(1.5)


class OnGpu:
    def __init__(self, array, stream):
        self.__cuda_array_interface__ = {
            "shape": array.shape, "typestr": array.dtype.typestr, "data": (array.address, False), "version": 3, "stream": stream,
        }  # fmt: skip


def test_cuda_array_interface_in(device, stream):
    if not device.is_cuda:
        pytest.skip("memory of a GPU")
    x = stream.array(numpy.arange(4, dtype="float32"))
    with device.stream() as other:
        for producer in (None, 1, 2, stream.__cuda_stream__()[1]):
            for consumer in (None, other):
                y = ph.asarray(OnGpu(x, producer), consumer)
                assert y.address == x.address and not y.is_host
        stream.synchronize()
        assert y.to_numpy(other).tolist() == [0, 1, 2, 3]


def test_two_devices_of_one_gpu(device, stream):
    """A stream that is wrapped is of the device that was opened first."""
    if not device.is_cuda:
        pytest.skip("a GPU's")
    with ph.Device(device.name) as second, second.stream() as mine, second.stream() as consumer:
        x = mine.array(numpy.arange(4, dtype="float32"))
        number = consumer.__cuda_stream__()[1]
        assert x.__dlpack__(stream=number)
        assert ph.asarray(OnGpu(x, mine.__cuda_stream__()[1]), consumer).to_numpy(consumer).tolist() == [0, 1, 2, 3]


def test_copies_and_fills_are_checked(stream):
    x = stream.empty(4)
    with pytest.raises(ValueError, match="16 bytes over 8|8 bytes over 16"):
        stream.copy(x, numpy.zeros(2, "float32"))
    with pytest.raises(ValueError, match="not contiguous"):
        stream.copy(x, numpy.zeros(8, "float32")[::2])
    with pytest.raises(ValueError, match="read-only"):
        stream.copy(b"0123456789abcdef", x)
    with pytest.raises(ValueError, match="8-byte elements"):
        stream.fill(stream.empty(4, "float64"), 1.5)
    stream.fill(x, 1.5)
    assert (x.to_numpy() == 1.5).all()
    bits = stream.empty(3, "bfloat16")
    stream.fill(bits, 0)
    with pytest.raises(TypeError, match="is no type of elements"):
        stream.empty(4, "float128")
    with pytest.raises(ValueError, match="negative"):
        stream.empty(-1)
    assert stream.empty(0).address == 0 and stream.empty((3, 0)).to_numpy().shape == (3, 0)
    assert stream.empty(()).to_numpy().shape == ()
    stream.empty(0).free()
    with pytest.raises(TypeError, match="another library"):
        ph.asarray(numpy.zeros(3)).free()


def test_memory_used_on_another_stream_waits(device, stream):
    """Memory freed while another stream uses it is not given out again before that is done."""
    if device.is_cuda:
        pytest.skip("a host function that waits holds the software GPU's launches")
    import threading

    gate = threading.Event()
    with device.stream() as other:
        x = stream.zeros(1 << 20, "uint8")
        stream.synchronize()
        place = x.address
        other.call(gate.wait)
        other.fill(x, 1)  # declares the use
        del x
        y = stream.empty(1 << 20, "uint8")
        assert y.address != place
        gate.set()
        other.synchronize()
