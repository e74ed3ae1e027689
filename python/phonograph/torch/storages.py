# SPDX-License-Identifier: MIT
"""Storages of torch: those that live, by address, and those that a capture's operators were given."""

import traceback
import weakref
from bisect import bisect_right

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter

from .. import hot


def describe(tensor):
    """A tensor in a word: float32[8, 64]."""
    return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"


def place_of(tensor):
    """(address, bytes) of the tensor's storage, or None where it has no memory, as a fake or sparse tensor."""
    try:
        storage = tensor.untyped_storage()
        address, size = storage.data_ptr(), storage.nbytes()
    except (RuntimeError, NotImplementedError, TypeError):
        return None
    return (address, size) if address and size else None


def live_tensors(device="cuda"):
    """Each live tensor of Python on that kind of device: (address, bytes, tensor) of its storage."""
    found = []
    for thing in hot.instances(torch.Tensor):
        try:
            ours = thing.device.type == device
        except (RuntimeError, NotImplementedError):  # a tensor of another framework's making
            continue
        place = place_of(thing) if ours else None
        if place:
            found.append((*place, thing))
    return found


class Places:
    """Items by the memory that they take: find(address) is those of the last range that begins at or before it and has it."""

    def __init__(self, items):
        ranges = {}
        for address, size, item in items:
            known = ranges.setdefault(address, [0, []])
            known[0] = max(known[0], size)
            known[1].append(item)
        self._starts = sorted(ranges)
        self._ranges = ranges

    def find(self, address):
        at = bisect_right(self._starts, address) - 1
        if at < 0:
            return []
        start = self._starts[at]
        size, items = self._ranges[start]
        return items if address < start + size else []


class Watched:
    """A storage that a graph may address. It is not kept alive.

    address, size: of the memory. text: of the tensor that was seen first. operand: an operator of
    the capture was given it. dead: it has ended. freed: the frames that ended it, innermost last.
    """

    __slots__ = ("address", "size", "text", "operand", "dead", "freed", "uses", "frames", "told", "told_of", "_finalizer", "__weakref__")

    def __init__(self, tensor, place, operand):
        self.address, self.size = place
        self.text, self.operand = describe(tensor), operand
        self.dead, self.freed, self.told = False, [], False
        self.uses, self.frames = [], []
        self.told_of = None  # the list that gets it when it ends
        self._finalizer = weakref.finalize(tensor.untyped_storage(), Watched._end, weakref.ref(self))
        self._finalizer.atexit = False

    @staticmethod
    def _end(reference):
        self = reference()
        if self is None:
            return
        self.dead = True
        if self.told_of is not None:
            self.freed = traceback.extract_stack(limit=8)[:-1]
            self.told_of.append(self)

    def watch(self, ended):
        """From now on its end is kept in the list `ended`, with the frames of that moment."""
        self.told_of = ended
        if self.dead:
            ended.append(self)

    def forget(self):
        self._finalizer.detach()


class Operands(TorchDispatchMode):
    """Inside it, every storage that an operator on the capturing stream is given, or makes, is in `storages`."""

    supports_higher_order_operators = True

    def __init__(self, capturing=torch.cuda.is_current_stream_capturing, device="cuda"):
        super().__init__()
        self.storages, self._known = [], {}
        self._capturing, self._device = capturing, device

    @classmethod
    def is_infra_mode(cls):
        """It only looks on: compiled functions stay compiled."""
        return True

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if self._capturing():
            tensors = [thing for thing in tree_iter((args, kwargs)) if isinstance(thing, torch.Tensor)]
            if any(tensor.device.type == self._device for tensor in tensors):
                for tensor in tensors:
                    self._note(tensor)
        return function(*args, **kwargs)

    def _note(self, tensor):
        if tensor.device.type != self._device and not (tensor.device.type == "cpu" and tensor.is_pinned()):
            return
        place = place_of(tensor)
        if place is None:
            return
        key = tensor.untyped_storage()._cdata
        known = self._known.get(key)
        if known is None or known.dead:  # an ended storage's address may be another's
            self._known[key] = watched = Watched(tensor, place, True)
            self.storages.append(watched)


class Outputs(TorchDispatchMode):
    """Inside it, (address, bytes, text) of what each operator returns is in `places`, in order."""

    supports_higher_order_operators = True

    def __init__(self, device="cuda"):
        super().__init__()
        self.places, self._device = [], device

    @classmethod
    def is_infra_mode(cls):
        """It only looks on: compiled functions stay compiled."""
        return True

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for thing in tree_iter(result):
            place = place_of(thing) if isinstance(thing, torch.Tensor) and thing.device.type == self._device else None
            if place:
                self.places.append((*place, describe(thing)))
        return result
