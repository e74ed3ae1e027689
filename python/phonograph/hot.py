# SPDX-License-Identifier: MIT
"""The dozen calls that programs make most: by the compiled module where the package has it, else by ctypes.

Both take and return the same: integers (or None) for handles and addresses, and the status as an integer.
instances(class) lists the objects of a class and its subclasses that Python's collector knows. set_tensors, tensor_form and tensor_reader
set slots to tensors of another library (module/tensors.h), record_nodes and words_in read a record (nodes.py, words.py); None without
the compiled module.
"""

import gc
from ctypes import c_bool, c_int, c_size_t, c_uint8, c_uint64, c_void_p
from itertools import compress

from .bindings.core import _library

_P = c_void_p
CALLS = {
    "ph_event_record": (c_int, _P, _P),
    "ph_graph_check_output": (c_int, _P, _P, c_uint64),
    "ph_graph_epoch": (c_uint64, _P),
    "ph_graph_get_state": (c_int, _P),
    "ph_graph_replay": (c_int, _P, _P),
    "ph_graph_replay_with": (c_int, _P, _P, _P, c_size_t),
    "ph_launch": (c_int, _P, _P, _P, _P, c_size_t),
    "ph_memcpy": (c_int, _P, _P, c_size_t, _P),
    "ph_memset": (c_int, _P, c_uint8, c_size_t, _P),
    "ph_stream_is_capturing": (c_bool, _P),
    "ph_stream_wait_event": (c_int, _P, _P),
    "ph_stream_wait_stream": (c_int, _P, _P),
}
_SHORT = ("ph_graph_epoch", "ph_graph_get_state", "ph_stream_is_capturing")


def by_ctypes():
    """The calls by ctypes, by name."""
    return {name: _library.plain(name, types[0], types[1:], short=name in _SHORT) for name, types in CALLS.items()}


def instances_by_list(kind):
    """As instances, by the list that Python's collector makes."""
    things = gc.get_objects()
    kinds = {found for found in set(map(type, things)) if issubclass(found, kind)}
    return list(compress(things, map(kinds.__contains__, map(type, things))))  # of some 10^5 objects


try:
    from . import _calls

    COMPILED, instances = True, _calls.instances
    set_tensors, tensor_form, tensor_reader = _calls.set_tensors, _calls.tensor_form, _calls.tensor_reader
    record_nodes, words_in = _calls.record_nodes, _calls.words_in
    globals().update({name: getattr(_calls, name) for name in CALLS})
except ImportError:
    COMPILED, instances = False, instances_by_list
    set_tensors = tensor_form = tensor_reader = record_nodes = words_in = None
    globals().update(by_ctypes())
