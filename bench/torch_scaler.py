# SPDX-License-Identifier: MIT
"""bench/torch_scaler.py: PyTorch's side of bench/nn_scaler.c: GPT-2 124M in f16 with GradScaler and fused AdamW, as one graph.

usage: torch_scaler.py [rounds] [file to append JSON lines to]
Ends with 77 and one line where PyTorch or a GPU is missing."""
import sys

import torch_nn

BATCH, LENGTH = 4, 1024


def make_step(torch, scaler, factor):
    model = torch_nn.make_gpt2(torch)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.1, fused=True, capturable=True)
    x, y = (torch.randint(0, 50257, (BATCH, LENGTH), device="cuda") for _ in range(2))

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.float16):
            logits = model(x)
            loss = torch.nn.functional.cross_entropy(logits.view(-1, 50257), y.view(-1))
        if scaler:
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        else:
            (loss * factor).backward()
            optimizer.step()

    return step


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 51
    if rounds < 1 or len(sys.argv) > 3:
        print(__doc__, file=sys.stderr)
        return 2
    torch = torch_nn.load_torch()
    out = open(sys.argv[2], "a", encoding="utf-8") if len(sys.argv) > 2 else None
    print(f"torch_scaler: {torch.cuda.get_device_name()}, PyTorch {torch.__version__}; medians of {rounds} rounds")
    t = torch_nn.Timing(torch, rounds, out)
    t.bench = "torch_scaler"
    with torch.cuda.stream(t.stream):
        for side, scaler, factor in (("no scaler", None, 1), ("no scaler, loss times 65536", None, 65536),
                                     ("scaler", torch.amp.GradScaler("cuda"), 1)):
            t.line(f"GPT-2 step, f16, batch {BATCH} x {LENGTH}", side, t.replays(make_step(torch, scaler, factor), rounds))
    if out:
        out.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
