# SPDX-License-Identifier: MIT
"""The target of the library's warnings."""

from .bindings import core

_kept = []  # the function in use: C has its address


def set_log(function):
    """Gives each line that the library would write to stderr to function(level, message) instead.

    level: ph_log_level, 1 is a warning. None: stderr again. Of the process; an exception of the function is
    shown by sys.unraisablehook.
    """
    if function is None:
        core.ph_log_set(core.ph_log_fn(), None)
        return

    @core.ph_log_fn
    def write(level, message, _):
        function(level, (message or b"").decode("utf-8", "replace"))

    core.ph_log_set(write, None)
    _kept.append(write)
    del _kept[:-2]  # another thread may still be in the one before
