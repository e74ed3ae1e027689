# SPDX-License-Identifier: MIT
"""What tests of behaviours share: torch's own classes, and those of phonograph.torch, by the same names."""

import importlib.util

HAS_TORCH = importlib.util.find_spec("torch") is not None
if HAS_TORCH:
    import torch

    HAS_GPU = torch.cuda.is_available()
    REASON = "torch has no GPU here: behaviours of its graphs were not tested"
else:
    HAS_GPU, REASON = False, "this Python has no torch: phonograph.torch was not tested"


class Api:
    """The three names, of torch or of phonograph.torch."""

    def __init__(self, name):
        if name == "torch":
            of = torch.cuda
        else:
            import phonograph.torch as of
        self.name, self.CUDAGraph, self.graph, self.make_graphed_callables = name, of.CUDAGraph, of.graph, of.make_graphed_callables


def side_capture(api, body, graph=None, **options):
    """(graph, what body returned), captured by begin and end on a stream of its own."""
    graph = api.CUDAGraph() if graph is None else graph
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        graph.capture_begin(**options)
        result = body()
        graph.capture_end()
    torch.cuda.current_stream().wait_stream(stream)
    return graph, result
