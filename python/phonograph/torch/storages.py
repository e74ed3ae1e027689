# SPDX-License-Identifier: MIT
"""Storages of torch: those that live, by address, and those that a capture's operators were given."""

import functools
import sys
import traceback
import weakref
from bisect import bisect_right

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter

from .. import hot


def text_of(dtype, shape):
    return f"{str(dtype).removeprefix('torch.')}{list(shape)}"


def describe(tensor):
    """A tensor in a word: float32[8, 64]."""
    return text_of(tensor.dtype, tensor.shape)


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

    __slots__ = ("address", "size", "operand", "dead", "freed", "uses", "frames", "told", "told_of", "_form", "_reference", "__weakref__")

    def __init__(self, tensor, storage, place, operand):
        """storage, place: of the tensor."""
        self.address, self.size = place
        self._form, self.operand = (tensor.dtype, tensor.shape), operand
        self.dead, self.freed, self.told = False, (), False
        self.uses, self.frames = [], []
        self.told_of = None  # the list that gets it when it ends
        self._reference = weakref.ref(storage, functools.partial(Watched._end, weakref.ref(self)))

    @classmethod
    def of(cls, tensor, operand):
        """Of a tensor that has memory."""
        return cls(tensor, tensor.untyped_storage(), place_of(tensor), operand)

    @property
    def text(self):
        return text_of(*self._form)

    @staticmethod
    def _end(reference, _storage):
        self = reference()
        if self is None or sys.is_finalizing():
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
        self._reference = None


_LEAVES = {int, float, bool, str, complex, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format, torch.Generator}


def _add_tensors(found, things):
    """The tensors among the arguments of an operator, which are plain but of higher-order operators."""
    for thing in things:
        kind = type(thing)
        if kind is torch.Tensor or isinstance(thing, torch.Tensor):
            found.append(thing)
        elif kind is list or kind is tuple:
            _add_tensors(found, thing)
        elif kind not in _LEAVES:
            found += [inner for inner in tree_iter(thing) if isinstance(inner, torch.Tensor)]


class Operands(TorchDispatchMode):
    """Inside it, every storage that an operator on the capturing stream is given, or makes, is in `storages`."""

    supports_higher_order_operators = True

    def __init__(self, capturing=torch._C._cuda_isCurrentStreamCapturing, device="cuda"):
        super().__init__()
        self.storages, self._known = [], {}
        self._capturing, self._device = capturing, device

    @classmethod
    def is_infra_mode(cls):
        """It only looks on: compiled functions stay compiled."""
        return True

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if self._capturing():
            tensors = []
            _add_tensors(tensors, args)
            if kwargs:
                _add_tensors(tensors, kwargs.values())
            self._note_all(tensors)
        return function(*args, **kwargs) if kwargs else function(*args)

    def _note_all(self, tensors):
        known, ours = self._known, None
        for tensor in tensors:
            try:
                storage = tensor.untyped_storage()
            except (RuntimeError, NotImplementedError, TypeError):  # as of a sparse tensor
                continue
            key = storage._cdata
            watched = known.get(key)
            if watched is not None and not watched.dead:  # an ended storage's address may be another's
                continue
            if ours is None:
                ours = any(other.device.type == self._device for other in tensors)
            if ours and (tensor.device.type == self._device or tensor.device.type == "cpu" and tensor.is_pinned()):
                place = place_of(tensor)
                if place:
                    known[key] = watched = Watched(tensor, storage, place, True)
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
