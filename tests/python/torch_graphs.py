# SPDX-License-Identifier: MIT
"""phonograph.torch on graphs that torch captured, on a GPU: inspect, liveness of inputs, rebinding of a copy."""

import ctypes
import gc
import importlib.util
import threading
import time
import warnings
import weakref

import pytest

HAS_TORCH = importlib.util.find_spec("torch") is not None
if HAS_TORCH:
    import torch

    HAS_GPU = torch.cuda.is_available()
    REASON = "torch has no GPU here: phonograph.torch was not tested on graphs"
else:
    HAS_GPU, REASON = False, "this Python has no torch: phonograph.torch was not tested on graphs"
pytestmark = pytest.mark.skipif(not HAS_GPU, reason=REASON)
if HAS_GPU:
    import phonograph
    import phonograph.torch as pt

TWICE = b"""
.version 7.0
.target sm_80
.address_size 64
.visible .entry twice(.param .u64 p0, .param .u64 p1)
{
    .reg .b64 %rd<6>;
    .reg .f32 %f<3>;
    .reg .b32 %r<2>;
    ld.param.u64 %rd1, [p0];
    ld.param.u64 %rd2, [p1];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd3, %r1, 4;
    add.s64 %rd4, %rd1, %rd3;
    add.s64 %rd5, %rd2, %rd3;
    ld.f32 %f1, [%rd5];
    add.f32 %f2, %f1, %f1;
    st.f32 [%rd4], %f2;
    ret;
}
"""

if HAS_TORCH:

    class Block(torch.nn.Module):
        """A transformer's block: attention, products, layer norms."""

        def __init__(self, width, heads):
            super().__init__()
            self.heads = heads
            self.first, self.second = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
            self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
            self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

        def forward(self, x):
            batch, length, width = x.shape
            q, k, v = self.qkv(self.first(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
            seen = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(seen.transpose(1, 2).reshape(batch, length, width))
            return x + self.down(torch.nn.functional.gelu(self.up(self.second(x))))


def warm(body):
    """Runs it three times on a stream of its own, as before a capture."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            body()
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()


def captured(body, **options):
    """(the graph, what the captured body returned)."""
    warm(body)
    graph = pt.CUDAGraph()
    with pt.graph(graph, **options):
        result = body()
    return graph, result


def addressed(report):
    """The addresses of all words that lie in torch's memory."""
    return {int(word["value"], 0) for _, word in report.words()}


# ---- inspect ----


def test_a_training_step_has_all_of_its_tensors():
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 64)).cuda()
    optimizer = torch.optim.AdamW(net.parameters(), capturable=True, foreach=True)
    x = torch.randn(32, 64, device="cuda")

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    graph, loss = captured(step)
    before = [tensor.detach().clone() for tensor in net.parameters()]
    started = time.perf_counter()
    report = pt.inspect(graph, x=x, net=net)
    print(f"inspect of {len(report.nodes)} nodes: {1e3 * (time.perf_counter() - started):.1f} ms")
    assert all(torch.equal(a, b) for a, b in zip(before, net.parameters()))  # nothing ran
    state = [value for entry in optimizer.state.values() for value in entry.values()]
    found = addressed(report)
    for tensor in (x, *net.parameters(), *state):
        assert any(tensor.data_ptr() <= address < tensor.data_ptr() + tensor.nbytes for address in found), tensor.shape
    texts = [text for entry in report.inputs for text in entry["tensors"]]
    assert "float32[32, 64] x" in texts and "float32[128, 64] net.0.weight" in texts and "float32[64] net.2.bias" in texts
    assert all(not entry["pool"] == report.pool for entry in report.inputs)
    assert any(word["torch"]["own"] for _, word in report.words())  # grads and activations
    graph.replay()
    torch.cuda.synchronize()
    assert torch.isfinite(loss) and not torch.equal(before[0], next(net.parameters()))
    assert "net.0.weight" in str(report) and "<table>" in report.html()


