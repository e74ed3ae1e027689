# SPDX-License-Identifier: MIT
"""phonograph.torch without a GPU: blocks by address, storages that end, operands of operators, reports."""

import gc
import importlib.util
import struct
import sys
import types
import weakref
from bisect import bisect_right

import pytest

HAS_TORCH = importlib.util.find_spec("torch") is not None
pytestmark = pytest.mark.skipif(not HAS_TORCH, reason="this Python has no torch: phonograph.torch was not tested")
if HAS_TORCH:
    import torch

    import phonograph
    from phonograph.nodes import nodes_by_json
    from phonograph.torch import capture, inputs, live, random
    from phonograph.torch.blocks import Blocks
    from phonograph.torch.inputs import Inputs, StaleInputWarning
    from phonograph.torch.live import Live
    from phonograph.torch.report import Report, names_of
    from phonograph.torch.storages import Operands, Places, Watched, _add_tensors, describe, live_tensors

FRAME = {"name": "make", "filename": "model.py", "line": 7}
SEGMENTS = [
    {
        "device": 0, "stream": 0, "address": 0x2000, "segment_pool_id": (0, 3),
        "blocks": [{"address": 0x2000, "size": 512, "requested_size": 400, "state": "active_allocated", "frames": [FRAME]}],
    },
    {
        "device": 0, "stream": 0, "address": 0x1000, "segment_pool_id": (0, 0),
        "blocks": [{"size": 512, "state": "active_allocated"}, {"size": 1024, "state": "inactive"}],
    },
]  # fmt: skip


def test_blocks_are_found_by_any_address_in_them():
    blocks = Blocks(SEGMENTS)
    assert [blocks.find(address) and blocks.find(address).address for address in (0xFFF, 0x1000, 0x11FF, 0x1200, 0x15FF, 0x1600)] == [
        None, 0x1000, 0x1000, 0x1200, 0x1200, None,
    ]  # fmt: skip
    block = blocks.find(0x2001)
    assert (block.requested, block.size, block.pool, block.frames, block.is_active) == (400, 512, (0, 3), [FRAME], True)
    assert not blocks.find(0x1200).is_active and blocks.find(0x2200) is None
    assert Blocks([]).find(0) is None


def test_places_with_one_start_keep_all_their_items():
    places = Places([(100, 10, "a"), (100, 20, "b"), (200, 1, "c")])
    assert [places.find(address) for address in (99, 100, 119, 120, 200, 201)] == [[], ["a", "b"], ["a", "b"], [], ["c"], []]


def test_a_storage_ends_with_its_last_owner():
    tensor = torch.zeros(8, requires_grad=True)
    watched, ended = Watched.of(tensor, True), []
    watched.watch(ended)
    result = tensor * torch.ones(8, requires_grad=True)  # keeps the tensor for its backward
    view = tensor.detach()[2:]
    del tensor
    gc.collect()
    assert not watched.dead and not ended
    del result, view
    gc.collect()
    assert watched.dead and ended == [watched] and watched.freed


def test_a_storage_that_was_forgotten_tells_nobody():
    tensor, ended = torch.zeros(8), []
    watched = Watched.of(tensor, True)
    watched.watch(ended)
    watched.forget()
    del tensor
    assert not ended and not watched.dead


def test_a_swapped_storage_is_an_ended_one():
    tensor, ended = torch.zeros(8), []
    watched = Watched.of(tensor, True)
    watched.watch(ended)
    tensor.data = torch.ones(8)
    assert ended == [watched]


def test_operands_are_those_of_operators_while_capturing():
    x, y, z, empty = torch.ones(4), torch.ones(4), torch.ones(4), torch.empty(0)
    capturing = [True]
    with Operands(lambda: capturing[0], "cpu") as operands:
        torch._foreach_add([x], [y])
        empty + 1
        capturing[0] = False
        z + 1
    seen = {watched.address for watched in operands.storages}
    assert {x.data_ptr(), y.data_ptr()} <= seen and z.data_ptr() not in seen
    assert all(watched.operand for watched in operands.storages)


