# SPDX-License-Identifier: MIT
"""The blocks of torch's allocator, by address."""

import functools
from bisect import bisect_right

import torch

from ..words import pack


def index_of(device):
    """The number of a GPU: of None, and of "cuda" without one, torch's current one."""
    if device is None:
        return torch.cuda.current_device()
    device = torch.device(device)
    if device.type != "cuda":
        raise ValueError(f"phonograph.torch works on GPUs, and {str(device)!r} is none")
    return torch.cuda.current_device() if device.index is None else device.index


class Block:
    """A block of torch's allocator: address, size and requested in bytes, its state, its pool, and the frames that allocated it.

    pool: the pair of numbers of torch, (0, 0) for the default pool. frames: dicts with name,
    filename and line, innermost first; empty unless torch.cuda.memory._record_memory_history is on.
    """

    __slots__ = ("address", "size", "requested", "state", "pool", "device", "stream", "frames")

    def __init__(self, segment, block, address):
        self.address, self.size = address, block["size"]
        self.requested = block.get("requested_size", block["size"])
        self.state = block["state"]
        self.pool = tuple(segment.get("segment_pool_id", (0, 0)))
        self.device, self.stream = segment["device"], segment["stream"]
        self.frames = block.get("frames") or []

    @property
    def is_active(self):
        """Whether it is allocated; else torch keeps it for reuse."""
        return self.state == "active_allocated"

    def __repr__(self):
        return f"<block of {self.requested} bytes at {self.address:#x}, {self.state}, pool {self.pool}>"


class Blocks:
    """All blocks of a snapshot of torch: the list of torch.cuda.memory_snapshot()."""

    def __init__(self, segments):
        found = []
        for segment in segments:
            address = segment["address"]
            for block in segment["blocks"]:
                address = block.get("address", address)
                found.append(Block(segment, block, address))
                address += block["size"]
        self._blocks = sorted(found, key=lambda block: block.address)
        self._starts = [block.address for block in self._blocks]
        self.begin = self._starts[0] if found else 0
        self.end = max((block.address + block.size for block in found), default=0)

    @functools.cached_property
    def ranges(self):
        """The memory of all, as phonograph.words.pack has it."""
        return pack((block.address, block.address + block.size) for block in self._blocks)

    def __len__(self):
        return len(self._blocks)

    def __iter__(self):
        return iter(self._blocks)

    def find(self, address):
        """The block that the address lies in, or None."""
        if not self.begin <= address < self.end:
            return None
        block = self._blocks[bisect_right(self._starts, address) - 1]
        return block if address < block.address + block.size else None