def test_replays_around_an_inspect_are_equal_to_the_bit():
    net = Block(256, 4).cuda().bfloat16().eval()
    x = torch.randn(2, 64, 256, device="cuda", dtype=torch.bfloat16)
    with torch.no_grad():
        graph, y = captured(lambda: net(x))
        graph.replay()
        torch.cuda.synchronize()
        first = y.clone()
        report = pt.inspect(graph, x=x)
        graph.replay()
        torch.cuda.synchronize()
        assert torch.equal(first, y)
    found = addressed(report)
    for tensor in (x, *net.parameters()):
        assert any(tensor.data_ptr() <= address < tensor.data_ptr() + tensor.nbytes for address in found), tensor.shape


def test_frames_of_an_input_while_memory_history_is_on():
    torch.cuda.memory._record_memory_history(max_entries=1000)
    try:
        x = torch.ones(1000, device="cuda")
        graph, _ = captured(lambda: x * 2)
        report = pt.inspect(graph, x=x)
    finally:
        torch.cuda.memory._record_memory_history(enabled=None)
    (entry,) = [entry for entry in report.inputs if "float32[1000] x" in entry["tensors"]]
    assert any(frame["name"] == "test_frames_of_an_input_while_memory_history_is_on" for frame in entry["frames"])


def test_a_report_keeps_no_tensor_alive():
    x, other = torch.ones(1000, device="cuda"), torch.ones(1000, device="cuda")
    graph, _ = captured(lambda: x * 2)
    report = pt.inspect(graph)
    assert "float32[1000]" in report.tensors_at(other.data_ptr())
    ended, place = weakref.ref(other), other.data_ptr()
    del other
    assert ended() is None and report.tensors_at(place) == []


def test_a_report_reads_its_nodes_when_it_is_asked():
    x = torch.ones(1000, device="cuda")
    graph, y = captured(lambda: x * 2)
    report, other = pt.inspect(graph, x=x), pt.inspect(graph)
    graph.reset()  # the report has a copy
    assert x.data_ptr() in addressed(report) and any("float32[1000] x" in entry["tensors"] for entry in report.inputs)
    other.graph.reset()
    with pytest.raises(phonograph.StateError, match="closed or reset"):
        str(other)


def test_diff_of_two_captures_and_races():
    x, y = torch.ones(1000, device="cuda"), torch.ones(1000, device="cuda")
    graph, _ = captured(lambda: x * 2)
    other, _ = captured(lambda: (y * 2).sum())
    report = pt.inspect(graph)
    assert report.diff(pt.inspect(graph)) != report.diff(pt.inspect(other))
    assert isinstance(report.races(), list)


def test_graphs_that_cannot_be_read_are_refused():
    graph = torch.cuda.CUDAGraph()
    x = torch.ones(100, device="cuda")
    warm(lambda: x * 2)
    with torch.cuda.graph(graph):
        _ = x * 2
    with pytest.raises(phonograph.StateError, match="keep_graph=True"):
        pt.inspect(graph)
    with pytest.raises(phonograph.StateError, match="capture it first"):
        pt.inspect(pt.CUDAGraph())


def test_torch_graphs_with_keep_graph_are_read():
    graph = torch.cuda.CUDAGraph(keep_graph=True)
    x = torch.ones(100, device="cuda")
    warm(lambda: x * 2)
    with torch.cuda.graph(graph):
        y = x * 2
    assert x.data_ptr() in addressed(pt.inspect(graph)) and y.data_ptr() in addressed(pt.inspect(graph.raw_cuda_graph()))
    graph.instantiate()
    graph.replay()
    torch.cuda.synchronize()
    assert y.eq(2).all()


# ---- liveness ----


