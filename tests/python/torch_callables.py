# SPDX-License-Identifier: MIT
"""phonograph.torch.make_graphed_callables on a GPU: results are those of eager runs, wherever inputs and gradients lie."""

import importlib.util
import time

import pytest

HAS_TORCH = importlib.util.find_spec("torch") is not None
if HAS_TORCH:
    import torch

    HAS_GPU = torch.cuda.is_available()
    REASON = "torch has no GPU here: make_graphed_callables was not tested"
else:
    HAS_GPU, REASON = False, "this Python has no torch: make_graphed_callables was not tested"
pytestmark = pytest.mark.skipif(not HAS_GPU, reason=REASON)
if HAS_GPU:
    import phonograph.torch as pt

    @pytest.fixture(autouse=True)
    def same_numbers():
        torch.manual_seed(0)
        yield
        torch.cuda.synchronize()


def network(width=64):
    """GELU's kernels have a parameter of one byte that torch leaves as it was: now and then it differs in two captures."""
    return torch.nn.Sequential(
        torch.nn.Linear(width, 2 * width), torch.nn.GELU(), torch.nn.LayerNorm(2 * width), torch.nn.Linear(2 * width, width)
    ).cuda()


def plain_network(width=64):
    return torch.nn.Sequential(
        torch.nn.Linear(width, 2 * width), torch.nn.LayerNorm(2 * width), torch.nn.Linear(2 * width, width)
    ).cuda()


def copy_of(module):
    import copy

    return copy.deepcopy(module)


def eager_step(module, x, weight):
    x = x.detach().requires_grad_()
    (module(x) * weight).sum().backward()
    found = [x.grad, *(p.grad.clone() for p in module.parameters())]
    module.zero_grad()
    return found


def expect_steps(module, graphed, shape, steps=6):
    kept = []
    for _ in range(steps):
        x, weight = torch.randn(shape, device="cuda"), torch.randn(shape, device="cuda")
        expected = eager_step(module, x, weight)
        found = eager_step(graphed, x, weight)
        for a, b in zip(expected, found):
            assert torch.equal(a, b)
        kept.append((x, weight))  # the next ones lie elsewhere


def test_a_module_trains_as_eagerly():
    module = plain_network()
    graphed = copy_of(module)
    returned = pt.make_graphed_callables(graphed, (torch.randn(32, 64, device="cuda", requires_grad=True),))
    assert returned is graphed and returned.rebound == {"input 0": "", "gradient 0": ""}, returned.rebound
    expect_steps(module, graphed, (32, 64))


def test_an_input_without_a_proof_is_copied():
    module = network()
    graphed = pt.make_graphed_callables(copy_of(module), (torch.randn(32, 64, device="cuda", requires_grad=True),))
    print(graphed.rebound)
    assert set(graphed.rebound) == {"input 0", "gradient 0"}
    expect_steps(module, graphed, (32, 64))


def test_nothing_is_rebound_where_that_is_asked():
    module = network()
    graphed = copy_of(module)
    pt.make_graphed_callables(graphed, (torch.randn(32, 64, device="cuda", requires_grad=True),), rebind=False)
    assert graphed.rebound == {}
    expect_steps(module, graphed, (32, 64))


def test_rebound_inputs_are_read_where_they_lie():
    graphed = pt.make_graphed_callables(plain_network().eval(), (torch.randn(8, 64, device="cuda"),))
    with torch.no_grad():
        x = torch.randn(8, 64, device="cuda")
        first = graphed(x).clone()
        x.add_(1)
        assert not torch.equal(graphed(x), first)
    assert graphed.rebound["input 0"] == ""


def test_views_that_are_not_aligned_are_copied():
    module = network().eval()
    graphed = pt.make_graphed_callables(copy_of(module), (torch.randn(8, 64, device="cuda"),))
    memory = torch.randn(8 * 64 + 64, device="cuda")
    with torch.no_grad():
        for begin in (0, 1, 3, 64, 32, 5):
            x = memory[begin : begin + 512].view(8, 64)
            assert torch.equal(graphed(x), module(x)), begin
        x = torch.randn(64, 8, device="cuda").t()
        assert torch.allclose(graphed(x), module(x.contiguous()))


