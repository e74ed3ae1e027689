# SPDX-License-Identifier: MIT
"""bench/torch_nn.py: PyTorch's side of bench/nn_mlp.c, nn_kernels.c and nn_gpt2.c: the same networks and sizes on the GPU.

usage: torch_nn.py [rounds] [file to append JSON lines to]
Eager calls include what Python takes to make them. Ends with 77 and one line where PyTorch or a GPU is missing."""
import json
import sys
import time

NO_GPU = 77
REPEATS = 20


def load_torch():
    try:
        import torch
    except ImportError as error:
        print(f"torch_nn: needs PyTorch: {error}")
        sys.exit(NO_GPU)
    if not torch.cuda.is_available():
        print("torch_nn: needs a GPU: torch.cuda.is_available() says no")
        sys.exit(NO_GPU)
    return torch


class Timing:
    bench = "torch_nn"

    def __init__(self, torch, rounds, out):
        self.torch, self.rounds, self.out = torch, rounds, out
        self.stream = torch.cuda.Stream()
        print(f"{'us':<44} {'side':<10} {'cpu':>12} {'whole':>12}")

    def run(self, body, rounds, count=1, warm_up=10):
        cpu, whole = [], []
        for i in range(-warm_up, rounds):
            start = time.perf_counter_ns()
            body()
            submitted = time.perf_counter_ns()
            self.stream.synchronize()
            if i >= 0:
                cpu.append(submitted - start)
                whole.append(time.perf_counter_ns() - start)
        cpu.sort()
        whole.sort()
        return cpu[len(cpu) // 2] / count, whole[len(whole) // 2] / count

    def replays(self, body, rounds, count=1):
        for _ in range(3):
            body()
        self.torch.cuda.synchronize()
        graph = self.torch.cuda.CUDAGraph()
        with self.torch.cuda.graph(graph, stream=self.stream):
            body()
        return self.run(graph.replay, rounds, count)

    def line(self, what, side, result):
        print(f"{what:<44} {side:<10} {result[0] / 1e3:>12.2f} {result[1] / 1e3:>12.2f}", flush=True)
        if self.out:
            self.out.write(json.dumps({"bench": self.bench, "what": what, "side": f"torch {side}", "cpu_ns": result[0],
                                       "whole_ns": result[1], "rounds": self.rounds, "torch": self.torch.__version__}) + "\n")


def mlp(torch, t):
    layers = []
    for _ in range(8):
        layers += [torch.nn.Linear(256, 256), torch.nn.ReLU()]
    net = torch.nn.Sequential(*layers).cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3, foreach=True)
    x, y = torch.randn(32, 256, device="cuda"), torch.randn(32, 256, device="cuda")

    def forward():
        with torch.no_grad():
            net(x)

    def forward_backward():
        net.zero_grad(set_to_none=True)
        torch.nn.functional.mse_loss(net(x), y).backward()

    def step():
        optimizer.zero_grad(set_to_none=True)
        torch.nn.functional.mse_loss(net(x), y).backward()
        optimizer.step()

    for what, body in (("forward", forward), ("forward + backward", forward_backward), ("training step", step)):
        t.line(what, "eager", t.run(body, t.rounds))
        t.line(what, "graph", t.replays(body, t.rounds))


