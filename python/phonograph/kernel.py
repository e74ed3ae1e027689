# SPDX-License-Identifier: MIT
"""Kernels: CUDA C text, PTX or compiled code for a GPU; a function for the host device."""

import ctypes
import sys
import warnings
from numbers import Integral
from typing import NamedTuple

from . import functions, hot, lifetime
from .array import Array, asarray
from .bindings import core
from .errors import ArgumentError, error_of
from .lifetime import Owner, new_handle

_ACCESS = {None: 0, "in": core.PH_ACCESS_IN, "out": core.PH_ACCESS_OUT, "inout": core.PH_ACCESS_INOUT}


class address(NamedTuple):
    """A parameter that is an address of the device's memory, for Kernel.

    access: "in", "out", "inout", or None: not known. count: the name of the parameter that has the
    number of elements; itemsize: bytes of an element. Both together declare the extent, for
    races (ph_param_access): without them it is not known.
    - A launch refuses an array that is shorter than the extent, or whose elements do not fill ones of
      itemsize bytes (four float32 fill a float4 of 16). Addresses as numbers are not checked.
    - It refuses a read-only array, as of bytes, unless access is "in": the kernel might write it.
    """

    access: str = None
    count: str = None
    itemsize: int = 0


def _fields(parameters):
    return [(name, ctypes.c_void_p if _is_address(kind) else kind) for name, kind in parameters]


def _is_address(kind):
    return kind is address or isinstance(kind, address)


def _declared(kind):
    """The address of a parameter, or None of a value."""
    return address() if kind is address else kind if isinstance(kind, address) else None


def _check_declared(call, kind, array):
    """ArgumentError: the array is not what the parameter, an address, was declared as. The extent is checked by _check_extent."""
    if array.readonly and kind.access != "in":
        raise ArgumentError(
            f"{call}: the array is read-only, and the kernel may write it; pass a writable copy, or declare the parameter as "
            'address("in") where the kernel only reads it',
            core.PH_ERROR_ARGUMENT,
        )
    if kind.itemsize and kind.itemsize % array.dtype.itemsize:
        raise ArgumentError(
            f"{call}: elements of {array.dtype.name} have {array.dtype.itemsize} bytes, and those of the parameter are declared "
            f"with {kind.itemsize}; convert the array, as by astype(), or pass its address as a number",
            core.PH_ERROR_ARGUMENT,
        )


def _check_extent(call, kind, array, arguments):
    """ArgumentError: the kernel uses more than the array has. arguments: packed."""
    count = getattr(arguments, kind.count)
    if array.nbytes < count * (kind.itemsize or array.dtype.itemsize):
        has = array.nbytes // (kind.itemsize or array.dtype.itemsize)
        raise ArgumentError(
            f"{call}: the array has {has} elements, and {kind.count} says {count}; pass an array of at least that many, or a smaller "
            f"{kind.count}",
            core.PH_ERROR_ARGUMENT,
        )


def _is_temporary(arguments, at):
    """Whether nobody but this call has the array, or what it is a view of. Of a Python that counts references; others say no.

    The tuple of arguments has one reference, the Array of the launch (its base) one, getrefcount one; a view has one to its base.
    """
    if sys.getrefcount(arguments[at]) > 3:
        return False
    base = getattr(arguments[at], "base", None)
    while base is not None:
        if sys.getrefcount(base) > 3:  # the view, this name, getrefcount
            return False
        base = getattr(base, "base", None)
    return True


def _warn_of_temporaries(kernel, arguments, places):
    """A graph reads the memory that numpy computed while it was captured: nothing computes it again."""
    for at in places:
        if _is_temporary(arguments, at):
            warnings.warn(
                f"{kernel.name}: {kernel.parameters[at]}: the capture gets an array that only this expression has: numpy has computed it "
                "once, now, and every replay reads these values; keep it under a name and write to it, or compute it by a kernel",
                RuntimeWarning,
                stacklevel=4,
            )


def _param(name, kind, layout):
    field = getattr(layout, name)
    param = core.ph_param(name.encode(), core.PH_PARAM_ADDRESS if _is_address(kind) else core.PH_PARAM_VALUE)
    param.offset, param.size = field.offset, field.size
    if isinstance(kind, address) and kind.access:
        param.access.kind, param.access.bytes = _ACCESS[kind.access], kind.itemsize
        if kind.count:
            param.access.count = getattr(layout, kind.count).offset + 1
    return param


def _function_address(function):
    return function if isinstance(function, int) else ctypes.cast(function, ctypes.c_void_p).value


