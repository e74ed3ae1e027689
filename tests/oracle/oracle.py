# SPDX-License-Identifier: MIT
"""tests/oracle/oracle.py: holds the results of oracle.c against PyTorch: every operator and its gradients, from the same inputs; and those of
oracle_autocast.c, which ran under autocast, against PyTorch's under torch.autocast.

usage: oracle.py FILE.safetensors [cpu|cuda]
The file holds, for each case NAME: NAME.in0.., NAME.out0.., NAME.weight0.. (what the outputs are summed with) and NAME.grad0.. .

Results must be within a bound of PyTorch's in the same dtype, of 1 + |value|. For f16 and bf16, where PyTorch rounds after each of an
operator's steps as we do, what counts is the exact result: PyTorch's in float64 from the same inputs, rounded once. There a result must be
within the bound of that, or no farther from it at worst than PyTorch's own result in f16 or bf16 is.

Cases autocast/NAME/DTYPES: a letter for each operand: f (f32), h (the dtype to cast to) or i (an index). The result's dtype must be PyTorch's, but
where UNLIKE_PYTORCH gives a reason; gradients have their operands'. Differences are parts of s + |value|, s being the tensor's largest value, or 1
where that is less: gradients of a mean are small, and would pass unseen beside 1. The exact result is PyTorch's in float64 without autocast.
* The bound is that of the result's dtype, and a result may as above be as far off as PyTorch's own is. Where PyTorch's dtype is another, its own
  is no measure: the bound alone counts.
* CAST_DOWN: float64 begins with the operands as they are once cast: nearly all of the error is theirs, the same here and in PyTorch, and would hide
  all else. What then follows is rounded to the dtype to cast to, f32 gradients too: that dtype's bound.
* NETS: float64 begins with what is given. Operands, results, and on the way back gradients, are rounded again and again, each time by as
  much here as in PyTorch, but not the same (sums are split otherwise, and from the first difference on other numbers are rounded); and what is
  compared is the worst of thousands, which of two equally good results differs. A result may be twice as far off as PyTorch's own.

Cases optimizer/NAME: NAME.in0.. are parameters, to which each step gives the next of NAME.step0.. as gradients and makes the next of NAME.out0.. .
Exit status: 0 all agree, 1 some do not, 77 where PyTorch is missing."""
import contextlib
import json
import math
import struct
import sys

try:
    import torch
    import torch.nn.functional as F
except ImportError as missing:
    print(f"oracle: needs PyTorch: {missing}")
    sys.exit(77)

DTYPES = {"F32": torch.float32, "F64": torch.float64, "F16": torch.float16, "BF16": torch.bfloat16, "I32": torch.int32,
          "I64": torch.int64, "U8": torch.uint8, "BOOL": torch.bool}
BOUNDS = {torch.float32: 1e-5, torch.float64: 1e-12, torch.float16: 4e-3, torch.bfloat16: 3.2e-2}
HALVES = (torch.float16, torch.bfloat16)
AUTOCAST_DTYPES = {"f16": torch.float16, "bf16": torch.bfloat16}


def heads(function):
    """Attention of which each of the fewer heads of keys and values serves several of the queries, one behind the other."""
    def grouped(q, k, v):
        times = q.shape[-3] // k.shape[-3]
        return function(q, k.repeat_interleave(times, -3), v.repeat_interleave(times, -3))
    return grouped


def attention(q, k, v):
    return F.scaled_dot_product_attention(q, k, v)


def attention_causal(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def attention_longer_keys(q, k, v):
    """The last query sees all keys: PyTorch's is_causal lets the first see the first only."""
    tq, tk = q.shape[-2], k.shape[-2]
    mask = torch.ones(tq, tk, dtype=torch.bool, device=q.device).tril(tk - tq)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def attention_strided(q, k, v):
    return attention_causal(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2))


def squared(x):
    return x * x


def split(x):
    a, b, c, _ = x.split((10, 10, 10, 3), 1)
    return a * 3 + b * -0.5 + c


def split_concat(x):
    a, b, c = x.split((2, 1, 4), -1)
    return torch.cat((c * 3, a, squared(b)), 2)


