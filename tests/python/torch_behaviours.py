# SPDX-License-Identifier: MIT
"""Behaviours of torch's CUDA graphs, each on torch's own classes and on phonograph.torch's: no name or result may differ."""

import warnings

import pytest

from behaviours import HAS_GPU, REASON, side_capture

pytestmark = pytest.mark.skipif(not HAS_GPU, reason=REASON)
if HAS_GPU:
    import torch


# ---- captures and replays ----


def test_a_stream_says_whether_it_captures(api):
    assert not torch.cuda.is_current_stream_capturing()
    graph, stream = api.CUDAGraph(), torch.cuda.Stream()
    with torch.cuda.stream(stream):
        assert not torch.cuda.is_current_stream_capturing()
        graph.capture_begin()
        assert torch.cuda.is_current_stream_capturing()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            graph.capture_end()
    assert not torch.cuda.is_current_stream_capturing()


def test_a_capture_on_one_stream_is_replayed_on_another(api):
    a = torch.full((1000,), 1, device="cuda")

    def body():
        b = a
        for _ in range(10):
            b = b + 1
        return b

    graph, b = side_capture(api, body)
    graph.replay()
    assert b.sum().item() == 11000


def test_a_graph_is_reset_and_captures_again(api):
    a = torch.full((1000,), 1, device="cuda")
    graph, b = side_capture(api, lambda: a + 10)
    graph.replay()
    assert b.sum().item() == 11000
    graph.reset()

    def body():
        b.fill_(2)
        c = b
        for _ in range(10):
            c = c + 2
        return c

    graph, c = side_capture(api, body, graph)
    graph.replay()
    assert c.sum().item() == 22000
    graph.reset()
    del graph


def test_an_empty_graph_is_warned_of(api):
    graph = api.CUDAGraph()
    with pytest.warns(UserWarning, match="The CUDA Graph is empty"), api.graph(graph):
        pass


def test_memory_that_runs_out_in_a_capture_says_so(api):
    graph = api.CUDAGraph()
    with pytest.raises(RuntimeError, match="out of memory"), api.graph(graph):
        torch.zeros(2**40, device="cuda")
    x = torch.ones(8, device="cuda")
    other, y = side_capture(api, lambda: x * 2)
    other.replay()
    assert y.sum().item() == 16


@pytest.mark.parametrize("to_device", [True, False])
def test_pageable_copies_are_refused_in_a_capture(api, to_device):
    host, device, graph = torch.ones(8), torch.ones(8, device="cuda"), api.CUDAGraph()
    source, target = (host, device) if to_device else (device, host)
    with pytest.raises(RuntimeError, match="Cannot copy between CPU and CUDA tensors during CUDA graph capture"), api.graph(graph):
        target.copy_(source, non_blocking=True)


def test_another_seed_in_a_capture_is_refused(api):
    torch.cuda.manual_seed(0)
    graph = api.CUDAGraph()
    with pytest.raises(RuntimeError, match="only if new seed is the same as the original seed"), api.graph(graph):
        torch.cuda.manual_seed(1)


def test_an_exception_of_the_block_goes_on_and_captures_follow(api):
    x, graph = torch.ones(8, device="cuda"), api.CUDAGraph()
    with pytest.raises(KeyError, match="mine"), api.graph(graph):
        _ = x * 2
        raise KeyError("mine")
    other, y = side_capture(api, lambda: x * 3)
    other.replay()
    assert y.sum().item() == 24


# ---- random numbers ----


@pytest.mark.parametrize("function", ["dropout", "rrelu"])
def test_replays_draw_as_eager_calls_do(api, function):
    def apply(x):
        call = getattr(torch.nn.functional, function)
        return call(x, p=0.1) if function == "dropout" else call(x, training=True)

    a = torch.randn(10000, device="cuda")
    torch.cuda.manual_seed(5)
    control = a
    for _ in range(6):
        control = apply(control)
    torch.cuda.manual_seed(5)
    graph_in = a.clone()
    graph, graph_out = side_capture(api, lambda: apply(apply(graph_in)))
    graph.replay()
    graph_in.copy_(apply(apply(graph_out)))
    graph.replay()
    assert torch.equal(graph_out, control)
    for seed in (6, 128, 9999):
        torch.cuda.manual_seed(seed)
        graph_in.copy_(a)
        graph.replay()
        found = graph_out.clone()
        torch.cuda.manual_seed(seed)
        assert torch.equal(found, apply(apply(a)))


# ---- pools and streams ----


def test_graphs_of_one_pool_replay_in_their_order(api):
    a = torch.ones(100_000, device="cuda")

    def chain(x, value):
        for _ in range(5):
            x = (x + value) + (x + value)
        return x

    first, b = side_capture(api, lambda: chain(a, 1))
    second, c = side_capture(api, lambda: chain(b, 2), pool=first.pool())
    assert second.pool() == first.pool()
    first.replay()
    second.replay()
    assert torch.equal(c, chain(chain(a, 1), 2))


def test_blocks_of_a_side_stream_are_of_the_graphs_pool(api):
    known = {segment["segment_pool_id"] for segment in torch.cuda.memory_snapshot()}
    x, side, graph = torch.ones(10_240_000, device="cuda"), torch.cuda.Stream(), api.CUDAGraph()
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        graph.capture_begin()
        y = x * 2
        side.wait_stream(stream)
        with torch.cuda.stream(side):
            z = x * 3
        stream.wait_stream(side)
        total = y + z
        graph.capture_end()
    pools = {segment["segment_pool_id"] for segment in torch.cuda.memory_snapshot()} - known
    assert pools == {tuple(graph.pool())}
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(total, x * 5)


