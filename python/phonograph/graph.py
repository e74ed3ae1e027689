# SPDX-License-Identifier: MIT
"""The graph: capture work once, replay it with one launch."""

import ctypes
import sys
import warnings

from . import driver, functions, hot
from .annotation import scopes_of
from .array import Array
from .bindings import core
from .bodies import body_of
from .errors import ArgumentError, Error, check, error_of
from .lifetime import Owner, handle_of_pool, need, new_handle
from .options import MODES, one_of
from .record import Record
from .slots import made_of, same_span, slot_values, span_of
from .stream import Stream
from .structs import dict_of, read_struct, struct_from, take_text

_replay = hot.ph_graph_replay


class _Capture:
    """`with graph.capture(stream):` an exception aborts the capture and goes on."""

    def __init__(self, graph, stream, pool, options):
        self._graph, self._stream, self._pool, self._options = graph, stream, pool, options
        self._open = None  # not entered

    def __del__(self):
        if self._open is not False and not sys.is_finalizing():
            what = "was not ended" if self._open else "was not entered"
            warnings.warn(f"Graph.capture: the capture {what}; write `with graph.capture(stream):`", RuntimeWarning, stacklevel=2)

    def __enter__(self):
        graph, self._open = self._graph, False
        check(core.ph_graph_capture_begin(graph._graph_handle, self._stream._handle, ctypes.byref(self._options)))
        graph.device, self._open, self._pool = self._stream.device, True, None  # the graph holds it now
        return graph

    def __exit__(self, kind, exception, trace):
        self._open = False
        if exception is None:
            check(core.ph_graph_capture_end(self._graph._handle, core.PH_OK))
            return
        status = int(exception.status) if isinstance(exception, Error) else core.PH_ERROR_CALLER
        core.ph_graph_capture_end(self._graph._handle, status)


