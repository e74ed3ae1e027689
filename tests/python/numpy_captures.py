# SPDX-License-Identifier: MIT
"""Arrays of numpy in captures on the host device: what is recorded, what runs at once, and what is said of a mistake.

The programs are those of docs/guide/python.md.
"""

import warnings

import numpy
import pytest

import phonograph as ph

pytestmark = pytest.mark.skipif("__import__('os').environ.get('PH_TEST_DEVICE', 'host') != 'host'")


@pytest.fixture(autouse=True)
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def replay(graph, stream):
    graph.replay(stream)
    stream.synchronize()


def test_expressions_of_numpy_run_at_once(stream, axpy):
    x, y, graph = numpy.ones(4, "float32"), numpy.zeros(4, "float32"), ph.Graph()
    with graph.capture(stream):
        doubled = 2 * x  # now, and never again
        stream.launch(axpy, 4, 1.0, doubled, y)
    assert (y == 0).all()  # the launch is recorded alone
    x[:] = 10
    replay(graph, stream)
    assert (y == 2).all()
    doubled[:] = 5
    replay(graph, stream)
    assert (y == 7).all()


def test_a_temporary_is_warned_of(stream, axpy):
    x, y, graph = numpy.ones(4, "float32"), numpy.zeros(4, "float32"), ph.Graph()
    for make in (lambda: 2 * x, lambda: (2 * x)[1:], lambda: (2 * x)[1:].reshape(3, 1), lambda: numpy.zeros(4, "float32")):
        with graph.capture(stream):
            with pytest.warns(RuntimeWarning, match="saxpy: x: the capture gets an array that only this expression has") as said:
                stream.launch(axpy, 3, 1.0, make(), y)
            assert said[0].filename == __file__
        graph.reset()
    with graph.capture(stream), pytest.warns(RuntimeWarning, match="saxpy: y: "):
        stream.launch(axpy, 4, 1.0, x, numpy.zeros(4, "float32"))
    graph.reset()


def test_arrays_that_others_have_are_not(device, stream, axpy):
    x, y, graph = numpy.ones(8, "float32"), numpy.zeros(8, "float32"), ph.Graph()
    things = {"x": x}
    with graph.capture(stream):
        stream.launch(axpy, 8, 1.0, x, y)
        stream.launch(axpy, 4, 1.0, x[4:], y[:4])  # views of what has a name
        stream.launch(axpy, 4, 1.0, things["x"].reshape(2, 4)[1], y)
        stream.launch(axpy, 8, 1.0, stream.zeros(8), y)  # the library's own memory: check_input_liveness
    graph.reset()
    stream.launch(axpy, 8, 1.0, 2 * x, y)  # outside of a capture it is what it seems
    stream.synchronize()


def test_a_name_that_is_bound_again_is_not_followed(stream, axpy):
    x, y, graph = numpy.ones(4, "float32"), numpy.zeros(4, "float32"), ph.Graph()
    with graph.capture(stream):
        stream.launch(axpy, 4, 1.0, x, y)
    x = numpy.full(4, 100, "float32")  # another array: the graph has the first one
    replay(graph, stream)
    assert (y == 1).all() and x[0] == 100


def test_a_function_is_called_by_each_replay(stream, axpy):
    x, y, doubled, graph = numpy.ones(4, "float32"), numpy.zeros(4, "float32"), numpy.empty(4, "float32"), ph.Graph()
    with graph.capture(stream):
        stream.call(lambda: numpy.multiply(x, 2, out=doubled))
        stream.launch(axpy, 4, 1.0, doubled, y)
    x[:] = 10
    replay(graph, stream)
    assert (y == 20).all()


def test_copies_are_refused(stream):
    x, array, graph = numpy.ones(4, "float32"), stream.zeros(4), ph.Graph()
    for copy in (lambda: stream.copy(array, x), lambda: stream.copy(x, array), lambda: stream.array(x)):
        with pytest.raises(ph.Unpinned, match="pageable host memory"):
            with graph.capture(stream):
                copy()
        graph.reset()
    with pytest.raises(ph.CaptureError):
        with graph.capture(stream):
            array.to_numpy()
    graph.reset()
    pinned = stream.pinned(4)
    numpy.asarray(pinned)[:] = 3
    with graph.capture(stream):
        stream.copy(array, pinned)
    replay(graph, stream)
    assert (array.to_numpy() == 3).all()


def test_a_refusal_that_was_caught_is_said(stream):
    """The graph lacks the copy; the log says so, of a strict capture too."""
    x, array, graph, said = numpy.ones(4, "float32"), stream.zeros(4), ph.Graph(), []

    def work():
        stream.fill(array, 1)
        try:
            stream.copy(array, x)
        except ph.Unpinned:
            pass

    ph.set_log(lambda level, message: said.append(message))
    try:
        with graph.capture(stream):
            work()
        assert len(said) == 1 and "a call failed in it, and the graph may lack its work; " in said[0] and ": ph_memcpy" in said[0]
        graph.reset()
        with graph.capture(stream, strict=True):
            work()
        assert len(said) == 2 and "a call failed in it" in said[1]
    finally:
        ph.set_log(None)


def test_work_of_another_stream_is_said(device, stream):
    array, other, graph, said = stream.zeros(4), device.stream(), ph.Graph(), []
    ph.set_log(lambda level, message: said.append(message))
    try:
        with graph.capture(stream):
            stream.fill(array, 1)
            other.fill(array, 2)
    finally:
        ph.set_log(None)
    assert len(said) == 1 and "work on a stream that is not in it ran at once" in said[0]
    device.synchronize()


def test_phonograph_is_refused_in_a_function(stream):
    """Such a call waited for itself."""
    seen = []

    def call():
        try:
            stream.synchronize()
        except ph.StateError as error:
            seen.append(error.native_code)

    stream.call(call)
    stream.synchronize()
    assert seen == [800]