# The same names as in oracle.c and oracle_more.c.
CASES = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / (b.abs() + 0.5),
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "add_scalar": lambda x: x + 1.5,
    "mul_scalar": lambda x: x * -0.75,
    "pow_scalar": lambda x: x ** 3,
    "neg": lambda x: -x,
    "abs": torch.abs,
    "clamp": lambda x: x.clamp(-0.5, 0.5),
    "eq": torch.eq, "ne": torch.ne, "lt": torch.lt, "le": torch.le, "gt": torch.gt, "ge": torch.ge,
    "where": lambda a, b: torch.where(a > b, a, b * 2),
    "exp": torch.exp, "log": lambda x: torch.log(x.abs() + 0.5), "sqrt": lambda x: torch.sqrt(x.abs() + 0.5),
    "rsqrt": lambda x: torch.rsqrt(x.abs() + 0.5), "square": torch.square, "tanh": torch.tanh, "sigmoid": torch.sigmoid,
    "relu": torch.relu, "gelu": F.gelu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "silu": F.silu,
    "leaky_relu": lambda x: F.leaky_relu(x, 0.1),
    "matmul": torch.matmul, "matmul_batched": torch.matmul, "linear": F.linear,
    "sum": torch.sum, "sum_over": lambda x: x.sum((0, 2)), "mean": torch.mean, "mean_over": lambda x: x.mean((1,), keepdim=True),
    "max": torch.max, "max_over": lambda x: x.amax((0, 2)), "argmax": lambda x: x.argmax(1),
    "norm": lambda x: torch.linalg.vector_norm(x, 2), "norm_over": lambda x: torch.linalg.vector_norm(x, 3, (0, 1)),
    "softmax": lambda x: F.softmax(x, 1), "log_softmax": lambda x: F.log_softmax(x, -1),
    "layer_norm": lambda x, w, b: F.layer_norm(x, x.shape[-1:], w, b),
    "rms_norm": lambda x, w: F.rms_norm(x, x.shape[-1:], w, 1e-5),
    "cross_entropy": lambda x, y: F.cross_entropy(x, y),
    "mse": F.mse_loss, "embedding": lambda w, i: F.embedding(i, w),
    "gather": lambda x, i: torch.gather(x, 1, i),
    "scatter_add": lambda x, i, s: torch.scatter_add(x, 1, i, s),
    "index_select": lambda x, i: torch.index_select(x, 1, i),
    "concat": lambda a, b: torch.cat((a, b), 1), "stack": lambda a, b: torch.stack((a, b), 1),
    "attention": attention, "attention_causal": attention_causal,
    # views
    "slice_step": lambda x: squared(x[:, 3:30:4]), "slice_negative": lambda x: squared(x[..., -4:-1]),
    "select": lambda x: squared(x.select(1, -2)), "permute_reshape": lambda x: squared(x.permute(2, 0, 1).reshape(35, 33)),
    "expand": lambda x: squared(x.expand(5, 33, 7)), "flatten": lambda x: squared(x.transpose(0, 2).flatten(0, 1)),
    "squeeze": lambda x: squared(x.unsqueeze(1).squeeze(2)), "split": split, "split_concat": split_concat,
    # casts
    "cast_f16": lambda x: x.to(torch.float16), "cast_bf16": lambda x: x.to(torch.bfloat16),
    "cast_f32": lambda x: x.to(torch.float32), "cast_f64": lambda x: x.to(torch.float64),
    "cast_i32": lambda x: x.to(torch.int32), "cast_bool": lambda x: x.to(torch.int32).to(torch.bool),
    "cast_f16_back": lambda x: x.to(torch.float16).to(x.dtype), "cast_bf16_back": lambda x: x.to(torch.bfloat16).to(x.dtype),
    "cast_f64_back": lambda x: x.to(torch.float64).to(x.dtype), "cast_i32_back": lambda x: x.to(torch.int32).to(x.dtype),
    # masks and scatter
    "logical_and": lambda a, b: torch.logical_and(a > 0, b > 0), "logical_or": lambda a, b: torch.logical_or(a > 0, b > 0),
    "logical_not": lambda x: torch.logical_not(x > 0),
    "masked_fill": lambda x: x.masked_fill(x > 0, -2.5), "masked_fill_row": lambda x: x.masked_fill(x[1] > 0, -2.5),
    "masked_softmax": lambda x: F.softmax(x.masked_fill(x > 0, -math.inf), 1),
    "scatter": lambda x, i, s: torch.scatter(x, 1, i, s),
    # losses
    "cross_entropy_sum": lambda x, y: F.cross_entropy(x, y, reduction="sum"),
    "cross_entropy_none": lambda x, y: F.cross_entropy(x, y, reduction="none"),
    "cross_entropy_ignore": lambda x, y: F.cross_entropy(x, y, ignore_index=3),
    "cross_entropy_ignore_sum": lambda x, y: F.cross_entropy(x, y, ignore_index=3, reduction="sum"),
    "cross_entropy_ignore_none": lambda x, y: F.cross_entropy(x, y, ignore_index=3, reduction="none"),
    "cross_entropy_classes": lambda x, y: F.cross_entropy(x[:, :19], y),
    # attention
    "attention_grouped": heads(attention), "attention_grouped_causal": heads(attention_causal),
    "attention_d24": attention, "attention_d128": attention, "attention_d200": attention,
    "attention_d24_causal": attention_causal, "attention_d128_causal": attention_causal, "attention_d200_causal": attention_causal,
    "attention_longer_keys": attention_longer_keys, "attention_strided": attention_strided,
    "attention_scale": lambda q, k, v: F.scaled_dot_product_attention(q, k, v, scale=0.3),
    # operands with strides
    "matmul_left": lambda a, b: a.T @ b, "matmul_right": lambda a, b: a @ b.mT, "matmul_both": lambda a, b: a.mT @ b.mT,
    "matmul_sliced": lambda a, b: a[:, :80:2] @ b[:, 3:30],
    "linear_strided": lambda x, w, b: F.linear(x.transpose(0, 2), w.T, b),
    "add_strided": lambda a, b: a.transpose(0, 2) + b[:, :66:2], "mul_strided": lambda a, b: a.transpose(0, 2) * b,
    "softmax_strided": lambda x: F.softmax(x.transpose(0, 2), -1), "softmax_strided_middle": lambda x: F.softmax(x.transpose(0, 1), 1),
    "layer_norm_strided": lambda x, w, b: F.layer_norm(x.transpose(0, 2), w.shape, w, b),
    "gelu_strided": lambda x: F.gelu(x[:, 1:33:3]), "sum_strided": lambda x: x.transpose(0, 2).sum((0, 1)),
    "max_strided": lambda x: x.transpose(0, 2).amax(1, keepdim=True),
    "cross_entropy_strided": lambda x, y: F.cross_entropy(x.T, y), "index_strided": lambda w, i: F.embedding(i.T, w.T),
    # empty operands
    "empty_add": lambda a, b: a + b, "empty_sum": torch.sum, "empty_sum_rows": lambda x: x.sum(0),
    "empty_sum_columns": lambda x: x.sum(1), "empty_mean": torch.mean, "empty_softmax": lambda x: F.softmax(x, 1),
    "empty_slice": lambda x: squared(x[:, 4:2]), "empty_matmul": torch.matmul, "empty_concat": lambda a, b: torch.cat((a, b), 0),
}
# What moves numbers, or rounds each once: to the bit.
EXACT = ("scatter", "masked_fill", "masked_fill_row", "cast_f16", "cast_bf16", "cast_f32", "cast_f64", "cast_f16_back", "cast_bf16_back",
         "cast_f64_back", "cast_i32_back")