class Graph(Owner):
    """ph_graph. keep_graph: the template stays for later changes; defer_upload: see ph_graph_options.

    One thread at a time uses a graph. Memory that its nodes address is not kept alive by it, except
    memory of the processor that another library owns, as numpy's, which nobody else could watch.
    """

    _destroy = core.ph_graph_destroy
    def __init__(self, **options):
        settings = struct_from(core.ph_graph_options, options)
        self.device, self._slots, self._uses = None, {}, {}
        self.resets = 0  # how often what it held has gone
        self._own(new_handle(core.ph_graph_create, ctypes.byref(settings)))

    def _abort(self, handle):
        core.ph_graph_capture_abort(handle)

    @classmethod
    def import_cuda(cls, device, cuda_graph, *, pool=None, check_input_liveness=False, check_foreign_every=0, scopes=(), **options):
        """A Graph of a copy of a CUgraph that other code built (ph_graph_import_cuda), which is not changed.

        cuda_graph: the handle as an integer, as of torch's raw_cuda_graph() or cuda.core. Its kernels
        must stay loaded, and its memory allocated. options: as of Graph. scopes: pairs (number of a
        node, dict), from which node on the nodes have which annotation ({}: none).
        """
        graph = cls(**options)
        settings = core.ph_capture_options(pool=handle_of_pool(pool, "Graph.import_cuda"))
        if scopes:
            marks, _kept = scopes_of(scopes)
            settings.scopes = ctypes.addressof(marks)
        settings.check_input_liveness, settings.check_foreign_every = check_input_liveness, check_foreign_every
        copy = driver.clone_graph(int(cuda_graph)) if device.is_cuda else cuda_graph  # which the call refuses
        try:
            check(core.ph_graph_import_cuda(graph._graph_handle, device._device_handle, copy, ctypes.byref(settings)))
        except BaseException:
            if device.is_cuda:
                driver.destroy_graph(copy)
            raise
        graph.device = device
        return graph

    @classmethod
    def view_cuda(cls, device, cuda_graph, cuda_exec):
        """A Graph that looks at a CUgraph and its CUgraphExec, integers, that other code owns and launches (ph_graph_view_cuda).

        Both must live until this object is closed or reset. set_slots and changes of nodes hold for
        the owner's next launch; replay is refused.
        """
        graph = cls()
        check(core.ph_graph_view_cuda(graph._graph_handle, device._device_handle, int(cuda_graph), int(cuda_exec)))
        graph.device = device
        return graph

    # ---- capture and replay ----

    def capture(self, stream, *, pool=None, mode="global", **options):
        """Captures the work of a `with` block. An exception aborts the capture, and goes on.

        options: the members of ph_capture_options, as check_input_liveness=True,
        enable_annotations=True, strict=True. mode: "global", "thread_local" or "relaxed".
        """
        need(stream, Stream, "Graph.capture")
        number = one_of("Graph.capture", "mode", MODES, mode)
        if options.get("plan"):
            raise ArgumentError(
                "Graph.capture: a plan needs a function that runs twice, and a `with` block runs once: give one to "
                "phonograph.bindings.core.ph_graph_capture",
                core.PH_ERROR_ARGUMENT,
            )
        settings = struct_from(core.ph_capture_options, options)
        settings.pool, settings.mode = handle_of_pool(pool, "Graph.capture"), number
        self._slots, self._uses = {}, {}
        return _Capture(self, stream, pool, settings)

    def replay(self, stream, **values):
        """Launches the whole graph. values: of slots, by name, which stay until they are set again.

        Of a slot of an address: a contiguous array of the dtype that the slot was made with, or an address as a number.
        """
        if values:
            self._replay_with(stream, values)
            return
        try:
            status = _replay(self._handle, stream._stream_handle)
        except AttributeError:
            need(stream, Stream, "Graph.replay")
            raise
        if status:
            raise error_of(status)

    def instantiate(self):
        """Makes the executable of a graph with keep_graph, or makes it again."""
        check(core.ph_graph_instantiate(self._handle))

    def upload(self, stream):
        """Uploads the executable of a graph with defer_upload."""
        check(core.ph_graph_upload(self._handle, stream._stream_handle))

    def reset(self):
        """Drops the capture; the object can capture again. May wait, for functions of Python in it."""
        self.resets += 1
        check(core.ph_graph_reset(self._handle))
        self._slots, self._uses = {}, {}

    def update(self, other):
        """Gives the executable the parameters of another capture of the same shape; Mismatch says why not."""
        result = core.ph_update_result()
        check(core.ph_graph_update(self._handle, other._graph_handle, ctypes.byref(result)))

    def hold(self, thing):
        """Keeps an object alive until the graph is reset."""
        functions.hold_in_graph(self._handle, thing)

    @property
    def state(self):
        """ph_graph_state, an IntEnum: NEW, CAPTURING, ENDED, READY or FAILED, with PH_GRAPH_ before it (its name)."""
        return core.ph_graph_state(hot.ph_graph_get_state(self._handle))

    @property
    def pool(self):
        """The Pool of the capture, for further captures."""
        from .pool import Pool

        return Pool._of(new_handle(core.ph_graph_pool, self._handle), self.device)

    @property
    def memory(self):
        """ph_graph_memory as a dict: bytes of pools, executable, template."""
        return dict_of(read_struct(core.ph_graph_memory, core.ph_graph_get_memory, self._handle))

    @property
    def changes(self):
        """ph_graph_changes as a dict: uploads, updates, nodes that became slower."""
        return dict_of(read_struct(core.ph_graph_changes, core.ph_graph_get_changes, self._handle))

    # ---- epochs and liveness ----

    @property
    def epoch(self):
        """The number of the last replay, for check_output; 0 before any."""
        return hot.ph_graph_epoch(self._handle)

    def check_output(self, array, epoch):
        """Raises Overwritten where a later replay may have written the output of that epoch."""
        place = array.address if isinstance(array, Array) else int(array)
        status = hot.ph_graph_check_output(self._handle, place, epoch)
        if status:
            raise error_of(status)

    def check_inputs(self):
        """Raises StaleInput where memory that the graph addresses was freed."""
        check(core.ph_graph_check_inputs(self._handle))

    @property
    def inputs(self):
        """Memory from elsewhere that the graph addresses, and whether it is live: a list of dicts."""
        count = ctypes.c_size_t()
        check(core.ph_graph_input_count(ctypes.byref(count), self._handle))
        return [
            dict_of(read_struct(core.ph_input_info, core.ph_graph_input, self._handle, index), state=core.ph_input_state)
            for index in range(count.value)
        ]

    # ---- slots ----

    def slot(self, name, array, alignment=0):
        """Makes a slot of every place that is proved to address the array: replay(stream, name=other) rebinds it."""
        place = made_of("Graph.slot", name, array)
        options = core.ph_slot_options(alignment)
        out = ctypes.c_size_t()
        check(
            core.ph_graph_slot_find(
                ctypes.byref(out), self._handle, name.encode(), place.address, place.nbytes, ctypes.byref(options)
            )
        )
        self._add_slot(name, out.value, span_of(place))

    def declare_slot(self, name, array, places, alignment=0):
        """Makes a slot by your word: places are pairs (number of a node, offset in its parameters) of addresses in the array."""
        self._declare_slot(name, made_of("Graph.declare_slot", name, array), places, alignment, False)

    def _declare_slot(self, name, place, places, alignment, skip_lookup):
        entries = (core.ph_slot_place * len(places))(*(core.ph_slot_place(*pair) for pair in places))
        options, out = core.ph_slot_options(alignment, skip_lookup), ctypes.c_size_t()
        check(
            core.ph_graph_slot_declare_address(
                ctypes.byref(out), self._handle, name.encode(), place.address, place.nbytes, entries, len(places), ctypes.byref(options)
            )
        )
        self._add_slot(name, out.value, span_of(place))
        self._uses[name] = len(places)

    def prove_slots(self, other, **arrays):
        """Makes slots that a second capture proves, as ph_graph_slot_prove.

        other: a Graph of the same work, in which each input lies elsewhere. arrays: by name, the pair
        (array of this capture, array of the other). Returns {name: ""}, or the reason why not. Arrays that moved by one
        distance, as views of one cache, are set by one distance, in one call.
        """
        return self._prove_slots(other, arrays, False)

    def _prove_slots(self, other, arrays, skip_lookup):
        spans, kept, made = (core.ph_slot_span * len(arrays))(), [], {}
        for span, (name, (here, there)) in zip(spans, arrays.items()):
            here, there = (made_of("Graph.prove_slots", name, array) for array in (here, there))
            made[name] = same_span("Graph.prove_slots", name, here, there)
            shifted = (ctypes.c_void_p * 1)(there.address)
            kept.append(shifted)
            span.name, span.base, span.bytes = name.encode(), here.address, here.nbytes
            span.skip_lookup = skip_lookup
            span.shifted = ctypes.cast(shifted, type(span.shifted))
        proofs, captures = (core.ph_slot_proof * len(arrays))(), (ctypes.c_void_p * 1)(other._graph_handle)
        check(core.ph_graph_slot_prove(proofs, self._handle, captures, 1, spans, len(arrays)))
        for name, proof in zip(arrays, proofs):
            if proof.slot != core.PH_SLOT_NONE:
                self._add_slot(name, proof.slot, made[name])
                self._uses[name] = proof.uses
        return {name: proof.reason.decode() for name, proof in zip(arrays, proofs)}

    def _add_slot(self, name, number, kind):
        """A name that is given again is the newer slot's."""
        self._slots[name] = (number, kind)

    def slot_number(self, name):
        """The number of a slot in C."""
        return self._slots[name][0]

    def slot_uses(self, name):
        """How many words of the graph the proof of a slot has found; 0: none, or there is no such slot."""
        return self._uses.get(name, 0)

    def declare_scalar(self, name, node, offset, value):
        """Makes a slot of a value in the parameters of a kernel node: value is of ctypes, as captured, as c_float(2)."""
        out = ctypes.c_size_t()
        places = (core.ph_slot_place * 1)(core.ph_slot_place(node, offset))
        check(
            core.ph_graph_slot_declare_scalar(
                ctypes.byref(out), self._handle, name.encode(), ctypes.addressof(value), ctypes.sizeof(value), places, 1
            )
        )
        self._add_slot(name, out.value, type(value))

    def set_slots(self, stream=None, **values):
        """Sets slots by name, and launches nothing: the next launch has the values. stream: of arrays that need one."""
        self._set_values(stream, values)

    def _set_values(self, stream, values):
        pairs, _kept = slot_values("Graph.set_slots", self._slots, values, stream)
        check(core.ph_graph_slots_set(self._handle, pairs, len(values)))

    def _replay_with(self, stream, values):
        pairs, _kept = slot_values("Graph.replay", self._slots, values, stream)
        status = hot.ph_graph_replay_with(self._handle, stream._stream_handle, ctypes.addressof(pairs), len(values))
        if status:
            raise error_of(status)

    # ---- looking into it ----

    def record_handle(self):
        """The ph_record of the capture, an integer: the graph's, until it is reset, closed or captured again."""
        return new_handle(core.ph_graph_record, self._handle)

    def record(self):
        """A Record: nodes, parameters, dependencies, and the allocation of each address."""
        return Record(take_text(core.ph_record_json, self.record_handle()))

    def dot(self, verbose=False):
        """The graph as Graphviz DOT."""
        return take_text(core.ph_record_dot, self.record_handle(), verbose)

    def profile(self, stream, **options):
        """Replays the graph and measures each node: a Profile. options: replays, warmup."""
        from .profile import Profile

        return Profile(self, stream, **options)

    def races(self):
        """Nodes that use the same memory with no order between them: a list of dicts, certain ones first."""
        handle = new_handle(core.ph_graph_find_races, self._handle)
        try:
            count = core.ph_races_count(handle, None)
            return [dict_of(read_struct(core.ph_race, core.ph_races_at, handle, index)) for index in range(count)]
        finally:
            core.ph_races_destroy(handle)

    def diff(self, other):
        """The differences to another capture, as text, a line each."""
        handle = new_handle(core.ph_graph_diff, self._handle, other._graph_handle)
        try:
            return take_text(core.ph_diff_text, handle)
        finally:
            core.ph_diff_destroy(handle)

    def verify(self, stream, body, **options):
        """Holds replays against body(), the captured function, run eagerly: ph_verify_result as a dict."""
        settings = struct_from(core.ph_verify_options, options)
        result = core.ph_verify_result()
        run, finish = body_of(body)
        finish(core.ph_graph_verify(ctypes.byref(result), self._handle, stream._stream_handle, run, None, ctypes.byref(settings)))
        return dict_of(result, verdict=core.ph_verify_verdict)

    def verdict(self, stream, body, **options):
        """Compares eager runs of body(), the captured function, with replays: ph_verdict as a dict."""
        settings = struct_from(core.ph_verdict_options, options)
        result = core.ph_verdict()
        run, finish = body_of(body)
        finish(core.ph_graph_verdict(ctypes.byref(result), self._handle, stream._stream_handle, run, None, ctypes.byref(settings)))
        return dict_of(result, bound=core.ph_bound)

    # ---- where a fault is ----

    def enable_breadcrumbs(self, enabled=True):
        """Switches the breadcrumbs of a capture with breadcrumbs=True, for later replays."""
        check(core.ph_graph_breadcrumbs_enable(self._handle, enabled))

    def where(self):
        """How far the last replay with breadcrumbs came: ph_progress as a dict. It calls no driver: for hangs and faults."""
        found = read_struct(core.ph_progress, core.ph_graph_where, self._handle)
        scopes = [found.open[n].decode("utf-8", "replace") for n in range(found.open_count)]
        return {
            "complete": found.complete, "passed": found.passed, "count": found.count, "open": scopes,
            "last": found.last and found.last.decode("utf-8", "replace"), "message": found.message.decode("utf-8", "replace"),
        }  # fmt: skip

    def enable_finite(self, enabled=True):
        """Switches the checks of Stream.check_finite in the capture, for later replays."""
        check(core.ph_finite_enable(self._handle, enabled))

    def finite(self):
        """What the checks found in the last replay with them: ph_finite_result as dicts. Wait for the replay first."""
        count = ctypes.c_size_t()
        check(core.ph_finite_count(ctypes.byref(count), self._handle))
        return [dict_of(read_struct(core.ph_finite_result, core.ph_finite_at, self._handle, n)) for n in range(count.value)]

    def _repr_html_(self):
        return self.record()._repr_html_()
