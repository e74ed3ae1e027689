# SPDX-License-Identifier: MIT
"""The cache of graphs: eager at first, then captured, learned and replayed; the results are the body's own each time."""

import ctypes
import functools

import numpy
import pytest

import phonograph as ph
from phonograph.bindings import core


@pytest.fixture
def told():
    return []


@pytest.fixture
def cache(device, told):
    with ph.Cache(device, after=1, event=told.append) as made:
        yield made


def copy_call(cache, stream, key, x, y):
    return cache.run(stream, key, lambda: stream.copy(y, x), pointers={"x": x, "y": y})


def test_a_key_becomes_a_graph_that_is_rebound(stream, cache, told):
    paths = []
    for value in range(8):
        x, y = stream.array(numpy.full(64, value, "float32")), stream.zeros(64)
        found = copy_call(cache, stream, ("copy", 64), x, y)
        assert (y.to_numpy() == value).all()
        paths.append(found["path"])
        told.append((x, y))  # the next ones lie elsewhere
    assert paths[0] == "PH_CACHE_EAGER" and paths[-1] == "PH_CACHE_REPLAYED", paths
    assert {"PH_CACHE_CAPTURED", "PH_CACHE_LEARNED"} & set(paths)
    events = [event["what"] for event in told if isinstance(event, dict)]
    assert events == [path for path in paths if path in ("PH_CACHE_CAPTURED", "PH_CACHE_LEARNED")]
    stats = cache.stats
    assert stats["calls"] == 8 and stats["keys"] == 1 and stats["graphs"] == 1 and stats["replayed"] >= 1
    entry = cache.entries[0]
    assert entry["key"] == b"('copy', 64)" and entry["has_graph"] and entry["hits"] >= 1
    assert "copy" in str(cache)


def test_keys_are_apart(stream, cache):
    x, y = stream.zeros(8), stream.zeros(8)
    for key in (1, "1", b"1", (1,)):
        copy_call(cache, stream, key, x, y)
    assert sorted(entry["key"] for entry in cache.entries) == [b"'1'", b"(1,)", b"1"]  # bytes are the key as they are
    cache.drop("1")
    assert cache.stats["keys"] == 2
    with pytest.raises(ph.NotFound):
        cache.drop("never came")


def test_what_a_body_raises_is_raised(stream, cache):
    for _ in range(4):  # eagerly, in a capture, and after it
        with pytest.raises(ZeroDivisionError):
            cache.run(stream, "bad", lambda: 1 / 0)
        assert not stream.is_capturing


def test_a_body_that_cannot_be_captured_runs_eagerly(stream, cache, told):
    x, y = stream.zeros(8), stream.zeros(8)

    def body():
        stream.copy(y, x)
        stream.synchronize()  # refused in a capture

    for turn in range(4):
        stream.fill(x, float(turn))
        found = cache.run(stream, "waits", body, pointers={"x": x, "y": y})
        assert found["path"] == "PH_CACHE_EAGER" and (y.to_numpy() == turn).all()
    assert [(event["what"], event["key"]) for event in told] == [("PH_CACHE_REFUSED", b"'waits'")]
    assert told[0]["reason"] == cache.entries[0]["reason"]
    assert cache.entries[0]["refused"] and "ph_stream_synchronize" in cache.entries[0]["reason"]


def test_values(device, stream, cache, axpy):
    y, x = stream.zeros(4), stream.array(numpy.ones(4, "float32"))
    total = 0.0
    for turn in range(8):
        a = ctypes.c_float(turn + 0.5)
        total += a.value

        def body(a=a):
            stream.launch(axpy, 4, a.value, x, y)

        cache.run(stream, "axpy", body, pointers={"x": x, "y": y}, values={"a": a})
    assert y.to_numpy().tolist() == [total] * 4 and cache.stats["replayed"] >= 1


def test_memory_of_numpy(device, stream, cache, axpy):
    """Each call has an array of numpy of its own, which is gone after it; whatever the path, the result is right."""
    y, expected = stream.zeros(16), 0
    for turn in range(10):
        x = numpy.full(16, turn, "float32")
        cache.run(stream, "numpy", lambda x=x: stream.launch(axpy, 16, 1.0, x, y), pointers={"x": x, "y": y})
        expected += turn
        del x
    assert (y.to_numpy() == expected).all()