class Lion(torch.optim.Optimizer):
    """Chen et al. 2023, Symbolic Discovery of Optimization Algorithms, algorithm 2: PyTorch has none."""
    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0, maximize=False):
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay, "maximize": maximize})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            first, second = group["betas"]
            for parameter in group["params"]:
                grad = -parameter.grad if group["maximize"] else parameter.grad
                momentum = self.state[parameter].setdefault("exp_avg", torch.zeros_like(parameter))
                update = (first * momentum + (1 - first) * grad).sign()
                parameter.sub_(group["lr"] * (update + group["weight_decay"] * parameter))
                momentum.copy_(second * momentum + (1 - second) * grad)


# The same names as in oracle_optimizers.c.
OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
    "sgd_decay": lambda p: torch.optim.SGD(p, lr=0.1, weight_decay=0.05),
    "sgd_momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "sgd_dampening": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.3, weight_decay=0.05),
    "sgd_nesterov": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    "sgd_nesterov_decay": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.05, nesterov=True),
    "sgd_maximize": lambda p: torch.optim.SGD(p, lr=0.1, weight_decay=0.05, maximize=True),
    "sgd_maximize_momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.3, weight_decay=0.05, maximize=True),
    "sgd_maximize_nesterov": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, maximize=True),
    "adam": torch.optim.Adam,
    "adam_decay": lambda p: torch.optim.Adam(p, lr=0.02, weight_decay=0.05),
    "adam_betas": lambda p: torch.optim.Adam(p, lr=0.02, betas=(0.8, 0.95), eps=1e-3),
    "adam_maximize": lambda p: torch.optim.Adam(p, lr=0.02, weight_decay=0.05, maximize=True),
    "adam_amsgrad": lambda p: torch.optim.Adam(p, lr=0.02, betas=(0.9, 0.5), amsgrad=True),
    "adam_maximize_amsgrad": lambda p: torch.optim.Adam(p, lr=0.02, betas=(0.9, 0.5), weight_decay=0.05, maximize=True, amsgrad=True),
    "adamw": torch.optim.AdamW,
    "adamw_decay": lambda p: torch.optim.AdamW(p, lr=0.02, weight_decay=0.2),
    "adamw_no_decay": lambda p: torch.optim.AdamW(p, lr=0.02, weight_decay=0),
    "adamw_maximize": lambda p: torch.optim.AdamW(p, lr=0.02, weight_decay=0.2, maximize=True),
    "adamw_amsgrad": lambda p: torch.optim.AdamW(p, lr=0.02, betas=(0.9, 0.5), amsgrad=True),
    "adamw_maximize_amsgrad": lambda p: torch.optim.AdamW(p, lr=0.02, betas=(0.9, 0.5), weight_decay=0.2, maximize=True, amsgrad=True),
    "rmsprop": torch.optim.RMSprop,
    "rmsprop_momentum": lambda p: torch.optim.RMSprop(p, lr=0.02, momentum=0.9),
    "rmsprop_centered": lambda p: torch.optim.RMSprop(p, lr=0.02, centered=True, eps=1e-3),
    "rmsprop_decay": lambda p: torch.optim.RMSprop(p, lr=0.02, alpha=0.9, eps=1e-3, weight_decay=0.05),
    "rmsprop_all": lambda p: torch.optim.RMSprop(p, lr=0.02, alpha=0.9, eps=1e-3, weight_decay=0.05, momentum=0.9, centered=True, maximize=True),
    "nadam": torch.optim.NAdam,
    "nadam_decay": lambda p: torch.optim.NAdam(p, lr=0.02, weight_decay=0.05, momentum_decay=6e-3),
    "nadam_decoupled": lambda p: torch.optim.NAdam(p, lr=0.02, weight_decay=0.2, decoupled_weight_decay=True),
    "nadam_betas": lambda p: torch.optim.NAdam(p, lr=0.02, betas=(0.8, 0.95), eps=1e-3, momentum_decay=0, maximize=True),
    "radam": torch.optim.RAdam,
    "radam_decay": lambda p: torch.optim.RAdam(p, lr=0.02, weight_decay=0.05),
    "radam_decoupled": lambda p: torch.optim.RAdam(p, lr=0.02, weight_decay=0.2, decoupled_weight_decay=True),
    "radam_betas": lambda p: torch.optim.RAdam(p, lr=0.02, betas=(0.8, 0.95), eps=1e-3, maximize=True),
    "adamax": torch.optim.Adamax,
    "adamax_decay": lambda p: torch.optim.Adamax(p, lr=0.02, weight_decay=0.05),
    "adamax_betas": lambda p: torch.optim.Adamax(p, lr=0.02, betas=(0.8, 0.95), eps=1e-3, weight_decay=0.05, maximize=True),
    "adadelta": torch.optim.Adadelta,
    "adadelta_decay": lambda p: torch.optim.Adadelta(p, lr=0.5, weight_decay=0.05),
    "adadelta_all": lambda p: torch.optim.Adadelta(p, lr=0.5, rho=0.8, eps=1e-3, weight_decay=0.05, maximize=True),
    "adagrad": torch.optim.Adagrad,
    "adagrad_decay": lambda p: torch.optim.Adagrad(p, lr=0.1, lr_decay=0.1, weight_decay=0.05),
    "adagrad_all": lambda p: torch.optim.Adagrad(p, lr=0.1, lr_decay=0.1, weight_decay=0.05, initial_accumulator_value=0.5, eps=1e-3, maximize=True),
    "asgd": torch.optim.ASGD,
    "asgd_averaging": lambda p: torch.optim.ASGD(p, lr=0.1, t0=10),
    "asgd_all": lambda p: torch.optim.ASGD(p, lr=0.1, lambd=0.01, alpha=0.5, t0=5, weight_decay=0.05, maximize=True),
    "rprop": torch.optim.Rprop,
    "rprop_etas": lambda p: torch.optim.Rprop(p, lr=0.02, etas=(0.4, 1.5), step_sizes=(1e-3, 0.1)),
    "rprop_maximize": lambda p: torch.optim.Rprop(p, lr=0.02, maximize=True),
    "lion": Lion,
    "lion_decay": lambda p: Lion(p, lr=0.01, weight_decay=0.2),
    "lion_betas": lambda p: Lion(p, lr=0.01, betas=(0.8, 0.95), weight_decay=0.2, maximize=True),
    "adam_groups": lambda p: torch.optim.Adam([{"params": p[1:], "lr": 0.1, "amsgrad": True}, {"params": p[:1]}], lr=0.02, weight_decay=0.05),
    "rmsprop_groups": lambda p: torch.optim.RMSprop(
        [{"params": p[1:], "momentum": 0.9, "centered": True, "eps": 1e-3}, {"params": p[:1]}], lr=0.02, alpha=0.9),
    "sgd_groups": lambda p: torch.optim.SGD([{"params": p[1:], "momentum": 0.9, "nesterov": True}, {"params": p[:1]}], lr=0.1),
}


