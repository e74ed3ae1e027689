# SPDX-License-Identifier: MIT
"""Types of elements, by the names that numpy has for them, without numpy."""

import struct
from typing import NamedTuple

_INT, _UINT, _FLOAT, _BFLOAT, _COMPLEX, _BOOL = 0, 1, 2, 4, 5, 6  # DLPack's codes


class DType(NamedTuple):
    name: str
    typestr: str  # of __array_interface__
    code: int  # of DLPack
    itemsize: int
    format: str  # of struct; "" for none

    def pack(self, value):
        """The bytes of one element."""
        if self.name == "bfloat16":  # the upper half of a float32, rounded to nearest even
            bits = struct.unpack("<I", struct.pack("<f", value))[0]
            if value == value:
                bits += 0x7FFF + (bits >> 16 & 1)
            return struct.pack("<H", bits >> 16 & 0xFFFF)
        if self.code == _COMPLEX:
            half = "<f" if self.itemsize == 8 else "<d"
            return struct.pack(half, complex(value).real) + struct.pack(half, complex(value).imag)
        return struct.pack("<" + self.format, value)


_ALL = [
    DType("bool", "|b1", _BOOL, 1, "?"), DType("int8", "|i1", _INT, 1, "b"), DType("uint8", "|u1", _UINT, 1, "B"),
    DType("int16", "<i2", _INT, 2, "h"), DType("uint16", "<u2", _UINT, 2, "H"), DType("int32", "<i4", _INT, 4, "i"),
    DType("uint32", "<u4", _UINT, 4, "I"), DType("int64", "<i8", _INT, 8, "q"), DType("uint64", "<u8", _UINT, 8, "Q"),
    DType("float16", "<f2", _FLOAT, 2, "e"), DType("float32", "<f4", _FLOAT, 4, "f"),
    DType("float64", "<f8", _FLOAT, 8, "d"), DType("bfloat16", "<V2", _BFLOAT, 2, ""),
    DType("complex64", "<c8", _COMPLEX, 8, ""), DType("complex128", "<c16", _COMPLEX, 16, ""),
]  # fmt: skip
_BY_NAME = {dtype.name: dtype for dtype in _ALL}
_BY_TYPESTR = {dtype.typestr: dtype for dtype in _ALL}
_BY_CODE = {(dtype.code, dtype.itemsize * 8): dtype for dtype in _ALL}


def dtype_of(dtype):
    """The DType of a name, a typestr, or an object with `str` or `name`, as numpy's."""
    if isinstance(dtype, DType):
        return dtype
    for text in (dtype, getattr(dtype, "str", None), getattr(dtype, "name", None), getattr(dtype, "__name__", None)):
        if isinstance(text, str):
            found = _BY_NAME.get(text) or _BY_TYPESTR.get(text) or _BY_TYPESTR.get(text.replace("=", "<"))
            if found:
                return found
    raise TypeError(f"{dtype!r} is no type of elements here: {', '.join(_BY_NAME)}")


def dtype_of_code(code, bits, lanes):
    found = _BY_CODE.get((code, bits)) if lanes == 1 else None
    if not found:
        raise TypeError(f"a DLPack type of code {code}, {bits} bits and {lanes} lanes is no type of elements here")
    return found
