# SPDX-License-Identifier: MIT
"""phonograph.torch: looking into the CUDA graphs of PyTorch.

    import phonograph.torch as pt

    g = pt.CUDAGraph()
    with pt.graph(g, check_input_liveness=True):
        y = model(x)
    print(pt.inspect(g, x=x, model=model))   # each word of each kernel, and the tensor it addresses
    g.replay()                               # StaleInput, where an input was freed since
    g.prove_slots(other, x=(x, x2)); g.replay(x=x3)      # rebinding, proved by a second capture

torch is imported, and nothing is compiled against it.
"""

from .allocator import (
    max_memory_allocated, memory_allocated, memory_reserved, memory_snapshot, memory_stats, reset_peak_memory_stats, use_allocator,
)
from .announced import announce_blocks
from .callables import make_graphed_callables
from .capture import CUDAGraph, graph
from .function_graph import FunctionGraph, capture_function, check_finite
from .inputs import StaleInputWarning
from .report import Report, import_graph, inspect
from .scopes import annotate

__all__ = [
    "CUDAGraph", "FunctionGraph", "Report", "StaleInputWarning", "annotate", "announce_blocks", "capture_function", "check_finite",
    "graph", "import_graph", "inspect", "make_graphed_callables", "max_memory_allocated", "memory_allocated", "memory_reserved",
    "memory_snapshot", "memory_stats", "reset_peak_memory_stats", "use_allocator",
]
