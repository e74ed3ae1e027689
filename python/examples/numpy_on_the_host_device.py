# SPDX-License-Identifier: MIT
# %% [markdown]
# # Arrays of numpy in a graph
#
# The host device is a device of threads: its memory is the processor's, so that numpy and phonograph see the same
# bytes. A graph over arrays of numpy is captured once. Then each replay is one call, with no copy in or out.

# %%
import ctypes

import numpy as np
import phonograph as ph

device = ph.Device("host")
stream = device.stream()

# %% [markdown]
# A kernel in Python: it gets a range of blocks and its parameters. Here each block is 256 elements, which numpy computes.


# %%
def blend(blocks, arguments):
    """out = a * x + (1 - a) * out"""
    first, last = blocks.begin * blocks.block[0], min(blocks.end * blocks.block[0], arguments.n)
    x, out = (np.ctypeslib.as_array((ctypes.c_float * arguments.n).from_address(p)) for p in (arguments.x, arguments.out))
    out[first:last] += arguments.a * (x[first:last] - out[first:last])


blend_kernel = device.kernel(
    "blend",
    parameters=[
        ("n", ctypes.c_uint32),
        ("a", ctypes.c_float),
        ("x", ph.address("in", "n", 4)),
        ("out", ph.address("inout", "n", 4)),
    ],
    host=blend,
)

# %% [markdown]
# The input is an array of numpy. The output is memory of phonograph, which numpy sees as a view.

# %%
n = 10_000
x = np.linspace(0, 1, n, dtype="float32")
out = stream.zeros(n)
view = np.asarray(out)
stream.synchronize()

graph = ph.Graph()
with graph.capture(stream, enable_annotations=True):
    for step in range(3):
        with ph.annotate(stream, "blend", step=step):
            stream.launch(blend_kernel, n, 0.5, x, out, grid=-(-n // 256), block=256)

# %% [markdown]
# Nothing has run yet. A replay computes all three steps. A change of `x` needs no second capture: the graph reads the
# same bytes.

# %%
assert (view == 0).all()
graph.replay(stream)
stream.synchronize()
assert np.allclose(view, x * (1 - 0.5**3))

x[:] = 1
view[:] = 0
graph.replay(stream)
stream.synchronize()
assert np.allclose(view, 1 - 0.5**3)
print("three blends:", view[:3])

# %% [markdown]
# A slot changes the factor `a`, which lies at offset 4 of each node's parameters.

# %%
for node in range(len(graph.record())):
    graph.declare_scalar(f"a{node}", node, 4, ctypes.c_float(0.5))
view[:] = 0
graph.replay(stream, a0=1.0, a1=0.0, a2=0.0)
stream.synchronize()
assert (view == 1).all()

# %% [markdown]
# The record is an object; its nodes are dicts, with the annotation of each. In a notebook, `graph` alone shows the page of `phonograph view`.

# %%
for node in graph.record().nodes:
    print(node["name"], node["grid"], node["annotation"])
graph
