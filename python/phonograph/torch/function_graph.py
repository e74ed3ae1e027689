# SPDX-License-Identifier: MIT
"""capture_function: a graph of a function on torch's tensors, for verify, checks for NaN, profile, timeline and page."""

import contextlib

import torch

from ..array import Array
from ..bindings import core
from ..errors import ArgumentError, StateError, UnsupportedError
from ..graph import Graph
from ..stream import Stream
from . import allocator
from .blocks import index_of
from .report import device_of
from .scopes import Pushes
from .storages import Outputs, describe

_capturing = []  # the FunctionGraphs whose capture is open, the latest last
_RANDOM = "not in capture mode"  # torch's words where a generator draws in a capture that torch did not begin


class FunctionGraph(Graph):
    """A phonograph.Graph of function(), captured by this library on memory of torch's. Made by capture_function.

    function: the function. stream: the torch.cuda.Stream that it runs on. What it returns is let go at
    the end of each run, so that each run finds its tensors' memory at the same addresses: it writes
    what is to be read to tensors that were made before.
    """

    _pool = None

    def __init__(self, function, stream, device):
        super().__init__()
        self.function, self.stream, self._index = function, stream, device
        device_of(device)  # streams are wrapped on an open device
        self._ours = Stream.wrap(stream)
        self._pool, self._placed = torch.cuda.graph_pool_handle(), None
        # it exists from now on, until it is released as often
        torch._C._cuda_beginAllocateToPool(device, self._pool)
        torch._C._cuda_endAllocateToPool(device, self._pool)

    @contextlib.contextmanager
    def _memory(self):
        """torch's allocations come from the graph's pool, on all threads."""
        torch._C._cuda_beginAllocateToPool(self._index, self._pool)
        try:
            yield
        finally:
            torch._C._cuda_endAllocateToPool(self._index, self._pool)
            torch._C._cuda_releasePool(self._index, self._pool)

    def _run(self, name):
        """One run, eager or captured, whose tensors lie where those of the capture do."""
        with torch.cuda.stream(self.stream), self._memory(), Outputs() as made:
            try:
                self.function()
            except RuntimeError as error:
                if _RANDOM in str(error):
                    raise StateError(
                        f"{name}: the function draws random numbers, whose generator torch advances for its own captures alone; "
                        "take out dropout, as with eval(), or give the numbers in a tensor",
                        core.PH_ERROR_STATE,
                    ) from error
                raise
        return made.places

    def _run_placed(self):
        pairs = enumerate(zip(self._placed, self._run("verify")))
        differs = next(((at, first, second) for at, (first, second) in pairs if first != second), None)
        if differs is None:  # where one run has more operators, the comparison of contents says so
            return
        at, first, second = differs
        raise StateError(
            f"verify: result {at} of the function's operators is {second[2]} at {second[0]:#x} in this run, and {first[2]} at "
            f"{first[0]:#x} in the capture: runs can be compared only where each does the same work and finds the same free "
            "memory; make what outlives a run before the capture (zero_grad(set_to_none=False) keeps gradients), and let no other "
            "thread allocate meanwhile",
            core.PH_ERROR_STATE,
        )

    def _capture(self, warmup, options):
        self.stream.wait_stream(torch.cuda.current_stream())
        for _ in range(warmup):
            self._run("capture_function")
        self.stream.synchronize()
        annotates = options.get("enable_annotations")
        with self.capture(self._ours, **options):
            pushes = Pushes(self._ours) if annotates else None
            _capturing.append(self)
            try:
                self._placed = self._run("capture_function")
            finally:
                _capturing.remove(self)
                if pushes:
                    pushes.end()
        torch.cuda.current_stream().wait_stream(self.stream)

    # ---- as those of Graph, on the function's stream ----

    def replay(self, stream=None, **values):
        """Launches the graph on its stream, ordered with torch's current one, or on a phonograph.Stream."""
        if stream is not None:
            return super().replay(stream, **values)
        current = torch.cuda.current_stream()
        self.stream.wait_stream(current)
        super().replay(self._ours, **values)
        current.wait_stream(self.stream)

    def verify(self, *, outputs=None, **options):
        """Holds replays against eager runs of the function, and names the first node that differs: ph_verify_result as a dict.

        - outputs: tensors by name, which alone are compared then, with relative and absolute as
          tolerances; else every byte that the nodes may write. Contents are as before afterwards.
        - StateError: an eager run finds other memory for its tensors than the capture did.
        - options: of ph_verify_options. Blocks of torch's are compared as memory of other code: what
          a capture reads before it is written is not found.
        """
        if outputs:
            entries = (core.ph_verify_output * len(outputs))(*(_output(name, tensor) for name, tensor in outputs.items()))
            options |= {"outputs": entries, "output_count": len(outputs)}
        torch.cuda.synchronize(self._index)
        return super().verify(self._ours, self._run_placed, **options)

    def verdict(self, **options):
        """Compares the time of eager runs with that of replays: ph_verdict as a dict."""
        torch.cuda.synchronize(self._index)
        return super().verdict(self._ours, lambda: self._run("verdict"), **options)

    def profile(self, **options):
        """Replays the graph and measures each node: a Profile, with critical_path, trace (for Perfetto) and html()."""
        torch.cuda.synchronize(self._index)
        return super().profile(self._ours, **options)

    def close(self):
        """Ends the graph, and gives its memory back to torch."""
        pool, self._pool = self._pool, None
        super().close()
        if pool is None or torch.cuda.is_current_stream_capturing():  # a capture forbids the wait: the memory stays the pool's
            return
        torch.cuda.synchronize(self._index)
        torch._C._cuda_releasePool(self._index, pool)


