# SPDX-License-Identifier: MIT
"""What slots are made of and set to. C gets an address alone: what else an array says is checked here."""

import ctypes
from numbers import Integral
from typing import NamedTuple

from .array import asarray
from .bindings import core
from .dtypes import DType
from .errors import ArgumentError

_VALUE_REMEDY = "pass a contiguous copy, as numpy.ascontiguousarray makes one, or the address as a number"
_MADE_REMEDY = "name the contiguous array that it is a view of"


class Span(NamedTuple):
    """The form of the array that an address slot was made with, or expects."""

    dtype: DType
    nbytes: int


def _refuse(call, name, text):
    return ArgumentError(f"{call}: {name}: {text}", core.PH_ERROR_ARGUMENT)


def plain_array(call, name, thing, stream=None, remedy=_VALUE_REMEDY):
    """The Array of a thing of which the address is all that C gets. ArgumentError: the address does not say where its elements are."""
    array = asarray(thing, stream)
    if not array.is_contiguous:
        raise _refuse(
            call, name,
            f"the array of shape {array.shape} has strides of {array.strides} bytes, which is not contiguous, and its address "
            f"would be read as if it were; {remedy}",
        )  # fmt: skip
    if isinstance(array._base, bytes):
        raise _refuse(
            call, name,
            f"a read-only {type(thing).__name__} has no address of its own, as asarray() copies it; pass an array that you keep, as "
            "numpy.frombuffer makes one",
        )  # fmt: skip
    return array


def made_of(call, name, thing):
    """The Array that a slot is made of."""
    return plain_array(call, name, thing, remedy=_MADE_REMEDY)


def span_of(array):
    return Span(array.dtype, array.nbytes)


def same_span(call, name, here, there):
    """The Span of both arrays of a proof."""
    if span_of(here) != span_of(there):
        forms = " and ".join(f"{array.nbytes} bytes of {array.dtype.name}" for array in (here, there))
        raise _refuse(call, name, f"the arrays of the two captures have {forms}; name two arrays of one dtype and size")
    return span_of(here)


def _address(call, name, span, value, stream):
    if type(value) is int or isinstance(value, Integral):
        return int(value)
    array = plain_array(call, name, value, stream)
    if array.dtype != span.dtype:
        raise _refuse(
            call, name,
            f"the array is of {array.dtype.name}, and the slot was made with {span.dtype.name}; convert it, as by "
            f'astype("{span.dtype.name}"), or pass its address as a number',
        )  # fmt: skip
    if array.nbytes < span.nbytes and array.is_foreign:  # of the library's own memory, C knows what lies behind the array
        raise _refuse(
            call, name,
            f"the array has {array.nbytes} bytes, and the slot was made with {span.nbytes}, which the graph may use; pass an array "
            "of that size",
        )  # fmt: skip
    return array.address


def slot_values(call, slots, values, stream):
    """The values as an array of ph_slot_value, and what must live during the call. slots: name -> (number, Span or a type of ctypes)."""
    pairs, kept = (core.ph_slot_value * len(values))(), []
    for pair, (name, value) in zip(pairs, values.items()):
        if name not in slots:
            raise KeyError(f"the graph has no slot {name!r}: it has {', '.join(slots) or 'none'}")
        pair.slot, kind = slots[name]
        if isinstance(kind, Span):
            pair.value = _address(call, name, kind, value, stream)
        else:
            kept.append(value if isinstance(value, kind) else kind(value))
            pair.value = ctypes.addressof(kept[-1])
    return pairs, kept
