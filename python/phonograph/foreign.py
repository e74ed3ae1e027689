# SPDX-License-Identifier: MIT
"""Blocks of another allocator, which are announced to the library."""

import ctypes

from .bindings import core
from .errors import check
from .lifetime import new_handle


class CulpritWatch:
    """Notes failing driver calls while other code captures: ph_culprit_watch_begin.

    The calling thread has begun the capture with that number (cuStreamGetCaptureInfo has it).
    """

    def __init__(self, device, capture):
        self._handle = new_handle(core.ph_culprit_watch_begin, device._device_handle, capture)

    def end(self):
        """The call that may have killed the capture, its thread and functions; "": none was seen."""
        handle, self._handle = self._handle, None
        text = ctypes.c_void_p()
        if handle:
            check(core.ph_culprit_watch_end(ctypes.byref(text), handle))
        try:
            return ctypes.string_at(text.value).decode("utf-8", "replace") if text.value else ""
        finally:
            core.ph_string_free(text)

    def __del__(self):
        if getattr(self, "_handle", None):
            self.end()


class ForeignBlock:
    """An announced block: its end is seen as a free of the library's own memory is (ph_foreign_announce).

    - device: a Device; it must not be closed before the block's end. address, bytes: of the memory,
      which stays its owner's.
    - label: its first line stands in messages, all of it in Graph.inputs. pinned: pinned host memory.
    - end(where) says that the owner has freed it; so does the end of this object, and of a with block.
    """

    __slots__ = ("_device", "address", "bytes", "generation", "__weakref__")

    def __init__(self, device, address, bytes, label="", pinned=False):
        block = core.ph_foreign_block(address=address, bytes=bytes, label=label.encode(errors="replace"), pinned=pinned)
        generation = ctypes.c_uint64()
        self._device = None
        self.address, self.bytes = address, bytes
        check(core.ph_foreign_announce(ctypes.byref(generation), device.handle, ctypes.byref(block)))
        self._device, self.generation = device, generation.value

    def end(self, where=""):
        """Ends the block; where: what freed it. False: it had ended, as another one was announced there."""
        device, self._device = self._device, None
        if device is None or device.handle is None:
            return False
        text = where.encode(errors="replace") if where else None
        return core.ph_foreign_end(device.handle, self.address, self.generation, text) == core.PH_OK

    @property
    def live(self):
        """Whether nothing has ended it: no end, and no other block that was announced there."""
        if self._device is None or self._device.handle is None:
            return False
        found = core.ph_allocation()
        status = core.ph_memory_lookup(ctypes.byref(found), self._device.handle, self.address)
        return status == core.PH_OK and found.generation == self.generation

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.end()

    def __del__(self):
        if self._device is not None:
            self.end()

    def __repr__(self):
        return f"<phonograph.ForeignBlock of {self.bytes} bytes at {self.address:#x}>"
