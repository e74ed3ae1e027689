# SPDX-License-Identifier: MIT
"""The dozen calls of the compiled module are those of ctypes, and the package works without it."""

import ctypes
import os
import sys
from pathlib import Path

import pytest

import phonograph
from conftest import run_child
from phonograph import hot
from phonograph.bindings import core

BY_CTYPES = hot.by_ctypes()


def test_the_compiled_module_is_used_where_it_is():
    built = (Path(phonograph.__file__).parent / "_calls.abi3.so").exists()
    assert hot.COMPILED == built


@pytest.mark.parametrize("name", hot.CALLS)
def test_types_are_the_generated_ones(name):
    result, *arguments = hot.CALLS[name]
    generated = getattr(core, name)
    assert generated.restype is result and generated.short == (name in hot._SHORT) or name == "ph_graph_check_output"
    assert len(generated.argtypes) == len(arguments)
    for ours, theirs in zip(arguments, generated.argtypes):
        assert ours is theirs or (ours is ctypes.c_void_p and issubclass(theirs, ctypes._Pointer))


@pytest.mark.parametrize("call", [getattr(hot, name) for name in hot.CALLS] + list(BY_CTYPES.values()))
def test_null_and_misuse(call):
    name = getattr(call, "__name__", "")
    count = len(hot.CALLS[name]) - 1
    arguments = [None if kind is ctypes.c_void_p else 0 for kind in hot.CALLS[name][1:]]
    quiet = {"ph_graph_epoch": 0, "ph_graph_get_state": 0, "ph_stream_is_capturing": False, "ph_memcpy": 0}
    if name in quiet:
        assert call(*arguments) in (quiet[name], core.PH_ERROR_ARGUMENT)
    else:
        assert call(*arguments) == core.PH_ERROR_ARGUMENT
    with pytest.raises((TypeError, ctypes.ArgumentError)):
        call(*([1.5] * count))
    if hot.COMPILED and call is getattr(hot, name):
        with pytest.raises(TypeError, match=f"{name} takes {count} arguments, not {count + 1}"):
            call(*arguments, 1)


@pytest.mark.skipif(not hot.COMPILED, reason="no compiled module in this build")
def test_numbers_that_do_not_fit_are_refused():
    for call, arguments in (
        (hot.ph_graph_replay, (1 << 80, None)), (hot.ph_memset, (None, 256, 0, None)), (hot.ph_memset, (None, -1, 0, None)),
        (hot.ph_memcpy, (None, None, 1 << 64, None)), (hot.ph_graph_check_output, (None, None, -1)),
    ):  # fmt: skip
        with pytest.raises(OverflowError):
            call(*arguments)


class Thing(list):  # which Python's collector tracks
    pass


class Part(Thing):
    pass


@pytest.mark.parametrize("instances", [hot.instances, hot.instances_by_list])
def test_instances_of_a_class_and_of_its_subclasses(instances):
    assert instances(Thing) == []
    things = [Thing(), Part(), Thing([1])] + [Part() for _ in range(3000)]
    assert set(map(id, instances(Thing))) == set(map(id, things))
    assert set(map(id, instances(Part))) == {id(thing) for thing in things if type(thing) is Part}
    before = [sys.getrefcount(thing) for thing in things]
    del things[1]
    del before[1]
    assert len(instances(Thing)) == len(things) == 3002
    assert [sys.getrefcount(thing) for thing in things] == before
    with pytest.raises(TypeError):
        instances(5)


PROGRAM = """
import sys
if %d:
    sys.modules["phonograph._calls"] = None  # as in a wheel without it
import numpy
import phonograph as ph
from phonograph import hot
device = ph.Device("host:threads=1")
stream = device.stream()
x, y = stream.array(numpy.arange(9.0)), stream.zeros(9, "float64")
graph = ph.Graph()
with graph.capture(stream):
    assert stream.is_capturing
    event = stream.record()
    stream.wait(event)
    stream.wait(stream)
    z = stream.empty(9, "float64")
    stream.fill(z, 0)
    stream.copy(y, x)
graph.slot("x", x)
graph.replay(stream)
graph.replay(stream, x=stream.array(numpy.full(9, 2.0)))
graph.check_output(z, graph.epoch)
print(y.to_numpy().sum(), graph.state.name, graph.epoch > 0, hot.COMPILED)
"""


@pytest.mark.parametrize("without", [0, 1])
def test_both_forms_do_the_same(without):
    status, out, error = run_child(PROGRAM % without)
    assert status == 0, error
    assert out.split() == ["18.0", "PH_GRAPH_READY", "True", str(hot.COMPILED and not without)]


def test_a_library_that_is_not_there_is_named(tmp_path):
    status, _, error = run_child("import phonograph", PHONOGRAPH_LIBRARY_DIR=str(tmp_path))
    assert status == 1 and f"libphonograph.so is not in {tmp_path}" in error
    status, _, _ = run_child("import phonograph", PHONOGRAPH_LIBRARY_DIR=os.path.dirname(core._library.path))
    assert status == 0