def test_buckets(cache):
    cache.set_buckets([8, 16, 64])
    assert [cache.bucket(size) for size in (1, 8, 9, 64)] == [8, 8, 16, 64]
    ph.set_log(lambda *line: None)
    assert cache.bucket(65) == 0
    ph.set_log(None)
    assert cache.suggest(2) and max(cache.suggest(8)) == 65
    with pytest.raises(ph.ArgumentError):
        cache.set_buckets([4, 2])
    cache.set_buckets([])
    assert cache.stats["beyond"] == 1


def test_misuse(device, stream, cache):
    with pytest.raises(TypeError, match="ph_graph_cache_options has no size"):
        ph.Cache(device, size=3)
    with pytest.raises(ph.ArgumentError):
        cache.run(stream, b"", lambda: None)
    cache.close()
    with pytest.raises(ph.ArgumentError):
        cache.run(stream, "key", lambda: None)


def test_options_by_name(device, stream):
    """The size of a copy follows from n, which no slot has: such calls run as they are, or update a graph."""
    x, y = stream.array(numpy.ones(16, "float32")), stream.zeros(16)
    for options, updates in (({"fallback": "update"}, True), ({"fallback": core.PH_CACHE_FALLBACK_UPDATE}, True), ({}, False)):
        with ph.Cache(device, after=1, **options) as cache:
            for n in range(1, 9):
                body = functools.partial(stream.copy, *(ph.Array(of.address, n, "float32", stream=stream, base=of) for of in (y, x)))
                cache.run(stream, "key", body, pointers={"x": x, "y": y}, values={"n": ctypes.c_size_t(n)})
            assert (cache.stats["updated"] > 0) == updates, (options, str(cache))
    settings = core.ph_capture_options()
    for capture in (None, {}, {"plan": True}, {"mode": "relaxed", "check_input_liveness": True}, settings, ctypes.pointer(settings)):
        with ph.Cache(device, after=1, capture=capture) as cache:
            x, y = stream.array(numpy.ones(8, "float32")), stream.zeros(8)
            paths = [copy_call(cache, stream, "key", x, y)["path"] for _ in range(4)]
            assert paths[-1] == "PH_CACHE_REPLAYED" and (y.to_numpy() == 1).all(), (capture, paths)


def test_misuse_of_options(device, stream, cache):
    with pytest.raises(ph.ArgumentError, match="Cache: fallback='updte' is no fallback: it is one of eager, update"):
        ph.Cache(device, fallback="updte")
    with pytest.raises(ph.ArgumentError, match="Cache: fallback=7 is no fallback"):
        ph.Cache(device, fallback=7)
    with pytest.raises(ph.ArgumentError, match="Cache: capture: mode='any' is no mode: it is one of global, thread_local, relaxed"):
        ph.Cache(device, capture={"mode": "any"})
    with pytest.raises(TypeError, match="ph_capture_options has no plann"):
        ph.Cache(device, capture={"plann": True})
    with pytest.raises(TypeError, match="Cache: capture is a bool: it must be a dict of members of ph_capture_options"):
        ph.Cache(device, capture=True)
    with pytest.raises(TypeError, match="ph_graph_cache_options: after is 'two', a str: it must be a c_uint of C"):
        ph.Cache(device, after="two")


def test_misuse_of_a_call(stream, cache):
    x = stream.zeros(8)
    with pytest.raises(TypeError, match=r"Cache.run: values: n is a int: .* ctypes\.c_uint32\(5\)"):
        cache.run(stream, "key", lambda: None, values={"n": 5})
    with pytest.raises(TypeError, match="Cache.run: pointers is a list: it must be a dict by name"):
        cache.run(stream, "key", lambda: None, pointers=[x])
    with pytest.raises(TypeError, match="Cache.run: values is a tuple: it must be a dict by name"):
        cache.run(stream, "key", lambda: None, values=(ctypes.c_int(5),))
    with pytest.raises(TypeError, match="Cache.run: body is a NoneType: it must be a function"):
        cache.run(stream, "key", None)
    assert cache.stats["calls"] == 0


def test_an_event_function_that_raises_is_heard(device, stream):
    with ph.Cache(device, event=lambda event: event["no such key"]) as cache:
        cache.set_buckets([1])
        ph.set_log(lambda *line: None)
        cache.bucket(2)  # beyond
        ph.set_log(None)
        with pytest.raises(ph.CallerError, match="KeyError"):
            stream.synchronize()
