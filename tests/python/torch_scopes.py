# SPDX-License-Identifier: MIT
"""phonograph.torch.annotate: which scopes nodes of torch's captures, and those of their gradients, lie in."""

import importlib.util
import threading

import pytest

HAS_TORCH = importlib.util.find_spec("torch") is not None
if not HAS_TORCH:
    pytest.skip("this Python has no torch: phonograph.torch was not tested", allow_module_level=True)
import torch

import phonograph
import phonograph.torch as pt
from phonograph.torch import scopes

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch has no GPU here: scopes of captures were not tested")


class Kept:
    """Stands in for an open capture: the pairs at each edge of a scope."""

    def __init__(self):
        self.edges = []

    def opens(self, pairs):
        self.edges.append(dict(pairs))

    def closes(self, pairs):
        self.edges.append(dict(pairs))


@pytest.fixture
def kept():
    capture = Kept()
    scopes._begin(capture)
    yield capture.edges
    scopes._end(capture)


# ---- without a GPU ----


def test_inner_scopes_add_their_values(kept):
    with pt.annotate("block", layer=3):
        with pt.annotate("attention", heads=4):
            pass
    assert kept == [
        {"name": "block", "layer": 3}, {"name": "attention", "layer": 3, "heads": 4}, {"name": "block", "layer": 3}, {},
    ]  # fmt: skip


def test_a_decorated_function_is_a_scope(kept):
    @pt.annotate("twice")
    def twice(x):
        """Doubles."""
        return 2 * x

    assert twice(4) == 8 and twice.__doc__ == "Doubles."
    assert kept == [{"name": "twice"}, {}]


def test_a_scope_ends_with_an_exception(kept):
    with pytest.raises(KeyError), pt.annotate("a"):
        raise KeyError
    assert kept == [{"name": "a"}, {}]


def test_scopes_of_generators_end_in_any_order(kept):
    def scoped(name):
        with pt.annotate(name):
            yield

    first, second = scoped("first"), scoped("second")
    next(first), next(second)
    next(first, None)
    assert kept[-1] == {"name": "second"}
    next(second, None)
    assert kept[-1] == {}


def test_outside_of_captures_nothing_is_kept():
    x = torch.ones(3, requires_grad=True)
    with pt.annotate("a"):
        y = (2 * x).sum()
    assert scopes._BRACKETED not in y.grad_fn.metadata


def test_gradients_have_the_scope_of_their_forward(kept):
    x = torch.ones(3, requires_grad=True)
    with pt.annotate("outer", layer=1):
        y = x * 2
        with pt.annotate("inner"):
            z = torch.nn.functional.cross_entropy(y[None], torch.zeros(1, dtype=torch.int64))
    del kept[:]
    z.backward()
    inner = {"name": "inner", "layer": 1, "autograd_phase": "backward"}
    outer = {"name": "outer", "layer": 1, "autograd_phase": "backward"}
    assert [pairs for pairs in kept if pairs] == [inner] * 3 + [outer]  # nll_loss, log_softmax, the index; then the product
    assert kept[1::2] == [{}] * 4


def test_nodes_from_before_the_scope_are_not_in_it(kept):
    x = torch.ones(3, requires_grad=True)
    before = x.exp()
    with pt.annotate("a"):
        after = before.sin()
    del kept[:]
    after.sum().backward()
    assert kept == [{"name": "a", "autograd_phase": "backward"}, {}]


def test_nodes_of_another_thread_are_not_in_the_scope(kept):
    made = []

    def make():
        x = torch.ones(3, requires_grad=True)
        for _ in range(50):
            x = x.exp()
        made.append(x)

    thread = threading.Thread(target=make)
    thread.start()
    thread.join()
    with pt.annotate("a"):
        y = made[0].sin()
    del kept[:]
    y.sum().backward()
    assert kept == [{"name": "a", "autograd_phase": "backward"}, {}]


def test_forward_only_scopes_leave_gradients_alone(kept):
    x = torch.ones(3, requires_grad=True)
    with pt.annotate("a", backward=False):
        y = x.exp()
    del kept[:]
    y.sum().backward()
    assert kept == []


def test_an_outer_forward_only_scope_leaves_gradients_alone(kept):
    x = torch.ones(3, requires_grad=True)
    with pt.annotate("outer", backward=False), pt.annotate("inner"):
        y = x.exp()
    del kept[:]
    y.sum().backward()
    assert kept == [{"name": "inner", "autograd_phase": "backward"}, {}]


