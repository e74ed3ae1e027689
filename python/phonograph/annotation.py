# SPDX-License-Identifier: MIT
"""Names and values for the work of a capture."""

import contextlib
import ctypes

from .bindings import core
from .errors import check


def _pair(key, value):
    pair = core.ph_annotation_pair(key.encode())
    if isinstance(value, bool):
        pair.type, pair.boolean = core.PH_ANNOTATION_BOOL, value
    elif isinstance(value, int):
        pair.type, pair.integer = core.PH_ANNOTATION_INTEGER, value
    elif isinstance(value, float):
        pair.type, pair.real = core.PH_ANNOTATION_REAL, value
    elif isinstance(value, str):
        pair.type, pair.text = core.PH_ANNOTATION_TEXT, value.encode()
    else:
        raise TypeError(f"the annotation {key} is a {type(value).__name__}: it must be a str, int, float or bool")
    return pair


def scopes_of(marks):
    """(ph_import_scopes, what keeps it alive) of (number of the first node, dict of pairs), sorted by number."""
    kept, entries = [], (core.ph_import_scope * len(marks))()
    for entry, (first, values) in zip(entries, marks):
        pairs = (core.ph_annotation_pair * len(values))(*(_pair(key, value) for key, value in values.items()))
        kept.append(pairs)
        entry.first_node, entry.pairs, entry.count = first, ctypes.cast(pairs, ctypes.POINTER(core.ph_annotation_pair)), len(values)
    scopes = core.ph_import_scopes()
    scopes.at, scopes.count = ctypes.cast(entries, ctypes.POINTER(core.ph_import_scope)), len(marks)
    return scopes, (entries, kept)


def push(stream, name, **values):
    """Opens a scope of the thread: ph_annotation_push."""
    pairs = (core.ph_annotation_pair * len(values))(*(_pair(key, value) for key, value in values.items()))
    options = core.ph_annotation_options(ctypes.cast(pairs, ctypes.POINTER(core.ph_annotation_pair)), len(values))
    check(core.ph_annotation_push(stream._stream_handle, name.encode() if name is not None else None, ctypes.byref(options)))


def pop(stream):
    """Ends the innermost scope of the thread."""
    check(core.ph_annotation_pop(stream._stream_handle))


@contextlib.contextmanager
def annotate(stream, name=None, **values):
    """The nodes that this thread captures inside get the name and the values: ph_annotation_push.

    with phonograph.annotate(stream, "forward", layer=3): ...
    """
    push(stream, name, **values)
    try:
        yield
    except BaseException:
        core.ph_annotation_pop(stream._stream_handle)
        raise
    pop(stream)
