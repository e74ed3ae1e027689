# SPDX-License-Identifier: MIT
"""CUDAGraph and graph: torch's own, which can check before each replay that the inputs of the capture live."""

import struct

import torch

from .. import driver, hot
from ..array import Array
from ..bindings import core
from ..errors import ArgumentError, StateError, UnsupportedError, error_of
from ..graph import Graph
from ..structs import read_struct
from ..words import pack, words_in
from .culprit import add_culprit, watch_culprit
from .inputs import Inputs
from .random import may_draw
from .report import device_of, import_graph, inspect
from .scopes import Marks
from .storages import Operands, describe


def _make_reader():
    """How the compiled module reads tensors, or None: without it, or where torch has no such table of functions."""
    table = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)
    if hot.tensor_reader is None or table is None:
        return None
    try:
        return hot.tensor_reader(table, (torch.Tensor, torch.nn.Parameter), torch.Tensor.is_neg)
    except (TypeError, ValueError):
        return None


_reader = _make_reader()


def _launch_of(executable, device):
    """What the compiled module needs to launch it in the place of torch."""
    calls = driver.address_of("cuStreamIsCapturing"), driver.address_of("cuGraphLaunch")
    return struct.pack("=4Qq", *calls, executable, device.handle, device.ordinal)


def _may_be_slot(tensor):
    """Its elements are what its memory on a GPU has: no conjugate or negative view."""
    return tensor.is_cuda and tensor.is_contiguous() and not (tensor.is_conj() or tensor.is_neg())


def _memory_of(tensor):
    return Array(tensor.data_ptr(), tensor.nbytes, "uint8")


def _places_in(view, place):
    """(node, offset) of each word of the graph that lies in the memory. Nodes of nested graphs have no places."""
    record, places = view.record_handle(), []
    for path, word, *_ in words_in(record, pack([(place.address, place.address + place.nbytes)])):
        if len(path) > 1:
            raise UnsupportedError(
                f"declare_slot: node {path[-1]} of the graph in node {path[0]} addresses the tensor too: nested nodes have no slots",
                core.PH_ERROR_UNSUPPORTED,
            )
        places.append((path[0], read_struct(core.ph_word, core.ph_record_word, record, path[0], word).offset))
    return places


_TorchGraph = torch.cuda.CUDAGraph