def block(x, w1, b1, w2, b2, scale, shift):
    h = F.linear(F.gelu(F.linear(x, w1, b1)), w2, b2)
    return F.layer_norm(x + h, x.shape[-1:], scale, shift)


def net(x, *rest):
    """The same block twice: under autocast its weights are cast once."""
    *weights, targets = rest
    return F.cross_entropy(block(block(x, *weights), *weights), targets)


# The same names as in oracle_autocast.c, where they are not also in oracle.c with the same meaning.
AUTOCAST_CASES = {
    "div": torch.div, "log": torch.log, "rsqrt": torch.rsqrt, "sqrt": torch.sqrt, "pow_2": lambda x: x ** 2,
    "mul_rank_0": lambda a, b: a * b.reshape(()),
    "where": lambda a, b: torch.where(a > b, a, b),
    "net": net, "net_no_cache": net,
}
CAST_DOWN = ("matmul", "matmul_batched", "linear", "attention", "attention_causal")
NETS = ("net", "net_no_cache")

# Where the result's dtype may differ from PyTorch's (or PyTorch refuses the operands), and why. Only with an operand of f16 or bf16.
NOT_ON_CPU = "ours casts to f32 on every device; PyTorch's list for the CPU has not got it"
UNLIKE_PYTORCH = {
    "cuda": {
        "rms_norm": "ours casts to f32, as PyTorch does from 2.12 on; before, it is in none of its lists",
    },
    "cpu": {name: NOT_ON_CPU for name in ("exp", "log", "rsqrt", "pow_scalar", "pow_2", "square", "softmax", "log_softmax", "sum", "sum_over",
                                          "norm", "norm_over", "layer_norm", "rms_norm")},
}
UNLIKE_PYTORCH["cpu"]["scatter_add"] = "PyTorch's rule (the widest) is CUDA's alone: on the CPU it refuses two dtypes"
for unlike in UNLIKE_PYTORCH.values():
    unlike["mul_rank_0"] = "to PyTorch a tensor without dimensions has no say in the dtype; ours has no such rule"
