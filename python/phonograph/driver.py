# SPDX-License-Identifier: MIT
"""The two calls of the CUDA driver that copy a graph of other code, for ph_graph_import_cuda."""

import ctypes
import functools

from .bindings import core
from .errors import DeviceError, UnsupportedError

_HANDLE = ctypes.c_void_p
_CUDA = 12000  # the version whose calls these are


def _refuse(reason):
    return UnsupportedError(f"cuGraphClone: there is no CUDA driver that has it: {reason}", core.PH_ERROR_UNSUPPORTED)


@functools.cache
def _calls():
    """(cuGraphClone, cuGraphDestroy) of the driver."""
    try:
        look_up = ctypes.CDLL("libcuda.so.1").cuGetProcAddress_v2
    except (OSError, AttributeError) as error:
        raise _refuse(error) from None
    found = []
    for name, kinds in (("cuGraphClone", (ctypes.POINTER(_HANDLE), _HANDLE)), ("cuGraphDestroy", (_HANDLE,))):
        address = ctypes.c_void_p()
        result = look_up(name.encode(), ctypes.byref(address), ctypes.c_int(_CUDA), ctypes.c_uint64(0), None)
        if result or not address.value:
            raise _refuse(f"CUresult {result} for {name}")
        found.append(ctypes.CFUNCTYPE(ctypes.c_int, *kinds)(address.value))
    return found


def clone_graph(handle):
    """A copy of a CUgraph, which the caller owns."""
    copy = ctypes.c_void_p()
    result = _calls()[0](ctypes.byref(copy), handle)
    if result:
        raise DeviceError(
            f"cuGraphClone of {handle:#x}: CUresult {result}; the handle must be that of a live CUgraph",
            core.PH_ERROR_DEVICE, result, "cuGraphClone",
        )  # fmt: skip
    return copy


def destroy_graph(handle):
    """Ends a copy that nobody took over."""
    _calls()[1](handle)
