# SPDX-License-Identifier: MIT
"""Slots that the compiled module sets to tensors of another library, by DLPack's table of C functions."""

import ctypes
import struct

import numpy
import pytest

import phonograph
from phonograph import hot
from phonograph.bindings import core

pytestmark = pytest.mark.skipif(not hot.COMPILED, reason="no compiled module in this build")
FLOAT, INTEGER, COMPLEX = (2, 32, 1), (0, 32, 1), (5, 32, 1)
CUDA, HOST = 2, 1


class View(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p), ("device", ctypes.c_int32 * 2), ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64),
    ]  # fmt: skip


VIEW = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(View))
STREAM = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p))


class Table(ctypes.Structure):
    pass


Table._fields_ = [
    ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("previous", ctypes.POINTER(Table)), ("managed", ctypes.c_void_p * 3),
    ("view", VIEW), ("current_stream", STREAM),
]  # fmt: skip


class Tensor:
    """Of a library that has the table."""

    def __init__(self, address, shape=(9,), kind=FLOAT, device=(CUDA, 0), strides=None, negative=False, offset=0):
        self.address, self.kind, self.device, self.negative, self.offset = address, kind, device, negative, offset
        self.shape = (ctypes.c_int64 * len(shape))(*shape)
        self.strides = strides and (ctypes.c_int64 * len(strides))(*strides)

    def is_neg(self):
        return self.negative


class Derived(Tensor):
    pass


@VIEW
def view(tensor, out):
    found = out.contents
    found.data, found.byte_offset, found.ndim = tensor.address - tensor.offset, tensor.offset, len(tensor.shape)
    found.device[:] = tensor.device
    found.code, found.bits, found.lanes = tensor.kind
    found.shape = ctypes.cast(tensor.shape, ctypes.POINTER(ctypes.c_int64))
    found.strides = ctypes.cast(tensor.strides, ctypes.POINTER(ctypes.c_int64)) if tensor.strides else None
    return 0


@VIEW
def fails(_tensor, _out):
    return -1


@STREAM
def current_stream(_kind, _number, out):
    out[0] = 77
    return 0


NAME = b"dlpack_exchange_api"
new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype, new_capsule.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)


def capsule(table, name=NAME):
    return new_capsule(ctypes.addressof(table), name, None)


TABLE = Table(1, 3, None, (ctypes.c_void_p * 3)(), view, current_stream)
NEWER = Table(2, 0, ctypes.pointer(TABLE), (ctypes.c_void_p * 3)(), fails, current_stream)
READER = hot.tensor_reader(capsule(TABLE), (Tensor,), Tensor.is_neg)


@pytest.fixture
def rebound(stream):
    """(stream, graph that copies x to y, arrays x and other, y)."""
    x, other = stream.array(numpy.zeros(9, "float32")), stream.array(numpy.full(9, 5.0, "float32"))
    y = stream.zeros(9, "float32")
    graph = phonograph.Graph()
    with graph.capture(stream):
        stream.copy(y, x)
    graph.slot("x", x)
    return stream, graph, x, other, y


def test_a_tensor_of_the_form_is_set(rebound):
    stream, graph, x, other, y = rebound
    forms = {"x": hot.tensor_form(READER, graph.slot_number("x"), Tensor(x.address))}
    for tensor, expected in ((Tensor(other.address), 5), (Tensor(x.address), 0), (Tensor(other.address, strides=(1,), offset=64), 5)):
        assert hot.set_tensors(graph.handle, READER, forms, {"x": tensor}, None) == 0
        graph.replay(stream)
        assert (y.to_numpy() == expected).all()


def test_tensors_of_other_forms_set_nothing(rebound):
    stream, graph, x, other, y = rebound
    forms = {"x": hot.tensor_form(READER, graph.slot_number("x"), Tensor(x.address, (3, 1, 3)))}
    at = other.address
    for tensor in (
        Tensor(at), Tensor(at, (3, 3)), Tensor(at, (1, 3, 3)), Tensor(at, (3, 1, 3), INTEGER), Tensor(at, (3, 1, 3), device=(CUDA, 1)),
        Tensor(at, (3, 1, 3), device=(HOST, 0)), Tensor(at, (3, 1, 3), strides=(1, 1, 3)), Tensor(at, (3, 1, 3), negative=True),
        Derived(at, (3, 1, 3)), 5, None,
    ):  # fmt: skip
        assert hot.set_tensors(graph.handle, READER, forms, {"x": tensor}, None) is None
    assert hot.set_tensors(graph.handle, READER, forms, {"other": Tensor(at, (3, 1, 3))}, None) is None
    assert hot.set_tensors(graph.handle, READER, {"x": None}, {"x": Tensor(at, (3, 1, 3))}, None) is None
    graph.replay(stream)
    assert (y.to_numpy() == 0).all()
    assert hot.set_tensors(graph.handle, READER, forms, {"x": Tensor(at, (3, 1, 3), strides=(3, 77, 1))}, None) == 0
    graph.replay(stream)
    assert (y.to_numpy() == 5).all()


