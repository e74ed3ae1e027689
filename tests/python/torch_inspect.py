# SPDX-License-Identifier: MIT
"""phonograph.torch.inspect on a GPU: the tensors of convolutions, of Triton's kernels, of attention and of copies are found."""

import importlib.util

import pytest

HAS_TORCH = importlib.util.find_spec("torch") is not None
HAS_TRITON = importlib.util.find_spec("triton") is not None
if HAS_TORCH:
    import torch

    HAS_GPU = torch.cuda.is_available()
    REASON = "torch has no GPU here: phonograph.torch was not tested on graphs"
else:
    HAS_GPU, REASON = False, "this Python has no torch: phonograph.torch was not tested on graphs"
pytestmark = pytest.mark.skipif(not HAS_GPU, reason=REASON)
if HAS_GPU:
    import phonograph.torch as pt
if HAS_GPU and HAS_TRITON:
    import triton
    import triton.language as tl

    @triton.jit
    def add_kernel(x, y, out, n, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        mask = at < n
        tl.store(out + at, tl.load(x + at, mask=mask) + tl.load(y + at, mask=mask), mask=mask)


def captured(body):
    """(the graph, what the captured body returned)."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            body()
    torch.cuda.current_stream().wait_stream(stream)
    graph = pt.CUDAGraph()
    with pt.graph(graph):
        result = body()
    return graph, result


def expect_found(report, tensors):
    """Some word of the graph lies in each of the tensors, and none that is proved lies outside of them and of torch's memory."""
    found = {int(word["value"], 0) for _, word in report.words()}
    for name, tensor in tensors.items():
        assert any(tensor.data_ptr() <= address < tensor.data_ptr() + tensor.nbytes for address in found), name
    for node in report.nodes:
        for word in node["words"]:
            assert word["kind"] != "proved" or word["torch"], (node["name"], word)


def test_a_convolution_has_its_tensors():
    net = torch.nn.Conv2d(8, 16, 3, padding=1).cuda()
    x = torch.randn(4, 8, 32, 32, device="cuda")
    with torch.no_grad():
        graph, y = captured(lambda: net(x))
    expect_found(pt.inspect(graph, x=x, net=net), {"x": x, "weight": net.weight})
    graph.replay()
    torch.cuda.synchronize()
    with torch.no_grad():
        torch.testing.assert_close(y, net(x))


def test_attention_has_its_tensors():
    q, k, v = (torch.randn(2, 8, 128, 64, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    graph, y = captured(lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True))
    expect_found(pt.inspect(graph), {"q": q, "k": k, "v": v, "y": y})


def test_a_product_of_16_bits_has_its_tensors():
    x, w = (torch.randn(512, 512, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    graph, y = captured(lambda: x @ w)
    expect_found(pt.inspect(graph), {"x": x, "w": w, "y": y})


@pytest.mark.skipif(not HAS_TRITON, reason="this Python has no Triton: its kernels were not tested")
def test_a_kernel_of_triton_has_its_tensors():
    x, y, out = (torch.randn(4096, device="cuda") for _ in range(3))
    graph, _ = captured(lambda: add_kernel[(4,)](x, y, out, 4096, BLOCK=1024))
    report = pt.inspect(graph, x=x, y=y, out=out)
    expect_found(report, {"x": x, "y": y, "out": out})
    (node,) = report.nodes
    assert node["name"] == "add_kernel" and all(word["kind"] == "suspected" for _, word in report.words())
    out.zero_()
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(out, x + y)


@pytest.mark.skipif(HAS_TORCH and not torch.distributed.is_nccl_available(), reason="this torch has no NCCL: its kernels were not tested")
def test_collectives_of_nccl_have_their_tensors():
    """Of one rank: NCCL copies what is gathered, and scales what is averaged by a kernel of its own."""
    dist = torch.distributed
    dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1, device_id=torch.device("cuda", 0))
    try:
        x, gathered, averaged = torch.randn(4096, device="cuda"), torch.zeros(4096, device="cuda"), torch.randn(4096, device="cuda")

        def body():
            dist.all_gather_into_tensor(gathered, x)
            dist.all_reduce(averaged, op=dist.ReduceOp.AVG)

        want = averaged.clone()
        graph, _ = captured(body)
        report = pt.inspect(graph, x=x, gathered=gathered, averaged=averaged)
        kinds = {node["kind"] for node in report.nodes}
        assert "memcpy" in kinds and "kernel" in kinds, [(node["kind"], node["name"]) for node in report.nodes]
        expect_found(report, {"x": x, "gathered": gathered, "averaged": averaged})
        gathered.zero_()
        graph.replay()
        torch.cuda.synchronize()
        assert torch.equal(gathered, x) and torch.equal(averaged, want)
        graph.reset()
    finally:
        dist.destroy_process_group()


def test_copies_are_proved():
    x, y = torch.randn(1000, device="cuda"), torch.zeros(1000, device="cuda")
    graph, _ = captured(lambda: y.copy_(x))
    report = pt.inspect(graph, x=x, y=y)
    expect_found(report, {"x": x, "y": y})
    proved = {text for _, word in report.words() if word["kind"] == "proved" for text in word["torch"]["tensors"]}
    assert {"float32[1000] x", "float32[1000] y"} <= proved
