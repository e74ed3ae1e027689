# SPDX-License-Identifier: MIT
# %% [markdown]
# # Why is this graph of PyTorch slow?
#
# A replay takes longer than its author thinks. The graph is looked into: which kernels it has, what they read, and where the
# time goes.

# %%
import phonograph.torch as pt
import torch

torch.manual_seed(0)
x = torch.randn(512, 512, device="cuda")
weight = torch.randn(512, 512, device="cuda")
y = torch.zeros(512, 512, device="cuda")


def step():
    with pt.annotate("product"):
        hidden = x @ weight
    with pt.annotate("scaling"):
        for column in range(64):  # the fault: one column at a time
            hidden[:, column] *= 0.5
    with pt.annotate("result"):
        y.copy_(hidden)


graph = pt.capture_function(step, enable_annotations=True)

# %% [markdown]
# The kernels by scope: 64 of 66 are in one loop.

# %%
nodes = graph.record().nodes
counts = {}
for node in nodes:
    name = node.get("annotation", {}).get("name", "none")
    counts[name] = counts.get(name, 0) + 1
print(counts)
assert counts["scaling"] >= 64 > counts["product"] + counts["result"]

# %% [markdown]
# The time by scope, from measured replays. `profile.trace` is a file for Perfetto, and a notebook shows the profile as a page.

# %%
profile = graph.profile(replays=20)
times = {}
for node, measured in zip(profile.record.nodes, profile.nodes):
    name = node.get("annotation", {}).get("name", "none")
    times[name] = times.get(name, 0) + measured["median_ns"]
print({name: f"{nanoseconds / 1000:.1f} us" for name, nanoseconds in times.items()})
assert max(times, key=times.get) == "scaling"

# %% [markdown]
# The remedy, one kernel for all columns, held against the slow form: replays of both give the same.

# %%
def faster():
    hidden = x @ weight
    hidden[:, :64] *= 0.5
    y.copy_(hidden)


better = pt.capture_function(faster)
graph.replay()
slow = y.clone()
better.replay()
assert torch.equal(slow, y)
print(f"{len(nodes)} nodes before, {len(better.record().nodes)} now")
print("verify:", better.verify(outputs={"y": y})["verdict"])
