# SPDX-License-Identifier: MIT
"""make_graphed_callables: torch's, whose inputs and gradients of outputs are rebound where a second capture proves it."""

import contextlib
import gc

import torch
from torch.utils import _pytree

from ..errors import Error
from .capture import CUDAGraph, graph

_PAGE = 4096  # bits of addresses below it must be seen to change: docs/reference/slots.md
_BELOW = 256  # the other captures' inputs lie so far below a multiple of it


class _Places:
    """Pairs of tensors of one shape, of the capture and of the one that proves: no two pairs are the same distance apart."""

    def __init__(self):
        self._distances = set()

    def pair(self, like):
        """(tensor at a multiple of 4096, tensor 256 bytes below another one), each with the values of `like`."""
        distance = -(-like.nbytes // _PAGE) * _PAGE + 2 * _PAGE
        while distance in self._distances:
            distance += _PAGE
        self._distances.add(distance)
        memory = torch.empty(distance + like.nbytes + 2 * _PAGE, dtype=torch.uint8, device=like.device)
        begin = -memory.data_ptr() % _PAGE
        pair = [memory[at : at + like.nbytes].view(like.dtype).view(like.shape) for at in (begin, begin + distance - _BELOW)]
        for tensor in pair:
            tensor.copy_(like.detach())
        return [tensor.detach().requires_grad_(like.requires_grad) for tensor in pair]


@contextlib.contextmanager
def _no_collection():
    """Graphs that Python's collector would end in the middle of a capture kill it: they end before."""
    enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _wait_for_autograd(devices):
    """A thread of autograd's holds the gradients of the last pass until it has taken up the next one; freed late, they would be other
    memory for the next capture. So a pass of nothing follows."""
    with torch.enable_grad():
        for device in devices:
            x = torch.zeros((), device=device, requires_grad=True)
            torch.autograd.grad(x.clone(), x)


def _is_plain(tensor):
    """Its elements are what its memory has: no conjugate or negative view."""
    return not (tensor.is_conj() or tensor.is_neg())


def _may_move(tensor):
    return tensor.is_cuda and tensor.is_contiguous() and _is_plain(tensor) and tensor.nbytes > 0


def _is_same(a, b):
    """Both have the same elements in the same memory."""
    return a.data_ptr() == b.data_ptr() and a.stride() == b.stride() and a.is_conj() == b.is_conj() and a.is_neg() == b.is_neg()


def _share(a, b):
    return a is not None and b is not None and a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()


def _check_module(module):
    if module._backward_hooks or module._forward_hooks or module._forward_pre_hooks:
        raise RuntimeError(
            "make_graphed_callables: a module with hooks cannot be graphed, as a replay would not call them; add them afterwards"
        )
    if any(buffer.requires_grad for buffer in module.buffers()):
        raise RuntimeError("make_graphed_callables: a buffer of the module requires a gradient; parameters alone may")


class _Round:
    """The graphs of one capture of all parts, and the tensors that replays write."""

    def __init__(self, parts, which, pool, allow_unused_input):
        self.forward, self.backward, self.outputs, self.grads = [], [None] * len(parts), [], [None] * len(parts)
        for part in parts:
            self.forward.append(CUDAGraph())
            with graph(self.forward[-1], pool=pool):
                self.outputs.append(part.call(part.inputs[which]))
        for i in reversed(range(len(parts))):
            outputs, inputs = part_surfaces(parts[i], self.outputs[i], which)
            if not outputs or not inputs:
                continue
            parts[i].need_grad_outputs(self.outputs[i])
            self.backward[i] = CUDAGraph()
            with graph(self.backward[i], pool=pool):
                found = torch.autograd.grad(
                    outputs, inputs, grad_outputs=[pair[which] for pair in parts[i].grad_outputs if pair], allow_unused=allow_unused_input
                )
            self.grads[i] = list(found)


def part_surfaces(part, outputs, which):
    """(outputs, inputs and parameters) that require gradients."""
    surface = (*part.inputs[which], *part.parameters)
    return [o for o in outputs if o.requires_grad], [x for x in surface if x.requires_grad]


class _Part:
    """One callable: what was captured of it, and which of its inputs are rebound."""

    def __init__(self, function, arguments, places, rebind):
        self.function = function
        flat, self.form = _pytree.tree_flatten(tuple(arguments))
        if not all(isinstance(x, torch.Tensor) for x in flat):
            raise TypeError("make_graphed_callables: sample_args must contain tensors alone")
        self.module = isinstance(function, torch.nn.Module)
        self.training = self.module and function.training
        self.parameters = tuple(function.parameters()) if self.module else ()
        if self.module:
            _check_module(function)
        self.places, self.rebind = places, rebind
        pairs = [places.pair(x) if rebind and _may_move(x) else (x, x) for x in flat]
        self.inputs = [[pair[0] for pair in pairs], [pair[1] for pair in pairs]]
        self.samples, self.grad_outputs, self.output_form = flat, None, None
        self.reasons, self.moves, self.saves, self.moved_grads = {}, [], [], []

    def call(self, inputs):
        outputs = self.function(*_pytree.tree_unflatten(list(inputs), self.form))
        flat, self.output_form = _pytree.tree_flatten(outputs)
        return flat

    def need_grad_outputs(self, outputs):
        if self.grad_outputs is None:
            blanks = [torch.zeros_like(o, memory_format=torch.contiguous_format) if o.requires_grad else None for o in outputs]
            self.grad_outputs = [
                None if blank is None else self.places.pair(blank) if self.rebind and _may_move(blank) else (blank, blank)
                for blank in blanks
            ]

    def warm_up(self, times, allow_unused_input):
        for _ in range(times):
            outputs, inputs = part_surfaces(self, self.call(self.inputs[0]), 0)
            if outputs and inputs:
                zeros = [torch.zeros_like(o) for o in outputs]
                torch.autograd.grad(outputs, inputs, grad_outputs=zeros, allow_unused=allow_unused_input)

    # ---- proofs ----

    def prove(self, real, other, i):
        """What moves: an input, where both graphs are proved to take it from elsewhere; the gradient of an output."""
        forward, backward = real.forward[i], real.backward[i]
        pairs = {f"input {k}": pair for k, pair in enumerate(zip(*self.inputs)) if pair[0] is not pair[1]}
        self.reasons = _prove(forward, other.forward[i], pairs)
        if backward is not None:
            grads = {f"gradient {k}": pair for k, pair in enumerate(self.grad_outputs) if pair and pair[0] is not pair[1]}
            found = _prove(backward, other.backward[i], {**pairs, **grads})
            for name, reason in found.items():
                self.reasons[name] = self.reasons.get(name) or (reason and f"backward: {reason}")
        self._keep_shared(real, i)
        self.moves = [k for k in range(len(self.samples)) if self.reasons.get(f"input {k}") == ""]
        self.moved_grads = [k for k in range(len(self.grad_outputs or ())) if self.reasons.get(f"gradient {k}") == ""]
        if backward is not None:
            self.saves = [k for k in self.moves if backward.slot_uses(f"input {k}")]

    def _keep_shared(self, real, i):
        """A result that is a view of an input, or of the gradient of an output, lies where the captures had it: that is copied."""
        results = [*(("an output", o) for o in real.outputs[i]), *(("a gradient", g) for g in real.grads[i] or ())]
        surfaces = {f"input {k}": x for k, x in enumerate(self.inputs[0])}
        surfaces |= {f"gradient {k}": pair[0] for k, pair in enumerate(self.grad_outputs or ()) if pair}
        for name, surface in surfaces.items():
            view = next((what for what, result in results if _share(result, surface)), None)
            if view and self.reasons.get(name) == "":
                self.reasons[name] = f"{view} is a view of it"

    # ---- calls ----

    def take(self, real, i):
        self.forward, self.backward = real.forward[i], real.backward[i]
        self.outputs, self.grads = real.outputs[i], real.grads[i]

    def place(self, captured, name, mine, given):
        """Sets the slot, or copies: given is where the graph reads it afterwards."""
        where = mine
        if not _is_same(given, mine):
            if _may_move(given) and given.dtype == mine.dtype and given.data_ptr() % _BELOW == 0:
                where = given
            else:
                self._copy(mine, given)
        captured.bind(name, where)

    @staticmethod
    def _copy(mine, given):
        mine.copy_(given.clone() if _share(mine, given) else given)  # a transposed view of it overlaps it

    def put(self, captured, kind, tensors, given, moved):
        for k, tensor in enumerate(given):
            mine = tensors[k]
            if tensor is None or mine is None:
                continue
            if k in moved:
                self.place(captured, f"{kind} {k}", mine, tensor)
            elif not _is_same(tensor, mine):
                self._copy(mine, tensor)

    def run_forward(self, given):
        for k, (tensor, mine) in enumerate(zip(given, self.inputs[0])):
            if tensor.shape != mine.shape or tensor.dtype != mine.dtype:
                raise ValueError(
                    f"a graphed callable: input {k} is of {tensor.dtype} and shape {tuple(tensor.shape)}, and was captured "
                    f"of {mine.dtype} and shape {tuple(mine.shape)}"
                )
        with torch.no_grad():
            self.put(self.forward, "input", self.inputs[0], given, self.moves)
        self.forward.replay()
        return tuple(o.detach() for o in self.outputs)

    def run_backward(self, saved, grads, new):
        with torch.no_grad():
            mine = [pair and pair[0] for pair in self.grad_outputs]
            self.put(self.backward, "gradient", mine, grads, self.moved_grads)
            for k, tensor in saved.items():
                self.place(self.backward, f"input {k}", self.inputs[0][k], tensor)
        self.backward.replay()
        grads = iter(self.grads)
        found = [next(grads) if x.requires_grad else None for x in (*self.inputs[0], *self.parameters)]
        return tuple(g if g is None else g.clone() if new else g.detach() for g in found)


def _prove(captured, other, pairs):
    try:
        return captured.prove_slots(other, **pairs) if pairs else {}
    except Error as error:
        return dict.fromkeys(pairs, str(error))


def _function_of(part, new_gradients):
    class Graphed(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *surface):
            inputs = surface[: len(part.samples)]
            ctx.save_for_backward(*(inputs[k] for k in part.saves))
            outputs = part.run_forward(inputs)
            ctx.mark_non_differentiable(*(o for o, of in zip(outputs, part.outputs) if not of.requires_grad))
            return outputs

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx, *grads):
            return part.run_backward(dict(zip(part.saves, ctx.saved_tensors)), grads, new_gradients)

    def graphed(*arguments):
        flat, form = _pytree.tree_flatten(arguments)
        if form != part.form:
            raise ValueError(f"a graphed callable: the arguments have the form {form}, and were captured with {part.form}")
        outputs = Graphed.apply(*flat, *part.parameters)
        return _pytree.tree_unflatten(list(outputs), part.output_form)

    graphed.rebound = part.reasons
    return graphed


