# SPDX-License-Identifier: MIT
"""Failed calls as exceptions: phonograph.Error, and a class below it for each status."""

import ctypes
import re

from .bindings import core


class Error(Exception):
    """A call of the library has failed.

    status: the number of ph_status. native_code: the driver's number, or 0. native_call: the
    driver's call, or "". The text is the library's message: the call, the reason and the remedy,
    in which a call of C has Python's behind it.
    """

    def __init__(self, message, status=core.PH_ERROR_CALLER, native_code=0, native_call=""):
        super().__init__(message)
        self.message = message
        self.status = core.ph_status(status) if status in core.ph_status._value2member_map_ else status
        self.native_code, self.native_call = native_code, native_call

    def __reduce__(self):
        return type(self), (self.message, int(self.status), self.native_code, self.native_call)


class ArgumentError(Error, ValueError):
    """PH_ERROR_ARGUMENT: a value out of range, or an object that has been closed."""


class StateError(Error, RuntimeError):
    """PH_ERROR_STATE: the object is in a state in which the call has no meaning."""


class UnsupportedError(Error, NotImplementedError):
    """PH_ERROR_UNSUPPORTED: this device or build cannot do it."""


class NotFound(Error, LookupError):
    """PH_ERROR_NOT_FOUND: no device, node or address of that name."""


class SizeError(Error, ValueError):
    """PH_ERROR_SIZE: a size that overflows, or exceeds its limit."""


class WrongDevice(Error, ValueError):
    """PH_ERROR_WRONG_DEVICE: objects of two devices in one call, or a capture over two devices."""


class FileError(Error):
    """PH_ERROR_IO: a file could not be written or read; the native code is errno."""


class Mismatch(Error, ValueError):
    """PH_ERROR_MISMATCH: an executable cannot be updated from this capture, or a file does not match."""


class HostMemoryError(Error, MemoryError):
    """PH_ERROR_HOST_MEMORY: no host memory."""


class DeviceMemoryError(Error, MemoryError):
    """PH_ERROR_DEVICE_MEMORY: out of memory on the device."""


class PoolLimit(DeviceMemoryError):
    """PH_ERROR_POOL_LIMIT: the memory limit of the device or pool is reached."""


class DeviceError(Error, RuntimeError):
    """PH_ERROR_DEVICE: the device or its driver failed; the native code says how."""


class CaptureError(Error, RuntimeError):
    """PH_ERROR_CAPTURE: not allowed in a capture, or has killed one; the native code is CUDA's."""


class DefaultStream(CaptureError):
    """PH_ERROR_DEFAULT_STREAM: captures need a stream other than the legacy default stream."""


class Unpinned(CaptureError):
    """PH_ERROR_UNPINNED: a copy between pageable host memory and a device inside a capture."""


class StaleInput(Error, RuntimeError):
    """PH_ERROR_STALE_INPUT: a replay would read memory that was freed since the capture."""


class Overwritten(Error, RuntimeError):
    """PH_ERROR_OVERWRITTEN: an output that a later replay has overwritten."""


class PoolBusy(Error, RuntimeError):
    """PH_ERROR_POOL_BUSY: another capture or scope records to the pool."""


class PeerError(Error, RuntimeError):
    """PH_ERROR_PEER: another rank of a communicator failed, or did not come in time."""


class CallerError(Error, RuntimeError):
    """PH_ERROR_CALLER: a function of the caller's has failed; __cause__ is its exception."""


_CLASSES = {
    core.PH_ERROR_ARGUMENT: ArgumentError,
    core.PH_ERROR_STATE: StateError,
    core.PH_ERROR_UNSUPPORTED: UnsupportedError,
    core.PH_ERROR_NOT_FOUND: NotFound,
    core.PH_ERROR_SIZE: SizeError,
    core.PH_ERROR_WRONG_DEVICE: WrongDevice,
    core.PH_ERROR_IO: FileError,
    core.PH_ERROR_MISMATCH: Mismatch,
    core.PH_ERROR_HOST_MEMORY: HostMemoryError,
    core.PH_ERROR_DEVICE_MEMORY: DeviceMemoryError,
    core.PH_ERROR_POOL_LIMIT: PoolLimit,
    core.PH_ERROR_DEVICE: DeviceError,
    core.PH_ERROR_CAPTURE: CaptureError,
    core.PH_ERROR_DEFAULT_STREAM: DefaultStream,
    core.PH_ERROR_UNPINNED: Unpinned,
    core.PH_ERROR_STALE_INPUT: StaleInput,
    core.PH_ERROR_OVERWRITTEN: Overwritten,
    core.PH_ERROR_POOL_BUSY: PoolBusy,
    core.PH_ERROR_PEER: PeerError,
    core.PH_ERROR_CALLER: CallerError,
}


