# SPDX-License-Identifier: MIT
"""Python's lock: no call that waits keeps it. Each test would hang, and ends by faulthandler's limit then."""

import faulthandler
import gc
import threading

import numpy
import pytest

import phonograph as ph

pytestmark = pytest.mark.skipif("__import__('os').environ.get('PH_TEST_DEVICE', 'host') != 'host'")


@pytest.fixture(autouse=True)
def limit():
    faulthandler.dump_traceback_later(100, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


def in_thread(function):
    thread = threading.Thread(target=function)
    thread.start()
    return thread


@pytest.mark.parametrize("wait", ["stream", "device", "event", "graph", "copy", "close"])
def test_a_wait_lets_a_function_of_python_run(device, wait):
    """The function runs on a thread of the library, and needs the lock, while this thread waits for it."""
    seen, stream, graph = [], device.stream(), ph.Graph()
    host, x = numpy.zeros(4, "float32"), stream.zeros(4)
    with graph.capture(stream):
        stream.call(lambda: seen.append(sum(range(10000))))
    graph.replay(stream)
    if wait == "stream":
        stream.synchronize()
    elif wait == "device":
        device.synchronize()
    elif wait == "event":
        stream.record().synchronize()
    elif wait == "graph":
        graph.reset()  # waits, as it holds a function
    elif wait == "copy":
        stream.copy(host, x)  # to pageable memory
    else:
        graph.close()
    assert seen == [49995000]


def test_a_function_that_waits_for_another_thread(stream):
    """The function needs the lock, waits for a thread that needs it too, while the main thread waits in C."""
    go, seen = threading.Event(), []
    stream.call(go.wait)
    stream.call(lambda: seen.append("after"))
    thread = in_thread(lambda: (seen.append("before"), go.set()))
    stream.synchronize()
    thread.join()
    assert seen == ["before", "after"]


def test_kernels_of_python_on_several_threads(device, stream):
    total, lock = [], threading.Lock()

    def host(range_, arguments):
        for block in range(range_.begin, range_.end):
            with lock:
                total.append(block)

    kernel = device.kernel("many", parameters=[], host=host)
    stream.launch(kernel, grid=500)
    stream.synchronize()
    assert sorted(total) == list(range(500))


def test_threads_with_streams_of_their_own(device):
    """Eight threads capture, replay, launch functions and make and drop objects at once."""
    failures = []

    def work(number):
        try:
            with device.stream() as stream:
                seen = []
                for turn in range(20):
                    x, y = stream.zeros(64), stream.zeros(64)
                    graph = ph.Graph()
                    with graph.capture(stream, mode="thread_local"):
                        stream.copy(y, x)
                        stream.call(lambda: seen.append(number))
                    stream.fill(x, float(number))
                    graph.replay(stream)
                    assert (y.to_numpy() == number).all()
                    assert len(seen) == turn + 1
        except BaseException as error:
            failures.append(error)

    threads = [in_thread(lambda number=number: work(number)) for number in range(8)]
    for thread in threads:
        thread.join()
    assert failures == []


def test_log_functions_run_while_another_thread_waits(stream):
    lines = []
    ph.set_log(lambda level, text: lines.append(text))
    try:
        graph = ph.Graph()
        with graph.capture(stream):
            pass  # warns of the empty graph
        thread = in_thread(lambda: stream.synchronize())
        thread.join()
    finally:
        ph.set_log(None)
    assert any("empty" in line for line in lines)


def test_objects_that_end_in_a_callback_end_later(device, stream):
    """A function on a thread of the library collects garbage: what it finds must not call the library there."""
    live = device.memory["allocated"]

    def make_garbage():
        x = stream.zeros(1 << 16, "uint8")
        circle = [x]
        circle.append(circle)

    gc.disable()
    try:
        stream.synchronize()
        make_garbage()
        assert device.memory["allocated"] > live
        stream.call(gc.collect)
        stream.synchronize()
        x = stream.zeros(16, "uint8")  # the next object makes the calls that were put off
        stream.synchronize()
        del x
        assert device.memory["allocated"] == live
    finally:
        gc.enable()


@pytest.mark.parametrize("mode", ["global", "thread_local", "relaxed"])
def test_a_graph_that_ends_in_a_capture(device, stream, mode):
    """A graph that holds a function waits for its replays; in another capture of the thread that must not kill the capture."""
    seen, other = [], device.stream()
    inner, outer, x = ph.Graph(), ph.Graph(), stream.zeros(4)
    with inner.capture(other):
        other.call(lambda: seen.append(1))
    inner.replay(other)
    with outer.capture(stream, mode=mode):
        stream.fill(x, 2)
        inner.close()
        del inner
        stream.fill(x, 3)
    outer.replay(stream)
    assert seen == [1] and (x.to_numpy() == 3).all()
    other.close()


def test_a_capture_beside_a_thread_that_waits(device):
    """One thread waits for a stream while another captures on its own in the mode of its thread."""
    gate, one, two = threading.Event(), device.stream(), device.stream()
    one.call(gate.wait)
    thread = in_thread(one.synchronize)
    x, graph = two.zeros(8), ph.Graph()
    two.synchronize()
    with graph.capture(two, mode="relaxed"):
        two.fill(x, 1)
    graph.replay(two)
    two.synchronize()
    gate.set()
    thread.join()
    one.close(), two.close()