notes = {}  # reason -> the cases


def read(path):
    with open(path, "rb") as file:
        size, = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(size))
        data = bytearray(file.read())
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        dtype = DTYPES[entry["dtype"]]
        raw = data[begin:end]
        flat = torch.frombuffer(raw, dtype=dtype).clone() if end > begin else torch.empty(0, dtype=dtype)
        tensors[name] = flat.reshape(entry["shape"])
    return tensors


def numbered(tensors, case, kind, device):
    found = {}
    for name, tensor in tensors.items():
        if name.startswith(f"{case}.{kind}"):
            found[int(name[len(case) + 1 + len(kind):])] = tensor.to(device)
    return found


def worst(got, want, scale=1.0):
    """The largest difference, as a part of scale + |want|."""
    if got.shape != want.shape or got.dtype != want.dtype:
        return float("inf")
    got, want = got.double(), want.double()
    difference = (got - want).abs() / (scale + want.abs())
    difference[(got == want) | (got.isnan() & want.isnan())] = 0  # infinities and NaN that agree
    return difference.max().item() if difference.numel() else 0.0


def run(function, inputs, weight, wanted, exact=False, cast=None, autocast=None):
    """The output, then the gradients of the inputs numbered in `wanted`. exact: in float64, of inputs that were cast before (None: were not)."""
    operands = []
    for i in sorted(inputs):
        operand = inputs[i].detach().clone()
        if exact and operand.is_floating_point():
            operand = (operand if cast is None else operand.to(cast)).double()
        operands.append(operand.requires_grad_() if i in wanted else operand)
    with contextlib.nullcontext() if autocast is None else autocast:
        output = function(*operands)
    if not wanted:
        return [output.detach()]
    grads = torch.autograd.grad(output, [operands[i] for i in wanted], weight.to(output.dtype))
    return [output.detach(), *grads]


