# SPDX-License-Identifier: MIT
"""Devices: the host device, and GPUs."""

import ctypes
import json

from . import functions
from .bindings import core
from .errors import check
from .lifetime import Owner, handle_of_pool, new_handle
from .structs import dict_of, read_struct, struct_from, take_text


def drivers():
    """The drivers of the library, and whether each can be used: dicts with name, device_count, version and reason."""
    found = []
    while True:
        info = core.ph_driver_info()
        status = core.ph_driver_get_info(ctypes.byref(info), len(found))
        if status == core.PH_ERROR_NOT_FOUND:
            return found
        check(status)
        found.append(dict_of(info))


class Device(Owner):
    """ph_device: "auto" (the first GPU that works, else the host device), "host", "cuda", "cuda:1".

    options: the members of ph_device_options, as host_threads=2. Each Device("host") is a device of
    its own. close() lets go of this object's reference; streams and arrays keep theirs.
    """

    _destroy = core.ph_device_release

    def __init__(self, name="auto", **options):
        if not isinstance(name, str):
            raise TypeError(f'Device: the name is a {type(name).__name__}; write "auto", "host", "cuda" or "cuda:1"')
        settings = struct_from(core.ph_device_options, options)
        self._take(new_handle(core.ph_device_open, name.encode(), ctypes.byref(settings)))

    @classmethod
    def _of(cls, handle):
        """A device of a handle that is borrowed."""
        device = cls.__new__(cls)
        core.ph_device_retain(handle)
        device._take(handle)
        return device

    def _take(self, handle):
        self._own(handle)
        info = read_struct(core.ph_device_info, core.ph_device_get_info, handle)
        self.name = info.name.decode()
        self.is_cuda = info.kind == core.PH_DEVICE_CUDA
        self.ordinal = info.ordinal

    def _devices(self, handle):
        return [handle]

    def __repr__(self):
        return f"<phonograph.Device {self.name!r}>"

    @property
    def info(self):
        """ph_device_info as a dict: memory, threads, priorities, compute capability."""
        return dict_of(read_struct(core.ph_device_info, core.ph_device_get_info, self._handle), kind=core.ph_device_kind)

    @property
    def default_stream(self):
        """The legacy default stream. It can never capture."""
        from .stream import Stream

        return Stream._borrow(core.ph_device_default_stream(self._handle), self)

    def stream(self, **options):
        """A new Stream; options: priority, blocking."""
        from .stream import Stream

        return Stream(self, **options)

    def event(self, **options):
        """A new Event; options: timing, external."""
        from .stream import Event

        return Event(self, **options)

    def pool(self, **options):
        """A new Pool; options: limit, use_on_oom, no_split."""
        from .pool import Pool

        return Pool(self, **options)

    def kernel(self, name, **forms):
        """A new Kernel, whose arguments are those of Kernel."""
        from .kernel import Kernel

        return Kernel(self, name, **forms)

    def synchronize(self):
        """Waits until all work of the device is done. Raises what a function of Python has raised."""
        check(core.ph_device_synchronize(self._handle))
        functions.raise_failure()

    @property
    def is_capturing(self):
        """Whether a capture that this thread began is open on the device."""
        return core.ph_device_is_capturing(self._handle)

    # ---- memory ----

    @property
    def memory(self):
        """ph_memory_stats of all pools, as a dict."""
        return dict_of(read_struct(core.ph_memory_stats, core.ph_memory_get_stats, self._handle))

    def memory_snapshot(self, pool=None):
        """Segments, blocks and events as a dict (docs/reference/memory.md)."""
        return json.loads(take_text(core.ph_memory_snapshot, self._handle, handle_of_pool(pool, "Device.snapshot")))

    def trim(self):
        """Gives cached memory back to the device. May wait."""
        check(core.ph_memory_trim(self._handle))

    def set_memory_limit(self, size):
        """Limits the bytes that the library takes from the device; 0: no limit."""
        check(core.ph_memory_set_limit(self._handle, size))
