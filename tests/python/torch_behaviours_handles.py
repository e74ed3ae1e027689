# SPDX-License-Identifier: MIT
"""Behaviours of torch's CUDA graphs: handles, executables, drawings, failed captures and pools."""

import ctypes

import pytest

from behaviours import HAS_GPU, REASON, side_capture

pytestmark = pytest.mark.skipif(not HAS_GPU, reason=REASON)
if HAS_GPU:
    import torch


# ---- handles and executables ----


def driver():
    return ctypes.CDLL("libcuda.so.1")


def kinds_of(graph):
    """The kinds of the nodes of a CUgraph, as the driver numbers them."""
    count = ctypes.c_size_t()
    assert driver().cuGraphGetNodes(ctypes.c_void_p(graph), None, ctypes.byref(count)) == 0
    nodes = (ctypes.c_void_p * count.value)()
    assert driver().cuGraphGetNodes(ctypes.c_void_p(graph), nodes, ctypes.byref(count)) == 0
    kinds = []
    for node in nodes:
        kind = ctypes.c_int(-1)
        assert driver().cuGraphNodeGetType(ctypes.c_void_p(node), ctypes.byref(kind)) == 0
        kinds.append(kind.value)
    return kinds


def summed(api, keep):
    x, y = torch.zeros(2000, device="cuda"), torch.ones(2000, device="cuda")
    graph, z = side_capture(api, lambda: x + y, api.CUDAGraph(keep_graph=keep), capture_error_mode="relaxed")
    return graph, z


def test_an_executable_that_the_capture_made_is_not_made_again(api):
    graph, z = summed(api, False)
    with pytest.raises(RuntimeError, match="keep_graph=(T|t)rue"):
        graph.instantiate()
    graph.replay()
    assert z.sum().item() == 2000


def test_nodes_of_the_template_are_read_and_the_first_replay_makes_the_executable(api):
    graph, z = summed(api, True)
    assert kinds_of(graph.raw_cuda_graph()) == [0]
    graph.replay()
    assert z.sum().item() == 2000
    assert graph.raw_cuda_graph_exec()


@pytest.mark.parametrize("keep", [False, True])
def test_an_executable_is_there_when_it_was_made(api, keep):
    graph, z = summed(api, keep)
    if keep:
        with pytest.raises(RuntimeError, match="until instantiate"):
            graph.raw_cuda_graph_exec()
        graph.instantiate()
    flags = ctypes.c_uint64()
    assert driver().cuGraphExecGetFlags(ctypes.c_void_p(graph.raw_cuda_graph_exec()), ctypes.byref(flags)) == 0
    graph.replay()
    assert z.sum().item() == 2000


def test_an_executable_is_made_again_from_the_template(api):
    graph, z = summed(api, True)
    graph.instantiate()
    graph.instantiate()
    z.zero_()
    graph.replay()
    assert z.sum().item() == 2000


def test_a_drawing_has_both_kernels_of_a_fork(api, tmp_path):
    x, y, side = torch.randn(1000, device="cuda"), torch.randn(1000, device="cuda"), torch.cuda.Stream()
    graph = api.CUDAGraph(keep_graph=True)
    graph.enable_debug_mode()

    def body():
        z = x + y
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            w = z + y
        torch.cuda.current_stream().wait_stream(side)
        return w

    graph, w = side_capture(api, body, graph)
    place = tmp_path / "graph.dot"
    with pytest.warns(UserWarning, match="debug_dump"):
        graph.debug_dump(str(place))
    text = place.read_text(encoding="utf-8")
    assert "digraph" in text and "->" in text
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(w, x + y + y)


def test_the_default_stream_captures_nothing(api):
    graph, x = api.CUDAGraph(), torch.ones(8, device="cuda")
    with pytest.raises(RuntimeError, match="must be captured on a non-default stream"):
        graph.capture_begin()
    assert (x + 1).sum().item() == 16
    other, y = side_capture(api, lambda: x * 2)
    other.replay()
    assert y.sum().item() == 16


def test_a_replay_without_a_capture_is_refused(api):
    with pytest.raises(RuntimeError, match="without a preceding successful capture"):
        api.CUDAGraph().replay()
    with pytest.raises(RuntimeError, match="without a preceding successful capture"):
        api.CUDAGraph().pool()


def test_an_item_in_a_capture_fails_it(api):
    x, graph = torch.ones(8, device="cuda"), api.CUDAGraph()
    with pytest.raises(RuntimeError), api.graph(graph):
        (x * 2).sum().item()
    torch.cuda.synchronize()
    other, y = side_capture(api, lambda: x * 3)
    other.replay()
    assert y.sum().item() == 24


def test_a_graph_that_has_a_capture_takes_no_other(api):
    graph, _ = summed(api, False)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream), pytest.raises(RuntimeError, match="already owns a captured graph"):
        graph.capture_begin()


# ---- pools ----


def test_pools_have_numbers_of_their_own():
    """No class of graphs takes part."""
    handles = [torch.cuda.graph_pool_handle() for _ in range(3)]
    assert len(set(handles)) == 3 and all(first == 0 for first, _ in handles)


def test_a_handle_of_a_pool_is_that_of_its_graphs(api):
    x, handle = torch.ones(1000, device="cuda"), torch.cuda.graph_pool_handle()
    first, y = side_capture(api, lambda: x * 2, pool=handle)
    second, z = side_capture(api, lambda: y * 3, pool=handle)
    assert first.pool() == second.pool() == handle
    assert side_capture(api, lambda: x * 2)[0].pool() != handle
    first.replay()
    second.replay()
    assert z.sum().item() == 6000


def test_memory_of_a_pool_lives_as_long_as_one_of_its_graphs(api):
    x, handle = torch.ones(1000, device="cuda"), torch.cuda.graph_pool_handle()
    first, y = side_capture(api, lambda: x * 2, pool=handle)
    second, z = side_capture(api, lambda: x * 3, pool=handle)
    del y
    first.reset()
    torch.cuda.empty_cache()
    z.zero_()
    second.replay()
    assert z.sum().item() == 3000
    pools = {segment["segment_pool_id"] for segment in torch.cuda.memory_snapshot()}
    assert handle in pools
    del z
    second.reset()
    torch.cuda.empty_cache()
    assert handle not in {segment["segment_pool_id"] for segment in torch.cuda.memory_snapshot()}


def test_only_what_lives_in_a_pool_is_live(api):
    graph, y = side_capture(api, lambda: torch.ones(4, device="cuda"))
    live, pool = torch._C._cuda_checkPoolLiveAllocations, graph.pool()
    assert live(0, pool, {y.data_ptr()}) and not live(0, pool, set())
    del y
    assert live(0, pool, set())


def test_a_tensor_of_a_graph_outlives_it(api):
    x = torch.ones(1000, device="cuda")
    graph, y = side_capture(api, lambda: x * 2)
    graph.replay()
    graph.reset()
    del graph
    torch.cuda.empty_cache()
    noise = [torch.zeros(1000, device="cuda") for _ in range(20)]
    assert y.sum().item() == 2000 and not any(tensor.sum().item() for tensor in noise)