def check(tensors, case, device):
    """For each result: what it is, how far it is off, its bound, how far PyTorch's own result allows (0: does not count), its dtype."""
    if case.startswith("optimizer/"):
        return check_optimizer(tensors, case, device)
    inputs = numbered(tensors, case, "in", device)
    ours = numbered(tensors, case, "grad", device)
    weight = numbered(tensors, case, "weight", device).get(0)
    wanted = sorted(ours)
    kinds = ["out0"] + [f"grad{i}" for i in wanted]
    got = [numbered(tensors, case, "out", device)[0]] + [ours[i] for i in wanted]
    if case.startswith("autocast/"):
        return check_autocast(case, device, kinds, got, (inputs, weight, wanted))
    name = case.split(":")[0]
    function = CASES[name]
    own = run(function, inputs, weight, wanted)
    bounds = [0.0 if name in EXACT else BOUNDS.get(result.dtype, 0.0) for result in own]
    if not any(operand.dtype in HALVES for operand in inputs.values()):
        return [(kind, worst(g, want), bound, 0.0, want.dtype) for kind, g, want, bound in zip(kinds, got, own, bounds)]
    results = []
    for kind, g, theirs, reference, bound in zip(kinds, got, own, run(function, inputs, weight, wanted, exact=True), bounds):
        want = reference.to(theirs.dtype)
        results.append((kind, worst(g, want), bound, worst(theirs, want), want.dtype))
    return results


def check_optimizer(tensors, case, device):
    """As check: the parameters after each step."""
    inputs = numbered(tensors, case, "in", device)
    parameters = [inputs[i].detach().clone().requires_grad_() for i in sorted(inputs)]
    grads, outs = numbered(tensors, case, "step", device), numbered(tensors, case, "out", device)
    # The numbers that PyTorch keeps beside the state (NAdam's product, ASGD's rate) are of the default dtype.
    torch.set_default_dtype(parameters[0].dtype)
    try:
        return run_optimizer(OPTIMIZERS[case.split(":")[0].split("/")[1]](parameters), parameters, grads, outs)
    finally:
        torch.set_default_dtype(torch.float32)