_NUMBERS = {
    torch.float32: core.PH_NUMBER_F32, torch.float64: core.PH_NUMBER_F64, torch.float16: core.PH_NUMBER_F16,
    torch.bfloat16: core.PH_NUMBER_BF16,
}  # fmt: skip


def _number_of(tensor, call, name):
    kind = _NUMBERS.get(tensor.dtype)
    if kind is None or not tensor.is_contiguous() or tensor.device.type != "cuda":
        raise ArgumentError(
            f"{call}: {name} is {describe(tensor)} on {tensor.device}: contiguous floats on a GPU are needed", core.PH_ERROR_ARGUMENT
        )
    return kind


def _output(name, tensor):
    kind = _number_of(tensor, "verify", name)
    return core.ph_verify_output(tensor.data_ptr(), kind, tensor.numel(), name.encode())


def check_finite(tensor, name=""):
    """In a function that capture_function captures: a check of the tensor for NaN and infinity.

    graph.enable_finite() switches the checks on, and graph.finite() has what they found. In an eager
    run it does nothing, so that the function runs as it is.
    """
    if not torch.cuda.is_current_stream_capturing():
        return
    graph = next((graph for graph in reversed(_capturing) if graph.stream == torch.cuda.current_stream()), None)
    if graph is None:
        raise StateError("check_finite: the current stream is not that of a capture_function", core.PH_ERROR_STATE)
    _number_of(tensor, "check_finite", name or "the tensor")
    graph._ours.check_finite(Array(tensor.data_ptr(), tensor.shape, str(tensor.dtype).removeprefix("torch.")), name)


def capture_function(function, *, stream=None, device=None, warmup=3, **options):
    """A FunctionGraph of function(), for the tools that need the function itself: verify, verdict, checks for NaN.

    - function: takes nothing, and leaves nothing that it has allocated; it draws no random numbers.
      It runs `warmup` times on the stream, then once in the capture.
    - stream: a torch.cuda.Stream; else one of its own. device: the GPU; else the current one.
    - options: of Graph.capture, as enable_annotations, breadcrumbs and check_input_liveness.
    - UnsupportedError: with use_allocator.
    - torch's graphs of pt.graph stay the way to run a model: torch owns their memory and random numbers.
    """
    if allocator.is_used():
        raise UnsupportedError(
            "capture_function: torch's memory comes from phonograph's allocator (use_allocator), which places each run by itself; "
            "capture with pt.graph, or without use_allocator",
            core.PH_ERROR_UNSUPPORTED,
        )
    index = index_of(device)
    graph = FunctionGraph(function, stream or torch.cuda.Stream(index), index)
    try:
        graph._capture(warmup, options)
    except BaseException:
        graph.close()
        raise
    return graph
