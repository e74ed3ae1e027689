# SPDX-License-Identifier: MIT
"""Graphs: capture, replay, slots, liveness, epochs, records."""

import ctypes
import json

import numpy
import pytest

import phonograph as ph
from phonograph.bindings import core


def captured(stream, x, y, **options):
    graph = ph.Graph()
    with graph.capture(stream, **options):
        stream.copy(y, x)
    return graph


@pytest.fixture
def pair(stream):
    x, y = stream.array(numpy.arange(64, dtype="float32")), stream.zeros(64)
    stream.synchronize()
    return x, y


def test_capture_and_replay(stream, pair):
    x, y = pair
    graph = ph.Graph()
    assert graph.state is core.PH_GRAPH_NEW
    with graph.capture(stream) as same:
        assert same is graph and stream.is_capturing and stream.device.is_capturing
        stream.copy(y, x)
        assert graph.state is core.PH_GRAPH_CAPTURING
    assert graph.state is core.PH_GRAPH_READY and graph.epoch == 0
    assert (y.to_numpy() == 0).all()  # nothing ran
    graph.replay(stream)
    assert (y.to_numpy() == numpy.arange(64)).all()
    graph.reset()
    assert graph.state is core.PH_GRAPH_NEW
    with pytest.raises(ph.StateError):
        graph.replay(stream)


def test_an_exception_aborts_the_capture(stream, pair):
    x, y = pair
    graph = ph.Graph()
    with pytest.raises(ZeroDivisionError):
        with graph.capture(stream):
            stream.copy(y, x)
            1 / 0
    assert not stream.is_capturing
    graph.reset()
    with graph.capture(stream):  # at once
        stream.copy(y, x)
    graph.replay(stream)
    assert (y.to_numpy() == numpy.arange(64)).all()


def test_a_refused_call_leaves_the_capture(stream, pair):
    x, y = pair
    graph = ph.Graph()
    with graph.capture(stream):
        with pytest.raises(ph.CaptureError) as raised:
            stream.synchronize()
        assert raised.value.native_code == 900 and "ph_stream_synchronize" in str(raised.value)
        with pytest.raises(ph.Unpinned):
            stream.copy(y, numpy.zeros(64, "float32"))
        stream.copy(y, x)
    assert len(graph.record()) == 1


def test_capture_options(device, stream, pair):
    x, y = pair
    pool = device.pool()
    graph = ph.Graph(keep_graph=True)
    with graph.capture(stream, pool=pool, mode="thread_local"):
        inner = stream.empty(64)
        stream.copy(inner, x)
        stream.copy(y, inner)
    assert graph.state is core.PH_GRAPH_ENDED and graph.pool.id == pool.id
    assert graph.memory["pool_reserved"] > 0
    graph.instantiate()
    graph.upload(stream)
    graph.replay(stream)
    stream.synchronize()
    assert graph.changes["updates"] == 0
    with pytest.raises(ph.StateError, match="empty"):
        with ph.Graph().capture(stream, strict=True):
            pass
    with pytest.raises(TypeError, match="ph_capture_options has no liveness"):
        ph.Graph().capture(stream, liveness=True)
    with pytest.raises(ph.DefaultStream):
        with ph.Graph().capture(device.default_stream):
            pass


def test_slots_rebind(stream, pair):
    x, y = pair
    graph = captured(stream, x, y)
    graph.slot("x", x)
    graph.slot("y", y)
    other, out = stream.array(numpy.full(64, 5, "float32")), stream.zeros(64)
    graph.replay(stream, x=other)
    assert (y.to_numpy() == 5).all()
    graph.replay(stream, x=x, y=out)
    assert (out.to_numpy() == numpy.arange(64)).all() and (y.to_numpy() == 5).all()
    with pytest.raises(KeyError, match="no slot 'z': it has x, y"):
        graph.replay(stream, z=x)
    with pytest.raises(ph.ArgumentError):
        graph.replay(stream, x=stream.empty(8))  # too small
    with pytest.raises(ph.NotFound):
        graph.slot("none", other)


