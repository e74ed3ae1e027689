# SPDX-License-Identifier: MIT
"""phonograph.cupy and phonograph.cuda_core on stand-ins of the objects of both libraries, which need not be there."""

import ctypes
import sys
import types

import numpy
import pytest

import phonograph as ph
from phonograph import cuda_core, cupy
from phonograph.bindings import core


class CupyStream:
    def __init__(self, ptr=0, non_blocking=False, device_id=0, owner=None):
        self.ptr, self.device_id, self.entered, self.owner = ptr, device_id, 0, owner

    def __cuda_stream__(self):
        return (0, self.ptr)

    def __enter__(self):
        self.entered += 1
        return self

    def __exit__(self, *error):
        self.entered -= 1


class CupyGraph:
    def __init__(self, graph, executable):
        self.graph, self.graphExec = graph, executable


class Handle:
    """A handle of cuda.bindings."""

    def __init__(self, value):
        self.value = value

    def __int__(self):
        return self.value


class CoreStream:
    is_closed, device = False, None

    def __init__(self, address):
        self.address = address

    def __cuda_stream__(self):
        return (0, self.address)


class CoreDevice:
    def __init__(self, address):
        self.address = address

    def create_stream(self):
        return CoreStream(self.address)


class Definition:
    is_valid, handle = True, None

    def __init__(self, address):
        self.handle = Handle(address)

    def instantiate(self):
        pass


class Builder:
    is_closed = False

    def __init__(self, definition=None, device=None):
        self.definition = definition
        self.stream = types.SimpleNamespace(device=device)

    def end_building(self):
        pass

    @property
    def graph_definition(self):
        if self.definition is None:
            raise RuntimeError("Graph builder is building.")
        return self.definition


class OldBuilder:
    def end_building(self):
        pass


class Executable:
    is_closed, handle = False, None

    def __init__(self, address):
        self.handle = Handle(address)

    def upload(self, stream):
        pass

    def launch(self, stream):
        pass


@pytest.fixture
def native(device, stream):
    """(CUgraph, CUgraphExec, x, y) of a graph that copies x over y, and a function that launches it."""
    if not device.is_cuda:
        pytest.skip("graphs of CUDA's need its driver")
    x, y = stream.array(numpy.arange(64, dtype="float32")), stream.zeros(64)
    theirs, template, executable = ph.Graph(keep_graph=True), ctypes.c_void_p(), ctypes.c_void_p()
    with theirs.capture(stream):
        stream.copy(y, x)
    theirs.instantiate()
    ph.check(core.ph_graph_cuda(ctypes.byref(template), theirs.handle))
    ph.check(core.ph_graph_exec_cuda(ctypes.byref(executable), theirs.handle))
    yield types.SimpleNamespace(
        graph=template.value, executable=executable.value, x=x, y=y, launch=lambda: theirs.replay(stream)
    )
    stream.synchronize()
    theirs.close()


@pytest.fixture
def address(device, stream):
    if not device.is_cuda:
        pytest.skip("streams of CUDA's need its driver")
    return stream.__cuda_stream__()[1]


@pytest.fixture
def libraries(monkeypatch, address):
    """Stand-ins of cupy and cuda.core, whose current GPU is the device's."""
    library, inner = types.ModuleType("cupy"), types.ModuleType("cupy.cuda")
    inner.Stream = lambda non_blocking: CupyStream(address)
    library.cuda = inner
    current = types.ModuleType("cuda.core")
    current.Device = lambda: CoreDevice(address)
    top = types.ModuleType("cuda")
    top.core = current
    for name, module in (("cupy", library), ("cupy.cuda", inner), ("cuda", top), ("cuda.core", current)):
        monkeypatch.setitem(sys.modules, name, module)


def test_importing_the_modules_imports_neither_library():
    for module in (cupy, cuda_core):
        assert all(callable(getattr(module, name)) for name in module.__all__)
        assert not any(name in vars(module) for name in ("Buffer", "ndarray"))


@pytest.mark.parametrize("number", [0, 1, 2])
def test_default_streams_are_refused(number):
    with pytest.raises(ph.ArgumentError, match=r"default stream of CUDA .*cupy.cuda.Stream\(non_blocking=True\)"):
        cupy.stream(CupyStream(number))
    with pytest.raises(ph.ArgumentError, match=r"default stream of CUDA .*create_stream\(\)"):
        cuda_core.stream(CoreStream(number))


def test_other_things_are_no_streams():
    for thing in (None, 4096, "stream", object()):
        with pytest.raises(TypeError, match="a cupy.cuda.Stream is needed, not"):
            cupy.stream(thing)
        with pytest.raises(TypeError, match="a cuda.core Stream is needed, not"):
            cuda_core.stream(thing)
    closed = CoreStream(4096)
    closed.is_closed = True
    with pytest.raises(ph.ArgumentError, match="CoreStream of cuda.core has been closed"):
        cuda_core.stream(closed)


