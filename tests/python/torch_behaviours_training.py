# SPDX-License-Identifier: MIT
"""Behaviours of torch's CUDA graphs: optimizers, gradient scaling, graphed callables."""

import pytest

from behaviours import HAS_GPU, REASON

pytestmark = pytest.mark.skipif(not HAS_GPU, reason=REASON)
if HAS_GPU:
    import torch


# ---- optimizers ----

KINDS = {
    "Adadelta": [{}, {"foreach": False}, {"weight_decay": 0.1}, {"maximize": True}],
    "Adam": [{}, {"foreach": False}, {"fused": True}, {"amsgrad": True, "weight_decay": 0.1}, {"maximize": True}],
    "AdamW": [{}, {"foreach": False}, {"fused": True}, {"amsgrad": True}, {"maximize": True}],
    "Adamax": [{}, {"foreach": False}, {"weight_decay": 0.1}, {"maximize": True}],
    "ASGD": [{}, {"foreach": False}, {"lambd": 0.1}, {"maximize": True}],
    "NAdam": [{}, {"foreach": False}, {"decoupled_weight_decay": True, "weight_decay": 0.1}, {"momentum_decay": 6e-3}],
    "RAdam": [{}, {"foreach": False}, {"decoupled_weight_decay": True, "weight_decay": 0.1}],
    "RMSprop": [{}, {"foreach": False}, {"momentum": 0.1, "centered": True}, {"maximize": True}],
    "Rprop": [{}, {"foreach": False}, {"etas": (0.2, 1.1)}, {"maximize": True}],
}  # fmt: skip
CASES = [(kind, options) for kind, all_options in KINDS.items() for options in all_options]
SHAPES = [(5, 5), (6, 6), ()]


@pytest.mark.parametrize("kind, options", CASES, ids=[f"{kind}-{'-'.join(options) or 'plain'}" for kind, options in CASES])
def test_a_captured_step_is_that_of_an_optimizer_that_is_not_capturable(api, kind, options):
    start = [torch.randn(shape, device="cuda") for shape in SHAPES]
    gradients = [[torch.randn(shape, device="cuda") for shape in SHAPES] for _ in range(5)]
    lists = [[tensor.clone().requires_grad_() for tensor in start] for _ in range(2)]
    make = getattr(torch.optim, kind)
    control = make(lists[0], lr=0.1, **options)
    captured = make(lists[1], lr=0.1, capturable=True, **options)
    for given in gradients:
        for parameter, gradient in zip(lists[0], given):
            parameter.grad = gradient.clone()
        control.step()

    def feed(given):
        for parameter, gradient in zip(lists[1], given):
            if parameter.grad is None:
                parameter.grad = gradient.clone()
            else:
                parameter.grad.copy_(gradient)

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for given in gradients[:3]:
            feed(given)
            captured.step()
    torch.cuda.current_stream().wait_stream(stream)
    before = [parameter.detach().clone() for parameter in lists[1]]
    graph = api.CUDAGraph()
    with api.graph(graph):
        captured.step()
    assert all(torch.equal(a, b) for a, b in zip(before, lists[1]))
    for given in gradients[3:]:
        feed(given)
        graph.replay()
    for a, b in zip(*lists):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("second", [True, False])
@pytest.mark.parametrize("kind", ["Adam", "AdamW", "ASGD", "Adamax", "NAdam", "RAdam", "Adadelta", "RMSprop"])
def test_groups_that_are_not_capturable_are_refused(api, kind, second):
    lists = [[torch.ones(1, device="cuda").requires_grad_() for _ in range(2)] for _ in range(2)]
    make = getattr(torch.optim, kind)
    control = make([{"params": parameter, "capturable": False} for parameter in lists[0]])
    captured = make([{"params": lists[1][0], "capturable": True}, {"params": lists[1][1], "capturable": second}])
    gradients = [[torch.randn(1, device="cuda") for _ in range(2)] for _ in range(5)]
    for given in gradients[:3]:
        for of in lists:
            for parameter, gradient in zip(of, given):
                parameter.grad = gradient.clone()
        control.step()
        captured.step()
    graph = api.CUDAGraph()
    if not second:
        with pytest.raises(RuntimeError, match="Attempting CUDA graph"), api.graph(graph):
            captured.step()
        return
    with api.graph(graph):
        captured.step()
    for given in gradients[3:]:
        for of in lists:
            for parameter, gradient in zip(of, given):
                parameter.grad.copy_(gradient)
        control.step()
        graph.replay()
    for a, b in zip(*lists):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("kind", ["Adam", "AdamW", "SGD"])
