# SPDX-License-Identifier: MIT
"""phonograph.torch.capture_function on a GPU: verify, checks for NaN, breadcrumbs, profile, timeline, page."""

import gc
import importlib.util

import pytest

HAS_TORCH = importlib.util.find_spec("torch") is not None
if HAS_TORCH:
    import torch

    HAS_GPU = torch.cuda.is_available()
    REASON = "torch has no GPU here: graphs of functions on torch's tensors were not tested"
else:
    HAS_GPU, REASON = False, "this Python has no torch: phonograph.torch was not tested"
pytestmark = pytest.mark.skipif(not HAS_GPU, reason=REASON)
if HAS_GPU:
    import phonograph
    import phonograph.torch as pt


@pytest.fixture
def x():
    return torch.linspace(0, 1, 1000, device="cuda")


@pytest.fixture
def y():
    return torch.zeros(1000, device="cuda")


def test_a_replay_does_the_work(x, y):
    graph = pt.capture_function(lambda: y.copy_(x.sin() * 2))
    y.zero_()
    graph.replay()
    assert torch.equal(y, x.sin() * 2)
    x.add_(1)
    graph.replay()
    assert torch.equal(y, x.sin() * 2)


def test_verify_of_a_function_that_is_deterministic(x, y):
    def function():
        hidden = (x * 3).relu()
        y.add_(hidden.cumsum(0))

    graph = pt.capture_function(function)
    before = y.clone()
    found = graph.verify(outputs={"y": y})
    assert found["verdict"] == "PH_VERIFY_EQUAL", found["message"]
    assert torch.equal(y, before)  # contents are as before
    found = graph.verify()
    assert found["verdict"] in ("PH_VERIFY_EQUAL", "PH_VERIFY_PARTLY"), found["message"]


def test_verify_names_the_node_whose_number_was_captured(x, y):
    rate = [0.1]

    def function():
        with pt.annotate("gradient"):
            gradient = x * 2
        with pt.annotate("update"):
            y.sub_(gradient, alpha=rate[0])

    graph = pt.capture_function(function, enable_annotations=True)
    rate[0] = 0.01
    found = graph.verify(outputs={"y": y}, relative=1e-6)
    assert found["verdict"] == "PH_VERIFY_NODE_DIFFERS", found["message"]
    assert found["node"] == 1 and "update" in found["message"] and "output \"y\"" in found["message"]


def test_verify_finds_work_that_no_capture_sees(x, y):
    calls = []

    def function():
        calls.append(None)
        y.copy_(x * 2)
        if not torch.cuda.is_current_stream_capturing():
            y.add_(1)

    found = pt.capture_function(function).verify(outputs={"y": y})
    assert found["verdict"] == "PH_VERIFY_BODY_DIFFERS", found["message"]


def test_verify_of_a_training_step():
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.Linear(64, 64)).cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    batch = torch.randn(32, 64, device="cuda")

    def step():
        optimizer.zero_grad(set_to_none=False)
        net(batch).square().mean().backward()
        optimizer.step()

    graph = pt.capture_function(step)
    before = [tensor.detach().clone() for tensor in net.parameters()]
    found = graph.verify(outputs={f"p{n}": tensor.detach() for n, tensor in enumerate(net.parameters())}, relative=1e-4, absolute=1e-6)
    assert found["verdict"] == "PH_VERIFY_EQUAL", found["message"]
    assert all(torch.equal(a, b) for a, b in zip(before, net.parameters()))
    graph.replay()
    assert not any(torch.equal(a, b) for a, b in zip(before, net.parameters()))


def test_memory_that_moves_is_told(x, y):
    kept = []

    def function():
        kept.append(x * 2)  # outlives the run
        y.copy_(kept[-1])

    graph = pt.capture_function(function)
    with pytest.raises(phonograph.StateError, match="finds the same free memory"):
        graph.verify(outputs={"y": y})


def test_random_numbers_are_refused(x, y):
    with pytest.raises(phonograph.StateError, match="draws random numbers"):
        pt.capture_function(lambda: y.copy_(torch.nn.functional.dropout(x)))
    assert torch.rand(3, device="cuda").isfinite().all()  # the generator works on


def test_checks_name_the_tensor_that_is_not_finite(x, y):
    def function():
        with pt.annotate("log"):
            low = x.log()
            pt.check_finite(low, "low")
        pt.check_finite(x, "x")
        y.copy_(low)

    function()  # an eager run does nothing
    graph = pt.capture_function(function, enable_annotations=True)
    graph.enable_finite()
    graph.replay()
    torch.cuda.synchronize()
    low, whole = graph.finite()
    assert low["name"] == "low" and low["ran"] and low["bad"] == 1 and low["first"] == 0 and low["scope"] == "log"
    assert whole["name"] == "x" and whole["ran"] and whole["bad"] == 0


def test_checks_refuse_what_they_cannot_read(x, y):
    with pytest.raises(phonograph.ArgumentError, match="contiguous floats"):
        pt.capture_function(lambda: (pt.check_finite(x[::2], "half"), y.copy_(x)))
    with pytest.raises(phonograph.ArgumentError, match="contiguous floats"):
        pt.capture_function(lambda: y.copy_(x)).verify(outputs={"n": torch.ones(3, device="cuda", dtype=torch.int64)})
    graph = pt.CUDAGraph()
    with pytest.raises(phonograph.StateError, match="capture_function"), pt.graph(graph):
        pt.check_finite(x, "x")


def test_breadcrumbs_tell_how_far_a_replay_came(x, y):
    def function():
        with pt.annotate("first"):
            y.copy_(x)
        with pt.annotate("second"):
            y.add_(1)

    graph = pt.capture_function(function, enable_annotations=True, breadcrumbs=True)
    graph.enable_breadcrumbs()
    graph.replay()
    torch.cuda.synchronize()
    found = graph.where()
    assert found["complete"] and found["passed"] == found["count"] == 4 and found["open"] == []


def test_profile_timeline_and_page(x, y):
    def function():
        with pt.annotate("forward", layer=1):
            y.copy_(x.sin().cos().exp())

    graph = pt.capture_function(function, enable_annotations=True)
    profile = graph.profile(replays=5)
    assert profile.summary["node_count"] == len(profile.nodes) == len(graph.record().nodes) and profile.critical_path
    assert "forward" in str(profile.trace)
    assert "<iframe" in graph._repr_html_() or "<table" in graph._repr_html_()
    found = graph.verdict()
    assert found["bound"].startswith("PH_BOUND")


def test_a_capture_error_is_the_functions_own(x):
    def function():
        if torch.cuda.is_current_stream_capturing():
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        pt.capture_function(function)
    assert (x + 1).isfinite().all()


def test_memory_goes_back_at_the_end(y):
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_reserved()
    source = y.repeat(100_000)[: 50_000_000]
    held = torch.cuda.memory_reserved()
    graph = pt.capture_function(lambda: y.add_((source * 2).sum()))
    during = torch.cuda.memory_reserved()
    assert during >= held + source.nbytes
    graph.close()
    gc.collect()
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() <= held
    del source
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() <= before + (32 << 20)  # cuBLAS workspaces and the like