def test_other_things_are_no_graphs_of_cupy(device):
    for call in (cupy.import_graph, cupy.view_graph):
        for thing in (None, 4096, object(), Executable(1)):
            with pytest.raises(TypeError, match=r"a cupy.cuda.Graph is needed, .*end_capture\(\)"):
                call(thing, device)
        for handles in ((0, 4096), (4096, 0)):
            with pytest.raises(ph.ArgumentError, match="has ended, its handles are 0"):
                call(CupyGraph(*handles), device)
        with pytest.raises(TypeError, match="must be a phonograph.Device, not str"):
            call(CupyGraph(4096, 4096), "cuda:0")


def test_other_things_are_no_graphs_of_cuda_core(device):
    for thing in (None, 4096, object()):
        with pytest.raises(TypeError, match="a GraphBuilder or GraphDefinition of cuda.core is needed"):
            cuda_core.import_graph(thing, device)
        with pytest.raises(TypeError, match="the executable must be a cuda.core Graph"):
            cuda_core.view_graph(Definition(4096), thing, device)
    with pytest.raises(TypeError, match="shows its executable alone.*pass the GraphBuilder"):
        cuda_core.import_graph(Executable(4096), device)
    with pytest.raises(TypeError, match="shows its executable alone.*pass the GraphBuilder"):
        cuda_core.view_graph(Executable(4096), Definition(4096), device)  # the wrong way round
    with pytest.raises(ph.ArgumentError, match="cuda-core 1.1 or newer"):
        cuda_core.import_graph(OldBuilder(), device)
    with pytest.raises(TypeError, match="must be a phonograph.Device, not int"):
        cuda_core.import_graph(Definition(4096), 0)


def test_graphs_of_cuda_core_that_are_not_there(device):
    with pytest.raises(ph.StateError, match=r"is building.*call its end_building\(\)"):
        cuda_core.import_graph(Builder(), device)
    closed, ended = Builder(Definition(4096)), Definition(4096)
    closed.is_closed, ended.is_valid = True, False
    with pytest.raises(ph.ArgumentError, match="Builder of cuda.core has been closed"):
        cuda_core.import_graph(closed, device)
    for definition in (ended, Definition(0)):
        with pytest.raises(ph.ArgumentError, match="the GraphDefinition of cuda.core has ended"):
            cuda_core.import_graph(Builder(definition), device)
    executable = Executable(4096)
    executable.is_closed = True
    with pytest.raises(ph.ArgumentError, match="Executable of cuda.core has been closed"):
        cuda_core.view_graph(Definition(4096), executable, device)


def test_the_host_device_is_refused():
    with ph.Device("host") as host:
        for call in (
            lambda: cupy.import_graph(CupyGraph(4096, 8192), host),
            lambda: cupy.view_graph(CupyGraph(4096, 8192), host),
            lambda: cuda_core.import_graph(Definition(4096), host),
            lambda: cuda_core.view_graph(Definition(4096), Executable(8192), host),
        ):
            with pytest.raises(ph.UnsupportedError):
                call()


def test_streams_are_wrapped_and_kept(address, device):
    for wrapped in (cupy.stream(CupyStream(address)), cuda_core.stream(CoreStream(address))):
        assert wrapped.__cuda_stream__() == (0, address) and wrapped.device.ordinal == device.ordinal
        x = wrapped.zeros(16)
        wrapped.fill(x, 1)
        assert (x.to_numpy() == 1).all()
        x.free()
        wrapped.close()


@pytest.mark.parametrize("given", [True, False])
def test_a_copy_replays_with_another_input(native, device, stream, libraries, given):
    place = device if given else None
    definition = Definition(native.graph)
    for source, copy in (
        (None, cupy.import_graph(CupyGraph(native.graph, native.executable), place, keep_graph=False)),
        (definition, cuda_core.import_graph(definition, place)),
        (definition, cuda_core.import_graph(Builder(definition, CoreDevice(stream.__cuda_stream__()[1])), place)),
    ):
        assert source in (None, copy.template_owner) and copy.device.handle == device.handle
        copy.slot("x", native.x)
        other = stream.array(numpy.full(64, 7, "float32"))
        copy.replay(stream, x=other)
        assert (native.y.to_numpy() == 7).all()
        stream.fill(native.y, 0)
        copy.close()


def test_a_view_sets_the_slots_of_their_next_launch(native, device, stream, libraries):
    for view in (
        cupy.view_graph(CupyGraph(native.graph, native.executable)),
        cuda_core.view_graph(Definition(native.graph), Executable(native.executable)),
    ):
        view.slot("x", native.x)
        other = stream.array(numpy.full(64, 9, "float32"))
        view.set_slots(x=other)
        native.launch()
        assert (native.y.to_numpy() == 9).all()
        with pytest.raises(ph.StateError, match="belong to other code"):
            view.replay(stream)
        view.set_slots(x=native.x)
        view.close()
