# SPDX-License-Identifier: MIT
"""Private pools of memory."""

import ctypes

from .bindings import core
from .errors import check
from .lifetime import Owner, new_handle
from .structs import dict_of, read_struct, struct_from


class Pool(Owner):
    """ph_pool: memory kept apart, which graphs may share. options: limit, use_on_oom, no_split.

    `with pool:` takes the thread's allocations outside captures from it. close() lets go of this
    object's reference; graphs keep theirs.
    """

    _destroy = core.ph_pool_release

    def __init__(self, device, **options):
        settings = struct_from(core.ph_pool_options, options)
        self.device = device
        self._own(new_handle(core.ph_pool_create, device._device_handle, ctypes.byref(settings)))

    @classmethod
    def _owning(cls, handle, device):
        pool = cls.__new__(cls)
        pool.device = device
        pool._own(handle)
        return pool

    @classmethod
    def _of(cls, handle, device):
        core.ph_pool_retain(handle)
        return cls._owning(handle, device)

    def __enter__(self):
        check(core.ph_pool_begin(self._handle))
        return self

    def __exit__(self, *error):
        check(core.ph_pool_end(self._handle))

    @property
    def id(self):
        """(first, second), as torch's pool ids."""
        found = core.ph_pool_get_id(self._handle)
        return (found.first, found.second)

    @property
    def use_count(self):
        """How many holders the pool has: this object, captures, open scopes."""
        return core.ph_pool_use_count(self._handle)

    @property
    def memory(self):
        """ph_memory_stats of this pool, as a dict."""
        return dict_of(read_struct(core.ph_memory_stats, core.ph_pool_stats, self._handle))

    def trim(self):
        """Gives free segments back to the device."""
        check(core.ph_pool_trim(self._handle))
