# SPDX-License-Identifier: MIT
"""Behaviours of torch's CUDA graphs: random numbers, and streams and events in captures."""

import pytest

from behaviours import HAS_GPU, REASON, side_capture

pytestmark = pytest.mark.skipif(not HAS_GPU, reason=REASON)
if HAS_GPU:
    import torch


# ---- random numbers ----

COUNT = 10_000
DRAWN = {
    "bernoulli": lambda full: torch.bernoulli(full(0.4)),
    "normal": lambda full: torch.normal(full(3.0), 1.0),
    "poisson": lambda full: torch.poisson(full(4.0)),
    "rand": lambda full: torch.rand(COUNT, device="cuda"),
    "randint": lambda full: torch.randint(0, 3, (COUNT,), device="cuda"),
    "randn": lambda full: torch.randn(COUNT, device="cuda"),
    "bernoulli_": lambda full: full(0.0).bernoulli_(full(0.4)),
    "cauchy_": lambda full: full(0.0).cauchy_(),
    "exponential_": lambda full: full(0.0).exponential_(),
    "geometric_": lambda full: full(0.0).geometric_(0.3),
    "log_normal_": lambda full: full(0.0).log_normal_(),
    "normal_": lambda full: full(0.0).normal_(),
    "random_": lambda full: full(0.0).random_(),
    "uniform_": lambda full: full(0.0).uniform_(),
}


def full(value):
    return torch.full((COUNT,), value, device="cuda")


@pytest.mark.parametrize("kind", DRAWN)
def test_replays_draw_what_eager_calls_would(api, kind):
    """Also where numbers were drawn before: the replay goes on where the generator is."""
    draw = DRAWN[kind]
    torch.cuda.manual_seed(5)
    for _ in range(2):
        draw(full)
    graph, (first, second) = side_capture(api, lambda: (draw(full), draw(full)))
    for seed in (6, 314, 271):
        torch.cuda.manual_seed(seed)
        draw(full)
        expected = [draw(full), draw(full)]
        torch.cuda.manual_seed(seed)
        draw(full)
        first.zero_()
        second.zero_()
        graph.replay()
        assert torch.equal(first, expected[0]) and torch.equal(second, expected[1])
        assert not torch.equal(first, second)


def test_two_graphs_draw_from_one_generator(api):
    graphs = [side_capture(api, lambda: torch.rand(COUNT, device="cuda")) for _ in range(2)]
    torch.cuda.manual_seed(7)
    expected = [torch.rand(COUNT, device="cuda") for _ in range(4)]
    torch.cuda.manual_seed(7)
    for turn, values in enumerate(expected):
        graph, drawn = graphs[turn % 2]
        graph.replay()
        assert torch.equal(drawn, values)


def test_a_registered_generator_is_the_graphs(api):
    """What is written into its state between replays is what the next one draws from."""
    graph, generator = api.CUDAGraph(), torch.cuda.default_generators[0]
    before, clone = generator.graphsafe_get_state(), generator.clone_state()
    graph.register_generator_state(clone)

    def body():
        generator.graphsafe_set_state(clone)
        found = torch.randperm(10, device="cuda")
        generator.graphsafe_set_state(before)
        return found

    graph, drawn = side_capture(api, body, graph)
    for _ in range(3):
        torch.randperm(10, device="cuda")
    state = generator.get_state()
    expected = torch.randperm(10, device="cuda")
    clone.set_state(state)
    graph.replay()
    assert torch.equal(drawn, expected)


def test_dropout_of_recurrent_networks(api):
    model = torch.nn.LSTM(512, 512, 2, dropout=0.5).cuda()
    x = torch.ones(100, 192, 512, device="cuda")
    model(x)
    graph, (y, _) = side_capture(api, lambda: model(x))
    graph.replay()
    model(x)
    assert torch.isfinite(y).all()


