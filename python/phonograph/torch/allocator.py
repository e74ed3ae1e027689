# SPDX-License-Identifier: MIT
"""use_allocator: torch's memory comes from phonograph's allocator."""

import ctypes

import torch

from ..bindings import core, library
from ..device import Device
from ..errors import StateError, check
from .blocks import index_of

_HOOKS = {
    "set_reset_fn": "ph_torch_empty_cache", "set_memory_fraction_fn": "ph_torch_memory_fraction",
    "set_record_stream_fn": "ph_torch_record_stream", "set_begin_allocate_to_pool": "ph_torch_begin_pool",
    "set_end_allocate_to_pool_fn": "ph_torch_end_pool", "set_release_pool": "ph_torch_release_pool",
}  # fmt: skip
_hooks = None  # the plug-in, once it is torch's allocator
_torch_allocator = None
_devices = {}


def _load():
    core.ph_version()  # libphonograph, which the plug-in finds by its name
    hooks = ctypes.CDLL(str(library.folder() / "libphonograph_torch.so"))
    hooks.ph_torch_device.argtypes = (ctypes.POINTER(ctypes.c_void_p), ctypes.c_int)
    hooks.ph_torch_device.restype = ctypes.c_int
    hooks.ph_torch_pool_name.argtypes = (ctypes.POINTER(ctypes.c_uint64), ctypes.POINTER(core.ph_pool_id))
    hooks.ph_torch_pool_name.restype = ctypes.c_bool
    return hooks


def make_allocator(hooks):
    """A torch.cuda.memory.CUDAPluggableAllocator of the plug-in's functions."""
    allocator = torch.cuda.memory.CUDAPluggableAllocator(hooks._name, "ph_torch_malloc", "ph_torch_free")
    inner = allocator.allocator()
    for setter, name in _HOOKS.items():
        getattr(inner, setter)(ctypes.cast(getattr(hooks, name), ctypes.c_void_p).value)
    return allocator


def use_allocator():
    """torch's memory of GPUs comes from phonograph's allocator from now on, for the process's life.

    - Call it before CUDA is initialised: StateError where torch has allocated already.
    - Graphs that torch captures get private pools of phonograph's. Statistics and snapshots are
      those of memory_stats, memory_allocated, memory_reserved, max_memory_allocated,
      reset_peak_memory_stats and memory_snapshot here; torch.cuda.empty_cache works.
    - torch refuses what it has no hook for, with its own reason ("CUDAPluggableAllocator does not yet
      support ..."): torch.cuda.memory_stats and what reads it, memory_snapshot, memory history,
      MemPool, checkpoints of pools (cudagraph trees), sharing between processes.
    - Memory that runs out is a RuntimeError "CUDA out of memory. ...", not torch's own class.
    - A second call does nothing.
    """
    global _hooks, _torch_allocator
    if _hooks is not None:
        return
    hooks = _load()
    allocator = make_allocator(hooks)
    try:
        torch.cuda.memory.change_current_allocator(allocator)
    except RuntimeError as error:
        raise StateError(
            f"use_allocator: torch does not take another allocator any more ({str(error).splitlines()[0]}); call it before "
            "anything uses CUDA",
            core.PH_ERROR_STATE,
        ) from error
    _hooks, _torch_allocator = hooks, allocator


def is_used():
    """Whether torch's memory comes from phonograph's allocator."""
    return _hooks is not None


def device_of(index):
    """The phonograph.Device whose memory torch's GPU of that number uses, or None: torch has its own allocator."""
    if _hooks is None:
        return None
    if index not in _devices:
        handle = ctypes.c_void_p()
        check(_hooks.ph_torch_device(ctypes.byref(handle), index))
        _devices[index] = Device._of(handle.value)
    return _devices[index]


def _device(device, call):
    if _hooks is None:
        raise StateError(f"{call}: torch has its own allocator; use_allocator makes phonograph's torch's", core.PH_ERROR_STATE)
    return device_of(index_of(device))


def memory_stats(device=None):
    """ph_memory_stats of the GPU, as a dict; its totals are those of all pools."""
    return _device(device, "memory_stats").memory


def memory_allocated(device=None):
    """Bytes of the blocks in use."""
    return memory_stats(device)["allocated"]


def max_memory_allocated(device=None):
    """The peak of memory_allocated."""
    return memory_stats(device)["allocated_peak"]


def memory_reserved(device=None):
    """Bytes that were taken from the GPU."""
    return memory_stats(device)["reserved"]


def reset_peak_memory_stats(device=None):
    """Sets the peaks to the present values."""
    check(core.ph_memory_reset_peaks(_device(device, "reset_peak_memory_stats").handle))


def _name_of(pool):
    """torch's numbers of a pool of a snapshot."""
    first, second = pool or (0, 0)
    name = (ctypes.c_uint64 * 2)()
    if (first or second) and _hooks.ph_torch_pool_name(name, ctypes.byref(core.ph_pool_id(first, second))):
        return tuple(name)
    return (first, second)


_STATES = {"allocated": "active_allocated", "waiting": "active_pending_free", "free": "inactive"}


def as_torch(snapshot, index, name_of=_name_of):
    """A snapshot of phonograph in the layout of torch.cuda.memory_snapshot()."""
    return [
        {
            "device": index, "address": int(segment["address"], 0), "total_size": segment["size"], "stream": segment["stream"],
            "segment_type": segment["type"], "allocated_size": segment["allocated"], "active_size": segment["active"],
            "requested_size": segment["requested"], "segment_pool_id": name_of(segment["pool"]), "is_expandable": False,
            "blocks": [
                {
                    "address": int(block["address"], 0), "size": block["size"], "requested_size": block["requested"],
                    "state": _STATES[block["state"]], "frames": [],
                }
                for block in segment["blocks"]
            ],
        }
        for segment in snapshot["segments"]
    ]  # fmt: skip


def memory_snapshot(device=None):
    """The segments and blocks of the GPU, in the layout of torch.cuda.memory_snapshot()."""
    found = _device(device, "memory_snapshot")
    return as_torch(found.memory_snapshot(), found.ordinal)


def torch_snapshot(index):
    """The snapshot of torch's memory, whoever allocates it."""
    if _hooks is not None:
        return memory_snapshot(index)
    return [segment for segment in torch.cuda.memory_snapshot() if segment["device"] == index]


def allocations(index):
    """How often torch has allocated on the GPU so far, until somebody resets that; None: this torch does not say."""
    if _hooks is not None:
        return memory_stats(index)["allocation"][0]["added"]
    try:
        return torch.cuda.memory_stats_as_nested_dict(index)["allocation"]["all"]["allocated"]
    except (AttributeError, KeyError):
        return None
