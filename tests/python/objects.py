# SPDX-License-Identifier: MIT
"""Devices, streams, events, pools, errors: what they do, and what they refuse."""

import gc
import pickle
import re
import weakref

import numpy
import pytest

import phonograph as ph
from phonograph.bindings import core


def test_device_says_what_it_is(device):
    info = device.info
    assert info["kind"] == ("PH_DEVICE_CUDA" if device.is_cuda else "PH_DEVICE_HOST")
    assert info["name"] == device.name and info["memory_total"] > 0
    assert device.name in repr(device)
    assert not device.is_capturing


def test_drivers(device):
    found = {driver["name"]: driver for driver in ph.drivers()}
    assert set(found) == {"host", "cuda"} and found["host"]["reason"] == ""
    assert (found["cuda"]["reason"] == "") == (found["cuda"]["device_count"] > 0) or not device.is_cuda


def test_every_public_name_is_there():
    assert sorted(ph.__all__, key=str.lower) and all(hasattr(ph, name) for name in ph.__all__)
    assert set(ph.__all__) >= {kind.__name__ for kind in ph.errors._CLASSES.values()}


def test_unknown_device_is_not_found():
    with pytest.raises(ph.NotFound) as raised:
        ph.Device("no such device")
    assert raised.value.status == core.PH_ERROR_NOT_FOUND and isinstance(raised.value, LookupError)
    assert "no such device" in str(raised.value)


def test_unknown_option_is_named():
    with pytest.raises(TypeError, match="ph_device_options has no threads: it has .*host_threads"):
        ph.Device("host", threads=2)
    with pytest.raises(TypeError, match="reserved"):
        ph.Device("host", reserved=1)


def test_streams_and_events(device):
    with device.stream() as one, device.stream(priority=-1) as two:
        x = one.zeros(64, "uint8")
        one.fill(x, 3)
        event = one.record()
        two.wait(event)
        two.wait(one)
        y = two.empty(64, "uint8")
        two.copy(y, x)
        two.synchronize()
        assert event.query() and one.query() and two.query()
        assert (y.to_numpy() == 3).all()
        assert not one.is_capturing and two.priority <= one.priority


def test_elapsed(device, stream):
    start, end = device.event(timing=True), device.event(timing=True)
    stream.record(start)
    stream.record(end)
    end.synchronize()
    assert start.elapsed(end) >= 0
    with pytest.raises(ph.ArgumentError):
        device.event().elapsed(end)


def test_closed_objects_are_refused(device):
    stream = device.stream()
    stream.close()
    stream.close()
    assert stream.handle is None and "closed" in repr(stream)
    for call in (stream.synchronize, stream.query, lambda: stream.record(), lambda: stream.empty(4)):
        with pytest.raises(ph.ArgumentError):
            call()
    x_stream = device.stream()
    graph = ph.Graph()
    graph.close()
    with pytest.raises(ph.ArgumentError):
        graph.replay(x_stream)


def test_a_closed_object_is_called_so(device, stream):
    """Wherever its handle goes: as the object of the call, or as an argument."""
    x, graph = stream.zeros(4), ph.Graph()
    with graph.capture(stream):
        stream.fill(x, 0)
    closed = ph.Graph(), device.stream(), device.event(), ph.Cache(device), device.pool(), ph.Device("host:threads=1")
    for thing in closed:
        thing.close()
    ended, other, event, cache, pool, gone = closed
    calls = {
        "Graph": (
            lambda: ended.replay(stream), ended.record, lambda: ended.slot("x", x), lambda: graph.update(ended),
            lambda: graph.diff(ended), lambda: graph.prove_slots(ended, x=(x, x)), lambda: ended.capture(stream).__enter__(),
        ),
        "Stream": (other.synchronize, lambda: other.zeros(4), lambda: graph.replay(other), lambda: stream.wait(other), other.record),
        "Event": (event.query, lambda: stream.wait(event)),
        "Cache": (lambda: cache.run(stream, "key", lambda: None), lambda: cache.stats),
        "Pool": (lambda: ph.Graph().capture(stream, pool=pool), lambda: ph.Cache(device, pool=pool), lambda: device.memory_snapshot(pool)),
        "Device": (gone.stream, gone.synchronize, lambda: ph.Cache(gone)),
    }  # fmt: skip
    for name, of_kind in calls.items():
        for call in of_kind:
            with pytest.raises(ph.ArgumentError, match=rf"the phonograph\.{name} was closed; make another one$"):
                call()


def test_objects_keep_what_they_need():
    device = ph.Device("host:threads=1")
    stream = device.stream()
    x = stream.zeros(8)
    gone = weakref.ref(device)
    del device
    gc.collect()
    assert gone() is not None
    stream.fill(x, 1)
    assert (x.to_numpy() == 1).all()
    del stream
    assert (x.to_numpy() == 1).all()  # the array keeps its stream
    del x
    assert gone() is None