def test_functions_of_several_inputs_and_outputs():
    def function(pair, scale):
        a, b = pair
        return {"product": a * b * scale, "sum": [a + b, (a > b)]}

    a, b = (torch.randn(16, 16, device="cuda", requires_grad=True) for _ in range(2))
    scale = torch.full((), 2.0, device="cuda")
    graphed = pt.make_graphed_callables(function, ((a, b), scale))
    for _ in range(4):
        a, b = (torch.randn(16, 16, device="cuda", requires_grad=True) for _ in range(2))
        scale = torch.rand((), device="cuda")
        found, expected = graphed((a, b), scale), function((a, b), scale)
        assert torch.equal(found["product"], expected["product"]) and torch.equal(found["sum"][1], expected["sum"][1])
        assert not found["sum"][1].requires_grad
        grads = torch.autograd.grad((found["product"].sum() + found["sum"][0].square().sum()), (a, b))
        wanted = torch.autograd.grad((expected["product"].sum() + expected["sum"][0].square().sum()), (a, b))
        assert all(torch.equal(g, w) for g, w in zip(grads, wanted))
    with pytest.raises(ValueError, match="the arguments have the form"):
        graphed(a, b, scale)
    with pytest.raises(ValueError, match="input 2 is of torch.float64"):
        graphed((a, b), scale.double())


def test_several_callables_share_a_pool():
    modules = [plain_network(), plain_network(), plain_network()]
    graphed = [copy_of(module) for module in modules]
    x = torch.randn(32, 64, device="cuda", requires_grad=True)
    pt.make_graphed_callables(tuple(graphed), tuple((x.detach().requires_grad_(),) for _ in graphed))
    assert all(module.rebound["input 0"] == "" for module in graphed), [module.rebound for module in graphed]
    expect_steps(torch.nn.Sequential(*modules), torch.nn.Sequential(*graphed), (32, 64))


def test_gradients_are_new_tensors():
    for new in (True, False):
        module = pt.make_graphed_callables(
            torch.nn.Linear(8, 8).cuda(), (torch.randn(4, 8, device="cuda", requires_grad=True),), new_gradients=new
        )
        places = []
        for _ in range(2):
            x = torch.randn(4, 8, device="cuda", requires_grad=True)
            (grad,) = torch.autograd.grad(module(x).sum(), (module.weight,))
            places.append((grad.data_ptr(), grad))
        assert (places[0][0] == places[1][0]) is not new


def test_an_input_that_changes_before_backward_is_refused():
    module = pt.make_graphed_callables(torch.nn.Linear(8, 8).cuda(), (torch.randn(4, 8, device="cuda", requires_grad=True),))
    x = torch.randn(4, 8, device="cuda")
    y = module(x)
    x.add_(1)
    if module.rebound["input 0"] == "":
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward()


def test_another_training_mode_runs_the_module():
    module = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(0.5)).cuda()
    graphed = pt.make_graphed_callables(copy_of(module), (torch.randn(64, 8, device="cuda"),))
    x = torch.randn(64, 8, device="cuda")
    graphed.eval(), module.eval()
    assert torch.equal(graphed(x), module(x))
    graphed.train()
    zeros = [(graphed(x) == 0).clone() for _ in range(3)]
    assert not torch.equal(zeros[0], zeros[1]) and not torch.equal(zeros[1], zeros[2])


def test_parameters_without_a_gradient_need_a_word():
    class Unused(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.other = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)

        def forward(self, x):
            return self.used(x)

    x = torch.randn(4, 8, device="cuda")
    with pytest.raises(RuntimeError):
        pt.make_graphed_callables(Unused().cuda(), (x,))
    module = pt.make_graphed_callables(Unused().cuda(), (x,), allow_unused_input=True)
    module(x).sum().backward()
    assert module.other.weight.grad is None and module.used.weight.grad is not None


def test_what_torch_refuses_is_refused():
    x = torch.randn(4, 8, device="cuda")
    hooked = torch.nn.Linear(8, 8).cuda()
    hooked.register_forward_hook(lambda *_: None)
    with pytest.raises(RuntimeError, match="hooks"):
        pt.make_graphed_callables(hooked, (x,))
    with torch.autocast("cuda"), pytest.raises(RuntimeError, match="cache_enabled=False"):
        pt.make_graphed_callables(torch.nn.Linear(8, 8).cuda(), (x,))
    with pytest.raises(TypeError, match="tensors alone"):
        pt.make_graphed_callables(lambda a, b: a * b, (x, 2))
    with pytest.raises(ValueError, match="2 callables"):
        pt.make_graphed_callables((torch.nn.Linear(8, 8).cuda(),) * 2, ((x,),))
    buffered = torch.nn.Linear(8, 8).cuda()
    buffered.register_buffer("extra", torch.zeros(1, device="cuda", requires_grad=True))
    with pytest.raises(RuntimeError, match="buffer"):
        pt.make_graphed_callables(buffered, (x,))


