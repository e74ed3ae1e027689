# SPDX-License-Identifier: MIT
"""The storages that a captured graph addresses, and those of them that have ended."""

import warnings
from bisect import bisect_right

from ..bindings import core
from ..errors import StaleInput
from ..words import pack, without
from .report import scope_text
from .storages import Places, Watched, live_tensors

_MOST = 5  # dead tensors that a message describes


class StaleInputWarning(UserWarning):
    """A replay may read memory that was freed since the capture: no proof shows that a word is its address."""


def _scope_at(scopes, number):
    """The words of the scope that the node lies in; scopes: pairs of a first node and a dict."""
    at = bisect_right(scopes, number, key=lambda scope: scope[0]) - 1
    text = scope_text({"annotation": scopes[at][1]}) if at >= 0 else ""
    return f" in {{{text}}}" if text else ""


def _uses_in(report, storages, scopes):
    """(word, proved, text, frames) for each word that lies in one of the storages, pairs of address and bytes.

    Of pinned memory copies and fills alone: kernels of torch address none.
    """
    ranges = pack((address, address + size) for address, size in storages)
    for path, _, value, proved, kind, node, name in report.words_in(ranges):
        block, index = report.blocks.find(value), ".".join(map(str, path))
        if block is not None:
            yield value, proved, f"{kind} {index} ({node}){_scope_at(scopes, path[0])}, word {name}", block.frames
        elif proved and kind in ("memcpy", "memset"):
            yield value, True, f"{kind} {index}, {name}", []


def _may_have_more(report, operands):
    """Whether the graph may address a storage outside of its pool that none of the operands has: a word lies in another block
    that is allocated, or a copy or fill addresses what is no block of torch's at all.

    To look for tensors among all objects of Python takes longer than the rest of the end of a capture.
    """
    live = {watched.address: watched.size for watched in operands if not watched.dead}
    known, others = [(address, address + size) for address, size in live.items()], []
    for block in report.blocks:
        filled = live.get(block.address) == block.requested
        spans = known if filled or not block.is_active or block.pool == report.pool else others
        spans.append((block.address, block.address + block.size))
    elsewhere = without([(1, (1 << 64) - 1)], pack([*known, *others]))
    return bool(report.words_in(pack(without(others, pack(known)))) or report.words_in(pack(elsewhere), True))


class Inputs:
    """The storages outside of the graph's pool that it addresses, and those of them that have ended."""

    def __init__(self, report, operands, scopes=()):
        """operands: Watched, which are forgotten where the graph does not need them. scopes: as of CUDAGraph.scopes."""
        outside = [watched for watched in operands if not self._is_own(watched.address, report)]
        known = {watched.address for watched in operands if not watched.dead}
        items = [(watched.address, watched.size, watched) for watched in outside]
        more = live_tensors() if _may_have_more(report, operands) else ()
        for address, size, tensor in {item[0]: item for item in more}.values():
            if address not in known and not self._is_own(address, report):
                items.append((address, size, tensor))
        places, made = Places(items), {}
        for value, proved, text, frames in _uses_in(report, [item[:2] for item in items], scopes):
            for thing in places.find(value):
                watched = thing if isinstance(thing, Watched) else made.get(id(thing))
                if watched is None:
                    watched = made[id(thing)] = Watched.of(thing, False)
                watched.uses.append((proved or watched.operand, text, value))
                watched.frames = watched.frames or frames
        self.all, self.dead, self._bound = [*outside, *made.values()], [], {}
        for watched in self.all:
            watched.watch(self.dead)
        kept = set(map(id, outside))
        for watched in operands:
            if id(watched) not in kept:
                watched.forget()

    @staticmethod
    def _is_own(address, report):
        block = report.blocks.find(address)
        return block is not None and block.pool == report.pool

    def forget(self):
        for watched in (*self.all, *self._bound.values()):
            watched.forget()

    def rebind(self, name, span, tensor):
        """The slot has another tensor's memory: that is watched instead of what the span of (address, bytes) had."""
        bound = self._bound.get(name)
        if bound is None:
            self._release_span(*span)
        elif not bound.dead and bound.address == tensor.untyped_storage().data_ptr():
            return
        else:
            self._drop(bound)
        self._bound[name] = watched = Watched.of(tensor, True)
        watched.uses = [(True, f"slot {name}", tensor.data_ptr())]
        watched.watch(self.dead)

    def _release_span(self, address, size):
        """Uses in the span are the slot's from now on. A storage without others may end."""
        for watched in list(self.all):
            if not watched.address <= address < watched.address + watched.size:
                continue
            watched.uses = [use for use in watched.uses if not address <= use[2] < address + size]
            if not watched.uses:
                self._drop(watched)
                self.all.remove(watched)

    def _drop(self, watched):
        watched.forget()
        watched.told_of = None
        if watched in self.dead:
            self.dead.remove(watched)

    def check(self):
        """Raises StaleInput for proved inputs that have ended. Warns of the others, once of each."""
        proved = [watched for watched in self.dead if any(certain for certain, _, _ in watched.uses)]
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
            lines += [f"    {text}" for _, text, _ in watched.uses[:3]] or ["    an operator of the capture was given it; no node was seen to address it"]
            lines += [f"    allocated at {frame['filename']}:{frame['line']} {frame['name']}" for frame in watched.frames[:3]]
            lines += [f"    freed at {frame.filename}:{frame.lineno} {frame.name}" for frame in reversed(watched.freed[-3:])]
        if len(dead) > _MOST:
            lines.append(f"- and {len(dead) - _MOST} more")
        lines.append("keep the tensors as long as the graph, or capture again")
        return "\n".join(lines)