# Calls that remedies name, where one call of an object does the same.
IN_PYTHON = {
    "ph_capture_options.breadcrumbs": "graph.capture(stream, breadcrumbs=True)",
    "ph_capture_options.pool": "graph.capture(stream, pool=pool)",
    "ph_device_default_stream": "device.default_stream",
    "ph_device_open": "phonograph.Device(name)",
    "ph_event_options.timing": "device.event(timing=True)",
    "ph_finite_check": "stream.check_finite(array)",
    "ph_foreign_announce": "phonograph.ForeignBlock(device, address, bytes)",
    "ph_graph_capture": "with graph.capture(stream):",
    "ph_graph_find_races": "graph.races()",
    "ph_graph_import_cuda": "phonograph.Graph.import_cuda(device, cuda_graph)",
    "ph_graph_replay": "graph.replay(stream)",
    "ph_graph_replay_with": "graph.replay(stream, name=array)",
    "ph_graph_reset": "graph.reset()",
    "ph_graph_slot_prove": "graph.prove_slots(other, name=(array, array))",
    "ph_graph_update": "graph.update(other)",
    "ph_graph_verify": "graph.verify(stream, body)",
    "ph_graph_view_cuda": "phonograph.Graph.view_cuda(device, cuda_graph, cuda_exec)",
    "ph_kernel_source.cuda": "device.kernel(..., cuda=text)",
    "ph_kernel_source.host": "device.kernel(..., host=function)",
    "ph_malloc": "stream.empty(shape, dtype)",
    "ph_malloc_pinned": "stream.pinned(shape, dtype)",
    "ph_memory_trim": "device.trim()",
    "ph_pool_options.limit": "device.pool(limit=bytes)",
    "ph_stream_synchronize": "stream.synchronize()",
    "ph_stream_wait_event": "stream.wait(event)",
    "ph_stream_wait_stream": "stream.wait(other)",
}
# Not the first word of a message, which says what has failed, and not what has Python's word already. With its operands.
_CALL = re.compile(r"(?<!\A)\b((ph_\w++(?:\.\w++)?+)(?:\([^()]*\))?+)(?! \(in Python)(?: \(in C\+\+ [^()]*\))?+")


# Objects of this package by the words of C. Their handles are NULL once they are closed, and at no other time.
_OBJECTS = {
    "a": "Graph", "b": "Graph", "cache": "Cache", "comm": "Communicator", "device": "Device", "event": "Event", "from": "Graph",
    "graph": "Graph", "kernel": "Kernel", "one of the captures": "Graph", "pool": "Pool", "profile": "Profile",
    "stream": "Stream",
}  # fmt: skip
_CLOSED = re.compile(rf"(?<=: )({'|'.join(_OBJECTS)}) is NULL, and must not be\Z")


def in_python(message):
    """A message of the library's, with the calls of Python behind those of C; a NULL handle is an object that was closed."""
    message = _CLOSED.sub(lambda found: f"{found[1]} is NULL: the phonograph.{_OBJECTS[found[1]]} was closed; make another one", message)
    return _CALL.sub(lambda found: f"{found[1]} (in Python {IN_PYTHON[found[2]]})" if found[2] in IN_PYTHON else found[0], message)


def error_of(status):
    """The calling thread's error record as the exception for that status."""
    record = core.ph_error_last().contents
    if record.status != status:  # a callback returned a number that nobody set a record for
        return _CLASSES.get(status, Error)(core.ph_status_name(status).decode(), status)
    message = in_python(record.message.decode("utf-8", "replace")) or core.ph_status_name(status).decode()
    native_call = record.native_call.decode("utf-8", "replace")
    return _CLASSES.get(status, Error)(message, status, record.native_code, native_call)


def check(status):
    """Raises the exception of a status other than PH_OK."""
    if status:
        raise error_of(status)


def set_record(exception):
    """Makes an exception the thread's error record, for a callback; the status."""
    if isinstance(exception, Error):
        record = core.ph_error(int(exception.status), exception.native_code, exception.native_call.encode()[:63])
        record.message = exception.message.encode()[:439]
    else:
        record = core.ph_error(core.PH_ERROR_CALLER)
        record.message = f"a callback raised {type(exception).__name__}: {exception}".encode()[:439]
    return core.ph_error_set(ctypes.byref(record))
