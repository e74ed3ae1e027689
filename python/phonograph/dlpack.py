# SPDX-License-Identifier: MIT
"""DLPack (dmlc.github.io/dlpack) in and out, versioned and not. The structs are DLPack's own."""

import ctypes
from ctypes import CFUNCTYPE, POINTER, c_char_p, c_int32, c_int64, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p, py_object

from . import lifetime

_CPU, _CUDA, _CUDA_HOST = 1, 2, 3
_READ_ONLY, _COPIED = 1, 2
_VERSION = (1, 0)

_api = ctypes.pythonapi
_new_capsule = _api["PyCapsule_New"]
_new_capsule.restype, _new_capsule.argtypes = py_object, (c_void_p, c_char_p, c_void_p)
_capsule_pointer = _api["PyCapsule_GetPointer"]
_capsule_pointer.restype, _capsule_pointer.argtypes = c_void_p, (py_object, c_char_p)
# For the destructor of a capsule, which is no object any more.
_dying_is = _api["PyCapsule_IsValid"]
_dying_is.restype, _dying_is.argtypes = ctypes.c_int, (c_void_p, c_char_p)
_dying_pointer = ctypes.PyDLL(None)["PyCapsule_GetPointer"]
_dying_pointer.restype, _dying_pointer.argtypes = c_void_p, (c_void_p, c_char_p)
_set_name = _api["PyCapsule_SetName"]
_set_name.restype, _set_name.argtypes = ctypes.c_int, (py_object, c_char_p)

_Deleter = CFUNCTYPE(None, c_void_p)
_Destructor = ctypes.PYFUNCTYPE(None, c_void_p)


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", c_void_p), ("device_type", c_int32), ("device_id", c_int32), ("ndim", c_int32),
        ("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16),
        ("shape", POINTER(c_int64)), ("strides", POINTER(c_int64)), ("byte_offset", c_uint64),
    ]  # fmt: skip


class _Managed(ctypes.Structure):
    """DLManagedTensor"""

    _fields_ = [("tensor", _Tensor), ("context", c_void_p), ("deleter", c_void_p)]
    capsule, used = b"dltensor", b"used_dltensor"


class _Versioned(ctypes.Structure):
    """DLManagedTensorVersioned"""

    _fields_ = [
        ("major", c_uint32), ("minor", c_uint32), ("context", c_void_p), ("deleter", c_void_p), ("flags", c_uint64),
        ("tensor", _Tensor),
    ]  # fmt: skip
    capsule, used = b"dltensor_versioned", b"used_dltensor_versioned"


_exported = {}  # address of the managed tensor -> what it needs


@_Deleter
def _delete(address):
    _exported.pop(address, None)


@_Destructor
def _end_capsule(capsule):
    """A capsule that nobody took: its tensor goes with it."""
    for kind in (_Managed, _Versioned):
        if _dying_is(capsule, kind.capsule):
            _exported.pop(_dying_pointer(capsule, kind.capsule), None)


def device_of(array):
    """(type, number) as __dlpack_device__ has it."""
    device = array.stream.device if array.stream is not None else None
    if device is not None and device.is_cuda:
        return (_CUDA_HOST if array.pinned else _CUDA, device.ordinal)
    if array.is_host:
        return (_CPU, 0)
    taken = getattr(array, "_dlpack_device", None)
    return taken if taken else (_CUDA, 0)


def _order(array, stream):
    """Later work of the consumer's stream comes after the work so far of the array's own stream."""
    if array.stream is None or stream == -1 or array.pinned:
        return
    if array.stream.handle is None:  # closed: nobody can wait for it any more
        array.stream.device.synchronize()
        return
    if not array.stream.device.is_cuda:
        if stream is not None:
            raise ValueError("a stream is named for memory of the processor")
        array.stream.synchronize()  # a consumer on the processor reads at once
        return
    from .stream import Stream, order

    if stream in (None, 1):
        array.stream.device.default_stream.wait(array.stream)
    elif stream == 2:  # the consumer's thread's own: no wrapper has it
        array.stream.synchronize()
    else:
        with Stream.wrap(stream) as consumer:
            order(consumer, array.stream)


