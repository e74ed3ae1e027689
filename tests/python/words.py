# SPDX-License-Identifier: MIT
"""The words of a record that lie in given memory: both forms, beside the record's own dicts."""

import ctypes

import numpy
import pytest

import phonograph as ph
from phonograph import hot, words
from phonograph.bindings import core
from phonograph.lifetime import new_handle

FORMS = [words.words_in_by_ctypes] + ([hot.words_in] if hot.COMPILED else [])


def by_record(graph, ranges):
    """The same out of the JSON."""
    found = []

    def search(nodes, path):
        for node in nodes:
            here = (*path, node["index"])
            for at, word in enumerate(node["words"]):
                value = int(word["value"], 0)
                if any(begin <= value < end for begin, end in ranges):
                    found.append((here, at, value, word["kind"] == "proved", node["kind"], node["name"], word["name"]))
            search((node.get("body") or {}).get("nodes", []), here)

    search(graph.record().nodes, ())
    return found


def span(array):
    return array.address, array.address + array.nbytes


@pytest.fixture
def captured(device, stream):
    """(graph with a nested one, its arrays)."""
    x, y, z = (stream.array(numpy.full(64, n, "float32")) for n in range(3))
    inner, graph = ph.Graph(keep_graph=True), ph.Graph()
    with inner.capture(stream):
        stream.copy(z, y)
    with graph.capture(stream):
        stream.fill(x, 0)
        stream.copy(y, x)
        inner.replay(stream)
        stream.copy(x, z)
    return graph, (x, y, z)


@pytest.mark.parametrize("words_in", FORMS)
def test_words_are_those_of_the_record(captured, words_in):
    graph, arrays = captured
    handle = graph.record_handle()
    for chosen in ([], arrays[:1], arrays[1:], arrays):
        ranges = [span(array) for array in chosen]
        assert words_in(handle, words.pack(ranges)) == by_record(graph, ranges)
    everything = words_in(handle, words.pack([(0, 1 << 63)]))
    assert any(len(path) == 2 for path, *_ in everything) and len(everything) == 7


@pytest.mark.parametrize("words_in", FORMS)
def test_edges_of_ranges(captured, words_in):
    graph, (x, y, _) = captured
    handle, (begin, end) = graph.record_handle(), span(x)
    assert {entry[2] for entry in words_in(handle, words.pack([(begin, begin + 1)]))} == {begin}
    assert words_in(handle, words.pack([(begin + 1, end)])) == [] == words_in(handle, words.pack([(begin - 8, begin)]))
    assert {entry[2] for entry in words_in(handle, words.pack([(begin + 8, end), span(y), (begin - 4, begin + 4)]))} == {begin, y.address}


@pytest.mark.parametrize("words_in", FORMS)
def test_words_of_all_but_kernels(axpy, stream, words_in):
    x, y = (stream.array(numpy.full(64, n, "float32")) for n in range(2))
    graph = ph.Graph()
    with graph.capture(stream):
        stream.launch(axpy, 64, 2.0, x, y, grid=1, block=1)
        stream.copy(y, x)
    handle, ranges = graph.record_handle(), words.pack([span(x), span(y)])
    assert [entry[4] for entry in words_in(handle, ranges)] == ["kernel"] * 2 + ["memcpy"] * 2
    for no, yes in ((False, True), (0, 1), (None, "yes")):
        assert words_in(handle, ranges, yes) == words_in(handle, ranges)[2:] and words_in(handle, ranges, no) == words_in(handle, ranges)
    with pytest.raises(TypeError):
        words_in(handle, ranges, no_kernels=True)


@pytest.mark.parametrize("words_in", FORMS)
def test_words_of_a_typed_kernel(axpy, stream, words_in):
    x, y = (stream.array(numpy.full(64, n, "float32")) for n in range(2))
    graph = ph.Graph()
    with graph.capture(stream):
        stream.launch(axpy, 64, 2.0, x, y, grid=1, block=1)
    ranges = [span(x), span(y)]
    found = words_in(graph.record_handle(), words.pack(ranges))
    assert found == by_record(graph, ranges) and [entry[2:4] for entry in found] == [(x.address, True), (y.address, True)]


@core.ph_host_kernel_fn
def nothing(_range, _arguments):
    pass


@pytest.mark.parametrize("size", [32, 28, 24])
@pytest.mark.parametrize("words_in", FORMS)
def test_words_of_a_kernel_without_parameters(device, stream, words_in, size):
    """The last word has less than 8 bytes where the size is no multiple of them."""
    if device.is_cuda:
        pytest.skip("a function of ctypes runs on the host device")
    source = core.ph_kernel_source(b"nothing")
    source.host, source.args_size = nothing, size
    kernel = new_handle(core.ph_kernel_create, device.handle, ctypes.byref(source))
    x, y = (stream.array(numpy.full(64, n, "float32")) for n in range(2))
    arguments = (ctypes.c_uint64 * 4)(x.address, 5, y.address, x.address)
    one = (ctypes.c_uint32 * 3)(1, 1, 1)
    config, graph = core.ph_launch_config(one, one, 0, False), ph.Graph()
    with graph.capture(stream):
        ph.check(core.ph_launch(stream.handle, kernel, ctypes.byref(config), arguments, size))
    ranges = [span(x), span(y), (4, 6)]
    found = words_in(graph.record_handle(), words.pack(ranges))
    expected = [x.address, 5, y.address, x.address][: 4 if size == 32 else 3]
    assert found == by_record(graph, ranges) and [entry[2] for entry in found] == expected and not any(entry[3] for entry in found)
    core.ph_kernel_release(kernel)


def test_ranges_are_sorted_and_joined():
    assert words.pack([(9, 12), (1, 3), (3, 5), (20, 20), (10, 11)]) == words.pack([(1, 5), (9, 12)])
    assert len(words.pack([(9, 12), (1, 3), (3, 5), (20, 20), (10, 11)])) == 32 and words.pack([]) == b""


def test_ranges_without_others():
    taken = words.pack([(10, 20), (30, 40), (50, 60)])
    for ranges, left in (
        ([(0, 5), (60, 70)], [(0, 5), (60, 70)]), ([(10, 20), (32, 38)], []), ([(5, 15)], [(5, 10)]), ([(15, 25)], [(20, 25)]),
        ([(0, 100)], [(0, 10), (20, 30), (40, 50), (60, 100)]), ([(10, 60)], [(20, 30), (40, 50)]), ([(20, 30)], [(20, 30)]), ([], []),
    ):  # fmt: skip
        assert words.pack(words.without(ranges, taken)) == words.pack(left)
        assert words.pack(words.without(ranges, b"")) == words.pack(ranges)


@pytest.mark.skipif(not hot.COMPILED, reason="no compiled module in this build")
def test_misuse():
    assert hot.words_in(None, b"") == []
    with pytest.raises(TypeError):
        hot.words_in(None, [])
    with pytest.raises(TypeError, match="3 arguments, not 1"):
        hot.words_in(None)
