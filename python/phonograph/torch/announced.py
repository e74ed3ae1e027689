# SPDX-License-Identifier: MIT
"""The blocks of torch's allocator, announced to the library: graphs of its own know when one is freed."""

import sys
import threading
import weakref

import torch

from ..foreign import ForeignBlock
from . import allocator
from .blocks import Blocks, index_of
from .storages import describe, live_tensors

_FRAMES = 3  # of a free


def _frame_lines(frames):
    return [f"{frame['filename']}:{frame['line']} {frame['name']}" for frame in frames]


def _here():
    """The innermost frames of the code that lets a storage go, outside of this package."""
    lines, frame = [], sys._getframe(1)
    while frame is not None and len(lines) < _FRAMES:
        name = frame.f_globals.get("__name__", "")
        if name not in (__name__, "weakref"):
            lines.append(f"{frame.f_code.co_filename}:{frame.f_lineno} {frame.f_code.co_name}")
        frame = frame.f_back
    return " < ".join(lines)


class _Known:
    """A block that was announced: storage: the identity of its storage, or None while no tensor of Python has it."""

    __slots__ = ("announced", "storage", "finalizer", "size", "ended", "__weakref__")

    def __init__(self, announced, size):
        self.announced, self.size = announced, size
        self.storage, self.finalizer, self.ended = None, None, False

    def watch(self, tensor):
        storage = tensor.untyped_storage()
        self.storage = storage._cdata
        self.finalizer = weakref.finalize(storage, _Known._on_end, weakref.ref(self))
        self.finalizer.atexit = False

    @staticmethod
    def _on_end(reference):
        self = reference()
        if self is not None:
            self.end(_here())

    def end(self, where):
        self.ended = True
        if self.finalizer is not None:
            self.finalizer.detach()
        self.announced.end(where)


class Announced:
    """The announced blocks of one device. update() brings them up to date with torch's snapshot.

    - Blocks of private pools are none of them: a graph uses the memory of its pool also after the free.
    - A block that a tensor of Python has ends with the tensor's storage, wherever that is let go.
    - One that only torch's own code has ends with the update that does not find it any more, or that
      finds another size, or a storage, at its address.
    """

    def __init__(self, device):
        self._device, self._known = device, {}
        self._lock = threading.Lock()

    def __len__(self):
        return sum(not known.ended for known in self._known.values())

    def update(self, blocks, tensors):
        """blocks: Blocks of a snapshot of this device. tensors: (address, bytes, tensor), as live_tensors gives them."""
        first = {}
        for address, _, tensor in tensors:
            first.setdefault(address, tensor)
        with self._lock:
            found = {block.address: block for block in blocks if block.is_active and block.pool == (0, 0)}
            for address, known in list(self._known.items()):
                if known.ended or address not in found:
                    self._end(address)
            for address, block in found.items():
                self._announce(block, first.get(address))

    def _end(self, address):
        known = self._known.pop(address)
        if not known.ended:
            known.end("torch's allocator, before the last update")

    def _announce(self, block, tensor):
        known = self._known.get(block.address)
        storage = tensor.untyped_storage()._cdata if tensor is not None else None
        if known is not None and known.size == block.requested and not known.ended and known.storage in (None, storage):
            if known.storage is None and tensor is not None:
                known.watch(tensor)
            return
        if known is not None:
            self._end(block.address)
        lines = [describe(tensor) if tensor is not None else f"torch's block, {block.state}", *_frame_lines(block.frames)]
        announced = ForeignBlock(self._device, block.address, block.requested, "\n".join(lines))
        known = self._known[block.address] = _Known(announced, block.requested)
        if tensor is not None:
            known.watch(tensor)

    def end(self):
        """Ends all of them, without a word about who freed them."""
        with self._lock:
            for address in list(self._known):
                self._end(address)


_of_device = {}


def announce_blocks(device=None):
    """Announces the live blocks of torch's allocator on the GPU: graphs that phonograph imports know when one is freed.

    - Call it before import_graph(..., check_input_liveness=True) and Graph.import_cuda, which then
      resolve words to torch's blocks; import_graph does it itself. Call it again for later blocks.
    - A block ends with its storage, whose last owner may be anywhere in Python or in torch. Blocks
      that no tensor of Python has end at the next call that does not find them.
    - Returns how many blocks are announced. device: the GPU; else torch's current one. 0 after
      use_allocator, as the library knows its own blocks.
    """
    from .report import device_of

    if allocator.is_used():
        return 0

    index = index_of(device)
    segments = [segment for segment in torch.cuda.memory_snapshot() if segment["device"] == index]
    announced = _of_device.get(index) or _of_device.setdefault(index, Announced(device_of(index)))
    announced.update(Blocks(segments), [item for item in live_tensors() if item[2].device.index == index])
    return len(announced)