class CUDAGraph(_TorchGraph):
    """torch.cuda.CUDAGraph, whose template is always kept, so that inspect can read it.

    torch captures, replays, and owns memory and random numbers. capture_begin takes
    check_input_liveness: then replay() raises StaleInput where memory that the capture was given was
    freed since; and enable_annotations: then the nodes have the scopes of annotate. One thread at a
    time uses a graph.
    """

    def __init_subclass__(cls, **keywords):
        """TypeError: a class between this one and torch's in the order of bases has a replay, which replay() here would pass over."""
        super().__init_subclass__(**keywords)
        order = cls.__mro__
        for between in order[order.index(CUDAGraph) + 1 : order.index(_TorchGraph)]:
            if "replay" in vars(between):
                raise TypeError(
                    f"{cls.__name__}: {between.__name__}.replay stands behind phonograph.torch.CUDAGraph in the order of bases, and would "
                    f"never be called: name {between.__name__} before it, as in class {cls.__name__}({between.__name__}, CUDAGraph)"
                )

    def __new__(cls, keep_graph=False):
        return super().__new__(cls, True)

    def __init__(self, keep_graph=False):
        super().__init__(True)
        self._keeps, self._operands, self._inputs = keep_graph, None, None
        self._marks, self._scopes, self._culprit = None, [], None
        self._view, self._spans, self._forms, self._launch = None, {}, {}, None
        self._due = ()

    def _set_due(self):
        """What replay() asks first: true where it is not torch's alone. A list of dead inputs is true from the first one on."""
        self._due = self._inputs.dead if self._inputs is not None else self._launch is not None

    def capture_begin(
        self, pool=None, capture_error_mode="global", check_input_liveness=False, enable_annotations=False, **others
    ):  # fmt: skip
        """As torch's. check_input_liveness: every replay first checks that the inputs of the capture live.

        enable_annotations: the nodes have the scopes of annotate in which they were captured.
        """
        if pool is not None:
            others["pool"] = pool
        super().capture_begin(capture_error_mode=capture_error_mode, **others)
        self._device = torch.device("cuda", torch.cuda.current_device())
        self._watch(check_input_liveness, enable_annotations)

    def _watch(self, operands, annotations):
        self._scopes = []
        if self._culprit is None:
            self._culprit = watch_culprit(self._device.index)
        if annotations:
            self._marks = Marks()
        if operands:
            self._operands = Operands()
            self._operands.__enter__()

    def capture_end(self):
        operands, self._operands = self._operands, None
        marks, self._marks = self._marks, None
        if operands is not None:
            operands.__exit__(None, None, None)
        if marks is not None:
            marks.end()
        culprit, self._culprit = self._culprit, None
        try:
            super().capture_end()
        except RuntimeError as error:
            add_culprit(error, culprit)
            raise
        if culprit is not None:
            culprit.end()
        if marks is not None:
            self._scopes = marks.resolve(super().raw_cuda_graph())
        if operands is not None:
            self._inputs = Inputs(inspect(self, device=self._device), operands.storages, self._scopes)
            self._set_due()
        if not self._keeps:
            super().instantiate()

    def instantiate(self):
        """As torch's: for graphs of keep_graph=True."""
        if not self._keeps:
            raise StateError(
                "CUDAGraph.instantiate: capture_end made the executable; set keep_graph=True to make it later", core.PH_ERROR_STATE
            )
        self._drop_view()
        super().instantiate()

    def replay(self, **tensors):
        """As torch's. tensors: of slots, by name, which stay until they are set again: replay(x=other).

        A tensor must be contiguous, and live while the graph replays it; StaleInput says so where
        check_input_liveness is on. ArgumentError: another shape or dtype than that of the capture,
        or an address that the proof does not cover.
        """
        if self._due or tensors:
            inputs = self._inputs
            if inputs is None and self._launch is not None:
                if self._set(tensors, self._launch):
                    return
            else:
                if tensors:
                    self._set(tensors)
                if inputs is not None and inputs.dead:
                    inputs.check()
        _TorchGraph.replay(self)

    def prove_slots(self, other, **pairs):
        """Makes slots that a second capture proves: x=(tensor of this capture, tensor of the other).

        - other: a CUDAGraph of the same work in the same pool, whose inputs lie elsewhere. It may be
          reset afterwards.
        - Both find the pool's memory as it is once it has been used: capture the work in that pool
          once before them, and let go what it returned. A pool's first capture makes its segments,
          and need not place tensors as later ones do; that is the reason given then.
        - Returns {name: ""}, or the reason why there is no slot, as phonograph.Graph.prove_slots.
        - The tensors need the same shape and dtype, and are contiguous.
        - Tensors that moved by one distance, as views of one cache, are set by one distance, in one
          replay (ArgumentError).
        """
        for name, (here, there) in pairs.items():
            if here.shape != there.shape or here.dtype != there.dtype or not (_may_be_slot(here) and _may_be_slot(there)):
                raise ArgumentError(
                    f"prove_slots: {name}: two contiguous tensors of one shape and dtype on a GPU are needed, no conjugate or "
                    f"negative views, and these are {describe(here)} on {here.device} and {describe(there)} on {there.device}",
                    core.PH_ERROR_ARGUMENT,
                )
        view = self._need_view()
        reasons = view._prove_slots(
            import_graph(other, device=self._device, keep_graph=True),
            {name: tuple(map(_memory_of, pair)) for name, pair in pairs.items()},
            True,  # _check answers for tensors: they live, on this GPU, with the bytes of the capture's
        )
        for name, (here, _) in pairs.items():
            if not reasons[name]:
                self._add_slot(name, here)
        return reasons

    def declare_slot(self, name, tensor, places=None, alignment=0):
        """Makes a slot by your word, without a second capture. Returns how many words follow it.

        - places: pairs (number of a node, offset in its parameters). None: every word of the graph
          that lies in the tensor's memory.
        - You answer for it that these words are addresses of the tensor, and that nothing else in the
          graph follows from its place, as a kernel that was chosen for its alignment does. A wrong word
          is a wrong result.
        - alignment: every tensor's address must be a multiple of it. 0: the largest power of two, at
          most 256, that divides the captured address.
        - ArgumentError: no such word; the tensor may be no slot, as in prove_slots.
        """
        if not _may_be_slot(tensor):
            raise ArgumentError(
                f"declare_slot: {name}: a contiguous tensor on a GPU is needed, no conjugate or negative view, and this is "
                f"{describe(tensor)} on {tensor.device}",
                core.PH_ERROR_ARGUMENT,
            )
        view, place = self._need_view(), _memory_of(tensor)
        places = _places_in(view, place) if places is None else list(places)
        if not places:
            raise ArgumentError(f"declare_slot: {name}: no node of the graph addresses {describe(tensor)}", core.PH_ERROR_ARGUMENT)
        view._declare_slot(name, place, places, alignment, True)
        self._add_slot(name, tensor)
        return len(places)

    def _add_slot(self, name, tensor):
        self._spans[name] = (tensor.shape, tensor.dtype, tensor.get_device(), tensor.data_ptr(), tensor.nbytes)
        self._forms[name] = hot.tensor_form(_reader, self._view.slot_number(name), tensor) if _reader else None
        if _reader and self._launch is None and not may_draw(self._view, self._device.index):
            self._launch = _launch_of(super().raw_cuda_graph_exec(), device_of(self._device.index))
            self._set_due()

    def slot_uses(self, name):
        """How many words of the graph follow the slot of that name; 0: it has none."""
        return self._view.slot_uses(name) if self._view is not None else 0

    def bind(self, name, tensor):
        """Sets one slot, unless it has that address: later replays have it."""
        self._set({name: tensor})

    def _need_view(self):
        if self._view is None:
            template, executable = super().raw_cuda_graph(), super().raw_cuda_graph_exec()
            self._view = Graph.view_cuda(device_of(self._device.index), template, executable)
        return self._view

    def _refuse(self, name, tensor):
        span = self._spans.get(name)
        if span is None:
            raise KeyError(f"the graph has no slot {name!r}: it has {', '.join(self._spans) or 'none'}; prove_slots and declare_slot make them")
        raise ArgumentError(
            f"CUDAGraph.replay: {name} must be contiguous, on cuda:{span[2]}, of {span[1]} and shape {tuple(span[0])}, and no "
            f"conjugate or negative view; it is {describe(tensor)} on {tensor.device}",
            core.PH_ERROR_ARGUMENT,
        )

    def _set(self, tensors, launch=None):
        """Checks all tensors, then sets the slots that have another address. Whether the graph was launched, too."""
        status = hot.set_tensors(self._view._handle, _reader, self._forms, tensors, launch) if self._forms and _reader else None
        if status == -1:
            return True
        if status is None:
            self._set_checked(tensors)
        elif status:
            raise error_of(status)
        if self._inputs is not None:
            for name, tensor in tensors.items():
                self._inputs.rebind(name, self._spans[name][3:], tensor)
        return False

    def _set_checked(self, tensors):
        """The same for any tensors, and the words for those that are refused."""
        for name, tensor in tensors.items():
            span = self._spans.get(name)
            if (
                span is None or tensor.shape != span[0] or tensor.dtype != span[1] or tensor.get_device() != span[2]
                or not tensor.is_contiguous() or tensor.is_neg() or tensor.is_conj()
            ):  # fmt: skip
                self._refuse(name, tensor)
        self._view._set_values(None, {name: tensor.data_ptr() for name, tensor in tensors.items()})

    def _drop_view(self):
        view = getattr(self, "_view", None)
        self._view, self._spans, self._forms, self._launch = None, {}, {}, None
        if view is not None:
            self._set_due()
            view.close()

    @property
    def scopes(self):
        """With enable_annotations, pairs (number of a node, dict): from which node on the nodes have which annotation."""
        return list(self._scopes)

    def reset(self):
        self._scopes = []
        self._drop_view()
        inputs, self._inputs = self._inputs, None
        if inputs is not None:
            inputs.forget()
        self._set_due()
        super().reset()

    def __del__(self):
        self._drop_view()  # before torch destroys what it looks at

    @property
    def inputs(self):
        """With check_input_liveness, the storages that are watched: dicts of tensor, address, bytes, live, proved, uses."""
        return [
            {
                "tensor": watched.text, "address": watched.address, "bytes": watched.size, "live": not watched.dead,
                "proved": any(certain for certain, _, _ in watched.uses), "uses": [text for _, text, _ in watched.uses],
            }
            for watched in (self._inputs.all if self._inputs else [])
        ]  # fmt: skip