def test_a_captured_step_under_a_scaler(api, kind):
    start = [torch.randn(shape, device="cuda") for shape in SHAPES[:2]]
    gradients = [[torch.randn(shape, device="cuda") * 128 for shape in SHAPES[:2]] for _ in range(5)]
    lists = [[tensor.clone().requires_grad_() for tensor in start] for _ in range(2)]
    options = {} if kind == "SGD" else {"capturable": True}
    optimizers = [getattr(torch.optim, kind)(of, lr=0.1, fused=True, **(options if n else {})) for n, of in enumerate(lists)]
    scalers = [torch.amp.GradScaler("cuda", init_scale=128.0) for _ in range(2)]
    for scaler in scalers:
        scaler._lazy_init_scale_growth_tracker(torch.device("cuda"))

    def feed(of, given):
        for parameter, gradient in zip(of, given):
            if parameter.grad is None:
                parameter.grad = gradient.clone()
            else:
                parameter.grad.copy_(gradient)

    for given in gradients[:3]:
        for of, optimizer, scaler in zip(lists, optimizers, scalers):
            feed(of, given)
            scaler.step(optimizer)
            scaler.update()
    graph = api.CUDAGraph()
    with api.graph(graph):
        scalers[1].step(optimizers[1])
        scalers[1].update()
    for given in gradients[3:]:
        feed(lists[0], given)
        scalers[0].step(optimizers[0])
        scalers[0].update()
        feed(lists[1], given)
        graph.replay()
    for a, b in zip(*lists):
        torch.testing.assert_close(a, b)


# ---- graphed callables ----

if HAS_GPU:

    class Section(torch.nn.Module):
        """Takes a dict, as nested arguments do; one of its entries is not used."""

        def __init__(self, layers):
            super().__init__()
            self.net = torch.nn.Sequential(*layers)

        def forward(self, given):
            return self.net(given["x"])

    class Gather(torch.nn.Module):
        """Without parameters: each row by its own indices."""

        def forward(self, given):
            rows = torch.argsort(given["x"].detach(), dim=1)
            return {"output": torch.gather(given["x"], 1, rows)}


def a_section():
    return Section([torch.nn.Linear(64, 32), torch.nn.Dropout(0.1), torch.nn.Linear(32, 32), torch.nn.Dropout(0.2)]).cuda()


def test_several_sections_train_as_eager_ones(api):
    """All in one call, with random numbers, and modules and functions among them."""
    sections = [a_section() for _ in range(2)]
    sections[1].load_state_dict(sections[0].state_dict())
    heads = [torch.nn.Linear(32, 16).cuda() for _ in range(2)]
    heads[1].load_state_dict(heads[0].state_dict())
    x, unused = torch.randn(40, 64, device="cuda"), torch.randn(40, 32, device="cuda", requires_grad=True)
    hidden, predicted = (torch.randn(40, n, device="cuda", requires_grad=True) for n in (32, 16))
    y = torch.randn(40, 16, device="cuda")
    relu, loss_of = torch.nn.functional.relu, torch.nn.functional.mse_loss
    callables = (sections[0], heads[0], relu, loss_of)
    samples = (({"x": x, "unused": unused},), (hidden,), (predicted,), (predicted, y))
    graphed = api.make_graphed_callables(callables, samples, allow_unused_input=True)
    parts = [graphed, (sections[1], heads[1], relu, loss_of)]
    optimizers = [torch.optim.SGD([*section.parameters(), *head.parameters()], lr=0.1) for section, head in zip(sections, heads)]
    for _ in range(10):
        losses = []
        for (section, head, activate, measure), optimizer in zip(parts, optimizers):
            torch.cuda.manual_seed(5)
            optimizer.zero_grad(set_to_none=True)
            loss = measure(activate(head(section({"x": x, "unused": unused}))), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.detach().clone())
        torch.testing.assert_close(*losses)
    for a, b in zip([*sections[0].parameters(), *heads[0].parameters()], [*sections[1].parameters(), *heads[1].parameters()]):
        torch.testing.assert_close(a, b)
    sections[0].eval(), sections[1].eval()
    given = {"x": torch.randn(40, 64, device="cuda"), "unused": unused}
    torch.testing.assert_close(sections[0](given), sections[1](given))


@pytest.mark.parametrize("allow", [True, False])
def test_an_unused_input_needs_a_word(api, allow):
    section = a_section()
    sample = {"x": torch.randn(8, 64, device="cuda"), "unused": torch.randn(8, 32, device="cuda", requires_grad=True)}
    if allow:
        api.make_graphed_callables(section, (sample,), allow_unused_input=True)
        return
    with pytest.raises(RuntimeError, match="(?i)not have been used|unused"):
        api.make_graphed_callables(section, (sample,))


def test_casts_that_autocast_caches_are_refused(api):
    section = torch.nn.Linear(8, 8).cuda()
    with torch.autocast("cuda", dtype=torch.float16, cache_enabled=True), pytest.raises(RuntimeError, match="cache_enabled=False"):
        api.make_graphed_callables(section, (torch.randn(4, 8, device="cuda"),))


@pytest.mark.parametrize("allow", [True, False])
@pytest.mark.parametrize("amp", [True, False])
def test_a_module_without_parameters_takes_inputs_with_gradients(api, amp, allow):
    sample = {"x": torch.randn(40, 16, device="cuda"), "unused": torch.randn(40, 4, device="cuda")}
    with torch.autocast("cuda", dtype=torch.float16, enabled=amp, cache_enabled=False):
        graphed = api.make_graphed_callables(Gather().cuda(), (sample,), allow_unused_input=allow)
        for _ in range(4):
            given = {"x": torch.rand(40, 16, device="cuda", requires_grad=True), "unused": torch.rand(40, 4, device="cuda", requires_grad=True)}
            assert torch.equal(graphed(given)["output"], Gather()(given)["output"])
    graphed.eval()
    assert torch.equal(graphed(given)["output"], Gather()(given)["output"])
