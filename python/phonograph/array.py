# SPDX-License-Identifier: MIT
"""Arrays: memory with a shape and a type of elements, shared with numpy and other libraries without copies."""

import ctypes
import math

from .bindings import core
from .dtypes import dtype_of
from .errors import check
from .lifetime import Owner


class Array:
    """Memory of the library, or a view of another library's.

    - numpy.asarray(array) is a view where the processor can read the memory: of the host device, or
      pinned. GPU memory has __cuda_array_interface__. All have __dlpack__.
    - Memory of the library is freed with the last view of it, in the order of its stream, also
      where a graph addresses it: the graph's replay is then refused (check_input_liveness).
    - Array(address, shape, dtype, base=owner, stream=stream) is a view of a part of it, or of memory that
      the caller knows.
    """

    def __init__(self, address, shape, dtype, *, strides=None, readonly=False, stream=None, base=None, host=False, pinned=False):
        self.address = address or 0
        self.shape = (shape,) if isinstance(shape, int) else tuple(shape)
        self.dtype = dtype_of(dtype)
        self.strides = tuple(strides) if strides else None  # bytes; None: contiguous
        self.readonly, self.stream, self.pinned = readonly, stream, pinned
        self.is_host = host  # the processor can read it
        self._base = base

    # ---- form ----

    @property
    def size(self):
        return math.prod(self.shape)

    @property
    def nbytes(self):
        return self.size * self.dtype.itemsize

    @property
    def ndim(self):
        return len(self.shape)

    @property
    def is_contiguous(self):
        if self.strides is None or self.size == 0:
            return True
        expected = self.dtype.itemsize
        for length, stride in zip(reversed(self.shape), reversed(self.strides)):
            if length != 1 and stride != expected:
                return False
            expected *= length
        return True

    def __len__(self):
        if not self.shape:
            raise TypeError("an array without dimensions has no length")
        return self.shape[0]

    def __repr__(self):
        return f"<phonograph.Array {self.dtype.name}{list(self.shape)} at {self.address:#x}>"

    def reshape(self, *shape):
        """A view with another shape; one length may be -1."""
        shape = list(shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape)
        if -1 in shape:
            rest = -math.prod(shape)
            shape[shape.index(-1)] = self.size // rest if rest else 0
        if math.prod(shape) != self.size or not self.is_contiguous:
            raise ValueError(f"an array of shape {self.shape} has no view of shape {tuple(shape)}")
        return self._view(self.address, shape, self.dtype)

    def _view(self, address, shape, dtype):
        view = Array(
            address, shape, dtype, readonly=self.readonly, stream=self.stream, base=self, host=self.is_host, pinned=self.pinned
        )
        return view

    # ---- life ----

    def _memory(self):
        array = self
        while isinstance(array._base, Array):
            array = array._base
        return array._base

    def free(self):
        """Gives the memory back now. The array, and every view of it, must not be used any more."""
        memory = self._memory()
        if isinstance(memory, _Memory):
            memory.close()
        elif self.nbytes:
            raise TypeError("memory of another library is freed by that")

    def _use(self, stream):
        """Declares that the stream uses the memory, where it is of another."""
        if self.stream is not None and self.stream is not stream and not self.pinned:
            if self.stream._stream_handle != stream._stream_handle:
                check(core.ph_record_stream(self.address, stream._stream_handle))

    @property
    def is_foreign(self):
        """Whether another library owns the memory."""
        return not isinstance(self._memory(), _Memory)

    # ---- other libraries ----

    def numpy(self):
        """A view as a numpy array. TypeError: memory of a GPU, which is copied: to_numpy()."""
        import numpy

        return numpy.asarray(self)

    def to_numpy(self, stream=None):
        """A numpy array with a copy, after the work so far of the stream, which is waited for."""
        import numpy

        found = numpy.empty(self.shape, numpy.dtype(self.dtype.typestr))
        on = stream or self.stream
        if on is None:
            raise TypeError("memory of another library has no stream of its own: name one")
        if self.nbytes:
            on.copy(found, self)
        on.synchronize()
        return found

    def _interface(self):
        return {
            "shape": self.shape, "typestr": self.dtype.typestr, "data": (self.address, self.readonly), "version": 3,
            "strides": self.strides,
        }  # fmt: skip

    @property
    def __array_interface__(self):
        if not self.is_host:  # numpy asks whether there is such an attribute
            raise AttributeError("the processor cannot read this memory: use to_numpy()")
        return self._interface()

    @property
    def __cuda_array_interface__(self):
        if self.is_host and not self._on_gpu():
            raise AttributeError("this is no memory of a GPU")
        # Of streams, 1 is CUDA's legacy default stream; 0 is not allowed.
        return {**self._interface(), "stream": self._producer()}

    def _producer(self):
        """For __cuda_array_interface__: the stream, or None where all work is done."""
        if self.stream is None:
            return None
        if self.stream.handle is None:  # closed: nobody can wait for it any more
            self.stream.device.synchronize()
            return None
        return self.stream._cuda() or 1

    def _on_gpu(self):
        return self.stream is not None and self.stream.device.is_cuda

    def __array__(self, dtype=None, copy=None):
        raise TypeError("memory of a GPU has no view in numpy: to_numpy() copies")

    def __dlpack_device__(self):
        from . import dlpack

        return dlpack.device_of(self)

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        from . import dlpack

        return dlpack.export(self, stream, max_version, dl_device, copy)