def test_gradients_of_a_failed_capture_leave_no_scope():
    class Fails(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            raise KeyError("no gradient")

    capture = Kept()
    scopes._begin(capture)
    x = torch.ones(3, requires_grad=True)
    with pt.annotate("a"):
        y = Fails.apply(x) * 1
    with pytest.raises(KeyError):
        y.sum().backward()
    scopes._end(capture)
    later = Kept()
    scopes._begin(later)
    with pt.annotate("b"):
        pass
    scopes._end(later)
    assert later.edges == [{"name": "b"}, {}]


def test_values_of_other_types_are_refused():
    with pytest.raises(TypeError, match="layer is a list"):
        pt.annotate("a", layer=[3])
    with pytest.raises(TypeError, match="a name or values"):
        pt.annotate()


def test_graphs_of_functions_are_refused_with_this_allocator(monkeypatch):
    monkeypatch.setattr(pt.allocator, "is_used", lambda: True)
    with pytest.raises(phonograph.UnsupportedError, match="capture_function: torch's memory comes from phonograph's allocator"):
        pt.capture_function(lambda: None)


# ---- on a GPU ----


def warm(body):
    """Runs it three times on a stream of its own, as before a capture."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            body()
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()


def annotated(body):
    """(the graph, what the captured body returned) with annotations."""
    warm(body)
    graph = pt.CUDAGraph()
    with pt.graph(graph, enable_annotations=True):
        result = body()
    return graph, result


def scopes_of(report):
    """The annotation of each node, in order."""
    return [node.get("annotation", {}) for node in report.nodes]


@needs_gpu
def test_nodes_of_a_capture_have_their_scopes():
    x = torch.ones(1000, device="cuda")

    def body():
        y = x.sin()
        with pt.annotate("forward", layer=3):
            y = y.cos()
            with pt.annotate("inner"):
                y = y.exp()
            y = y.sqrt()
        return y.abs()

    graph, y = annotated(body)
    report = pt.inspect(graph)
    forward = {"name": "forward", "layer": 3}
    assert scopes_of(report) == [{}, forward, {"name": "inner", "layer": 3}, forward, {}]
    assert graph.scopes == [(1, forward), (2, {"name": "inner", "layer": 3}), (3, forward), (4, {})]
    assert "{forward, layer=3}" in str(report) and "inner, layer=3" in report.html()
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(y, x.sin().cos().exp().sqrt().abs())
    graph.reset()
    assert graph.scopes == []


@needs_gpu
def test_gradients_of_a_captured_step_have_the_scopes_of_their_layers():
    net = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 64)).cuda()
    x = torch.randn(8, 64, device="cuda")

    def step():
        net.zero_grad(set_to_none=True)
        y = x
        for number, layer in enumerate(net):
            with pt.annotate("layer", number=number):
                y = layer(y)
        y.square().sum().backward()

    graph, _ = annotated(step)
    seen = scopes_of(pt.inspect(graph))
    for number in (0, 1, 2):
        assert {"name": "layer", "number": number} in seen
        assert {"name": "layer", "number": number, "autograd_phase": "backward"} in seen
    phases = [pairs["number"] for pairs in seen if pairs.get("autograd_phase")]
    assert phases == sorted(phases, reverse=True)
    assert {} in seen  # square and sum


@needs_gpu
def test_work_of_a_side_stream_is_in_the_scope():
    x, side = torch.ones(1000, device="cuda"), torch.cuda.Stream()

    def body():
        y = x.sin()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side), pt.annotate("side"):
            z = y.cos()
        torch.cuda.current_stream().wait_stream(side)
        return y + z

    graph, _ = annotated(body)
    assert scopes_of(pt.inspect(graph)) == [{}, {"name": "side"}, {}]


@needs_gpu
def test_stale_inputs_are_told_with_their_scope():
    def make():
        return torch.ones(100, device="cuda")

    x, y = make(), make()
    graph = pt.CUDAGraph()
    warm(lambda: x * y)
    with pt.graph(graph, enable_annotations=True, check_input_liveness=True):
        with pt.annotate("loss", step=2):
            _ = x * y
    del x
    with pytest.raises(phonograph.StaleInput, match="in {loss, step=2}"):
        graph.replay()


@needs_gpu
def test_copies_keep_scopes_and_have_profiles():
    x = torch.ones(1000, device="cuda")

    def body():
        with pt.annotate("forward"):
            return x.sin().cos()

    graph, _ = annotated(body)
    copy = pt.import_graph(graph)
    stream = phonograph.Stream(copy.device)
    profile = copy.profile(stream, replays=5)
    assert [node["annotation"] for node in profile.record.nodes] == [{"name": "forward"}] * 2
    names = [event.get("name") for event in profile.trace["traceEvents"]]
    assert any(name and "forward" in str(name) for name in names) or "forward" in str(profile.trace)


@needs_gpu
def test_torch_graphs_keep_no_annotations():
    with pytest.raises(TypeError, match="enable_annotations needs a phonograph.torch.CUDAGraph"):
        pt.graph(torch.cuda.CUDAGraph(), enable_annotations=True)