def test_memory_of_generators_goes_with_the_graphs(api):
    generator = torch.cuda.default_generators[0]
    states = [generator.graphsafe_get_state(), generator.clone_state()]
    torch.cuda.synchronize()
    before = torch.cuda.memory_stats()["active.all.current"]
    graphs = []
    for _ in range(3):
        graph = api.CUDAGraph()
        for state in states:
            graph.register_generator_state(state)
        graph, _ = side_capture(api, lambda: torch.rand(1, device="cuda"), graph)
        graph.replay()
        graphs.append(graph)
    del _
    torch.cuda.synchronize()
    assert torch.cuda.memory_stats()["active.all.current"] > before
    del graph
    graphs.clear()
    torch.cuda.synchronize()
    assert torch.cuda.memory_stats()["active.all.current"] == before


# ---- streams and events ----


def test_graphs_without_a_common_pool_run_at_once(api):
    a = torch.ones(1_000_000, device="cuda")

    def chain(value):
        x = a.clone()
        for _ in range(5):
            first, second = x.clone() + value, x.clone() + value
            x = first + second
        return x

    first, b = side_capture(api, lambda: chain(1))
    second, c = side_capture(api, lambda: chain(2))
    torch.cuda.synchronize()
    streams = [torch.cuda.Stream(), torch.cuda.Stream()]
    for stream in streams:
        stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(streams[0]):
        torch.cuda._sleep(1_000_000)
        streams[1].wait_stream(streams[0])
        first.replay()
    with torch.cuda.stream(streams[1]):
        second.replay()
    for stream in streams:
        torch.cuda.current_stream().wait_stream(stream)
    assert b.sum().item() == 94e6 and c.sum().item() == 156e6


def test_frees_of_used_streams_wait_for_the_end_of_the_capture(api):
    one, two = torch.zeros(3, device="cuda"), torch.zeros(3, device="cuda")
    before, capturing, side = torch.cuda.Stream(), torch.cuda.Stream(), torch.cuda.Stream()
    torch.cuda.synchronize()
    one.record_stream(before)
    with torch.cuda.stream(before):
        torch.cuda._sleep(50_000_000)
        one.fill_(1)
    del one  # its end waits for that stream
    graph = api.CUDAGraph()
    capturing.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(capturing):
        graph.capture_begin()
        b = two.clone()
        side.wait_stream(capturing)
        with torch.cuda.stream(side):
            b.fill_(1)
            b.record_stream(side)
        del b
        capturing.wait_stream(side)
        graph.capture_end()
    torch.cuda.synchronize()
    assert torch.zeros(3, device="cuda").sum().item() == 0
    graph.replay()
    torch.cuda.synchronize()


def test_external_events_time_a_part_of_a_replay(api):
    x, y = torch.randn(10_240_000, device="cuda"), torch.randn(10_240_000, device="cuda")
    begin, end = (torch.cuda.Event(enable_timing=True, external=True) for _ in range(2))

    def body():
        begin.record()
        z = x + y
        end.record()
        return z

    graph, z = side_capture(api, body)
    torch.cuda.synchronize()
    for _ in range(2):
        graph.replay()
        torch.cuda.synchronize()
        assert begin.elapsed_time(end) > 0
    assert torch.equal(z, x + y)


@pytest.mark.parametrize("again", [False, True])
def test_pinned_memory_of_a_capture(api, again):
    """Freed pinned memory is taken again, unless a copy of the capture reads it."""
    host, device = torch.randn(8), torch.empty(8, device="cuda")
    graph, stream = api.CUDAGraph(), torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        graph.capture_begin(capture_error_mode="thread_local")
        pinned = host.pin_memory()
        first = pinned.data_ptr()
        if again:
            device.copy_(pinned, non_blocking=True)
        else:
            _ = device + 1
        del pinned
        other = host.pin_memory()
        assert (other.data_ptr() == first) == (not again)
        both = host.pin_memory()
        assert both.data_ptr() != other.data_ptr()
        graph.capture_end()
    if again:
        device.zero_()
        graph.replay()
        torch.cuda.synchronize()
        assert torch.equal(device.cpu(), host)
