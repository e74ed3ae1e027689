# SPDX-License-Identifier: MIT
"""C structs from keywords, and as dicts."""

import ctypes
import enum


# Numbers of nodes: C has SIZE_MAX where there is none, and a dict None.
_NODES = {"node", "from_node"}
_NO_NODE = ctypes.c_size_t(-1).value


def _members(kind):
    """The names of the members, without the words that are kept for later versions, which are arrays."""
    spare = ("reserved", "unused")
    return [name for name, type_ in kind._fields_ if name not in spare or not issubclass(type_, ctypes.Array)]


def struct_from(kind, values):
    """A struct with those members; TypeError names one that it does not have."""
    struct = kind()
    names = _members(kind)
    for name, value in values.items():
        if name not in names:
            raise TypeError(f"{kind.__name__} has no {name}: it has {', '.join(sorted(names))}")
        try:
            setattr(struct, name, value.encode() if isinstance(value, str) else value)
        except TypeError:
            needed = getattr(dict(kind._fields_)[name], "__name__", "value").removeprefix("LP_")
            raise TypeError(f"{kind.__name__}: {name} is {value!r}, a {type(value).__name__}: it must be a {needed} of C") from None
    return struct


def _plain(value):
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, ctypes.Structure):
        return dict_of(value)
    if isinstance(value, ctypes.Array):
        return [_plain(item) for item in value]
    return value


def dict_of(struct, **kinds):
    """The members as a dict, without reserved words. kinds: the IntEnum of a member."""
    found = {name: _plain(getattr(struct, name)) for name in _members(type(struct))}
    found |= {name: None for name in _NODES & found.keys() if found[name] == _NO_NODE}
    for name, kind in kinds.items():
        if issubclass(kind, enum.IntEnum):
            found[name] = kind(found[name]).name
    return found


def read_struct(kind, call, *arguments):
    """Calls a C call whose first parameter is a struct to fill, and returns that."""
    from .errors import check

    out = kind()
    check(call(ctypes.byref(out), *arguments))
    return out


def take_text(call, *arguments):
    """Calls a C call that makes a text, `char **out`, and returns it."""
    from .errors import check
    from .bindings import core

    out = ctypes.c_void_p()
    check(call(ctypes.byref(out), *arguments))
    try:
        return ctypes.string_at(out.value).decode("utf-8", "replace") if out.value else ""
    finally:
        core.ph_string_free(out)
