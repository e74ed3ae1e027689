# SPDX-License-Identifier: MIT
"""Options that have names or members of their own: what Python gives for them, as C takes it."""

import ctypes

from .bindings import core
from .errors import ArgumentError
from .structs import struct_from

MODES = {"global": core.PH_CAPTURE_GLOBAL, "thread_local": core.PH_CAPTURE_THREAD_LOCAL, "relaxed": core.PH_CAPTURE_RELAXED}
_FALLBACKS = {"eager": core.PH_CACHE_FALLBACK_EAGER, "update": core.PH_CACHE_FALLBACK_UPDATE}


def one_of(call, option, names, value):
    """The number of one of the names, or a number of C's. ArgumentError: it is neither."""
    found = names.get(value, value) if isinstance(value, (str, int)) else None
    if found not in names.values():
        raise ArgumentError(f"{call}: {option}={value!r} is no {option}: it is one of {', '.join(names)}", core.PH_ERROR_ARGUMENT)
    return found


def _capture_of_cache(value):
    """A ph_capture_options of a dict of members, whose mode is that of a cache by default."""
    if isinstance(value, core.ph_capture_options):
        return value
    if not isinstance(value, dict):
        raise TypeError(
            f'Cache: capture is a {type(value).__name__}: it must be a dict of members of ph_capture_options, as {{"plan": True}}, or '
            "such a struct"
        )
    members = {"mode": "thread_local", **value}
    members["mode"] = one_of("Cache: capture", "mode", MODES, members["mode"])
    return struct_from(core.ph_capture_options, members)


def cache_options(options):
    """The ph_graph_cache_options of the keywords of Cache."""
    members = dict(options)
    if "fallback" in members:
        members["fallback"] = one_of("Cache", "fallback", _FALLBACKS, members["fallback"])
    if members.get("capture") is not None and not hasattr(members["capture"], "contents"):  # a pointer is taken as it is
        members["capture"] = ctypes.pointer(_capture_of_cache(members["capture"]))
    return struct_from(core.ph_graph_cache_options, members)