def run_optimizer(optimizer, parameters, grads, outs):
    results = []
    for step in range(len(outs) // len(parameters)):
        numbers = [step * len(parameters) + i for i in range(len(parameters))]
        for parameter, number in zip(parameters, numbers):
            parameter.grad = grads[number]
        optimizer.step()
        for parameter, number in zip(parameters, numbers):
            want = parameter.detach()
            results.append((f"out{number}", worst(outs[number], want), BOUNDS[want.dtype], 0.0, want.dtype))
    return results


def run_autocast(function, arguments, autocast, unlike):
    """PyTorch's own results under autocast, and the reason why they do not matter: None where they do."""
    try:
        return run(function, *arguments, autocast=autocast), None
    except RuntimeError as error:
        if unlike is None:
            raise
        return None, f"{unlike} ({error})"


def check_autocast(case, device, kinds, got, arguments):
    """As check. arguments: of run."""
    (_, name, letters), target = case.split(":")[0].split("/"), AUTOCAST_DTYPES[case.split(":")[1]]
    function = AUTOCAST_CASES.get(name) or CASES[name]
    device_type = torch.device(device).type
    autocast = torch.autocast(device_type, dtype=target, cache_enabled=name != "net_no_cache")
    unlike = UNLIKE_PYTORCH[device_type].get(name) if "h" in letters else None
    own, reason = run_autocast(function, arguments, autocast, unlike)
    if own is not None and own[0].dtype != got[0].dtype:
        reason = unlike
        if reason is None:
            return [(f"{got[0].dtype}, PyTorch's is {own[0].dtype}", math.inf, 0.0, 0.0, got[0].dtype)]
    if reason:
        notes.setdefault(reason, []).append(case)
    inputs, _, wanted = arguments
    results = []
    dtypes = [got[0].dtype] + [inputs[i].dtype for i in wanted]
    exact = run(function, *arguments, exact=True, cast=target if name in CAST_DOWN else None)
    for i, reference in enumerate(exact):
        want = reference.to(dtypes[i])
        scale = min(1.0, want.double().abs().max().item())
        bound = BOUNDS.get(target if name in CAST_DOWN + NETS else want.dtype, 0.0)
        theirs = 0.0 if reason else worst(own[i].to(want.dtype), want, scale)
        results.append((kinds[i], worst(got[i], want, scale), bound, theirs * (2 if name in NETS else 1), want.dtype))
    return results


def report(case, results, most):
    """Prints what does not agree, and what agrees beyond its bound. How many results are the one, and the other."""
    failed, beyond = 0, 0
    group = "autocast " if case.startswith("autocast/") else ""
    for what, difference, bound, theirs, dtype in results:
        allowed = max(bound, theirs) if math.isfinite(theirs) else bound
        key = (f"{group}{dtype}", bound)
        most[key] = max(most.get(key, (0.0, "")), (difference, f"{case} {what}"))
        if not difference <= allowed:
            print(f"{case} {what}: differs by {difference:.3g}, allowed {allowed:.3g}")
            failed += 1
        elif difference > bound:
            print(f"{case} {what}: differs by {difference:.3g}, PyTorch's own result allows {allowed:.3g}")
            beyond += 1
    return failed, beyond


def main():
    if len(sys.argv) not in (2, 3):
        print(__doc__, file=sys.stderr)
        return 2
    device = sys.argv[2] if len(sys.argv) > 2 else "cpu"
    torch.backends.cuda.matmul.allow_tf32 = False
    tensors = read(sys.argv[1])
    cases = sorted({name.rsplit(".", 1)[0] for name in tensors})
    failed, beyond, most = 0, 0, {}
    for case in cases:
        try:
            results = check(tensors, case, device)
        except (RuntimeError, AttributeError, TypeError) as error:  # of PyTorch's, or it lacks the operator
            print(f"{case}: {error}")
            results = [("PyTorch", float("inf"), 0.0, 0.0, None)]
        more_failed, more_beyond = report(case, results, most)
        failed, beyond = failed + more_failed, beyond + more_beyond
    for reason, noted in notes.items():
        print(f"dtype not PyTorch's: {', '.join(noted)}: {reason}")
    for (group, bound), (difference, where) in sorted(most.items()):
        print(f"{group:<24} at most {difference:.3g} (bound {bound:.3g}): {where}")
    verdict = f"{failed} results differ" if failed else "all agree"
    if beyond:
        verdict += f", {beyond} beyond the bound, but no farther off than PyTorch's own (for nets: than twice that)"
    print(f"{len(cases)} cases against PyTorch {torch.__version__} on {device}: {verdict}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
