# SPDX-License-Identifier: MIT
"""Failed calls as exceptions: phonograph.Error, and a class below it for each status."""

import ctypes

from .bindings import core


class Error(Exception):
    """A call of the library has failed.

    status: the number of ph_status. native_code: the driver's number, or 0. native_call: the
    driver's call, or "". The text is the library's message: the call, the reason and the remedy.
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


def error_of(status):
    """The calling thread's error record as the exception for that status."""
    record = core.ph_error_last().contents
    if record.status != status:  # a callback returned a number that nobody set a record for
        return _CLASSES.get(status, Error)(core.ph_status_name(status).decode(), status)
    message = record.message.decode("utf-8", "replace") or core.ph_status_name(status).decode()
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
