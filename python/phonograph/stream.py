# SPDX-License-Identifier: MIT
"""Streams and events: work in order, and order between streams."""

import ctypes

from . import functions, hot
from .array import asarray, new_array
from .bindings import core
from .device import Device
from .dtypes import dtype_of
from .errors import check, error_of
from .lifetime import Owner, new_handle
from .structs import struct_from

_NUMBERS = {
    "float32": core.PH_NUMBER_F32, "float64": core.PH_NUMBER_F64, "float16": core.PH_NUMBER_F16, "bfloat16": core.PH_NUMBER_BF16,
}  # fmt: skip


class Stream(Owner):
    """ph_stream: an ordered queue of work. options: priority, blocking."""

    _destroy = core.ph_stream_destroy

    def __init__(self, device, **options):
        settings = struct_from(core.ph_stream_options, options)
        self.device = device
        self._own(new_handle(core.ph_stream_create, device._device_handle, ctypes.byref(settings)))

    @classmethod
    def _borrow(cls, handle, device):
        stream = cls.__new__(cls)
        stream.device, stream._destroy = device, None
        stream._own(handle)
        return stream

    @classmethod
    def wrap(cls, stream):
        """A stream of CUDA's that other code made: an integer, or an object with __cuda_stream__.

        The other stream must outlive this one, and is kept alive where it is an object.
        """
        protocol = getattr(stream, "__cuda_stream__", None)
        address = protocol()[1] if protocol else getattr(stream, "cuda_stream", getattr(stream, "ptr", stream))
        wrapped = cls.__new__(cls)
        wrapped.device, wrapped._wrapped = None, stream
        wrapped._own(new_handle(core.ph_stream_wrap_cuda, int(address)))
        wrapped.device = Device._of(core.ph_stream_device(wrapped._handle))
        return wrapped

    def _devices(self, handle):
        return [core.ph_stream_device(handle)]

    @property
    def __cuda_stream__(self):
        """A function that returns (0, the CUDA stream), as cuda.core and others ask for it."""
        if not self.device.is_cuda:  # others ask whether there is such an attribute
            raise AttributeError("a stream of the host device is no stream of CUDA")
        return lambda: (0, self._cuda())

    def _cuda(self):
        return new_handle(core.ph_stream_cuda, self._handle) or 0

    # ---- order ----

    def synchronize(self):
        """Waits until the stream's work is done. Raises what a function of Python has raised."""
        check(core.ph_stream_synchronize(self._handle))
        functions.raise_failure()

    def query(self):
        """Whether all submitted work is done."""
        done = ctypes.c_bool()
        check(core.ph_stream_query(ctypes.byref(done), self._handle))
        return done.value

    def wait(self, other):
        """Later work waits for an Event, or for the work so far of a Stream."""
        is_event = isinstance(other, Event)
        call = core.ph_stream_wait_event if is_event else core.ph_stream_wait_stream
        handle = other._event_handle if is_event else other._stream_handle
        check(call(self._handle, handle))

    def record(self, event=None):
        """Records the work so far in the event, or in a new one, which is returned."""
        event = event or Event(self.device)
        check(core.ph_event_record(event._event_handle, self._handle))
        return event

    @property
    def is_capturing(self):
        return bool(hot.ph_stream_is_capturing(self._handle))

    @property
    def priority(self):
        return core.ph_stream_priority(self._handle)

    # ---- work ----

    def launch(self, kernel, *arguments, grid=1, block=1, shared_bytes=0, programmatic=False):
        """Launches the kernel. grid and block: a number, or up to three."""
        kernel.launch(self, arguments, grid, block, shared_bytes, programmatic)

    def call(self, function):
        """Calls function() in the order of the stream, on a thread of the library.

        A capture records the call, and each replay makes it. It must not use phonograph. What it
        raises is raised by the next synchronize().
        """
        functions.call_on(self._handle, function)

    def copy(self, destination, source):
        """Copies source over destination; both are arrays of any library, of the same size."""
        to, of = asarray(destination), asarray(source)
        if to.nbytes != of.nbytes:
            raise ValueError(f"a copy of {of.nbytes} bytes over {to.nbytes}")
        if not (to.is_contiguous and of.is_contiguous):
            raise ValueError("a copy of an array that is not contiguous")
        if to.readonly:
            raise ValueError("a copy over a read-only array")
        to._use(self), of._use(self)
        status = hot.ph_memcpy(to.address, of.address, to.nbytes, self._handle)
        if status:
            raise error_of(status)

    def fill(self, array, value):
        """Sets every element to the value. Elements have 1 or 4 bytes, or the value is 0."""
        to = asarray(array)
        if not to.is_contiguous or to.readonly:
            raise ValueError("a fill of an array that is read-only or not contiguous")
        raw = to.dtype.pack(value)
        to._use(self)
        if raw == raw[:1] * len(raw):
            check(hot.ph_memset(to.address, raw[0], to.nbytes, self._handle))
        elif len(raw) == 4:
            check(core.ph_memset_u32(to.address, int.from_bytes(raw, "little"), to.size, self._handle))
        else:
            raise ValueError(f"a fill with {value} of {len(raw)}-byte elements: use a kernel, or copy an array of them")

    def check_finite(self, array, name=None):
        """In a capture, a check of float numbers for NaN and infinity, which Graph.enable_finite switches on (ph_finite_check).

        Outside of a capture it does nothing. TypeError: elements that are no floats.
        """
        of = asarray(array)
        kind = _NUMBERS.get(of.dtype.name)
        if kind is None:
            raise TypeError(f"check_finite: elements of {of.dtype.name}; they must be {', '.join(sorted(_NUMBERS))}")
        if not of.is_contiguous:
            raise ValueError("check_finite: the array is not contiguous")
        of._use(self)
        check(core.ph_finite_check(self._handle, of.address, kind, of.size, name.encode() if name else None))

    # ---- memory ----

    def empty(self, shape, dtype="float32"):
        """A new Array of this stream's memory, its contents undefined."""
        return new_array(self, shape, dtype_of(dtype), core.ph_malloc, core.ph_free)

    def zeros(self, shape, dtype="float32"):
        """A new Array, filled with 0 in the order of the stream."""
        array = self.empty(shape, dtype)
        if array.nbytes:
            check(hot.ph_memset(array.address, 0, array.nbytes, self._handle))
        return array

    def array(self, source):
        """A new Array with a copy of an array of any library."""
        of = asarray(source)
        array = self.empty(of.shape, of.dtype)
        if array.nbytes:
            self.copy(array, of)
        return array

    def pinned(self, shape, dtype="float32"):
        """A new Array of pinned host memory, which numpy can see on every device."""
        return new_array(self, shape, dtype_of(dtype), core.ph_malloc_pinned, core.ph_free_pinned, pinned=True)


def order(later, earlier):
    """Later work of one stream comes after the work so far of another, which may be of another Device of the same GPU."""
    if later.device.handle == earlier.device.handle:
        later.wait(earlier)
    else:  # streams of two devices have no events together
        earlier.synchronize()


class Event(Owner):
    """ph_event: a point in the work of a stream. options: timing, external."""

    _destroy = core.ph_event_destroy

    def __init__(self, device, **options):
        settings = struct_from(core.ph_event_options, options)
        self.device = device
        self._own(new_handle(core.ph_event_create, device._device_handle, ctypes.byref(settings)))

    def query(self):
        """Whether the recorded work is done."""
        done = ctypes.c_bool()
        check(core.ph_event_query(ctypes.byref(done), self._handle))
        return done.value

    def synchronize(self):
        """Waits until the recorded work is done."""
        check(core.ph_event_synchronize(self._handle))
        functions.raise_failure()

    def elapsed(self, end):
        """Milliseconds from this event to `end`; both were made with timing=True."""
        out = ctypes.c_float()
        check(core.ph_event_elapsed(ctypes.byref(out), self._handle, end._event_handle))
        return out.value