class Kernel(Owner):
    """ph_kernel, with typed parameters.

    parameters: pairs (name, type), in order; a type is one of ctypes, as c_float, or address.
    cuda: CUDA C text with an extern "C" __global__ function `name`. image: PTX, cubin or fatbin.
    options: NVRTC's, as "-use_fast_math". host: the host device's form:
    - the address of a compiled ph_host_kernel_fn: a function of ctypes, or an integer (of cffi:
      int(ffi.cast("intptr_t", f)));
    - a function of Python, called as host(range, arguments): range is a ph_block_range, arguments
      has a member for each parameter. It runs with Python's lock. What it raises is raised by the
      next synchronize(). It must not use phonograph, but may use numpy: see array_at().
    host_inline: see ph_kernel_source; refused for a function of Python.
    """

    _destroy = core.ph_kernel_release

    def __init__(self, device, name, parameters, *, cuda=None, image=None, options=None, host=None, host_inline=False):
        self.device, self.name = device, name
        self.parameters = tuple(name for name, _ in parameters)
        layout = type(f"{name}_arguments", (ctypes.Structure,), {"_fields_": _fields(parameters)})
        self._layout, self._size = layout, ctypes.sizeof(layout)
        self._addresses = [_declared(kind) for _, kind in parameters]
        self._thunk, self._python = self._host_form(host), callable(host) and not isinstance(host, ctypes._CFuncPtr)
        if self._python and host_inline:
            raise TypeError("host_inline: a function of Python waits for Python's lock, which an inline kernel must not")
        params = (core.ph_param * len(parameters))(*(_param(n, kind, layout) for n, kind in parameters))
        source = core.ph_kernel_source(name.encode())
        source.cuda = cuda.encode() if cuda else None
        if self._thunk:
            source.host = self._thunk
        source.args_size = self._size if parameters else 0
        source.params, source.param_count = ctypes.cast(params, ctypes.POINTER(core.ph_param)), len(parameters)
        image = image.encode() if isinstance(image, str) else image
        if image:
            source.cuda_image = ctypes.cast(ctypes.c_char_p(image), ctypes.c_void_p).value
            source.cuda_image_bytes = len(image)
        source.cuda_options = options.encode() if options else None
        source.host_inline = host_inline
        self._own(new_handle(core.ph_kernel_create, device._device_handle, ctypes.byref(source)))

    def _host_form(self, host):
        if host is None:
            return None
        if isinstance(host, (int, ctypes._CFuncPtr)):
            self._kept = host
            return core.ph_host_kernel_fn(_function_address(host))
        if not callable(host):
            raise TypeError(f"host is a {type(host).__name__}: it must be a function, or the address of one")
        layout = self._layout

        @core.ph_host_kernel_fn
        def run(range_, arguments):
            with lifetime.in_callback:
                try:
                    host(range_.contents, layout.from_address(arguments) if arguments else layout())
                except BaseException as exception:
                    functions.add_failure(exception)

        return run

    def launch(self, stream, arguments, grid=1, block=1, shared_bytes=0, programmatic=False):
        """Launches the kernel: see Stream.launch."""
        if len(arguments) != len(self.parameters):
            raise TypeError(f"{self.name} takes {len(self.parameters)} arguments ({', '.join(self.parameters)}), not {len(arguments)}")
        values, kept, counted, places = [], [self._thunk] if self._python else [], [], []
        for name, kind, value in zip(self.parameters, self._addresses, arguments):
            if kind is None or value is None or isinstance(value, Integral):
                values.append(value if kind is None or value is None else int(value))
                continue
            array = self._array(stream, name, kind, value)
            values.append(array.address)
            if array.is_host and array.is_foreign:
                kept.append(array)  # until the kernel has run
                places.append(len(values) - 1)
            if kind.count:
                counted.append((name, kind, array))
        packed = self._layout(*values)
        for name, kind, array in counted:
            _check_extent(f"{self.name}: {name}", kind, array, packed)
        config = core.ph_launch_config(_dimensions(grid), _dimensions(block), shared_bytes, programmatic)
        size = self._size if values else 0
        status = hot.ph_launch(
            stream._stream_handle, self._handle, ctypes.addressof(config), ctypes.addressof(packed) if size else None, size
        )
        if status:
            raise error_of(status)
        if kept:
            if places and hasattr(sys, "getrefcount") and stream.is_capturing:
                name = kind = value = array = None  # which count as holders
                _warn_of_temporaries(self, arguments, places)
            functions.hold_for_work(stream._stream_handle, tuple(kept))

    def _array(self, stream, name, kind, value):
        array = value if isinstance(value, Array) else asarray(value, stream)
        if not array.is_contiguous:
            raise ArgumentError(
                f"{self.name}: {name}: the array is not contiguous; pass a contiguous copy, as numpy.ascontiguousarray makes one, or its "
                "address as a number to use it as it is",
                core.PH_ERROR_ARGUMENT,
            )
        _check_declared(f"{self.name}: {name}", kind, array)
        array._use(stream)
        return array


def _dimensions(numbers):
    if isinstance(numbers, int):
        return (numbers, 1, 1)
    numbers = tuple(numbers)
    return numbers + (1,) * (3 - len(numbers))