def test_live_inputs_pass():
    x = torch.ones(100, device="cuda")
    graph, y = captured(lambda: 2 * x, check_input_liveness=True)
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(y, 2 * x)
    (entry,) = [entry for entry in graph.inputs if entry["address"] == x.untyped_storage().data_ptr()]
    assert entry["live"] and entry["proved"] and entry["tensor"] == "float32[100]"


def test_a_freed_input_stops_the_replay():
    def make():
        return torch.ones(100, device="cuda")

    x = make()
    graph, _ = captured(lambda: 2 * x, check_input_liveness=True)
    del x
    with pytest.raises(phonograph.StaleInput, match="1 dead tensor") as caught:
        graph.replay()
    assert "float32[100], 400 bytes" in str(caught.value) and "kernel 0" in str(caught.value)
    with pytest.raises(phonograph.StaleInput):  # each time
        graph.replay()


def test_memory_that_was_allocated_again_is_no_input():
    x = torch.ones(5_000_000, device="cuda")
    graph, _ = captured(lambda: 2 * x, check_input_liveness=True)
    place = x.data_ptr()
    del x
    again = torch.zeros(5_000_000, device="cuda")
    assert again.data_ptr() == place
    with pytest.raises(phonograph.StaleInput, match="dead tensor"):
        graph.replay()


def test_intermediates_may_end():
    x = torch.ones(100, device="cuda")

    def body():
        tmp = 2 * x
        return tmp, tmp + 1

    graph, (tmp, y) = captured(body, check_input_liveness=True)
    del tmp
    gc.collect()
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(y, 2 * x + 1)
    del y
    gc.collect()
    graph.replay()
    torch.cuda.synchronize()


def test_a_dead_weight_is_found():
    net = torch.nn.Sequential(*[torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU()) for _ in range(5)]).cuda()
    x = torch.randn(8, 64, device="cuda")
    with torch.no_grad():
        graph, _ = captured(lambda: net(x), check_input_liveness=True)
    graph.replay()
    del net[2][0].weight
    with pytest.raises(phonograph.StaleInput, match="dead tensor"):
        graph.replay()


def test_a_dead_weight_of_training_is_found():
    net, x, grad = torch.nn.Linear(32, 16).cuda(), torch.randn(8, 32, device="cuda"), torch.randn(8, 16, device="cuda")

    def body():
        net.weight.grad = net.bias.grad = None
        y = net(x)
        y.backward(grad)
        return y

    graph, y = captured(body, check_input_liveness=True)
    graph.replay()
    torch.cuda.synchronize()
    del y, net.weight
    gc.collect()
    with pytest.raises(phonograph.StaleInput, match="dead tensor"):
        graph.replay()


def test_lists_of_tensors_are_inputs():
    xs, ys = ([torch.ones(10, device="cuda") for _ in range(3)] for _ in range(2))
    graph, _ = captured(lambda: torch._foreach_add(xs, ys), check_input_liveness=True)
    graph.replay()
    del ys[1]
    with pytest.raises(phonograph.StaleInput, match="1 dead tensor"):
        graph.replay()


def test_empty_tensors_and_other_streams_are_no_inputs():
    x, y, empty = torch.ones(100, device="cuda"), torch.ones(100, device="cuda"), torch.empty(0, device="cuda")
    other = torch.cuda.Stream()

    def body():
        result = 2 * x
        empty.clone()
        with torch.cuda.stream(other):
            if not torch.cuda.is_current_stream_capturing():
                y.add_(0)
        return result

    graph, result = captured(body, check_input_liveness=True, capture_error_mode="relaxed")
    del empty, y
    gc.collect()
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(result, 2 * x)


def test_a_swapped_storage_is_dead():
    x = torch.ones(100, device="cuda")
    graph, _ = captured(lambda: 2 * x, check_input_liveness=True)
    x.data = torch.ones(100, device="cuda")
    with pytest.raises(phonograph.StaleInput, match="dead tensor"):
        graph.replay()


