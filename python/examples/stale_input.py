# SPDX-License-Identifier: MIT
# %% [markdown]
# # A stale input that is found
#
# A graph replays addresses. A program that drops an input, and makes a new array for the next step, replays memory that
# belongs to somebody else by then: the results are wrong, and nothing says so. Here the replay is refused instead.

# %%
import numpy as np
import phonograph as ph

device = ph.Device("host")
stream = device.stream()
weights = stream.array(np.arange(4, dtype="float32"))
result = stream.zeros(4)


def capture_step(batch, **options):
    graph = ph.Graph()
    with graph.capture(stream, enable_annotations=True, **options):
        with ph.annotate(stream, "read the batch"):
            stream.copy(result, batch)
        with ph.annotate(stream, "next weights"):
            stream.copy(weights, result)
    return graph


# %% [markdown]
# Without the check: the second batch is a new array. The graph does not know of it. It reads what is where the first one was.

# %%
batch = stream.array(np.full(4, 1, "float32"))
graph = capture_step(batch)
graph.replay(stream)
assert result.to_numpy().tolist() == [1, 1, 1, 1]

batch = None  # the first batch is dropped
other = stream.array(np.full(4, 99, "float32"))  # somebody else
graph.replay(stream)
print("without the check, after the batch was dropped:", result.to_numpy())
graph.close()

# %% [markdown]
# With the check, the replay is refused before anything runs. The message has the node, its parameter, its address and its scope.

# %%
batch = stream.array(np.full(4, 1, "float32"))
graph = capture_step(batch, check_input_liveness=True)
graph.replay(stream)
stream.synchronize()
before = weights.to_numpy().tolist()

batch = None
try:
    graph.replay(stream)
except ph.StaleInput as error:
    message = str(error)
    print(message)
assert "memcpy" in message and "read the batch" in message
assert weights.to_numpy().tolist() == before  # nothing ran

# %% [markdown]
# The inputs say the same as dicts.

# %%
for row in graph.inputs:
    print(row["node_name"], row["word"], row["bytes"], row["state"])
assert sum(row["state"] == "PH_INPUT_FREED" for row in graph.inputs) == 1

# %% [markdown]
# Two remedies. A slot gives each replay its batch, without a copy:

# %%
first = stream.array(np.full(4, 1, "float32"))
graph = capture_step(first, check_input_liveness=True)
graph.slot("batch", first)
for value in (2, 3):
    batch = stream.array(np.full(4, value, "float32"))
    graph.replay(stream, batch=batch)
    assert result.to_numpy().tolist() == [value] * 4

# %% [markdown]
# Or one array stays, and each batch is copied into it:

# %%
static = stream.zeros(4)
graph = capture_step(static, check_input_liveness=True)
for value in (4, 5):
    stream.copy(static, np.full(4, value, "float32"))
    graph.replay(stream)
    assert result.to_numpy().tolist() == [value] * 4
print("both remedies work")
