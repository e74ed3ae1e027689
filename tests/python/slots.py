# SPDX-License-Identifier: MIT
"""Slots get an address alone: arrays of which that would say too little are refused, and nothing is changed."""

import numpy
import pytest

import phonograph as ph


@pytest.fixture
def arrays(stream):
    """x of twice the elements that the graph copies to y."""
    x, y = stream.array(numpy.arange(128, dtype="float32")), stream.zeros(64)
    stream.synchronize()
    return x, y


def part(x, count=64, dtype="float32", step=1):
    return ph.Array(x.address, count, dtype, strides=(4 * step,) if step != 1 else None, stream=x.stream, base=x)


def captured(stream, x, y):
    graph = ph.Graph()
    with graph.capture(stream):
        stream.copy(y, part(x))
    return graph


@pytest.fixture
def graph(stream, arrays):
    made = captured(stream, *arrays)
    made.slot("a", part(arrays[0]))
    return made


def setters(graph, stream):
    return {"Graph.replay": lambda value: graph.replay(stream, a=value), "Graph.set_slots": lambda value: graph.set_slots(a=value)}


def test_a_strided_value_is_refused(stream, graph, arrays):
    x, y = arrays
    for call, set_a in setters(graph, stream).items():
        square, row = numpy.zeros((8, 8), "float32"), numpy.zeros(128, "float32")
        for value in (part(x, step=2), row[::2], square.T, row[:64][::-1]):
            with pytest.raises(ph.ArgumentError, match=rf"^{call}: a: .* strides of .* not contiguous.*numpy\.ascontiguousarray"):
                set_a(value)
    graph.replay(stream)
    assert (y.to_numpy() == numpy.arange(64)).all()  # as captured
    graph.replay(stream, a=x.address + 256)  # a number is the caller's word
    assert (y.to_numpy() == numpy.arange(64, 128)).all()


def test_a_value_of_other_elements_is_refused(stream, graph, arrays):
    x, y = arrays
    for set_a in setters(graph, stream).values():
        for dtype, count in (("int32", 64), ("float64", 64), ("uint8", 256)):
            with pytest.raises(ph.ArgumentError, match=rf'a: the array is of {dtype}, .* made with float32; .*astype\("float32"\)'):
                set_a(part(x, count, dtype))
    with pytest.raises(ph.ArgumentError, match="is of float64"):
        graph.replay(stream, a=numpy.zeros(64))
    graph.replay(stream, a=stream.array(numpy.full(64, 3, "float32")))
    assert (y.to_numpy() == 3).all()


def test_a_short_array_of_another_library_is_refused(stream, graph):
    with pytest.raises(ph.ArgumentError, match="a: the array has 40 bytes, and the slot was made with 256"):
        graph.replay(stream, a=numpy.zeros(10, "float32"))


def test_a_copy_that_nobody_keeps_is_refused(stream, graph):
    with pytest.raises(ph.ArgumentError, match=r"a: a read-only bytes has no address of its own.*numpy\.frombuffer"):
        graph.replay(stream, a=bytes(256))


def test_a_slot_is_not_made_of_a_strided_array(stream, arrays):
    x, y = arrays
    graph, strided = captured(stream, x, y), part(x, step=2)
    with pytest.raises(ph.ArgumentError, match="^Graph.slot: a: .* not contiguous.* view of"):
        graph.slot("a", strided)
    with pytest.raises(ph.ArgumentError, match="^Graph.declare_slot: a: .* not contiguous"):
        graph.declare_slot("a", strided, [(0, 0)])
    other = captured(stream, *arrays)
    for pair in ((strided, part(x)), (part(x), strided)):
        with pytest.raises(ph.ArgumentError, match="^Graph.prove_slots: a: .* not contiguous"):
            graph.prove_slots(other, a=pair)
    for there in (part(x, dtype="int32"), part(x, count=32)):
        with pytest.raises(ph.ArgumentError, match="^Graph.prove_slots: a: the arrays .* 256 bytes of float32 and .* one dtype and size"):
            graph.prove_slots(other, a=(part(x), there))


def test_a_strided_pointer_of_a_cache_is_refused(device, stream, arrays):
    x, y = arrays
    with ph.Cache(device) as cache:
        for value in (part(x, step=2), numpy.zeros(128, "float32")[::2]):
            with pytest.raises(ph.ArgumentError, match=r"^Cache\.run: x: .* not contiguous.* address as a number"):
                cache.run(stream, "key", lambda: stream.copy(y, part(x)), pointers={"x": value})
        for turn in range(6):
            source = stream.array(numpy.full(64, turn, "float32"))
            cache.run(stream, "key", lambda of=source: stream.copy(y, of), pointers={"x": source.address, "y": y})
            assert (y.to_numpy() == turn).all()