def kernels(torch, t, dtype, name):
    functional = torch.nn.functional
    torch.utils.deterministic.fill_uninitialized_memory = False  # a check of theirs, no part of the operator
    rows = 4096

    def leaf(*shape):
        return torch.randn(*shape, device="cuda").to(dtype).requires_grad_()

    heads = [leaf(4, 12, 1024, 64) for _ in range(3)]
    scores, wide, hidden, logits = leaf(rows, 1024), leaf(rows, 768), leaf(rows, 3072), leaf(rows, 50257)
    one, other, weight, bias = leaf(768), leaf(768), leaf(3072, 768), leaf(3072)
    target = torch.randint(0, 50257, (rows,), device="cuda")
    cases = [
        ("attention", lambda: functional.scaled_dot_product_attention(*heads, is_causal=True), heads),
        ("softmax", lambda: functional.softmax(scores, -1), [scores]),
        ("layer_norm", lambda: functional.layer_norm(wide, (768,), one, other), [wide, one, other]),
        ("gelu", lambda: functional.gelu(hidden, approximate="tanh"), [hidden]),
        ("linear", lambda: functional.linear(wide, weight, bias), [wide, weight, bias]),
        ("cross_entropy", lambda: functional.cross_entropy(logits, target), [logits]),
    ]
    for what, apply, inputs in cases:
        grad = torch.randn_like(apply())

        def forward():
            with torch.no_grad():
                for _ in range(REPEATS):
                    apply()

        def both():
            for _ in range(REPEATS):
                y = apply()
                torch.autograd.grad(y, inputs, grad if y.dim() else None)

        rounds = max(1, t.rounds // 10)
        # Of ours, attention alone has another way where results need not repeat.
        for order in (", any order", "") if what == "attention" and dtype == torch.bfloat16 else ("",):
            torch.use_deterministic_algorithms(what == "attention" and not order)
            t.line(f"{what}{order}, {name}", "graph", t.replays(forward, rounds, REPEATS))
            t.line(f"{what}{order}, {name}, forward + backward", "graph", t.replays(both, rounds, REPEATS))
            torch.use_deterministic_algorithms(False)


def make_gpt2(torch):
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(768), nn.LayerNorm(768)
            self.qkv, self.project = nn.Linear(768, 3 * 768), nn.Linear(768, 768)
            self.up, self.down = nn.Linear(768, 3072), nn.Linear(3072, 768)

        def forward(self, x):
            b, n, c = x.shape
            q, k, v = self.qkv(self.norm1(x)).view(b, n, 3, 12, 64).permute(2, 0, 3, 1, 4)
            y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.project(y.transpose(1, 2).reshape(b, n, c))
            return x + self.down(nn.functional.gelu(self.up(self.norm2(x)), approximate="tanh"))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.token, self.position = nn.Embedding(50257, 768), nn.Embedding(1024, 768)
            self.blocks = nn.Sequential(*[Block() for _ in range(12)])
            self.norm = nn.LayerNorm(768)

        def forward(self, x):
            places = torch.arange(x.shape[1], device=x.device)
            h = self.norm(self.blocks(self.token(x) + self.position(places)))
            return nn.functional.linear(h, self.token.weight)

    return Model().cuda()


def gpt2(torch, t):
    model = make_gpt2(torch)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.1, fused=True, capturable=True)
    for batch, length, half in ((4, 64, False), (4, 1024, False), (4, 64, True), (4, 1024, True)):
        x, y = (torch.randint(0, 50257, (batch, length), device="cuda") for _ in range(2))

        def step():
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast("cuda", torch.bfloat16, enabled=half):
                logits = model(x)
                loss = torch.nn.functional.cross_entropy(logits.view(-1, 50257), y.view(-1))
            loss.backward()
            optimizer.step()

        rounds = max(1, t.rounds // 10)
        what = f"GPT-2 step, batch {batch} x {length}" + (", bf16" if half else "")
        torch.cuda.reset_peak_memory_stats()
        t.line(what, "eager", t.run(step, rounds, warm_up=5))
        t.line(what, "graph", t.replays(step, rounds))
        stats = torch.cuda.memory_stats()
        print(f"  {stats['allocated_bytes.all.peak'] / 2**20:.0f} MiB in use at most, "
              f"{stats['reserved_bytes.all.peak'] / 2**20:.0f} MiB reserved at most")


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 301
    if rounds < 1 or len(sys.argv) > 3:
        print(__doc__, file=sys.stderr)
        return 2
    torch = load_torch()
    torch.backends.cuda.matmul.allow_tf32 = False
    out = open(sys.argv[2], "a", encoding="utf-8") if len(sys.argv) > 2 else None
    print(f"torch_nn: {torch.cuda.get_device_name()}, PyTorch {torch.__version__}, CUDA {torch.version.cuda}, "
          f"Python {sys.version.split()[0]}; medians of {rounds} rounds (a tenth for the large ones)")
    t = Timing(torch, rounds, out)
    with torch.cuda.stream(t.stream):
        mlp(torch, t)
        torch.backends.cuda.matmul.allow_tf32 = True
        kernels(torch, t, torch.float32, "f32")
        kernels(torch, t, torch.bfloat16, "bf16")
        gpt2(torch, t)
    if out:
        out.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