class graph(torch.cuda.graph):  # torch's name
    """torch.cuda.graph for a CUDAGraph of this module, with check_input_liveness and enable_annotations.

    Further parameters are torch's.

    An exception of the block ends the capture, as torch does, and goes on. The stream of before is current then.
    """

    def __init__(self, cuda_graph, pool=None, stream=None, capture_error_mode="global", *, check_input_liveness=False, enable_annotations=False, **others):
        if (check_input_liveness or enable_annotations) and not isinstance(cuda_graph, CUDAGraph):
            name = "check_input_liveness" if check_input_liveness else "enable_annotations"
            raise TypeError(f"graph: {name} needs a phonograph.torch.CUDAGraph")
        super().__init__(cuda_graph, pool=pool, stream=stream, capture_error_mode=capture_error_mode, **others)
        self._check, self._annotates = check_input_liveness, enable_annotations

    def __enter__(self):
        self._before = torch.cuda.current_stream()
        try:
            super().__enter__()
        except BaseException:
            torch.cuda.set_stream(self._before)
            raise
        if self._check or self._annotates:
            self.cuda_graph._watch(self._check, self._annotates)

    def __exit__(self, *error):
        try:
            super().__exit__(*error)
        except BaseException:
            torch.cuda.set_stream(self._before)  # torch leaves its capture stream current then
            raise
