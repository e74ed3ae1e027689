# SPDX-License-Identifier: MIT
"""The calls of the CUDA driver about graphs that other code captures: copies for ph_graph_import_cuda, and open captures."""

import ctypes
import functools

from .bindings import core
from .errors import DeviceError, UnsupportedError

_HANDLE = ctypes.c_void_p
_NUMBER = ctypes.c_size_t
_CUDA = 12000  # the version whose calls these are
_ACTIVE = 1  # CU_STREAM_CAPTURE_STATUS_ACTIVE
_TO = ctypes.POINTER
_KINDS = {
    "cuGraphClone": (_TO(_HANDLE), _HANDLE),
    "cuGraphDestroy": (_HANDLE,),
    "cuGraphLaunch": (_HANDLE, _HANDLE),
    "cuStreamIsCapturing": (_HANDLE, _TO(ctypes.c_int)),
    "cuGraphGetNodes": (_HANDLE, _TO(_HANDLE), _TO(_NUMBER)),
    "cuStreamGetCaptureInfo": (
        _HANDLE, _TO(ctypes.c_int), _TO(ctypes.c_uint64), _TO(_HANDLE), _TO(_TO(_HANDLE)), _TO(_NUMBER),
    ),
}  # fmt: skip


def _refuse(name, reason):
    return UnsupportedError(f"{name}: there is no CUDA driver that has it: {reason}", core.PH_ERROR_UNSUPPORTED)


@functools.cache
def _entry(name):
    """The driver's function of that name."""
    try:
        look_up = ctypes.CDLL("libcuda.so.1").cuGetProcAddress_v2
    except (OSError, AttributeError) as error:
        raise _refuse(name, error) from None
    address = ctypes.c_void_p()
    result = look_up(name.encode(), ctypes.byref(address), ctypes.c_int(_CUDA), ctypes.c_uint64(0), None)
    if result or not address.value:
        raise _refuse(name, f"CUresult {result}")
    return ctypes.CFUNCTYPE(ctypes.c_int, *_KINDS[name])(address.value)


def _check(result, name, handle, advice):
    if result:
        raise DeviceError(f"{name} of {handle:#x}: CUresult {result}; {advice}", core.PH_ERROR_DEVICE, result, name)


def address_of(name):
    """The address of the driver's function, for C."""
    return ctypes.cast(_entry(name), _HANDLE).value


def clone_graph(handle):
    """A copy of a CUgraph, which the caller owns."""
    copy = ctypes.c_void_p()
    result = _entry("cuGraphClone")(ctypes.byref(copy), handle)
    _check(result, "cuGraphClone", handle, "the handle must be that of a live CUgraph")
    return copy


def destroy_graph(handle):
    """Ends a copy that nobody took over."""
    _entry("cuGraphDestroy")(handle)


def nodes_of(handle):
    """The handles of the nodes of a CUgraph, in the order of their creation."""
    call, count = _entry("cuGraphGetNodes"), ctypes.c_size_t()
    advice = "the handle must be that of a live CUgraph"
    _check(call(handle, None, ctypes.byref(count)), "cuGraphGetNodes", handle, advice)
    nodes = (ctypes.c_void_p * count.value)()
    _check(call(handle, nodes, ctypes.byref(count)), "cuGraphGetNodes", handle, advice)
    return nodes[: count.value]


def capture_of(stream):
    """(number of the capture that the CUstream is in, the nodes that its next node depends on), or None: it is in no live one."""
    status, number, count = ctypes.c_int(), ctypes.c_uint64(), ctypes.c_size_t()
    nodes = ctypes.POINTER(ctypes.c_void_p)()
    result = _entry("cuStreamGetCaptureInfo")(
        stream, ctypes.byref(status), ctypes.byref(number), None, ctypes.byref(nodes), ctypes.byref(count)
    )
    if result or status.value != _ACTIVE:
        return None
    return number.value, nodes[: count.value]