def _free_memory(free, address, device):
    free(address, None)
    core.ph_device_release(device)


class _Memory(Owner):
    """A block of the allocator, freed with its last view. It has a reference to its device, which no call of the library has for it."""

    _destroy = staticmethod(_free_memory)

    def __init__(self, address, free, device):
        core.ph_device_retain(device)
        self._free, self._device = free, device
        self._own(address)

    def _end_arguments(self, handle):
        return (self._free, handle, self._device)

    def _devices(self, handle):
        return [self._device]


def new_array(stream, shape, dtype, allocate, free, pinned=False):
    """An Array of new memory."""
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    if any(length < 0 for length in shape):
        raise ValueError(f"a negative length in the shape {shape}")
    out = ctypes.c_void_p()
    check(allocate(ctypes.byref(out), math.prod(shape), dtype.itemsize, stream._stream_handle))
    memory = _Memory(out.value, free, core.ph_stream_device(stream._stream_handle)) if out.value else None  # no bytes
    host = pinned or not stream.device.is_cuda
    return Array(out.value, shape, dtype, stream=stream, base=memory, host=host, pinned=pinned)


def _stream_of_view(thing):
    """The stream of the Array that a view of numpy's is of, however far down."""
    for _ in range(64):
        thing = getattr(thing, "base", None)
        if isinstance(thing, Array):
            return thing.stream
    return None


def _from_interface(thing, interface, host):
    address, readonly = interface["data"]
    return Array(
        address, interface["shape"], interface["typestr"], strides=interface.get("strides"), readonly=readonly,
        stream=_stream_of_view(thing), base=thing, host=host,
    )  # fmt: skip


def _from_buffer(thing):
    view = memoryview(thing)
    if not view.c_contiguous:
        raise TypeError("a buffer that is not contiguous")
    formats = {"?": "bool", "c": "uint8", "b": "int8", "B": "uint8", "h": "int16", "H": "uint16", "i": "int32", "I": "uint32",
               "l": "int64", "L": "uint64", "q": "int64", "Q": "uint64", "e": "float16", "f": "float32", "d": "float64"}  # fmt: skip
    dtype = dtype_of(formats.get(view.format.lstrip("<=@"), view.format))
    if view.readonly:
        raw = bytes(view.cast("B")) if view.nbytes else b""
        return Array(ctypes.cast(raw, ctypes.c_void_p).value, view.shape, dtype, readonly=True, base=raw, host=True)
    raw = (ctypes.c_char * view.nbytes).from_buffer(view)
    return Array(ctypes.addressof(raw), view.shape, dtype, base=(thing, raw), host=True)


def asarray(thing, stream=None):
    """An Array over the memory of any library: no copy, but of read-only buffers such as bytes.

    Understands __cuda_array_interface__, __array_interface__, DLPack, and buffers. stream: later
    work on it waits for the producer of GPU memory; without it, the call waits for the producer.
    """
    if isinstance(thing, Array):
        return thing
    interface = getattr(thing, "__cuda_array_interface__", None)
    if interface is not None:
        array = _from_interface(thing, interface, host=False)
        if interface.get("stream") is not None:
            _wait_for(interface["stream"], stream)
        return array
    interface = getattr(thing, "__array_interface__", None)
    if interface is not None:
        return _from_interface(thing, interface, host=True)
    if hasattr(thing, "__dlpack__"):
        from . import dlpack

        return dlpack.take(thing, stream)
    try:
        return _from_buffer(thing)
    except TypeError as error:
        raise TypeError(f"a {type(thing).__name__} is no array: {error}") from None


def _wait_for(producer, stream):
    """producer: the stream of __cuda_array_interface__. 1 and 2 are CUDA's names of default streams, which no wrapper has."""
    from .stream import Stream, order

    if producer > 2:
        with Stream.wrap(producer) as wrapped:
            order(stream, wrapped) if stream is not None else wrapped.synchronize()
    elif stream is not None and producer == 1:
        stream.wait(stream.device.default_stream)
    else:
        from .device import Device

        with Device("cuda") as device:
            device.synchronize()