def test_autocast_without_its_cache():
    module = network().train()
    graphed = copy_of(module)
    with torch.autocast("cuda", dtype=torch.bfloat16, cache_enabled=False):
        pt.make_graphed_callables(graphed, (torch.randn(32, 64, device="cuda", requires_grad=True),))
        expect_steps(module, graphed, (32, 64), steps=3)


def test_the_time_of_a_call():
    x = torch.randn(512, 512, device="cuda")
    ours = pt.make_graphed_callables(plain_network(512).eval(), (x,))
    theirs = torch.cuda.make_graphed_callables(plain_network(512).eval(), (x.clone(),))
    inputs, times = [torch.randn(512, 512, device="cuda") for _ in range(8)], {}
    with torch.no_grad():
        for name, module in (("rebound", ours), ("torch's", theirs)):
            found = []
            for turn in range(200):
                begun = time.perf_counter()
                module(inputs[turn % 8])
                found.append(time.perf_counter() - begun)
                torch.cuda.synchronize()
            times[name] = 1e6 * sorted(found)[100]
    print("us of the host, a call:", {name: round(value, 1) for name, value in times.items()})


# ---- views ----


def test_an_output_that_is_a_view_of_an_input():
    def function(x):
        return x.view(-1), x + 1

    graphed = pt.make_graphed_callables(function, (torch.randn(8, 16, device="cuda"),))
    assert graphed.rebound == {"input 0": "an output is a view of it"}
    for _ in range(3):
        x = torch.randn(8, 16, device="cuda")
        for found, expected in zip(graphed(x), function(x)):
            assert torch.equal(found, expected)


def test_a_gradient_that_is_the_incoming_one():
    sample = torch.randn(8, 16, device="cuda", requires_grad=True)
    graphed = pt.make_graphed_callables(lambda x: x + 1, (sample,))
    for _ in range(3):
        x = torch.randn(8, 16, device="cuda", requires_grad=True)
        weight = torch.randn(8, 16, device="cuda")
        graphed(x).backward(weight)
        assert torch.equal(x.grad, weight)


def test_a_gradient_that_is_a_saved_input():
    class Saved(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x / 2

        @staticmethod
        def backward(ctx, gradient):
            return ctx.saved_tensors[0]

    sample = torch.randn(8, 16, device="cuda", requires_grad=True)
    graphed = pt.make_graphed_callables(Saved.apply, (sample,))
    for _ in range(3):
        x = torch.randn(8, 16, device="cuda", requires_grad=True)
        graphed(x).sum().backward()
        assert torch.equal(x.grad, x.detach())


@pytest.mark.parametrize("form", ["conjugate", "negative", "transposed"])
def test_inputs_that_are_views_of_another_form(form):
    def make():
        x = torch.randn(16, 16, dtype=torch.complex64, device="cuda")
        return {"conjugate": x.conj(), "negative": torch._neg_view(x), "transposed": x.t()}[form]

    def function(x):
        return x * 2 + 1

    for sample in (make(), make().clone(memory_format=torch.contiguous_format).resolve_conj().resolve_neg()):
        graphed = pt.make_graphed_callables(function, (sample,))
        for _ in range(3):
            x = make()
            assert torch.allclose(graphed(x), function(x))
        plain = torch.randn(16, 16, dtype=torch.complex64, device="cuda")
        assert torch.allclose(graphed(plain), function(plain))


def test_the_sample_in_another_form_is_another_input():
    sample = torch.randn(16, 16, dtype=torch.complex64, device="cuda")
    graphed = pt.make_graphed_callables(lambda x: x * 2, (sample,), rebind=False)
    before = sample.clone()
    for x, expected in ((sample.t(), before.t()), (sample.conj(), None)):
        expected = (2 * x).clone() if expected is None else 2 * expected
        assert torch.allclose(graphed(x), expected)