def test_slots_are_proved_by_a_second_capture(stream, pair):
    """Of the addresses 0 and 256 below a multiple of 4096, each bit of the alignment differs."""
    _, y = pair
    block = stream.zeros(1 << 14, "uint8")
    page = -(-block.address // 4096) * 4096 + 4096
    x = ph.Array(page, 64, "float32", stream=stream, base=block)
    far = ph.Array(page + 8192 - 256, 64, "float32", stream=stream, base=block)
    one, two = captured(stream, x, y), captured(stream, far, y)
    assert one.prove_slots(two, x=(x, far)) == {"x": ""}
    other = stream.array(numpy.full(64, 7, "float32"))
    one.replay(stream, x=other)
    assert (y.to_numpy() == 7).all()
    reasons = captured(stream, x, y).prove_slots(captured(stream, x, far), x=(x, other))
    assert reasons["x"]


def test_views_that_moved_alike_are_set_by_one_distance(stream):
    """Keys and values of one cache: pages that hold their numbers, the two views a page apart."""
    block, outs = stream.zeros(12 * 4096, "uint8"), [stream.zeros(4), stream.zeros(4)]
    page = -(-block.address // 4096) * 4096
    pages = [ph.Array(page + i * 4096, 4, "float32", stream=stream, base=block) for i in range(10)]
    for i, at in enumerate(pages):
        stream.copy(at, stream.array(numpy.full(4, i, "float32")))

    def capture(keys, values):
        graph = ph.Graph()
        with graph.capture(stream):
            stream.copy(outs[0], pages[keys])
            stream.copy(outs[1], pages[values])
        return graph

    graph = capture(0, 1)
    reasons = graph.prove_slots(capture(3, 4), keys=(pages[0], pages[3]), values=(pages[1], pages[4]))
    assert reasons == {"keys": "", "values": ""}
    graph.replay(stream, keys=pages[6], values=pages[7])
    assert [out.to_numpy()[0] for out in outs] == [6, 7]
    with pytest.raises(ph.ArgumentError, match=r"\(values\) would lie 0x7000 .* \(keys\) 0x6000"):
        graph.replay(stream, keys=pages[6], values=pages[8])
    with pytest.raises(ph.ArgumentError, match="moves them apart"):
        graph.replay(stream, keys=pages[0])


def test_stale_input_is_found(stream, pair):
    x, y = pair
    graph = captured(stream, x, y, check_input_liveness=True)
    graph.replay(stream)
    assert {row["state"] for row in graph.inputs} == {"PH_INPUT_LIVE"} and len(graph.inputs) == 2
    x.free()
    with pytest.raises(ph.StaleInput, match="1 dead input"):
        graph.replay(stream)
    with pytest.raises(ph.StaleInput):
        graph.check_inputs()
    stream.synchronize()


def test_overwritten_output_is_found(stream, pair):
    x, _ = pair
    graph = ph.Graph()
    with graph.capture(stream):
        out = stream.empty(64)
        stream.copy(out, x)
    graph.replay(stream)
    first = graph.epoch
    graph.check_output(out, first)
    graph.replay(stream)
    with pytest.raises(ph.Overwritten):
        graph.check_output(out, first)
    graph.check_output(out, graph.epoch)
    with pytest.raises(ph.NotFound):
        graph.check_output(x, graph.epoch)
    stream.synchronize()


def test_update(stream, pair):
    x, y = pair
    graph = captured(stream, x, y)
    other = stream.array(numpy.full(64, 3, "float32"))
    graph.update(captured(stream, other, y))
    graph.replay(stream)
    assert (y.to_numpy() == 3).all() and graph.changes["updates"] == 1
    bigger = ph.Graph()
    with bigger.capture(stream):
        stream.copy(y, x)
        stream.copy(x, y)
    with pytest.raises(ph.Mismatch):
        graph.update(bigger)
    assert "added" in graph.diff(bigger) or "+" in graph.diff(bigger)


def test_child_graph(stream, pair):
    x, y = pair
    inner, outer = captured(stream, x, y), ph.Graph()
    with outer.capture(stream):
        inner.replay(stream)
    outer.replay(stream)
    assert (y.to_numpy() == numpy.arange(64)).all()


def test_fork_and_join(device, stream, pair):
    x, y = pair
    z, graph = stream.zeros(64), ph.Graph()
    with device.stream() as side, graph.capture(stream):
        side.wait(stream.record())
        side.copy(z, x)
        stream.copy(y, x)
        stream.wait(side.record())
        assert side.is_capturing
    graph.replay(stream)
    assert (y.to_numpy() == z.to_numpy()).all()
    assert graph.races() == []


def test_a_race_is_found(device, stream, pair):
    x, y = pair
    graph = ph.Graph()
    with device.stream() as side, graph.capture(stream):
        side.wait(stream.record())
        side.copy(y, x)
        stream.fill(y, 0)
        stream.wait(side.record())
    races = graph.races()
    assert len(races) == 1 and races[0]["certain"] and {races[0]["first"]["name"], races[0]["second"]["name"]} == {"memcpy", "memset"}


def test_verify(stream, pair):
    x, y = pair

    def body():
        stream.copy(y, x)

    graph = captured(stream, x, y)
    equal = graph.verify(stream, body)
    assert equal["verdict"] == "PH_VERIFY_EQUAL" and equal["node"] is None and equal["compared"] > 0
    graph2 = captured(stream, x, y)
    found = graph2.verify(stream, lambda: stream.fill(y, 0))
    assert found["verdict"] != "PH_VERIFY_EQUAL" and found["message"]
    with pytest.raises(KeyError, match="body"):
        graph.verify(stream, lambda: {}["body"])
    stream.synchronize()


def test_verdict(stream, pair):
    x, y = pair
    graph = captured(stream, x, y)
    found = graph.verdict(stream, lambda: stream.copy(y, x), rounds=2)
    assert found["eager_ns"] > 0 and found["sentence"] and found["bound"].startswith("PH_BOUND_")


def test_annotations_and_record(stream, pair, tmp_path):
    x, y = pair
    graph = ph.Graph()
    with graph.capture(stream, enable_annotations=True):
        with ph.annotate(stream, "forward", layer=3, rate=0.5, last=True, kind="a<b"):
            stream.copy(y, x)
        stream.fill(y, 0)
    record = graph.record()
    graph.close()  # the record does not need it
    assert [node["kind"] for node in record.nodes] == ["memcpy", "memset"] and len(record) == 2
    text = json.dumps(record.nodes[0]["annotation"])
    for word in ("forward", "layer", "3", "0.5", "true", "a<b"):
        assert word in text
    record.dump(tmp_path / "r.json")
    assert ph.Record.load(tmp_path / "r.json").data == record.data
    assert "<td>memset</td>" in record.table() and "a<b" not in record.table()
    with pytest.raises(TypeError, match="annotation when is a list"):
        with ph.annotate(stream, when=[]):
            pass


def test_an_exception_closes_the_scope(stream):
    with pytest.raises(KeyError):
        with ph.annotate(stream, "a"):
            raise KeyError("x")
    assert core.ph_annotation_depth() == 0


def test_dot(stream, pair):
    assert captured(stream, *pair).dot().startswith("digraph")


def test_profile(device, stream, pair):
    if device.is_cuda:
        pytest.skip("the software GPU has no times")
    x, y = pair
    graph = captured(stream, x, y)
    with graph.profile(stream, replays=3) as profile:
        assert profile.summary["replays"] == 3 and profile.summary["source"] == "PH_PROFILE_DEVICE"
        assert profile.critical_path == [0] and profile.nodes[0]["measured"] and profile.gaps == []
        assert profile.trace["traceEvents"]
        assert "profile" in profile.record.data
    assert profile.handle is None


def test_hold(stream, pair):
    import weakref

    class Thing:
        pass

    thing = Thing()
    gone = weakref.ref(thing)
    graph = captured(stream, *pair)
    graph.hold(thing)
    del thing
    assert gone() is not None
    graph.reset()
    assert gone() is None


def test_functions_of_python_are_replayed(stream):
    seen, graph = [], ph.Graph()
    with graph.capture(stream):
        stream.call(lambda: seen.append(len(seen)))
    stream.synchronize()
    assert seen == []
    for _ in range(3):
        graph.replay(stream)
    stream.synchronize()
    assert seen == [0, 1, 2]
    graph.reset()


def test_bindings_and_objects_mix(stream, pair):
    x, y = pair
    graph = captured(stream, x, y)
    count = ctypes.c_size_t()
    ph.check(core.ph_graph_pools(None, 0, ctypes.byref(count), graph.handle))
    assert count.value >= 0
    assert core.ph_graph_get_state(graph.handle) == core.PH_GRAPH_READY


def test_a_graph_of_cuda_is_copied_in(device, stream, pair):
    x, y = pair
    if not device.is_cuda:
        with pytest.raises(ph.UnsupportedError):
            ph.Graph.import_cuda(device, 4096)  # whether the machine has CUDA or not
        return
    theirs = ph.Graph(keep_graph=True)
    with theirs.capture(stream):
        stream.copy(y, x)
    native = ctypes.c_void_p()
    ph.check(core.ph_graph_cuda(ctypes.byref(native), theirs.handle))
    ours = ph.Graph.import_cuda(device, native.value)
    kept = ph.Graph.import_cuda(device, native.value, keep_graph=True)
    theirs.close()
    assert ours.state is core.PH_GRAPH_READY and kept.state is core.PH_GRAPH_ENDED
    assert [node["kind"] for node in kept.record().nodes] == ["memcpy"]
    ours.slot("x", x)
    other = stream.array(numpy.full(64, 7, "float32"))
    ours.replay(stream, x=other)
    assert (y.to_numpy() == 7).all()


def test_scopes_of_a_graph_of_cuda_come_with_it(device, stream, pair):
    x, y = pair
    if not device.is_cuda:
        pytest.skip("graphs of CUDA's need its driver")
    theirs = ph.Graph(keep_graph=True)
    with theirs.capture(stream):
        stream.copy(y, x)
        stream.fill(y, 0)
    native = ctypes.c_void_p()
    ph.check(core.ph_graph_cuda(ctypes.byref(native), theirs.handle))
    ours = ph.Graph.import_cuda(device, native.value, scopes=[(0, {"name": "load", "layer": 3, "ratio": 0.5, "last": True}), (1, {})])
    first, second = ours.record().nodes
    assert first["annotation"] == {"name": "load", "layer": 3, "ratio": 0.5, "last": True} and "annotation" not in second
    with pytest.raises(ph.ArgumentError, match="begins at node 7, and the graph has 2"):
        ph.Graph.import_cuda(device, native.value, scopes=[(7, {"name": "load"})])
    with pytest.raises(TypeError, match="must be a str, int, float or bool"):
        ph.Graph.import_cuda(device, native.value, scopes=[(0, {"name": None})])


def test_breadcrumbs_tell_how_far_a_replay_came(stream, pair):
    x, y = pair
    graph = ph.Graph()
    with graph.capture(stream, enable_annotations=True, breadcrumbs=True):
        with ph.annotate(stream, "first"):
            stream.copy(y, x)
        with ph.annotate(stream, "second"):
            stream.fill(y, 0)
    graph.enable_breadcrumbs()
    graph.replay(stream)
    stream.synchronize()
    found = graph.where()
    assert found["complete"] and found["passed"] == found["count"] == 4
    assert found["open"] == [] and found["last"] == "second" and found["message"]
    with pytest.raises(ph.StateError):
        captured(stream, x, y).enable_breadcrumbs()


def test_where_shows_long_names_of_any_script(stream, pair):
    x, y = pair
    graph = ph.Graph()
    with graph.capture(stream, enable_annotations=True, breadcrumbs=True):
        for shift in range(3):  # names are cut somewhere: in the middle of a character, too
            with ph.annotate(stream, "x" * shift + "\u20ac" * 200):
                stream.copy(y, x)
    graph.enable_breadcrumbs()
    graph.replay(stream)
    stream.synchronize()
    found = graph.where()
    assert found["complete"] and found["last"].startswith("xx\u20ac") and found["message"]


def test_states_are_printed_by_name(stream, pair):
    graph = captured(stream, *pair)
    assert str(graph.state) == f"{graph.state}" == "PH_GRAPH_READY" and f"{graph.state:d}" == str(int(graph.state))


def test_checks_name_the_array_that_is_not_finite(stream):
    good, bad = stream.array(numpy.ones(8, "float32")), stream.array(numpy.array([0, 1, numpy.inf, numpy.nan], "float64"))
    graph = ph.Graph()
    with graph.capture(stream, enable_annotations=True), ph.annotate(stream, "inputs"):
        stream.check_finite(good, "good")
        stream.check_finite(bad, "bad")
    graph.enable_finite()
    graph.replay(stream)
    stream.synchronize()
    first, second = graph.finite()
    assert first["name"] == "good" and first["ran"] and first["bad"] == 0
    assert second["name"] == "bad" and second["bad"] == 2 and second["first"] == 2 and second["scope"] == "inputs"
    stream.check_finite(bad)  # outside of a capture: nothing
    with pytest.raises(TypeError, match="elements of int32; they must be"):
        stream.check_finite(stream.zeros(4, "int32"))
    with pytest.raises(ph.StateError):
        captured(stream, good, stream.zeros(8)).enable_finite()


def test_a_graph_of_cuda_that_is_not_taken_over_is_let_go(device, stream, pair):
    x, y = pair
    if not device.is_cuda:
        pytest.skip("graphs of CUDA's need its driver")
    theirs = ph.Graph(keep_graph=True)
    with theirs.capture(stream):
        stream.copy(y, x)
    native = ctypes.c_void_p()
    ph.check(core.ph_graph_cuda(ctypes.byref(native), theirs.handle))
    with pytest.raises(ph.ArgumentError):  # without liveness
        ph.Graph.import_cuda(device, native.value, check_foreign_every=3)
    assert ph.Graph.import_cuda(device, native.value).state is core.PH_GRAPH_READY


def test_a_name_that_is_given_again_is_the_newer_slots(stream):
    a, b = stream.array(numpy.full(64, 1.0)), stream.array(numpy.full(64, 2.0))
    from_a, from_b = stream.zeros(64, "float64"), stream.zeros(64, "float64")
    graph = ph.Graph()
    with graph.capture(stream):
        stream.copy(from_a, a)
        stream.copy(from_b, b)
    other, another = stream.array(numpy.full(64, 10.0)), stream.array(numpy.full(64, 20.0))
    graph.slot("x", a)
    graph.set_slots(x=other.address)
    graph.slot("x", b)
    graph.set_slots(x=another.address)
    graph.replay(stream)
    assert from_a.to_numpy()[0] == 10 and from_b.to_numpy()[0] == 20


def test_slots_by_the_callers_word(stream, pair):
    x, y = pair
    graph = captured(stream, x, y)
    node, word = next((node, word) for node in graph.record().nodes for word in node["words"] if int(word["value"], 0) == x.address)
    with pytest.raises(ph.ArgumentError):
        graph.declare_slot("y", y, [(node["index"], word["offset"])])  # which has another array's address
    graph.declare_slot("x", x, [(node["index"], word["offset"])])
    assert graph.slot_uses("x") == 1
    graph.replay(stream, x=stream.array(numpy.full(64, 3, "float32")))
    assert (y.to_numpy() == 3).all()


def test_slots_are_set_ahead_of_a_replay(stream, pair):
    x, y = pair
    graph = captured(stream, x, y)
    graph.slot("x", x)
    other = stream.array(numpy.full(64, 3, "float32"))
    graph.set_slots(x=other)
    assert (y.to_numpy() == 0).all()
    graph.replay(stream)
    assert (y.to_numpy() == 3).all()
    with pytest.raises(KeyError, match="it has x"):
        graph.set_slots(z=other)


def test_a_graph_that_other_code_launches_is_looked_at(device, stream, pair):
    x, y = pair
    if not device.is_cuda:
        with pytest.raises(ph.UnsupportedError):
            ph.Graph.view_cuda(device, 1, 1)  # no address is read
        return
    theirs, native, executable = ph.Graph(keep_graph=True), ctypes.c_void_p(), ctypes.c_void_p()
    with theirs.capture(stream):
        stream.copy(y, x)
    theirs.instantiate()
    ph.check(core.ph_graph_cuda(ctypes.byref(native), theirs.handle))
    ph.check(core.ph_graph_exec_cuda(ctypes.byref(executable), theirs.handle))
    ours = ph.Graph.view_cuda(device, native.value, executable.value)
    ours.slot("x", x)
    other = stream.array(numpy.full(64, 7, "float32"))
    ours.set_slots(x=other)
    theirs.replay(stream)
    assert (y.to_numpy() == 7).all()
    with pytest.raises(ph.StateError, match="belong to other code"):
        ours.replay(stream)
    ours.close()
    theirs.replay(stream)