def export(array, stream, max_version, dl_device, copy):
    """A capsule with a view of the array."""
    if copy:
        raise BufferError("this library shares memory and makes no copy: copy=True is not supported")
    if dl_device is not None and tuple(dl_device) != device_of(array):
        raise BufferError(f"the memory is on device {device_of(array)}, not on {tuple(dl_device)}")
    kind = _Versioned if max_version is not None and tuple(max_version) >= (1, 0) else _Managed
    if array.readonly and kind is _Managed:
        raise BufferError("read-only memory needs DLPack 1.0: the older form has no mark for it")
    _order(array, stream)
    if array.ndim > 64:
        raise BufferError("more than 64 dimensions")
    managed, device = kind(), device_of(array)
    size = array.dtype.itemsize
    strides = [stride // size for stride in array.strides] if array.strides else _contiguous(array.shape)
    if array.strides and any(stride % size for stride in array.strides):
        raise BufferError("strides that are no multiples of the element's size")
    shape_memory = (c_int64 * max(array.ndim, 1))(*array.shape)
    stride_memory = (c_int64 * max(array.ndim, 1))(*strides)
    managed.tensor = _Tensor(
        array.address, device[0], device[1], array.ndim, array.dtype.code, size * 8, 1, shape_memory, stride_memory, 0
    )
    if kind is _Versioned:
        managed.major, managed.minor = _VERSION
        managed.flags = _READ_ONLY if array.readonly else 0
    managed.deleter = ctypes.cast(_delete, c_void_p).value
    address = ctypes.addressof(managed)
    _exported[address] = (managed, shape_memory, stride_memory, array)
    return _new_capsule(address, kind.capsule, ctypes.cast(_end_capsule, c_void_p).value)


def _contiguous(shape):
    strides, step = [], 1
    for length in reversed(shape):
        strides.append(step)
        step *= length
    return reversed(strides)


class _Taken:
    """A tensor that another library gave us: its deleter is called with the last view."""

    def __init__(self, managed, thing):
        self._managed, self._thing = managed, thing

    def __del__(self):
        managed = self._managed
        if managed.deleter:
            lifetime.end(_Deleter(managed.deleter), ctypes.addressof(managed))


def _ask(thing, arguments):
    try:
        return thing.__dlpack__(max_version=_VERSION, **arguments)
    except (TypeError, BufferError):  # a library that knows only the older form
        return thing.__dlpack__(**arguments)


def take(thing, stream=None):
    """An Array over the memory of an object with __dlpack__."""
    from .array import Array
    from .dtypes import dtype_of_code

    device = tuple(int(number) for number in thing.__dlpack_device__())
    if device[0] not in (_CPU, _CUDA, _CUDA_HOST):
        raise TypeError(f"memory of DLPack's device type {device[0]} is of no device of this library")
    arguments = {}
    if device[0] == _CUDA:
        arguments["stream"] = (stream._cuda() or 1) if stream is not None else 1
    capsule = _ask(thing, arguments)
    for kind in (_Versioned, _Managed):
        if _api.PyCapsule_IsValid(py_object(capsule), kind.capsule):
            break
    else:
        raise TypeError(f"__dlpack__ of {type(thing).__name__} returned no tensor")
    managed = kind.from_address(_capsule_pointer(capsule, kind.capsule))
    _set_name(capsule, kind.used)
    base = _Taken(managed, thing)
    if kind is _Versioned and managed.major != 1:
        raise TypeError(f"a tensor of DLPack {managed.major}, which this library does not know")
    tensor = managed.tensor
    dtype = dtype_of_code(tensor.code, tensor.bits, tensor.lanes)
    shape = tensor.shape[: tensor.ndim] if tensor.ndim else []
    strides = [s * dtype.itemsize for s in tensor.strides[: tensor.ndim]] if tensor.strides and tensor.ndim else None
    array = Array(
        (tensor.data or 0) + tensor.byte_offset, shape, dtype, strides=strides, base=base, host=device[0] != _CUDA,
        readonly=kind is _Versioned and bool(managed.flags & _READ_ONLY), pinned=device[0] == _CUDA_HOST,
    )  # fmt: skip
    array._dlpack_device = device
    if device[0] == _CUDA and stream is None:
        from .array import _wait_for

        _wait_for(1, None)
    return array