def test_memory_outlives_closed_objects():
    lines = []
    ph.set_log(lambda level, text: lines.append(text))
    try:
        device = ph.Device("host:threads=1")
        stream = device.stream()
        x, y = stream.zeros(8), stream.pinned(8)
        device.close()
        z = stream.zeros(8)  # the stream keeps the device
        stream.close()
        assert (numpy.asarray(y).shape, x.shape, z.shape) == ((8,),) * 3
        with pytest.raises(ph.ArgumentError):
            device.stream()
        circle = [x, y, z, stream, device]  # whose members end in any order
        circle.append(circle)
        del x, y, z, stream, device, circle
        gc.collect()
    finally:
        ph.set_log(None)
    assert lines == []  # none was freed after its device


def test_pool_has_the_memory(device, stream):
    with pytest.raises(ph.PoolLimit) as raised:
        with device.pool(limit=1 << 20) as small:
            stream.empty(1 << 22)
    assert isinstance(raised.value, MemoryError)
    pool = device.pool()
    with pool:
        x = stream.empty(1 << 16)
    assert pool.memory["allocated"] >= x.nbytes and pool.id[1] > 0 and pool.use_count >= 1
    with pytest.raises(ph.StateError):
        pool.__exit__(None, None, None)
    before = device.memory["allocated"]
    del x
    assert device.memory["allocated"] < before
    stream.synchronize()
    pool.trim()
    assert pool.memory["reserved"] == 0
    device.trim()
    small.close()


def test_memory_snapshot_is_a_dict(device, stream):
    x = stream.empty(1000)
    text = str(device.memory_snapshot())
    assert "segments" in text and x.nbytes


def test_errors_have_a_class_each_and_can_be_copied():
    classes = {ph.errors._CLASSES[member] for member in core.ph_status if member}
    assert len(classes) == len(core.ph_status) - 1
    for status, kind in ph.errors._CLASSES.items():
        assert issubclass(kind, ph.Error) and core.ph_status(status).name in kind.__doc__
    copied = pickle.loads(pickle.dumps(ph.CaptureError("text", core.PH_ERROR_CAPTURE, 900, "cuX")))
    assert type(copied) is ph.CaptureError
    assert (copied.message, copied.status, copied.native_code, copied.native_call) == ("text", 40, 900, "cuX")


def test_remedies_name_the_call_of_python(stream):
    graph = ph.Graph()
    with graph.capture(stream):
        stream.zeros(4)
    with pytest.raises(ph.StateError) as caught:
        with graph.capture(stream):
            pass
    text = str(caught.value)
    assert text.startswith("ph_graph_capture_begin: ") and "; call ph_graph_reset (in Python graph.reset()) first or create" in text
    assert caught.value.message == text == ph.errors.in_python(text)


def test_words_of_python_in_messages():
    for message, expected in (
        ("ph_malloc: use ph_malloc_pinned", "ph_malloc: use ph_malloc_pinned (in Python stream.pinned(shape, dtype))"),
        ("set ph_kernel_source.host, or", "set ph_kernel_source.host (in Python device.kernel(..., host=function)), or"),
        ("x: call ph_graph_reset (in C++ clear).", "x: call ph_graph_reset (in Python graph.reset())."),
        ("x: ph_graph_reset_all, aph_malloc, ph_malloc_x (in C++ y)", "x: ph_graph_reset_all, aph_malloc, ph_malloc_x (in C++ y)"),
        ("x: with ph_stream_wait_stream(the one, the other); ph_graph_reset()", "x: with ph_stream_wait_stream(the one, the other) (in Python "
         "stream.wait(other)); ph_graph_reset() (in Python graph.reset())"),
        ("", ""),
    ):
        assert ph.errors.in_python(message) == expected and ph.errors.in_python(expected) == expected


def test_each_call_of_python_in_messages_is_there():
    objects = {"graph": ph.Graph, "stream": ph.Stream, "device": ph.Device, "phonograph": ph}
    for name, words in ph.errors.IN_PYTHON.items():
        call, _, member = name.partition(".")
        found = getattr(core, call)
        assert not member or member in dict(found._fields_), name
        owner, *path = re.match(r"(?:with )?([\w.]+)", words)[1].split(".")
        thing = objects[owner]
        for step in path:
            thing = getattr(thing, step)


def test_a_plan_is_no_option_of_a_block(stream):
    """Its message does not name the call that was made."""
    with pytest.raises(ph.ArgumentError, match="runs twice, and a `with` block runs once") as caught:
        ph.Graph().capture(stream, plan=True)
    assert "graph.capture" not in str(caught.value)
    ph.Graph().capture(stream, plan=False)