def test_pinned_memory_is_an_input():
    pinned, x = torch.ones(100).pin_memory(), torch.zeros(100, device="cuda")

    def body():
        x.copy_(pinned, non_blocking=True)
        return 2 * x

    graph, y = captured(body, check_input_liveness=True)
    graph.replay()
    torch.cuda.synchronize()
    assert y.eq(2).all()
    del pinned
    with pytest.raises(phonograph.StaleInput, match="dead tensor"):
        graph.replay()


def test_an_input_that_no_operator_was_given_is_warned_of():
    """A kernel of another library, which reads a pointer that torch's dispatcher never saw."""
    device = pt.report.device_of(torch.cuda.current_device())
    twice = device.kernel("twice", image=TWICE, parameters=[("out", ctypes.c_void_p), ("x", ctypes.c_void_p)])
    x, out, stream = torch.ones(64, device="cuda"), torch.zeros(64, device="cuda"), torch.cuda.Stream()
    torch.cuda.synchronize()
    ours = phonograph.Stream.wrap(stream.cuda_stream)
    ours.launch(twice, out.data_ptr(), x.data_ptr(), grid=1, block=64)
    stream.synchronize()
    out.zero_()
    torch.cuda.synchronize()
    graph = pt.CUDAGraph()
    with pt.graph(graph, stream=stream, check_input_liveness=True):
        ours.launch(twice, out.data_ptr(), x.data_ptr(), grid=1, block=64)
    graph.replay()
    torch.cuda.synchronize()
    assert out.eq(2).all()
    del x
    with pytest.warns(pt.StaleInputWarning, match=r"1 dead tensor(.|\n)*twice"):
        graph.replay()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        graph.replay()  # told once
    torch.cuda.synchronize()


def test_custom_autograd_functions_are_seen():
    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(context, x, scale):
            return x * scale

        @staticmethod
        def backward(context, grad):
            return grad, None

    x, scale = torch.ones(100, device="cuda"), torch.tensor(2.0, device="cuda")
    graph, _ = captured(lambda: Scale.apply(x, scale), check_input_liveness=True)
    graph.replay()
    del scale
    with pytest.raises(phonograph.StaleInput, match="dead tensor"):
        graph.replay()


def test_a_reset_graph_watches_nothing_and_captures_again():
    x = torch.ones(100, device="cuda")
    graph, _ = captured(lambda: 2 * x, check_input_liveness=True)
    graph.reset()
    assert graph.inputs == []
    z = torch.ones(100, device="cuda")
    with pt.graph(graph, check_input_liveness=True):
        y = 3 * z
    del x
    graph.replay()
    torch.cuda.synchronize()
    assert y.eq(3).all()


def test_an_exception_in_the_block_leaves_the_stream_as_it_was():
    before, x = torch.cuda.current_stream(), torch.ones(100, device="cuda")
    graph = pt.CUDAGraph()
    with pytest.raises(ZeroDivisionError):
        with pt.graph(graph, check_input_liveness=True):
            _ = 2 * x
            1 / 0
    assert torch.cuda.current_stream() == before
    graph, y = captured(lambda: 2 * x)
    graph.replay()
    torch.cuda.synchronize()
    assert y.eq(2).all()


def test_keep_graph_means_the_same_as_in_torch():
    x = torch.ones(100, device="cuda")
    graph, _ = captured(lambda: 2 * x)
    with pytest.raises(phonograph.StateError, match="keep_graph=True"):
        graph.instantiate()
    kept = pt.CUDAGraph(keep_graph=True)
    with pt.graph(kept):
        y = 3 * x
    kept.instantiate()
    kept.replay()
    torch.cuda.synchronize()
    assert y.eq(3).all() and kept.raw_cuda_graph() and kept.raw_cuda_graph_exec()
    with pytest.raises(TypeError, match="phonograph.torch.CUDAGraph"):
        pt.graph(torch.cuda.CUDAGraph(), check_input_liveness=True)