def test_memory_goes_back_after_the_graph(api):
    torch.cuda.empty_cache()
    before = torch.cuda.memory_reserved()
    x = torch.ones(1000, device="cuda")
    graph, y = side_capture(api, lambda: torch.zeros(30_000_000, device="cuda") + x[0])
    graph.replay()
    assert y.sum().item() == 30_000_000
    assert torch.cuda.memory_reserved() > before + (200 << 20)
    del y
    graph.reset()
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() <= before + (4 << 20)


# ---- handles ----


def test_the_executable_is_made_by_hand(api):
    x, graph = torch.ones(8, device="cuda"), api.CUDAGraph(keep_graph=True)
    graph, y = side_capture(api, lambda: x * 2, graph)
    assert graph.raw_cuda_graph()
    graph.instantiate()
    assert graph.raw_cuda_graph_exec()
    graph.replay()
    assert y.sum().item() == 16


def test_a_handle_before_the_capture_is_refused(api):
    with pytest.raises(RuntimeError):
        api.CUDAGraph(keep_graph=True).raw_cuda_graph()


# ---- training ----


@pytest.mark.parametrize("kind", ["sgd", "adamw", "adam_amsgrad"])
def test_captured_steps_are_eager_steps(api, kind):
    def optimizer_of(parameters):
        if kind == "sgd":
            return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)
        if kind == "adamw":
            return torch.optim.AdamW(parameters, lr=0.01, capturable=True)
        return torch.optim.Adam(parameters, lr=0.01, amsgrad=True, capturable=True)

    nets = []
    for _ in range(2):
        torch.manual_seed(0)
        nets.append(torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8)).cuda())
    x, y = torch.randn(16, 32, device="cuda"), torch.randn(16, 8, device="cuda")
    optimizers = [optimizer_of(net.parameters()) for net in nets]

    def step(net, optimizer):
        optimizer.zero_grad(set_to_none=True)
        torch.nn.functional.mse_loss(net(x), y).backward()
        optimizer.step()

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step(nets[0], optimizers[0])
            step(nets[1], optimizers[1])
    torch.cuda.current_stream().wait_stream(stream)
    graph = api.CUDAGraph()
    with api.graph(graph):
        step(nets[0], optimizers[0])
    for _ in range(5):
        graph.replay()
        step(nets[1], optimizers[1])
    for a, b in zip(nets[0].parameters(), nets[1].parameters()):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("amp", [False, True])
def test_graphed_callables_train_as_eager_ones(api, amp):
    def make():
        torch.manual_seed(0)
        return torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.Linear(32, 16)).cuda()

    eager, graphed = make(), make()
    sample = torch.randn(4, 64, device="cuda")
    with torch.autocast("cuda", dtype=torch.bfloat16, enabled=amp, cache_enabled=False):
        graphed = api.make_graphed_callables(graphed, (sample,))
    optimizers = [torch.optim.SGD(net.parameters(), lr=0.1) for net in (eager, graphed)]
    for _ in range(4):
        x = torch.randn(4, 64, device="cuda")
        losses = []
        for net, optimizer in zip((eager, graphed), optimizers):
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast("cuda", dtype=torch.bfloat16, enabled=amp, cache_enabled=False):
                loss = net(x).float().square().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach().clone())
        torch.testing.assert_close(*losses)
    for a, b in zip(eager.parameters(), graphed.parameters()):
        torch.testing.assert_close(a, b)


def test_a_graphed_module_runs_as_it_was_in_the_other_mode(api):
    module = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(0.5)).cuda()
    sample = torch.randn(4, 8, device="cuda")
    module.eval()
    graphed = api.make_graphed_callables(module, (sample,))
    assert torch.equal(graphed(sample), module[0](sample))
    graphed.train()
    x = torch.randn(64, 8, device="cuda")  # of another shape: no graph runs
    assert graphed(x).eq(0).any()


def test_callables_without_gradients(api):
    class Plain(torch.nn.Module):
        def forward(self, x):
            return x.sin(), (x * 2,)

    graphed = api.make_graphed_callables(Plain().cuda(), (torch.zeros(8, device="cuda"),))
    x = torch.randn(8, device="cuda")
    first, (second,) = graphed(x)
    assert torch.equal(first, x.sin()) and torch.equal(second, x * 2)


def test_hooks_of_a_module_are_refused(api):
    module = torch.nn.Linear(8, 8).cuda()
    module.register_forward_hook(lambda *_: None)
    error = AssertionError if api.name == "torch" else RuntimeError  # torch 2.11 asserts
    with pytest.raises(error, match="hooks"):
        api.make_graphed_callables(module, (torch.zeros(4, 8, device="cuda"),))


def test_graphs_in_inference_mode(api):
    with torch.inference_mode():
        graphed = api.make_graphed_callables(lambda x: x + 1, (torch.zeros(10, 10, device="cuda"),))
        x = torch.ones(10, 10, device="cuda")
        assert torch.equal(graphed(x), x + 1)
    later = api.make_graphed_callables(lambda x: x * 3, (torch.zeros(10, 10, device="cuda"),))
    assert torch.equal(later(torch.ones(10, 10, device="cuda")), torch.full((10, 10), 3.0, device="cuda"))


def test_many_captures_leave_memory_as_it_was(api):
    a, b = torch.randn(1024, 512, device="cuda"), torch.randn(512, 64, device="cuda")
    _ = a @ b
    baseline = None
    for i in range(30):
        graph = api.CUDAGraph()
        with api.graph(graph):
            _ = a @ b
        graph.replay()
        del graph
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        free = torch.cuda.mem_get_info()[0]
        baseline = free if i == 1 else baseline
    assert baseline - free < 5_000_000