def test_a_status_without_a_record_has_its_name():
    ph.check(0)
    with pytest.raises(ph.NotFound):
        ph.Device("nothing")
    with pytest.raises(ph.StaleInput, match="PH_ERROR_STALE_INPUT"):
        ph.check(core.PH_ERROR_STALE_INPUT)  # the record is of the other status
    with pytest.raises(ph.Error, match="unknown status"):
        ph.check(12345)


def test_log_goes_to_the_function(device):
    lines = []
    ph.set_log(lambda level, text: lines.append((level, text)))
    try:
        core.ph_log_write(core.PH_LOG_WARNING, b"a line")
    finally:
        ph.set_log(None)
    assert lines == [(core.PH_LOG_WARNING, "a line")]


def test_wrapping_needs_cuda(device, stream):
    if device.is_cuda:
        with ph.Stream.wrap(stream) as wrapped:  # by __cuda_stream__
            assert wrapped.__cuda_stream__() == stream.__cuda_stream__()
            x = wrapped.zeros(16)
            wrapped.fill(x, 1)
            wrapped.synchronize()
            assert wrapped.device.name == device.name
        with ph.Stream.wrap(stream.__cuda_stream__()[1]) as wrapped:
            wrapped.synchronize()
    else:
        assert not hasattr(stream, "__cuda_stream__")


def test_function_of_python_in_stream_order(device, stream):
    seen = []
    x = stream.zeros(4, "uint8")
    stream.fill(x, 7)
    kept = stream.pinned(4, "uint8")
    stream.copy(kept, x)
    stream.call(lambda: seen.append(numpy.asarray(kept).tolist()))
    stream.synchronize()
    assert seen == [[7, 7, 7, 7]]


def test_what_a_function_raises_comes_at_the_next_wait(device, stream):
    stream.call(lambda: [][1])
    with pytest.raises(ph.CallerError, match="IndexError") as raised:
        stream.synchronize()
    assert isinstance(raised.value.__cause__, IndexError)
    stream.synchronize()  # once


# ---- objects of another class ----


def test_an_object_of_another_class_is_named(device, stream):
    graph, pool, event = ph.Graph(), ph.Pool(device), ph.Event(device)
    x, y = stream.zeros(4), stream.zeros(4)
    with graph.capture(stream):
        stream.copy(y, x)
    wrong = {
        "replay": lambda thing: graph.replay(thing),
        "replay with values": lambda thing: graph.replay(thing, x=x),
        "upload": lambda thing: graph.upload(thing),
        "profile": lambda thing: graph.profile(thing),
        "capture": lambda thing: ph.Graph().capture(thing),
        "copy": lambda thing: ph.Stream.copy(thing, y, x),
        "annotate": lambda thing: ph.annotate(thing, "a").__enter__(),
    }
    graph.slot("x", x)
    for name, call in wrong.items():
        for thing in (graph, pool, device, event):
            with pytest.raises((TypeError, AttributeError)) as caught:
                call(thing)
            assert type(thing).__name__ in str(caught.value), name
    for thing in (stream, device, pool):
        for call in (graph.update, graph.diff, lambda thing: graph.prove_slots(thing, x=(x, y))):
            with pytest.raises(TypeError, match="a phonograph.Graph is needed here"):
                call(thing)
    with pytest.raises(TypeError, match="a phonograph.Pool is needed here, not a phonograph.Graph"):
        ph.Graph().capture(stream, pool=graph)
    for thing in (graph, stream, pool):
        for kind in (ph.Stream, ph.Pool, ph.Event):
            with pytest.raises(TypeError, match="a phonograph.Device is needed here"):
                kind(thing)
    graph.replay(stream)
    stream.synchronize()


def test_things_that_are_no_objects_of_the_package_are_named(device, stream):
    graph = ph.Graph()
    with pytest.raises(TypeError, match="Graph.replay: a phonograph.Stream is needed, not str"):
        graph.replay("s")
    with pytest.raises(TypeError, match="Graph.capture: a phonograph.Stream is needed, not int"):
        graph.capture(7)
    with pytest.raises(ValueError, match="Graph.capture: mode='globl' is no mode: it is one of global, thread_local, relaxed"):
        graph.capture(stream, mode="globl")
    with pytest.raises(TypeError, match='Device: the name is a int; write "auto"'):
        ph.Device(0)


def test_a_capture_without_with_is_told(stream):
    with pytest.warns(RuntimeWarning, match="the capture was not entered; write `with graph.capture"):
        ph.Graph().capture(stream)
        gc.collect()
    graph = ph.Graph()
    with pytest.warns(RuntimeWarning, match="the capture was not ended"):
        graph.capture(stream).__enter__()
        gc.collect()
    graph.close()
