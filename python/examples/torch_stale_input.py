# SPDX-License-Identifier: MIT
# %% [markdown]
# # A training loop of PyTorch whose stale input is found
#
# A training step is captured once and replayed for each batch. The loop has a fault: it makes a new tensor for the batch,
# and the graph goes on reading the first one's memory.

# %%
import phonograph
import phonograph.torch as pt
import torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 1)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


def new_batch():
    x = torch.randn(32, 64, device="cuda")
    return x, x.sum(1, keepdim=True)


# %% [markdown]
# The step, with its parts named. Warm-up on a side stream comes first, as PyTorch's notes ask for.

# %%
x, y = new_batch()


def step(x, y):
    optimizer.zero_grad(set_to_none=True)
    with pt.annotate("forward"):
        loss = torch.nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    return loss


side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    for _ in range(3):
        step(x, y)
torch.cuda.current_stream().wait_stream(side)

graph = pt.CUDAGraph()
with pt.graph(graph, check_input_liveness=True, enable_annotations=True):
    loss = step(x, y)

# %% [markdown]
# The faulty loop. The first replay is right. At the second one the first batch is gone, and the replay is refused: the message
# has the kernel, its scope, the tensor and the line that freed it.

# %%
graph.replay()
print("the first loss:", loss.item() >= 0)
weights = [p.detach().clone() for p in model.parameters()]
x, y = new_batch()  # the fault: another tensor
try:
    graph.replay()
except phonograph.StaleInput as error:
    message = str(error)
    print(message)
assert "float32[32, 64]" in message and "forward" in message and "freed at" in message
assert all(torch.equal(a, b) for a, b in zip(weights, model.parameters()))  # nothing ran

# %% [markdown]
# The remedy: one tensor stays, and each batch is copied into it.

# %%
x, y = new_batch()
graph = pt.CUDAGraph()
with pt.graph(graph, check_input_liveness=True):
    loss = step(x, y)
losses = []
for _ in range(50):
    for static, new in zip((x, y), new_batch()):
        static.copy_(new)
    graph.replay()
    losses.append(loss.item())
assert losses[-1] < losses[0]
print("50 steps, the loss went down")
