# SPDX-License-Identifier: MIT
"""tests/oracle/oracle.py: holds the results of oracle.c against PyTorch: every operator and its gradients, from the same inputs.

usage: oracle.py FILE.safetensors [cpu|cuda]
The file holds, for each case NAME: NAME.in0.., NAME.out0.., NAME.weight0.. (what the outputs are summed with) and NAME.grad0.. .
Exit status: 0 all agree, 1 some do not, 77 where PyTorch is missing."""
import json
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


def check(tensors, case, device):
    name = case.split(":")[0]
    inputs = numbered(tensors, case, "in", device)
    grads = numbered(tensors, case, "grad", device)
    weights = numbered(tensors, case, "weight", device)
    operands = [inputs[i].requires_grad_() if i in grads else inputs[i] for i in sorted(inputs)]
    outputs = CASES[name](*operands)
    results = [("out0", worst(numbered(tensors, case, "out", device)[0], outputs.detach()), outputs.dtype)]
    if grads:
        made = torch.autograd.grad((outputs * weights[0]).sum(), [operands[i] for i in sorted(grads)])
        results += [(f"grad{i}", worst(grads[i], g), g.dtype) for i, g in zip(sorted(grads), made)]
    return results


def main():
    if len(sys.argv) not in (2, 3):
        print(__doc__, file=sys.stderr)
        return 2
    device = sys.argv[2] if len(sys.argv) > 2 else "cpu"
    torch.backends.cuda.matmul.allow_tf32 = False
    tensors = read(sys.argv[1])
    cases = sorted({name.rsplit(".", 1)[0] for name in tensors})
    failed, most = 0, {}
    for case in cases:
        for what, difference, dtype in check(tensors, case, device):
            bound = BOUNDS.get(dtype, 0.0)
            most[dtype] = max(most.get(dtype, (0.0, "")), (difference, f"{case} {what}"))
            if not difference <= bound:
                print(f"{case} {what}: differs by {difference:.3g}, allowed {bound:.3g}")
                failed += 1
    for dtype, (difference, where) in most.items():
        print(f"{str(dtype):<16} at most {difference:.3g} (bound {BOUNDS.get(dtype, 0.0):.3g}): {where}")
    print(f"{len(cases)} cases against PyTorch {torch.__version__} on {device}: {'all agree' if failed == 0 else f'{failed} differ'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
