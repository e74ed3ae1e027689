# SPDX-License-Identifier: MIT
"""tests/oracle/oracle.py: holds the results of oracle.c against PyTorch: every operator and its gradients, from the same inputs.

usage: oracle.py FILE.safetensors [cpu|cuda]
The file holds, for each case NAME: NAME.in0.., NAME.out0.., NAME.weight0.. (what the outputs are summed with) and NAME.grad0.. .

Results must be within a bound of PyTorch's in the same dtype, of 1 + |value|. For f16 and bf16, where PyTorch rounds after each of an
operator's steps as we do, what counts is the exact result: PyTorch's in float64 from the same inputs, rounded once. There a result must be
within the bound of that, or no farther from it at worst than PyTorch's own result in f16 or bf16 is.
Exit status: 0 all agree, 1 some do not, 77 where PyTorch is missing."""
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

# The same names as in oracle.c.
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
    "mse": F.mse_loss,
    "embedding": lambda w, i: F.embedding(i, w),
    "gather": lambda x, i: torch.gather(x, 1, i),
    "scatter_add": lambda x, i, s: torch.scatter_add(x, 1, i, s),
    "index_select": lambda x, i: torch.index_select(x, 1, i),
    "concat": lambda a, b: torch.cat((a, b), 1),
    "stack": lambda a, b: torch.stack((a, b), 1),
    "attention": lambda q, k, v: F.scaled_dot_product_attention(q, k, v),
    "attention_causal": lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
}


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


def worst(got, want):
    """The largest difference, as a part of 1 + |want|."""
    if got.shape != want.shape or got.dtype != want.dtype:
        return float("inf")
    got, want = got.double(), want.double()
    difference = (got - want).abs() / (1 + want.abs())
    difference[(got == want) | (got.isnan() & want.isnan())] = 0  # infinities and NaN that agree
    return difference.max().item() if difference.numel() else 0.0


def run(name, inputs, weight, wanted, exact):
    """The output, and the gradients of the inputs numbered in `wanted`. exact: in float64."""
    operands = []
    for i in sorted(inputs):
        operand = inputs[i].detach()
        if exact and operand.is_floating_point():
            operand = operand.double()
        operands.append(operand.requires_grad_() if i in wanted else operand)
    output = CASES[name](*operands)
    if not wanted:
        return output.detach(), []
    if exact:
        weight = weight.double()
    return output.detach(), torch.autograd.grad((output * weight).sum(), [operands[i] for i in wanted])


def check(tensors, case, device):
    """For each result: what it is, how far it is off, how far it may be, its dtype."""
    name = case.split(":")[0]
    inputs = numbered(tensors, case, "in", device)
    ours = numbered(tensors, case, "grad", device)
    weight = numbered(tensors, case, "weight", device).get(0)
    wanted = sorted(ours)
    kinds = ["out0"] + [f"grad{i}" for i in wanted]
    got = [numbered(tensors, case, "out", device)[0]] + [ours[i] for i in wanted]
    output, grads = run(name, inputs, weight, wanted, False)
    own = [output, *grads]
    bounds = [BOUNDS.get(result.dtype, 0.0) for result in own]
    if not any(operand.dtype in HALVES for operand in inputs.values()):
        return [(kind, worst(g, want), bound, want.dtype) for kind, g, want, bound in zip(kinds, got, own, bounds)]
    output, grads = run(name, inputs, weight, wanted, True)
    results = []
    for kind, g, theirs, reference, bound in zip(kinds, got, own, [output, *grads], bounds):
        want = reference.to(theirs.dtype)
        theirs_off = worst(theirs, want)
        allowed = max(bound, theirs_off) if math.isfinite(theirs_off) else bound
        results.append((kind, worst(g, want), allowed, want.dtype))
    return results


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
        for what, difference, allowed, dtype in check(tensors, case, device):
            most[dtype] = max(most.get(dtype, (0.0, "")), (difference, f"{case} {what}"))
            if not difference <= allowed:
                print(f"{case} {what}: differs by {difference:.3g}, allowed {allowed:.3g}")
                failed += 1
            elif difference > BOUNDS.get(dtype, 0.0):
                print(f"{case} {what}: differs by {difference:.3g}, PyTorch's own result by {allowed:.3g}")
                beyond += 1
    for dtype, (difference, where) in most.items():
        print(f"{str(dtype):<16} at most {difference:.3g} (bound {BOUNDS.get(dtype, 0.0):.3g}): {where}")
    verdict = f"{failed} results differ" if failed else "all agree"
    if beyond:
        verdict += f", {beyond} beyond the bound, but no farther off than PyTorch's own"
    print(f"{len(cases)} cases against PyTorch {torch.__version__} on {device}: {verdict}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
