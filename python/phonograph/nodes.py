# SPDX-License-Identifier: MIT
"""The nodes of a record as dicts, each word with the memory that it lies in: by the compiled module, or out of the JSON."""

import contextlib
import functools
import gc

from . import hot


class Memory(dict):
    """A dict whose "tensors" are looked for when somebody asks for them, or for all of it; else it is like any other."""

    __slots__ = ("_find",)

    def __init__(self, members, find):
        """find: returns the tensors, which stand before "frames"."""
        super().__init__(members)
        self._find = find

    def _complete(self):
        find, self._find = self._find, None
        if find is None or dict.__contains__(self, "tensors"):
            return
        members = {}
        for key, value in dict.items(self):
            if key == "frames":
                members["tensors"] = find()
            members[key] = value
        dict.clear(self)
        dict.update(self, members)

    def known_tensors(self):
        """Those that were found, or None."""
        return dict.get(self, "tensors")

    def __missing__(self, key):
        if key != "tensors" or self._find is None:
            raise KeyError(key)
        self._complete()
        return self[key]

    def get(self, key, default=None):
        return self[key] if key in self else default

    def __contains__(self, key):
        return dict.__contains__(self, key) or key == "tensors" and self._find is not None

    def __bool__(self):
        return True

    def __reduce__(self):
        return dict, (dict(self),)


def _completed(name):
    plain = getattr(dict, name)

    @functools.wraps(plain)
    def call(self, *arguments):
        for memory in (self, *arguments):
            if isinstance(memory, Memory):
                memory._complete()
        return plain(self, *arguments)

    return call


for _name in (
    "__delitem__ __eq__ __iter__ __len__ __ne__ __or__ __repr__ __reversed__ __ror__ clear copy items keys pop popitem setdefault values"
).split():
    setattr(Memory, _name, _completed(_name))


@contextlib.contextmanager
def paused_collector():
    """A record is some 10^5 dicts and lists, none of which is garbage: Python's collector would go through all again and again."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _resolve(nodes, memory_of):
    for node in nodes:
        for word in node["words"]:
            word["torch"] = memory = memory_of(int(word["value"], 0))
            if memory is not None and word["kind"] == "value":
                word["kind"] = "suspected"
        _resolve((node.get("body") or {}).get("nodes", ()), memory_of)


def nodes_by_json(graph, memory_of):
    """The nodes of a phonograph.Graph: each word has "torch", what memory_of says of its value, or None."""
    nodes = graph.record().nodes
    _resolve(nodes, memory_of)
    return nodes


def nodes_of(graph, ranges, memory_of):
    """The same, sooner where the package has its compiled module: ranges, of pack, have all that memory_of knows."""
    with paused_collector():
        found = hot.record_nodes(graph.record_handle(), ranges, memory_of) if hot.record_nodes else None
        return nodes_by_json(graph, memory_of) if found is None else found