def test_operands_in_any_form_of_arguments_are_seen():
    tensors = [torch.ones(4) for _ in range(6)]
    found = []
    _add_tensors(found, [tensors[0], [tensors[1], None], (tensors[2], 1.5), {"a": [tensors[3]]}, "text", torch.float32])
    _add_tensors(found, {"out": torch.nn.Parameter(tensors[4]), "device": torch.device("cpu"), "list": [[tensors[5]]]}.values())
    assert [tensor.data_ptr() for tensor in found] == [tensor.data_ptr() for tensor in tensors]


def test_a_storage_is_noted_again_where_its_address_is_anothers():
    with Operands(lambda: True, "cpu") as operands:
        for _ in range(20):
            torch.ones(4) + 1
    assert all(watched.dead for watched in operands.storages) and len(operands.storages) >= 20


def test_operands_of_backward_are_seen():
    weight = torch.ones(4, 4, requires_grad=True)
    loss = (torch.ones(2, 4) @ weight).sum()
    with Operands(lambda: True, "cpu") as operands:
        loss.backward()
    assert any(watched.size == 32 for watched in operands.storages)  # the 2 x 4 input that the product saved


def test_live_tensors_have_their_storages():
    tensor = torch.zeros(3, 5)
    found = [item for item in live_tensors("cpu") if item[2] is tensor]
    assert found == [(tensor.data_ptr(), 60, tensor)] and describe(tensor) == "float32[3, 5]"


def test_names_of_tensors_and_modules():
    x, model = torch.zeros(3), torch.nn.Linear(2, 2)
    names = names_of({"x": x, "model": model})
    assert {place: name for place, (name, _) in names.items()} == {
        x.data_ptr(): "x", model.weight.data_ptr(): "model.weight", model.bias.data_ptr(): "model.bias",
    }  # fmt: skip
    with pytest.raises(TypeError, match="inspect: lr must be a tensor or a module"):
        names_of({"lr": 0.1})


def word(offset, value, kind="suspected"):
    return {"name": f"+{offset}", "offset": offset, "kind": kind, "value": hex(value)}


class FakeGraph:
    """Of nodes that nobody captured."""

    def __init__(self, nodes):
        self.nodes, self.handle, self.resets = nodes, 1, 0

    def record_handle(self):
        return self.handle

    def record(self):
        return self


class FakeReport(Report if HAS_TORCH else object):
    def _make_nodes(self):
        return nodes_by_json(self.graph, self._memory)

    def words_in(self, ranges, no_kernels=False):
        edges, found = struct.unpack(f"={len(ranges) // 8}Q", ranges), []

        def search(nodes, path):
            for node in nodes:
                here = (*path, node["index"])
                for at, word in enumerate([] if no_kernels and node["kind"] == "kernel" else node["words"]):
                    value, proved = int(word["value"], 0), word["kind"] == "proved"
                    if bisect_right(edges, value) % 2:
                        found.append((here, at, value, proved, node["kind"], node["name"], word["name"]))
                search((node.get("body") or {}).get("nodes", []), here)

        search(self.graph.nodes, ())
        return found


def a_report(nodes, places=(), names=(), segments=SEGMENTS):
    blocks = Blocks(segments)
    live = Live(blocks, dict(names), places=Places((*item[:2], weakref.ref(item[2])) for item in places))
    return FakeReport(FakeGraph(nodes), (0, 3), blocks, live)