def test_the_librarys_refusals_are_its_status(rebound):
    _, graph, x, other, _ = rebound
    forms = {"x": hot.tensor_form(READER, graph.slot_number("x"), Tensor(x.address))}
    assert hot.set_tensors(graph.handle, READER, forms, {"x": Tensor(other.address + 4)}, None) == core.PH_ERROR_ARGUMENT
    assert hot.set_tensors(None, READER, forms, {"x": Tensor(other.address)}, None) == core.PH_ERROR_ARGUMENT


def test_a_launch_goes_with_it(rebound):
    """On the stream that the other library has as its current one; there is no GPU's context on the host device."""
    stream, graph, x, other, y = rebound
    forms = {"x": hot.tensor_form(READER, graph.slot_number("x"), Tensor(x.address))}
    launched, state, result = [], [0], [0]

    @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int))
    def is_capturing(on, out):
        assert on == 77
        out[0] = state[0]
        return 0

    @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
    def launch(executable, on):
        launched.append((executable, on))
        return result[0]

    calls = [ctypes.cast(call, ctypes.c_void_p).value for call in (is_capturing, launch)]
    how = struct.pack("=4Qq", *calls, 55, stream.device.handle, 0)
    on_gpu = stream.device.is_cuda
    assert hot.set_tensors(graph.handle, READER, forms, {"x": Tensor(other.address)}, how) == (-1 if on_gpu else 0)
    assert launched == ([(55, 77)] if on_gpu else [])
    graph.replay(stream)
    assert (y.to_numpy() == 5).all()
    assert hot.set_tensors(graph.handle, READER, forms, {}, how) == (-1 if on_gpu else 0)
    launched.clear()
    state[0] = 1
    assert hot.set_tensors(graph.handle, READER, forms, {"x": Tensor(x.address)}, how) == 0 and not launched  # a capture is open
    state[0], result[0] = 0, 700
    assert hot.set_tensors(graph.handle, READER, forms, {}, how) == 0 and len(launched) == on_gpu  # it failed
    launched.clear()
    assert hot.set_tensors(graph.handle, READER, forms, {"x": Tensor(x.address + 4)}, how) == core.PH_ERROR_ARGUMENT and not launched
    assert hot.set_tensors(graph.handle, READER, forms, {"x": 5}, how) is None and not launched
    with pytest.raises(ValueError, match="another size"):
        hot.set_tensors(graph.handle, READER, forms, {}, how[:-1])
    with pytest.raises(TypeError):
        hot.set_tensors(graph.handle, READER, forms, {}, 5)


def test_signs_that_are_elsewhere_are_asked_of_numbers_that_have_them():
    assert hot.tensor_form(READER, 0, Tensor(64, negative=True)) is None
    assert hot.tensor_form(READER, 0, Tensor(64, kind=INTEGER, negative=True)) is not None  # not asked
    assert hot.tensor_form(READER, 0, Tensor(64, kind=COMPLEX)) is None
    asked = hot.tensor_reader(capsule(TABLE), (Tensor,), lambda tensor: 1 / 0)
    assert hot.tensor_form(asked, 0, Tensor(64)) is None


def test_tensors_that_no_form_holds():
    assert hot.tensor_form(READER, 0, Tensor(64, (1,) * 12)) is not None and hot.tensor_form(READER, 0, Tensor(64, (1,) * 13)) is None
    assert hot.tensor_form(READER, 0, Tensor(64, ())) is not None
    assert hot.tensor_form(hot.tensor_reader(capsule(NEWER), (Tensor,), Tensor.is_neg), 0, Tensor(64)) is not None  # the older table's


def test_misuse():
    with pytest.raises(ValueError, match="no view of DLPack 1"):
        hot.tensor_reader(capsule(Table(2, 0)), (Tensor,), Tensor.is_neg)
    with pytest.raises(ValueError, match="no view of DLPack 1"):
        hot.tensor_reader(capsule(Table(1, 3)), (Tensor,), Tensor.is_neg)
    with pytest.raises(ValueError):
        hot.tensor_reader(capsule(TABLE, b"other"), (Tensor,), Tensor.is_neg)
    with pytest.raises(TypeError, match="tuple of classes"):
        hot.tensor_reader(capsule(TABLE), Tensor, Tensor.is_neg)
    with pytest.raises(ValueError):
        hot.tensor_form(capsule(TABLE), 0, Tensor(64))
    with pytest.raises(TypeError):
        hot.tensor_form(READER, "x", Tensor(64))
    with pytest.raises(TypeError, match="two dicts"):
        hot.set_tensors(None, READER, [], {}, None)
    for call in (hot.tensor_reader, hot.tensor_form, hot.set_tensors):
        with pytest.raises(TypeError, match="arguments, not 1"):
            call(READER)
