# SPDX-License-Identifier: MIT
"""The call that killed a capture of torch's, in the notes of torch's exception, on a GPU."""

import importlib.util
import threading

import pytest

HAS_TORCH = importlib.util.find_spec("torch") is not None
if HAS_TORCH:
    import torch

    HAS_GPU = torch.cuda.is_available()
    REASON = "torch has no GPU here: captures that are killed were not tested"
else:
    HAS_GPU, REASON = False, "this Python has no torch: phonograph.torch was not tested"
pytestmark = pytest.mark.skipif(not HAS_GPU, reason=REASON)
if HAS_GPU:
    import phonograph.torch as pt


def usable(x):
    graph = pt.CUDAGraph()
    with pt.graph(graph):
        y = x * 2
    graph.replay()
    torch.cuda.synchronize()
    return torch.equal(y, x * 2)


def test_a_call_of_this_thread():
    x = torch.ones(8, device="cuda")
    with pytest.raises(RuntimeError) as caught, pt.graph(pt.CUDAGraph()):
        _ = x * 2
        torch.cuda.synchronize()
    (note,) = caught.value.__notes__
    assert note.startswith("the capture was killed by cu") and "(900" in note and "on this thread" in note
    assert usable(x)


def test_a_call_of_another_thread_that_nobody_heard_of():
    x = torch.ones(8, device="cuda")
    go, done = threading.Event(), threading.Event()

    def synchronize_silently():
        try:
            torch.cuda.synchronize()
        except RuntimeError:
            pass
        go.set()
        done.wait(60)

    thread = threading.Thread(target=synchronize_silently, name="loader")
    try:
        with pytest.raises(RuntimeError) as caught, pt.graph(pt.CUDAGraph()):
            _ = x * 2
            thread.start()
            go.wait(60)
    finally:
        done.set()
        thread.join()
    killed, *threads = caught.value.__notes__
    assert killed.startswith("the capture was killed by cu") and "on this thread" not in killed
    assert any("thread loader is now at" in line and "synchronize_silently" in line for line in threads)
    assert usable(x)


def test_a_capture_that_fails_otherwise_has_no_note():
    x, graph = torch.ones(8, device="cuda"), pt.CUDAGraph()
    with pytest.raises(KeyError) as caught, pt.graph(graph):
        _ = x * 2
        raise KeyError("mine")
    assert not getattr(caught.value, "__notes__", [])
    assert usable(x)
