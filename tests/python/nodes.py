# SPDX-License-Identifier: MIT
"""The nodes of a record as dicts: the compiled module's beside those of the JSON, word by word; dicts whose tensors come later."""

import copy
import ctypes
import json
import pickle
import sys
import threading

import numpy
import pytest

import phonograph as ph
from phonograph import hot, nodes, words
from phonograph.bindings import core
from phonograph.lifetime import new_handle

compiled = pytest.mark.skipif(not hot.COMPILED, reason="no compiled module in this build")


class Blocks:
    """Memory as torch's allocator would have it: what memory_of has said is kept, and how often it was asked."""

    def __init__(self, *spans):
        self.spans, self.known, self.asked = spans, {}, []
        self.ranges = words.pack(spans)

    def memory_of(self, value):
        self.asked.append(value)
        for begin, end in self.spans:
            if begin <= value < end:
                return self.known.setdefault(value, {"address": begin, "offset": value - begin})
        return None


def span(array):
    return array.address, array.address + array.nbytes


def expect_same(graph, *spans):
    """Both forms, once with the blocks and once without; the nodes."""
    for chosen in ((), spans):
        blocks, again = Blocks(*chosen), Blocks(*chosen)
        want = nodes.nodes_by_json(graph, blocks.memory_of)
        got = hot.record_nodes(graph.record_handle(), again.ranges, again.memory_of)
        assert len(got) == len(want) == core.ph_record_node_count(graph.record_handle())
        for mine, theirs in zip(got, want):
            assert list(mine) == list(theirs)
            for word, other in zip(mine["words"], theirs["words"], strict=True):
                assert list(word) == list(other) and word == other
            assert mine == theirs
        assert json.dumps(got) == json.dumps(want)
        assert len(again.asked) == len(set(again.asked))
        assert nodes.nodes_of(graph, again.ranges, again.memory_of) == want
    return want


# Of which the JSON writes some as it writes integers.
REALS = {"whole": 2.0, "none": -0.0, "many": 12345678901234567.0, "more": 1e17, "most": 1.7976931348623157e308, "least": 5e-324, "third": 1 / 3}


@compiled
def test_copies_and_fills_and_scopes(stream):
    x, y = (stream.array(numpy.full(64, n, "float32")) for n in range(2))
    graph = ph.Graph()
    with graph.capture(stream, enable_annotations=True):
        stream.fill(x, 0)
        with ph.annotate(stream, "läuft", layer=3, rate=0.5, last=True, kind='a<"b\n'):
            stream.copy(y, x)
            with ph.annotate(stream, bad=float("nan"), far=-(1 << 60), **REALS):
                stream.copy(x, y)
        stream.copy(y, x)
    found = expect_same(graph, span(x))
    assert [node.get("annotation", {}).get("far") for node in found] == [None, None, -(1 << 60), None]


@compiled
def test_a_graph_with_nothing_and_one_with_bodies(stream):
    x, y = (stream.array(numpy.full(64, n, "float32")) for n in range(2))
    inner, outer = ph.Graph(keep_graph=True), ph.Graph()
    with inner.capture(stream):
        stream.copy(y, x)
    with outer.capture(stream):
        inner.replay(stream)
    blocks = Blocks(span(x))
    assert hot.record_nodes(outer.record_handle(), blocks.ranges, blocks.memory_of) is None
    (node,) = nodes.nodes_of(outer, blocks.ranges, blocks.memory_of)
    assert [word["torch"] for word in node["body"]["nodes"][0]["words"]] == [None, {"address": x.address, "offset": 0}]
    empty = ph.Graph()
    with empty.capture(stream):
        pass
    assert expect_same(empty, span(x)) == []