def test_a_report_resolves_words_and_finds_inputs():
    kernel = {"index": 0, "kind": "kernel", "name": "scale<float>", "grid": [1, 1, 1], "block": [64, 1, 1]}
    kernel["words"] = [word(0, 0x1010), word(8, 0x2000, "value"), word(16, 5, "value")]
    fill = {"index": 1, "kind": "memset", "name": "memset", "bytes": 64, "words": [word(0, 0x1000, "proved")]}
    tensor = torch.zeros(2)
    report = a_report([kernel, fill], [(0x1000, 512, tensor)])
    first, second, third = (entry["torch"] for entry in report.nodes[0]["words"])
    assert (first["address"], first["offset"], first["own"], first["tensors"]) == (0x1000, 16, False, ["float32[2]"])
    assert second["own"] and second["frames"] == [FRAME] and report.nodes[0]["words"][1]["kind"] == "suspected"
    assert third is None and report.nodes[0]["words"][2]["kind"] == "value"
    (only,) = report.inputs
    assert (only["address"], only["kind"], only["uses"]) == (0x1000, "proved", [(0, "+0"), (1, "+0")])
    text = str(report)
    assert "2 nodes, 1 inputs" in text and "512 bytes at +16 of torch's default pool: float32[2]" in text
    assert "400 bytes of the graph's pool" in text and "allocated at model.py:7 make" in text
    assert "scale&lt;float&gt;" in report.html() and report._repr_html_() == report.html()


def test_a_name_is_not_the_next_tensors():
    x, other = torch.zeros(2), torch.zeros(2)
    for given, name in ((x, " x"), (other, "")):  # of which x alone was named
        report = a_report([], [(0x1000, 8, given)], names_of({"x": x}))
        assert report.tensors_at(0x1000) == [f"float32[2]{name}"]
    report = a_report([], [(0, 8, other)], {other.data_ptr(): ("x", lambda: None)})
    assert report.tensors_at(0) == ["float32[2]"]


def test_tensors_are_looked_for_when_somebody_asks(monkeypatch):
    tensor, looks = torch.zeros(2), []
    monkeypatch.setattr(live, "live_tensors", lambda: looks.append(1) or [(0x1000, 512, tensor)])
    kernel = {"index": 0, "kind": "kernel", "name": "scale", "grid": [1, 1, 1], "block": [64, 1, 1], "words": [word(0, 0x1010), word(8, 5)]}
    report = FakeReport(FakeGraph([kernel]), (0, 3), Blocks(SEGMENTS), Live(Blocks(SEGMENTS), {}))
    (only,) = report.inputs
    first, second = (entry["torch"] for entry in report.nodes[0]["words"])
    assert first and second is None and first["offset"] == 16 and only["kind"] == "suspected" and only["bytes"] == 512 and not looks
    assert first["tensors"] == ["float32[2]"] == only["tensors"] and "float32[2]" in str(report) and looks == [1]
    assert dict(first) == {
        "address": 0x1000, "bytes": 512, "offset": 16, "state": "active_allocated", "pool": (0, 0), "own": False, "tensors": ["float32[2]"],
        "frames": [],
    }  # fmt: skip


@pytest.mark.parametrize("before, later, found", [(3, 3, [1, 1, 1, 1]), (3, 4, [1, 0, 0, 1]), (None, None, [1, 0, 0, 1])])
def test_tensors_that_were_made_since_are_told_apart(monkeypatch, before, later, found):
    """Of the same size as the block, of another one, in a block that was free, and in no block of torch's."""
    tensors, counts = [torch.zeros(2) for _ in range(4)], [before, later]
    places = [(0x1000, 512), (0x2000, 512), (0x1200, 1024), (0x9000, 8)]
    monkeypatch.setattr(live, "live_tensors", lambda: [(*place, tensor) for place, tensor in zip(places, tensors)])
    seen = Live(Blocks(SEGMENTS), {}, lambda: counts.pop(0))
    assert [len(seen.at(place)) for place, _ in places] == found
    del tensors[:]
    assert [seen.at(place) for place, _ in places] == [[]] * 4


def test_a_report_is_dropped_when_nobody_has_it():
    report = a_report([{"index": 0, "kind": "memset", "name": "memset", "bytes": 8, "words": [word(0, 0x1004, "proved")]}])
    ended, kept = weakref.ref(report), report.nodes
    gc.disable()
    try:
        del report
        assert ended() is None and kept[0]["words"][0]["torch"]["tensors"] == []
    finally:
        gc.enable()


