# SPDX-License-Identifier: MIT
"""bench/torch_parallel.py: PyTorch's side of bench/nn_parallel.c: GPT-2 124M in bf16 under DistributedDataParallel, one graph a rank.

usage: torchrun --nproc-per-node 2 torch_parallel.py [rounds] [file to append JSON lines to]
Ends with 77 and one line where PyTorch or a GPU is missing."""
import os
import sys

os.environ["TORCH_NCCL_ASYNC_ERROR_HANDLING"] = "0"  # as PyTorch's notes ask before a capture

import torch_nn  # noqa: E402

EAGER_STEPS = 11  # as PyTorch's notes ask before a capture


def make_step(torch, model, optimizer, length):
    x, y = (torch.randint(0, 50257, (4, length), device="cuda") for _ in range(2))

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16, cache_enabled=False):
            logits = model(x)
            loss = torch.nn.functional.cross_entropy(logits.view(-1, 50257), y.view(-1))
        loss.backward()
        optimizer.step()

    return step


def measure(torch, t, model, side):
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.1, fused=True, capturable=True)
    for length in (1024, 64):
        step = make_step(torch, model, optimizer, length)
        for _ in range(EAGER_STEPS):
            step()
        torch.distributed.barrier()
        result = t.replays(step, t.rounds)
        if torch.distributed.get_rank() == 0:
            t.line(f"GPT-2 step, batch 4 x {length} a rank, bf16", side, result)


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 31
    if rounds < 1 or len(sys.argv) > 3 or "LOCAL_RANK" not in os.environ:
        print(__doc__, file=sys.stderr)
        return 2
    torch = torch_nn.load_torch()
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    torch.distributed.init_process_group("nccl", device_id=torch.device("cuda", int(os.environ["LOCAL_RANK"])))
    torch.backends.cuda.matmul.allow_tf32 = True
    first = torch.distributed.get_rank() == 0
    out = open(sys.argv[2], "a", encoding="utf-8") if first and len(sys.argv) > 2 else None
    t = torch_nn.Timing(torch, rounds, out)
    t.bench = "torch_parallel"
    with torch.cuda.stream(t.stream):
        model = torch_nn.make_gpt2(torch)
        measure(torch, t, model, "one")
        model = torch.nn.parallel.DistributedDataParallel(torch_nn.make_gpt2(torch), device_ids=[torch.cuda.current_device()])
        measure(torch, t, model, "two")
    torch.cuda.synchronize()
    if out:
        out.close()
    torch.distributed.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
