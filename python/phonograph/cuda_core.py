# SPDX-License-Identifier: MIT
"""phonograph.cuda_core: streams and graphs of cuda.core, NVIDIA's package cuda-core.

    import phonograph.cuda_core as pcc

    builder.end_building()
    graph = pcc.import_graph(builder)          # or a GraphDefinition
    graph.replay(pcc.stream(core_stream))
    view = pcc.view_graph(builder, executable) # executable = builder.complete()

cuda.core is imported when a call needs it, and nothing is compiled against it. A capture needs no call
of its own: `with graph.capture(pcc.stream(s)):` captures what cuda.core launches on s.
"""

from .bindings import core
from .device import Device
from .errors import ArgumentError, StateError
from .graph import Graph
from .stream import Stream

__all__ = ["import_graph", "stream", "view_graph"]

_DEFAULTS = (0, 1, 2)  # CUDA's names of default streams


def _has(thing, *names):
    """Whether the type has all of the names. A property may raise where its object is asked."""
    return all(hasattr(type(thing), name) for name in names)


def _refuse_closed(thing, call):
    if getattr(thing, "is_closed", False):
        raise ArgumentError(
            f"phonograph.cuda_core.{call}: the {type(thing).__name__} of cuda.core has been closed; make another one",
            core.PH_ERROR_ARGUMENT,
        )


def stream(core_stream):
    """A phonograph.Stream of a cuda.core Stream, which it keeps alive.

    ArgumentError: a default stream, or one that has been closed. TypeError: no stream.
    """
    if not _has(core_stream, "__cuda_stream__"):
        raise TypeError(
            f"phonograph.cuda_core.stream: a cuda.core Stream is needed, not {type(core_stream).__name__}; "
            "create_stream() of a cuda.core Device makes one"
        )
    _refuse_closed(core_stream, "stream")
    address = int(core_stream.__cuda_stream__()[1])
    if address in _DEFAULTS:
        raise ArgumentError(
            f"phonograph.cuda_core.stream: the default stream of CUDA ({address}) has no phonograph.Stream; "
            "make one by create_stream() of a cuda.core Device",
            core.PH_ERROR_ARGUMENT,
        )
    return Stream.wrap(core_stream)


def _is_executable(thing):
    return _has(thing, "handle", "upload", "launch")


def _definition(source, call):
    """The GraphDefinition of a GraphBuilder, or the one that was given."""
    if _has(source, "end_building"):
        if not _has(source, "graph_definition"):
            raise ArgumentError(
                f"phonograph.cuda_core.{call}: this cuda.core shows no graph of a GraphBuilder; "
                "install cuda-core 1.1 or newer, or capture the work by phonograph.Graph.capture",
                core.PH_ERROR_ARGUMENT,
            )
        _refuse_closed(source, call)
        try:
            return source.graph_definition
        except RuntimeError as error:
            raise StateError(
                f"phonograph.cuda_core.{call}: the GraphBuilder shows no graph ({error}); call its end_building() first",
                core.PH_ERROR_STATE,
            ) from error
    if _is_executable(source):
        raise TypeError(
            f"phonograph.cuda_core.{call}: a cuda.core Graph shows its executable alone, and the graph that it was made of is "
            "needed; pass the GraphBuilder or the GraphDefinition"
        )
    if not _has(source, "handle", "instantiate"):
        raise TypeError(
            f"phonograph.cuda_core.{call}: a GraphBuilder or GraphDefinition of cuda.core is needed, not {type(source).__name__}; "
            "phonograph.Graph.import_cuda takes a CUgraph as an integer"
        )
    return source


def _template(source, call):
    """The CUgraph, and the object whose life it has."""
    definition = _definition(source, call)
    if not getattr(definition, "is_valid", True) or not int(definition.handle):
        raise ArgumentError(
            f"phonograph.cuda_core.{call}: the GraphDefinition of cuda.core has ended; build it again", core.PH_ERROR_ARGUMENT
        )
    return int(definition.handle), definition


def _device(device, source, call):
    """The Device that was given, or that of the builder's GPU, else of cuda.core's current one."""
    if device is None:
        if _has(source, "end_building"):
            owner = source.stream.device
        else:
            from cuda.core import Device as CoreDevice

            owner = CoreDevice()
        return Stream.wrap(owner.create_stream()).device
    if not isinstance(device, Device):
        raise TypeError(f"phonograph.cuda_core.{call}: device must be a phonograph.Device, not {type(device).__name__}")
    return device


def import_graph(source, device=None, **options):
    """A phonograph.Graph of a copy of what a GraphBuilder has built, or of a GraphDefinition.

    - device: None is the Device of the builder's GPU, or of cuda.core's current one.
    - options: as of phonograph.Graph.import_cuda.
    - It keeps the definition alive. Memory that the graph addresses is the caller's to keep.
    - TypeError: a cuda.core Graph, which shows its executable alone.
    """
    template, owner = _template(source, "import_graph")
    imported = Graph.import_cuda(_device(device, source, "import_graph"), template, **options)
    imported.template_owner = owner
    return imported


def view_graph(source, executable, device=None):
    """A phonograph.Graph that looks at a cuda.core Graph, which cuda.core launches: slots hold for its next launch.

    - source: the GraphBuilder or GraphDefinition that made the executable, not changed since.
    - executable: the Graph, of complete() or instantiate(). It is kept alive, and must not be closed
      before this object. device: as of import_graph.
    """
    template, owner = _template(source, "view_graph")
    if not _is_executable(executable):
        raise TypeError(
            f"phonograph.cuda_core.view_graph: the executable must be a cuda.core Graph, not {type(executable).__name__}; "
            "complete() of the GraphBuilder makes one"
        )
    _refuse_closed(executable, "view_graph")
    viewed = Graph.view_cuda(_device(device, source, "view_graph"), template, int(executable.handle))
    viewed.template_owner = (owner, executable)
    return viewed