def test_a_report_whose_graph_has_gone_says_so():
    report = a_report([])
    report.graph.resets += 1
    with pytest.raises(phonograph.StateError, match="closed or reset"):
        report.nodes
    with pytest.raises(phonograph.StateError, match="closed or reset"):
        a_closed = a_report([])
        a_closed.graph.handle = None
        str(a_closed)


def test_words_of_nested_graphs_are_resolved():
    inner = {"index": 0, "kind": "memset", "name": "memset", "bytes": 8, "words": [word(0, 0x1004, "proved")]}
    outer = {"index": 0, "kind": "graph", "name": "graph", "words": [], "body": {"nodes": [inner]}}
    assert [entry["uses"] for entry in a_report([outer]).inputs] == [[(0, "+0")]]


# ---- random numbers ----


@pytest.mark.parametrize(
    "version, requested, inside, expected",
    [("2.11.0", 8, True, True), ("2.11.1+cu130", 8, False, False), ("2.11.0", 400, True, False), ("2.12.0", 400, True, True)],
)
def test_graphs_that_may_draw(monkeypatch, version, requested, inside, expected):
    """A word in a block of the size of a generator's state makes a graph one that may draw."""
    with phonograph.Device("host:threads=1") as device, device.stream() as stream:
        x, y = stream.zeros(64, "float32"), stream.zeros(64, "float32")
        graph = phonograph.Graph()
        with graph.capture(stream):
            stream.copy(y, x)
        address = x.address if inside else 0x1000
        block = {"address": address, "size": 512, "requested_size": requested, "state": "active_allocated"}
        segment = {"device": 0, "stream": 0, "address": address, "segment_pool_id": (0, 0), "blocks": [block]}
        monkeypatch.setattr(torch, "__version__", version)
        monkeypatch.setattr(random.allocator, "torch_snapshot", lambda _index: [segment])
        assert random.may_draw(graph, 0) == expected


# ---- inputs ----


def tensors_as_inputs(*tensors, operands):
    """Inputs of a graph whose only kernel has the tensors' addresses as words; operands: those that operators were given."""
    segments = [
        {
            "device": 0, "stream": 0, "address": tensor.data_ptr(), "segment_pool_id": (0, 0),
            "blocks": [{"size": tensor.nbytes, "state": "active_allocated", "frames": [FRAME]}],
        }
        for tensor in tensors
    ]  # fmt: skip
    kernel = {"index": 0, "kind": "kernel", "name": "twice", "grid": [1, 1, 1], "block": [64, 1, 1]}
    kernel["words"] = [word(8 * at, tensor.data_ptr()) for at, tensor in enumerate(tensors)]
    report = a_report([kernel], segments=segments)
    return Inputs(report, [Watched.of(tensor, True) for tensor in operands])


def test_an_ended_operand_is_refused_with_its_story():
    x = torch.zeros(300)
    inputs = tensors_as_inputs(x, operands=[x])
    assert not inputs.dead
    del x
    with pytest.raises(phonograph.StaleInput) as caught:
        inputs.check()
    for text in ("1 dead tensor", "float32[300], 1200 bytes", "kernel 0 (twice), word +0", "allocated at model.py:7 make", "freed at"):
        assert text in str(caught.value)


def test_an_operand_that_no_node_addresses_is_warned_of_once(recwarn):
    x = torch.zeros(300)
    inputs = tensors_as_inputs(operands=[x])
    del x
    with pytest.warns(StaleInputWarning, match="no node was seen to address it"):
        inputs.check()
    recwarn.clear()
    inputs.check()
    assert not recwarn.list


def test_only_some_of_many_dead_are_described():
    tensors = [torch.zeros(300 + n) for n in range(7)]
    inputs = tensors_as_inputs(*tensors, operands=tensors)
    tensors.clear()
    with pytest.raises(phonograph.StaleInput, match=r"7 dead tensors(.|\n)*and 2 more"):
        inputs.check()


