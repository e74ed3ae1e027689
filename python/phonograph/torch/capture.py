# SPDX-License-Identifier: MIT
"""CUDAGraph and graph: torch's own, which can check before each replay that the inputs of the capture live."""

import warnings

import torch

from ..bindings import core
from ..errors import StaleInput, StateError
from .report import inspect
from .storages import Operands, Places, Watched, live_tensors

_MOST = 5  # dead tensors that a message describes


class StaleInputWarning(UserWarning):
    """A replay may read memory that was freed since the capture: no proof shows that a word is its address."""


def _uses_of(report):
    """{address of a word's value: [(kind, text)]} of words outside of the graph's pool."""
    found = []
    for node, word in report.words():
        memory = word["torch"]
        if not memory["own"]:
            text = f"{node['kind']} {node['index']} ({node['name']}), word {word['name']}"
            found.append((int(word["value"], 0), word["kind"] == "proved", text, memory["frames"]))
    return found


def _host_uses_of(report):
    """The same of pinned memory, which copies alone address for certain."""
    return [
        (int(word["value"], 0), True, f"{node['kind']} {node['index']}, {word['name']}", [])
        for node in report.nodes
        for word in node["words"]
        if word["kind"] == "proved" and not word["torch"] and node["kind"] in ("memcpy", "memset")
    ]


class Inputs:
    """The storages outside of the graph's pool that it addresses, and those of them that have ended."""

    def __init__(self, report, operands):
        known = {watched.address for watched in operands if not watched.dead}
        others = [
            Watched(tensor, (address, size), False)
            for address, size, tensor in {item[0]: item for item in live_tensors()}.values()
            if address not in known
        ]
        storages = [watched for watched in (*operands, *others) if not self._is_own(watched, report)]
        places = Places((watched.address, watched.size, watched) for watched in storages)
        for value, proved, text, frames in (*_uses_of(report), *_host_uses_of(report)):
            for watched in places.find(value):
                watched.uses.append((proved or watched.operand, text))
                watched.frames = watched.frames or frames
        self.all = [watched for watched in storages if watched.uses or watched.operand]
        self.dead = []
        kept = set(map(id, self.all))
        for watched in (*operands, *others):
            if id(watched) in kept:
                watched.watch(self.dead)
            else:
                watched.forget()

    @staticmethod
    def _is_own(watched, report):
        block = report.blocks.find(watched.address)
        return block is not None and block.pool == report.pool

    def forget(self):
        for watched in self.all:
            watched.forget()

    def check(self):
        """Raises StaleInput for proved inputs that have ended. Warns of the others, once of each."""
        proved = [watched for watched in self.dead if any(certain for certain, _ in watched.uses)]
        if proved:
            raise StaleInput(self._message(proved, "nothing was launched"), core.PH_ERROR_STALE_INPUT)
        news = [watched for watched in self.dead if not watched.told]
        for watched in news:
            watched.told = True
        if news:
            warnings.warn(self._message(news, "the replay may read it"), StaleInputWarning, stacklevel=3)

    @staticmethod
    def _message(dead, outcome):
        plural = "" if len(dead) == 1 else "s"
        lines = [f"CUDAGraph.replay: {len(dead)} dead tensor{plural}: freed since the capture; {outcome}"]
        for watched in dead[:_MOST]:
            lines.append(f"- {watched.text}, {watched.size} bytes at {watched.address:#x}")
            lines += [f"    {text}" for _, text in watched.uses[:3]] or ["    an operator of the capture was given it; no node was seen to address it"]
            lines += [f"    allocated at {frame['filename']}:{frame['line']} {frame['name']}" for frame in watched.frames[:3]]
            lines += [f"    freed at {frame.filename}:{frame.lineno} {frame.name}" for frame in reversed(watched.freed[-3:])]
        if len(dead) > _MOST:
            lines.append(f"- and {len(dead) - _MOST} more")
        lines.append("keep the tensors as long as the graph, or capture again")
        return "\n".join(lines)


class CUDAGraph(torch.cuda.CUDAGraph):
    """torch.cuda.CUDAGraph, whose template is always kept, so that inspect can read it.

    torch captures, replays, and owns memory and random numbers. capture_begin takes
    check_input_liveness: then replay() raises StaleInput where memory that the capture was given was
    freed since. One thread at a time uses a graph.
    """

    def __new__(cls, keep_graph=False):
        return super().__new__(cls, True)

    def __init__(self, keep_graph=False):
        super().__init__(True)
        self._keeps, self._operands, self._inputs = keep_graph, None, None

    def capture_begin(self, pool=None, capture_error_mode="global", check_input_liveness=False, **others):
        """As torch's. check_input_liveness: every replay first checks that the inputs of the capture live."""
        if pool is not None:
            others["pool"] = pool
        super().capture_begin(capture_error_mode=capture_error_mode, **others)
        if check_input_liveness:
            self._watch_operands()

    def _watch_operands(self):
        self._operands = Operands()
        self._operands.__enter__()

    def capture_end(self):
        operands, self._operands = self._operands, None
        if operands is not None:
            operands.__exit__(None, None, None)
        super().capture_end()
        if operands is not None:
            self._inputs = Inputs(inspect(self), operands.storages)
        if not self._keeps:
            super().instantiate()

    def instantiate(self):
        """As torch's: for graphs of keep_graph=True."""
        if not self._keeps:
            raise StateError(
                "CUDAGraph.instantiate: capture_end made the executable; set keep_graph=True to make it later", core.PH_ERROR_STATE
            )
        super().instantiate()

    def replay(self):
        inputs = self._inputs
        if inputs is not None and inputs.dead:
            inputs.check()
        super().replay()

    def reset(self):
        inputs, self._inputs = self._inputs, None
        if inputs is not None:
            inputs.forget()
        super().reset()

    @property
    def inputs(self):
        """With check_input_liveness, the storages that are watched: dicts of tensor, address, bytes, live, proved, uses."""
        return [
            {
                "tensor": watched.text, "address": watched.address, "bytes": watched.size, "live": not watched.dead,
                "proved": any(certain for certain, _ in watched.uses), "uses": [text for _, text in watched.uses],
            }
            for watched in (self._inputs.all if self._inputs else [])
        ]  # fmt: skip


class graph(torch.cuda.graph):  # torch's name
    """torch.cuda.graph for a CUDAGraph of this module, with check_input_liveness. Further parameters are torch's.

    An exception of the block ends the capture, as torch does, and goes on; the graph then has no inputs.
    """

    def __init__(self, cuda_graph, pool=None, stream=None, capture_error_mode="global", *, check_input_liveness=False, **others):
        if check_input_liveness and not isinstance(cuda_graph, CUDAGraph):
            raise TypeError("graph: check_input_liveness needs a phonograph.torch.CUDAGraph")
        super().__init__(cuda_graph, pool=pool, stream=stream, capture_error_mode=capture_error_mode, **others)
        self._check = check_input_liveness

    def __enter__(self):
        self._before = torch.cuda.current_stream()
        try:
            super().__enter__()
        except BaseException:
            torch.cuda.set_stream(self._before)
            raise
        if self._check:
            self.cuda_graph._watch_operands()

    def __exit__(self, *error):
        try:
            super().__exit__(*error)
        except BaseException:
            torch.cuda.set_stream(self._before)  # torch leaves its capture stream current then
            raise
