# SPDX-License-Identifier: MIT
"""Storages of torch: those that live, by address, and those that a capture's operators were given."""

import functools
import sys
import traceback
from bisect import bisect_right
from operator import attrgetter
from weakref import ref as reference_to

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter

from .. import hot


def text_of(dtype, shape):
    return f"{str(dtype).removeprefix('torch.')}{list(shape)}"


def describe(tensor):
    """A tensor in a word: float32[8, 64]."""
    return text_of(tensor.dtype, tensor.shape)


_NO_MEMORY = RuntimeError, NotImplementedError, TypeError  # as of a fake or sparse tensor


def place_of(tensor, storage=None):
    """(address, bytes) of the tensor's storage, or None where it has no memory."""
    try:
        storage = tensor.untyped_storage() if storage is None else storage
        address, size = storage.data_ptr(), storage.nbytes()
    except _NO_MEMORY:
        return None
    return (address, size) if address and size else None


def live_tensors(device="cuda"):
    """Each live tensor of Python on that kind of device: (address, bytes, tensor) of its storage."""
    found, lies_there = [], attrgetter(f"is_{device}")
    for thing in hot.instances(torch.Tensor):
        try:
            ours = lies_there(thing)
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
    the capture was given it. dead: it has ended. freed: the frames that ended it, innermost last,
    once it is watched.
    """

    frames, freed, told = (), (), False
    told_of = None  # the list that gets it when it ends

    def __init__(self, tensor, storage, place, operand):
        """storage, place: of the tensor."""
        self.address, self.size = place
        self.operand, self.uses = operand, []
        self._form = tensor.dtype, tensor.shape
        self._reference = reference_to(storage)

    @classmethod
    def of(cls, tensor, operand):
        """Of a tensor that has memory."""
        return cls(tensor, tensor.untyped_storage(), place_of(tensor), operand)

    @property
    def text(self):
        return text_of(*self._form)

    @property
    def dead(self):
        return self._reference is not None and self._reference() is None

    @staticmethod
    def _end(reference, _storage):
        self = reference()
        if self is not None and self.told_of is not None and not sys.is_finalizing():
            self.freed = traceback.extract_stack(limit=8)[:-1]
            self.told_of.append(self)

    def watch(self, ended):
        """From now on its end is kept in the list `ended`, with the frames of that moment."""
        storage = self._reference()
        self.told_of = ended
        if storage is None:
            ended.append(self)
        else:
            self._reference = reference_to(storage, functools.partial(Watched._end, reference_to(self)))

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
        self._capturing, self._lies_there = capturing, attrgetter(f"is_{device}")

    @classmethod
    def is_infra_mode(cls):
        """It only looks on: compiled functions stay compiled."""
        return True

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        tensors, known = [], self._known
        for thing in args:
            kind = type(thing)
            if kind is torch.Tensor:
                tensors.append(thing)
            elif kind not in _LEAVES:
                _add_tensors(tensors, (thing,))
        if kwargs:
            _add_tensors(tensors, kwargs.values())
        for tensor in tensors:
            try:
                storage = tensor.untyped_storage()
            except _NO_MEMORY:
                continue
            watched = known.get(storage._cdata)
            if watched is None or watched._reference() is None:  # an ended storage's address may be another's
                if not self._capturing():
                    break
                self._note(tensor, storage, tensors)
        return function(*args, **kwargs) if kwargs else function(*args)

    def _note(self, tensor, storage, tensors):
        """Of an operator on the GPU, to which also pinned memory may be given."""
        if not self._lies_there(tensor):
            if not (tensor.is_cpu and tensor.is_pinned() and any(map(self._lies_there, tensors))):
                return
        place = place_of(tensor, storage)
        if place:
            self._known[storage._cdata] = watched = Watched(tensor, storage, place, True)
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