def test_a_slot_watches_the_tensor_that_it_has():
    x, y, z = torch.zeros(300), torch.zeros(300), torch.zeros(300)
    span = (x.data_ptr(), x.nbytes)
    inputs = tensors_as_inputs(x, operands=[x])
    inputs.rebind("x", span, y)
    del x
    assert not inputs.dead and not inputs.all
    inputs.rebind("x", span, y)  # the same again
    del y
    with pytest.raises(phonograph.StaleInput, match="slot x"):
        inputs.check()
    inputs.rebind("x", span, z)
    inputs.check()
    assert not inputs.dead
    inputs.forget()
    del z
    assert not inputs.dead


def test_a_storage_with_other_uses_is_still_watched():
    both = torch.zeros(600)
    x, rest, y = both[:300], both[300:], torch.zeros(300)
    inputs = tensors_as_inputs(x, rest, operands=[both])
    inputs.rebind("x", (x.data_ptr(), x.nbytes), y)
    del x, rest, both
    with pytest.raises(phonograph.StaleInput, match=r"float32\[600\]"):
        inputs.check()


@pytest.mark.parametrize(
    "kind, value, looks",
    [
        ("kernel", 0x1000, True), ("kernel", 0x1200, False), ("kernel", 0x2000, False), ("kernel", 0x9000, False), ("memset", 0x9000, True),
        ("memset", 0x1100, True), ("memset", 0x2000, False),
    ],
)  # fmt: skip
def test_the_end_of_a_capture_looks_for_tensors_where_it_has_to(monkeypatch, kind, value, looks):
    """A block of no operand, a free block, one of the graph's pool, no block of torch's."""
    looked = []
    monkeypatch.setattr(inputs, "live_tensors", lambda: looked.append(1) or [])
    node = {"index": 0, "kind": kind, "name": "work", "words": [word(0, value, "proved" if kind == "memset" else "suspected")]}
    x = torch.zeros(300)
    Inputs(a_report([node]), [Watched.of(x, True)])
    assert bool(looked) == looks


def test_operands_answer_for_their_blocks(monkeypatch):
    """Also for what lies behind the tensor in its block, but not for another storage in it."""
    monkeypatch.setattr(inputs, "live_tensors", lambda: pytest.fail("all objects of Python were looked at"))
    x = torch.zeros(300)
    made = tensors_as_inputs(x, operands=[x])
    assert len(made.all) == 1 and made.all[0].uses
    half = types.SimpleNamespace(address=0x1000, size=100, dead=False)
    for at, more in ((50, False), (150, True)):
        report = a_report([{"index": 0, "kind": "kernel", "name": "work", "words": [word(0, 0x1000 + at)]}])
        assert inputs._may_have_more(report, [half]) == more


# ---- replays ----


class Replayed:
    """As a CUDAGraph, whose replays torch counts."""

    _launch = None
    replay = capture.CUDAGraph.replay if HAS_TORCH else None
    _set_due = capture.CUDAGraph._set_due if HAS_TORCH else None

    def __init__(self, made):
        self._inputs, self.count = made, 0
        self._set_due()


@pytest.fixture
def replays(monkeypatch):
    def count(graph):
        graph.count += 1

    monkeypatch.setattr(capture, "_TorchGraph", types.SimpleNamespace(replay=count))


def instructions(call):
    """How many of Python's are carried out."""
    count = 0

    def trace(frame, event, _argument):
        nonlocal count
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return count


def test_liveness_adds_nothing_to_a_replay(replays):
    x = torch.zeros(300)
    plain, checked = Replayed(None), Replayed(tensors_as_inputs(x, operands=[x]))
    for graph in (plain, checked):
        instructions(graph.replay)  # Python 3.12 counts none of a function's at first
    assert instructions(plain.replay) == instructions(checked.replay) > 0
    del x
    with pytest.raises(phonograph.StaleInput):
        checked.replay()
    assert (plain.count, checked.count) == (2, 2)


def test_a_dead_input_without_a_proof_warns_and_is_replayed(replays):
    x = torch.zeros(300)
    checked = Replayed(tensors_as_inputs(operands=[x]))
    del x
    with pytest.warns(StaleInputWarning) as caught:
        checked.replay()
    assert caught[0].filename == __file__ and checked.count == 1