def test_random_numbers_stay_those_of_torch():
    x = torch.ones(1000, device="cuda")
    graph, y = captured(lambda: torch.nn.functional.dropout(x, 0.5), check_input_liveness=True)
    seen = []
    for _ in range(3):
        graph.replay()
        torch.cuda.synchronize()
        seen.append(y.clone())
    assert not torch.equal(seen[0], seen[1]) and not torch.equal(seen[1], seen[2])


def test_a_hundred_graphs_leave_no_watch_behind():
    from phonograph.hot import instances
    from phonograph.torch.storages import Watched

    x = torch.ones(100, device="cuda")
    gc.collect()
    before = len(instances(Watched))
    for _ in range(100):
        graph = pt.CUDAGraph()
        with pt.graph(graph, check_input_liveness=True):
            _ = 2 * x
        graph.reset()
    del graph
    gc.collect()
    assert len(instances(Watched)) <= before


def test_what_a_replay_costs():
    x = torch.ones(100, device="cuda")
    theirs = torch.cuda.CUDAGraph()
    warm(lambda: 2 * x)
    with torch.cuda.graph(theirs):
        _ = 2 * x
    plain, _ = captured(lambda: 2 * x)
    checked, _ = captured(lambda: 2 * x, check_input_liveness=True)

    def cost(replay):
        times = []
        for _ in range(30):
            started = time.perf_counter()
            for _ in range(100):
                replay()
            times.append((time.perf_counter() - started) / 100)
            torch.cuda.synchronize()
        return sorted(times)[len(times) // 2] * 1e6

    costs = [cost(graph.replay) for graph in (theirs, plain, checked)]
    print("us of a replay: torch's {:.2f}, ours {:.2f}, with liveness {:.2f}".format(*costs))
    assert costs[2] < costs[0] + 2  # a wide bound: other programs run too


# ---- slots ----


SIZE = (8, 128, 512)


def aligned():
    """A random tensor at a multiple of 4096, the alignment that a proof by such captures covers."""
    count = 2 * SIZE[0] * SIZE[1] * SIZE[2]
    room = torch.empty(count + 4096, device="cuda", dtype=torch.uint8)
    skip = -room.data_ptr() % 4096
    return room[skip : skip + count].view(torch.bfloat16).view(SIZE).normal_()


def captured_twice(body, **options):
    """(x, two graphs of body(x) in one pool, whose x lie elsewhere, the output that both write, their stream).

    The first capture of all makes the pool's segments: later ones find the same memory.
    """
    x, gap, x2 = aligned(), torch.empty(123 << 12, device="cuda"), aligned()
    pool, stream, graphs = torch.cuda.graph_pool_handle(), torch.cuda.Stream(), []
    warm(lambda: body(x))
    for source in (x, x, x2):
        y = None
        graph = pt.CUDAGraph()
        with pt.graph(graph, pool=pool, stream=stream, **options):
            y = body(source)
        graphs.append(graph)
    del gap
    return x, x2, graphs[1:], y, stream


def test_a_copy_is_rebound_to_new_inputs_equal_to_the_bit():
    torch.manual_seed(0)
    net = torch.nn.Sequential(*[Block(512, 8) for _ in range(2)]).cuda().bfloat16().eval()
    with torch.no_grad():
        x, x2, graphs, out, stream = captured_twice(net)
        first, second = (pt.import_graph(graph) for graph in graphs)
        assert first.prove_slots(second, x=(x, x2)) == {"x": ""}
        ours = phonograph.Stream.wrap(stream.cuda_stream)
        for _ in range(20):
            z = aligned()
            expected = net(z)
            torch.cuda.synchronize()
            first.replay(ours, x=z.data_ptr())
            stream.synchronize()
            assert torch.equal(out, expected)


def test_torchs_own_executable_is_rebound_equal_to_the_bit():
    torch.manual_seed(0)
    net = torch.nn.Sequential(*[Block(512, 8) for _ in range(2)]).cuda().bfloat16().eval()
    with torch.no_grad():
        x, x2, (graph, other), out, _ = captured_twice(net)
        assert graph.prove_slots(other, x=(x, x2)) == {"x": ""}
        other.reset()
        for turn in range(1000):
            z = aligned() if turn % 8 == 0 else z.normal_()
            expected = net(z)
            graph.replay(x=z)
            assert torch.equal(out, expected)
        expected = net(x)
        graph.replay(x=x)
        assert torch.equal(out, expected)
    zs, times = [aligned() for _ in range(16)], []
    for replay in (graph.replay, lambda: None):
        torch.cuda.synchronize()
        for turn in range(300):
            started = time.perf_counter()
            replay(x=zs[turn % 16]) if replay == graph.replay else (x.copy_(zs[turn % 16]), torch.cuda.CUDAGraph.replay(graph))
            times.append(time.perf_counter() - started)
            torch.cuda.synchronize()
    print(f"us of the host: rebound {1e6 * sorted(times[:300])[150]:.2f}, copied {1e6 * sorted(times[300:])[150]:.2f}")


def test_a_slot_by_the_callers_word():
    weight, x, y = torch.randn(512, 512, device="cuda", dtype=torch.bfloat16), aligned(), aligned()
    graph, out = captured(lambda: x @ weight)
    assert graph.declare_slot("x", x) >= 1 and graph.slot_uses("x") >= 1
    for source in (y, x, aligned()):
        graph.replay(x=source)
        torch.cuda.synchronize()
        assert torch.equal(out, source @ weight)
    with pytest.raises(phonograph.ArgumentError, match="no node of the graph addresses"):
        graph.declare_slot("y", aligned())
    with pytest.raises(phonograph.ArgumentError, match="contiguous"):
        graph.declare_slot("z", weight.t())
    with pytest.raises(phonograph.ArgumentError):
        graph.declare_slot("z", weight, [(0, 1 << 20)])


def test_which_graphs_are_launched_without_torch():
    """Those that draw nothing. Random numbers, captures and errors stay torch's."""
    weight = torch.randn(512, 512, device="cuda", dtype=torch.bfloat16)
    x = aligned()
    plain, _ = captured(lambda: x @ weight)
    plain.declare_slot("x", x)
    assert (plain._launch is not None) == (phonograph.hot.COMPILED and torch.__version__.startswith("2.11."))
    drawing, _ = captured(lambda: torch.nn.functional.dropout(x, 0.5))
    drawing.declare_slot("x", x)
    assert drawing._launch is None
    generator, y = torch.cuda.default_generators[0], aligned()
    offset = generator.get_offset()
    plain.replay(x=y)
    plain.replay()
    assert generator.get_offset() == offset
    drawing.replay(x=y)
    assert generator.get_offset() > offset


def test_a_launch_goes_to_the_current_stream():
    """Where y is copied behind a sleep: a launch on another stream would read the older y."""
    weight, x, y, z = torch.randn(512, 512, device="cuda", dtype=torch.bfloat16), aligned(), aligned(), aligned()
    graph, out = captured(lambda: x @ weight)
    graph.declare_slot("x", x)
    graph.replay(x=z)  # the first change waits for the upload
    torch.cuda.synchronize()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        torch.cuda._sleep(200_000_000)
        y.copy_(z)
        graph.replay(x=y)
    side.synchronize()
    assert torch.equal(out, z @ weight)


def test_a_replay_in_a_capture_is_torchs():
    x = torch.ones(1000, device="cuda")
    inner, _ = captured(lambda: x * 2)
    inner.declare_slot("x", x)
    results = []
    for replay in (inner.replay, lambda: torch.cuda.CUDAGraph.replay(inner)):
        outer = torch.cuda.CUDAGraph(keep_graph=True)
        try:
            with torch.cuda.graph(outer):
                replay()
            results.append("captured")
        except RuntimeError as error:
            results.append(str(error).splitlines()[0])
        torch.cuda.synchronize()
    assert results[0] == results[1]


def test_another_thread_launches():
    weight, x, y = torch.randn(512, 512, device="cuda", dtype=torch.bfloat16), aligned(), aligned()
    graph, out = captured(lambda: x @ weight)
    graph.declare_slot("x", x)
    torch.cuda.synchronize()
    thread = threading.Thread(target=lambda: graph.replay(x=y))
    thread.start()
    thread.join()
    torch.cuda.synchronize()
    assert torch.equal(out, y @ weight)


def test_rebound_dropout_draws_new_numbers():
    x, x2, (graph, other), y, _ = captured_twice(lambda source: torch.nn.functional.dropout(source, 0.5))
    reasons = graph.prove_slots(other, x=(x, x2))
    if reasons["x"]:
        pytest.skip(f"no proof: {reasons['x']}")
    seen = []
    for _ in range(3):
        z = aligned()
        graph.replay(x=z)
        torch.cuda.synchronize()
        kept = y != 0
        assert torch.equal(y[kept], (2 * z)[kept]) and 0.4 < kept.float().mean() < 0.6
        seen.append(kept.clone())
    assert not torch.equal(seen[0], seen[1]) and not torch.equal(seen[1], seen[2])


def test_a_slot_watches_what_it_was_set_to():
    x, x2, (graph, other), y, _ = captured_twice(lambda source: 2 * source, check_input_liveness=True)
    assert graph.prove_slots(other, x=(x, x2)) == {"x": ""}
    z = aligned()
    graph.replay(x=z)
    del x
    graph.replay()  # reads z
    torch.cuda.synchronize()
    assert torch.equal(y, 2 * z)
    del z
    with pytest.raises(phonograph.StaleInput, match="slot x"):
        graph.replay()
    z = aligned()
    graph.replay(x=z)
    torch.cuda.synchronize()
    assert torch.equal(y, 2 * z)


def test_slots_refuse_what_the_proof_does_not_cover():
    x, x2, (graph, other), y, _ = captured_twice(lambda source: 2 * source)
    with pytest.raises(KeyError, match="prove_slots and declare_slot make them"):
        graph.replay(x=x)
    with pytest.raises(phonograph.ArgumentError, match="one shape and dtype"):
        graph.prove_slots(other, x=(x, x2[:4]))
    assert graph.prove_slots(other, x=(x, x2)) == {"x": ""}
    with pytest.raises(KeyError, match="stream"):
        graph.replay(stream=x2, x=x2)
    for wrong in (x2[:4], x2.float(), x2.transpose(0, 1)):
        with pytest.raises(phonograph.ArgumentError, match="CUDAGraph.replay: x must be contiguous"):
            graph.replay(x=wrong)
    with pytest.raises(phonograph.ArgumentError, match="on cuda:0, .* on cpu"):
        graph.replay(x=torch.empty(SIZE, dtype=torch.bfloat16))
    with pytest.raises(phonograph.ArgumentError, match="no conjugate or negative view"):
        graph.replay(x=torch._neg_view(x2))
    with pytest.raises(phonograph.ArgumentError, match="on a GPU are needed"):
        graph.prove_slots(other, z=(x.cpu(), x2.cpu()))
    odd = torch.empty(x.numel() + 1, device="cuda", dtype=torch.bfloat16)[1:].view(SIZE)
    with pytest.raises(phonograph.ArgumentError, match="is no multiple of"):
        graph.replay(x=odd)
    empty = x2.clone()
    empty.untyped_storage().resize_(0)
    with pytest.raises(phonograph.ArgumentError, match="is NULL"):
        graph.replay(x=empty)
    graph.replay(x=x2)
    torch.cuda.synchronize()
    assert torch.equal(y, 2 * x2)