@compiled
def test_parameters_and_their_padding(axpy, stream):
    x, y = (stream.array(numpy.full(64, n, "float32")) for n in range(2))
    graph = ph.Graph()
    with graph.capture(stream):
        stream.launch(axpy, 64, 2.0, x, y, grid=(1, 1, 1), block=1)
        stream.launch(axpy, 32, 1.0, y, x, grid=(2, 1, 1), block=32)
    found = expect_same(graph, span(y))
    assert [word["kind"] for word in found[0]["words"]] == ["value", "value", "proved", "proved"]


@core.ph_host_kernel_fn
def nothing(_range, _arguments):
    pass


def untyped(device, name, size):
    source = core.ph_kernel_source(name)
    source.host, source.args_size = nothing, size
    return new_handle(core.ph_kernel_create, device.handle, ctypes.byref(source))


def launch(stream, kernel, size, *values):
    one = (ctypes.c_uint32 * 3)(1, 1, 1)
    arguments = (ctypes.c_uint64 * ((size + 7) // 8))(*values[: (size + 7) // 8])
    ph.check(core.ph_launch(stream.handle, kernel, ctypes.byref(core.ph_launch_config(one, one, 0, False)), arguments, size))


@compiled
@pytest.mark.parametrize("size", [64, 44, 4])
def test_kernels_without_parameters(device, stream, size):
    """Of C++ and other names; the last word has less than 8 bytes where the size is no multiple of them."""
    if device.is_cuda:
        pytest.skip("a function of ctypes runs on the host device")
    kernels = [untyped(device, name, size) for name in (b"_Z5scalePfi", b"plain", b"_Zwrong" + 2000 * b"g")]
    x, y = (stream.array(numpy.full(64, n, "float32")) for n in range(2))
    graph = ph.Graph()
    with graph.capture(stream):
        for turn in range(30):
            launch(stream, kernels[turn % 3], size, x.address + 4 * turn, 5, (1 << 64) - 1, x.address, turn, y.address, 0, y.address + turn)
    outside = (5, 6)
    found = expect_same(graph, span(x), outside)
    if size == 64:
        assert [bool(word["torch"]) for word in found[7]["words"]] == [True, True, False, True, False, False, False, False]
        assert found[7]["words"][1]["kind"] == "suspected" and found[7]["words"][1]["allocation"] is None
    for kernel in kernels:
        core.ph_kernel_release(kernel)


@compiled
def test_a_name_that_is_no_text_is_left_to_the_json(device, stream):
    if device.is_cuda:
        pytest.skip("a function of ctypes runs on the host device")
    kernel, graph, blocks = untyped(device, b"odd\xff", 8), ph.Graph(), Blocks()
    with graph.capture(stream):
        launch(stream, kernel, 8, 1)
    assert hot.record_nodes(graph.record_handle(), blocks.ranges, blocks.memory_of) is None
    assert nodes.nodes_of(graph, blocks.ranges, blocks.memory_of)[0]["name"] == "odd\ufffd"
    core.ph_kernel_release(kernel)


@compiled
def test_misuse_and_an_exception_on_the_way(stream):
    assert hot.record_nodes(None, b"", None) == []
    with pytest.raises(TypeError, match="record_nodes takes 3 arguments, not 1"):
        hot.record_nodes(None)
    with pytest.raises(TypeError):
        hot.record_nodes(None, [], None)
    x, graph = stream.zeros(64), ph.Graph()
    with graph.capture(stream):
        stream.fill(x, 0)
    with pytest.raises(ZeroDivisionError):
        hot.record_nodes(graph.record_handle(), words.pack([span(x)]), lambda value: value / 0)
    with pytest.raises(TypeError):
        hot.record_nodes(graph.record_handle(), words.pack([span(x)]), None)


@compiled
def test_nothing_is_left_behind(stream):
    """Neither of nodes, nor of those that an exception has ended."""
    x, y, graph = stream.zeros(64), stream.zeros(64), ph.Graph()
    with graph.capture(stream, enable_annotations=True):
        with ph.annotate(stream, "all", rate=1.5):
            for _ in range(20):
                stream.fill(x, 0)
                stream.copy(y, x)
    blocks, handle = Blocks(span(x), span(y)), graph.record_handle()

    def refuse(value):
        if value == y.address:
            raise ValueError
        return {}

    def run(times):
        for _ in range(times):
            hot.record_nodes(handle, blocks.ranges, blocks.memory_of)
            with pytest.raises(ValueError):
                hot.record_nodes(handle, blocks.ranges, refuse)
            blocks.asked.clear()

    run(3)
    before = sys.getallocatedblocks()
    run(20)
    assert sys.getallocatedblocks() - before < 100


# ---- dicts whose tensors come later ----


def memory():
    found = []

    def find():
        found.append(1)
        return ["a"]

    return nodes.Memory({"address": 1, "pool": (0, 0), "frames": []}, find), found


WHOLE = {"address": 1, "pool": (0, 0), "tensors": ["a"], "frames": []}


@pytest.mark.parametrize(
    "look",
    [
        dict, list, len, repr, copy.copy, copy.deepcopy, json.dumps, lambda m: pickle.loads(pickle.dumps(m)), lambda m: {**m}, lambda m: m | {},
        lambda m: {} | m, lambda m: m.copy(), lambda m: list(m.items()), lambda m: list(m.values()), lambda m: list(m.keys()),
        lambda m: list(reversed(m)), lambda m: m == WHOLE, lambda m: WHOLE == m, lambda m: m != WHOLE, lambda m: [m] == [WHOLE],
        lambda m: m.get("tensors"), lambda m: m["tensors"], lambda m: m.setdefault("tensors", 3), lambda m: m.pop("tensors"),
        lambda m: m == memory()[0], lambda m: dict(m, more=1), lambda m: str(m),
    ],
)  # fmt: skip
def test_all_of_a_memory_is_there(look):
    made, found = memory()
    assert look(made) == look(dict(WHOLE)) and len(found) == 1
    assert look(memory()[0]) == look(dict(WHOLE))


def test_threads_that_ask_at_once_all_get_the_tensors():
    """The first one looks; the others wait for it, also for what is in the dict all along."""
    looking, go_on, found = threading.Event(), threading.Event(), {}

    def find():
        looking.set()
        assert go_on.wait(10)
        return ["a"]

    made = nodes.Memory({"address": 1, "pool": (0, 0), "frames": []}, find)
    looks = {"item": lambda: made["tensors"], "get": lambda: made.get("tensors"), "in": lambda: "tensors" in made, "all": lambda: dict(made)}

    def ask(name):
        found[name] = looks[name]()

    def start(names):
        threads = [threading.Thread(target=ask, args=(name,), daemon=True) for name in names]
        for thread in threads:
            thread.start()
        return threads

    first = start(["item"])
    assert looking.wait(10)
    others = start(["get", "in", "all"])
    assert made["address"] == 1
    for thread in others:
        thread.join(0.05)
    go_on.set()
    for thread in first + others:
        thread.join(10)
    assert found == {"item": ["a"], "get": ["a"], "in": True, "all": WHOLE}


def test_a_search_that_fails_is_made_again():
    answers = [ZeroDivisionError(), ["a"]]

    def find():
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    made = nodes.Memory({"address": 1, "pool": (0, 0), "frames": []}, find)
    with pytest.raises(ZeroDivisionError):
        made["tensors"]
    assert "tensors" in made and made == WHOLE and not answers


def test_what_does_not_ask_for_tensors_finds_none():
    made, found = memory()
    assert made and "tensors" in made and "other" not in made and made["address"] == 1
    assert made.get("pool") == (0, 0) and made.get("other") is None and made.get("other", 2) == 2
    made["address"] = 3
    with pytest.raises(KeyError):
        made["other"]
    assert not found
    made["tensors"] = []
    assert made["tensors"] == [] and made["address"] == 3 and len(made) == 4 and not found