def _install(part, graphed):
    """A module keeps its class, and its forward replays in the mode in which it was captured."""
    module, original = part.function, part.function.forward

    def forward(*arguments):
        return graphed(*arguments) if module.training == part.training else original(*arguments)

    module.forward, module.rebound = forward, part.reasons
    return module


def make_graphed_callables(
    callables, sample_args, num_warmup_iters=3, allow_unused_input=False, pool=None, *, rebind=True, new_gradients=True
):
    """torch.cuda.make_graphed_callables, on CUDAGraph of this module.

    - An input, or the gradient of an output, is not copied where a second capture proves which words of the graphs follow it: the
      graphs take its address. `rebound` of the result has the reason of each that is copied: {"input 0": "", "gradient 0": ...}.
      rebind=False copies all, as torch does.
    - Gradients are new tensors. new_gradients=False: the graph's own, which the next backward overwrites, as torch's are.
    - Captures of all callables are made four times, into one pool. The functions run with other memory each time.
    - As in torch: callables are captured in the order given, and called in it, each forward before its backward; a module runs
      as it was where its training mode differs; hooks and the cache of autocast are refused; outputs are overwritten by the
      next call.
    """
    if torch.is_autocast_enabled() and torch.is_autocast_cache_enabled():
        raise RuntimeError("make_graphed_callables: casts that autocast caches would be the graphs'; set cache_enabled=False")
    single = not isinstance(callables, (tuple, list))
    if single:
        callables, sample_args = (callables,), (sample_args,)
    if len(callables) != len(sample_args):
        raise ValueError(f"make_graphed_callables: {len(callables)} callables, and sample_args of {len(sample_args)}")
    places = _Places()
    parts = [_Part(function, arguments, places, rebind) for function, arguments in zip(callables, sample_args)]
    pool = torch.cuda.graph_pool_handle() if pool is None else pool
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):
        for part in parts:
            part.warm_up(num_warmup_iters, allow_unused_input)
    torch.cuda.synchronize()
    devices = {x.device for part in parts for x in (*part.samples, *part.parameters) if x.is_cuda}
    others = []
    with _no_collection():
        for which in (0, 0, 1) if rebind else ():  # the first two make the pool's segments: later captures find them alike
            others.append(_Round(parts, which, pool, allow_unused_input))
            others[-1].outputs = others[-1].grads = None
            if any(others[-1].backward):
                _wait_for_autograd(devices)
        real = _Round(parts, 0, pool, allow_unused_input)
    results = []
    for i, part in enumerate(parts):
        if rebind:
            part.prove(real, others[2], i)
        part.take(real, i)
        graphed = _function_of(part, new_gradients)
        results.append(_install(part, graphed) if part.module else graphed)
    return results[0] if single else tuple(results)
