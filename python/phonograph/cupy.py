# SPDX-License-Identifier: MIT
"""phonograph.cupy: streams and graphs of CuPy.

    import phonograph.cupy as pc

    graph = pc.import_graph(cupy_graph)      # what CuPy's end_capture() returned
    graph.replay(pc.stream(cupy_stream))

CuPy is imported when a call needs it, and nothing is compiled against it. Arrays need no call: each
has __cuda_array_interface__.
"""

from .bindings import core
from .device import Device
from .errors import ArgumentError
from .graph import Graph
from .stream import Stream

__all__ = ["import_graph", "stream", "view_graph"]

_DEFAULTS = (0, 1, 2)  # CUDA's names of default streams


def stream(cupy_stream):
    """A phonograph.Stream of a stream of CuPy's, which it keeps alive.

    ArgumentError: a default stream, as Stream.null. TypeError: no stream of CuPy's.
    """
    address = getattr(cupy_stream, "ptr", None)
    if not isinstance(address, int):
        raise TypeError(
            f"phonograph.cupy.stream: a cupy.cuda.Stream is needed, not {type(cupy_stream).__name__}; "
            "phonograph.Stream.wrap takes streams of other libraries"
        )
    if address in _DEFAULTS:
        raise ArgumentError(
            f"phonograph.cupy.stream: the default stream of CUDA ({address}) has no phonograph.Stream; "
            "make one by cupy.cuda.Stream(non_blocking=True)",
            core.PH_ERROR_ARGUMENT,
        )
    return Stream.wrap(cupy_stream)


def _handles(graph, call):
    """(CUgraph, CUgraphExec) of a cupy.cuda.Graph."""
    found = [getattr(graph, name, None) for name in ("graph", "graphExec")]
    if not all(isinstance(handle, int) for handle in found):
        raise TypeError(
            f"phonograph.cupy.{call}: a cupy.cuda.Graph is needed, not {type(graph).__name__}; "
            "end_capture() of a stream of CuPy returns one"
        )
    if not all(found):
        raise ArgumentError(
            f"phonograph.cupy.{call}: the cupy.cuda.Graph has ended, its handles are 0; capture it again", core.PH_ERROR_ARGUMENT
        )
    return found


def _device(device, call):
    """The Device that was given, or that of CuPy's current GPU, whose streams this module wraps."""
    if device is None:
        import cupy

        return Stream.wrap(cupy.cuda.Stream(non_blocking=True)).device
    if not isinstance(device, Device):
        raise TypeError(f"phonograph.cupy.{call}: device must be a phonograph.Device, not {type(device).__name__}")
    return device


def import_graph(graph, device=None, **options):
    """A phonograph.Graph of a copy of a cupy.cuda.Graph, with slots, diff, races, profile and replays of its own.

    - device: None is the Device of CuPy's current GPU. options: as of phonograph.Graph.import_cuda.
    - It keeps `graph` alive, and with it the functions that its host nodes call.
    - Arrays that the graph addresses are the caller's to keep. Replays of both must not overlap.
    """
    template, _ = _handles(graph, "import_graph")
    imported = Graph.import_cuda(_device(device, "import_graph"), template, **options)
    imported.template_owner = graph
    return imported


def view_graph(graph, device=None):
    """A phonograph.Graph that looks at a cupy.cuda.Graph, which CuPy launches: slots hold for its next launch.

    It keeps `graph` alive. device: as of import_graph.
    """
    template, executable = _handles(graph, "view_graph")
    viewed = Graph.view_cuda(_device(device, "view_graph"), template, executable)
    viewed.template_owner = graph
    return viewed
