# SPDX-License-Identifier: MIT
"""The nodes of a record as dicts, each word with the memory that it lies in: by the compiled module, or out of the JSON."""

import contextlib
import functools
import gc
import threading

from . import hot


_completing = threading.RLock()  # a thread waits for what another one looks for


class Memory(dict):
    """A dict whose "tensors" are looked for when somebody asks for them, or for all of it; else it is like any other."""

    __slots__ = ("_find",)

    def __init__(self, members, find):
        """find: returns the tensors, which stand before "frames"."""
        super().__init__(members)
        self._find = find

    def _complete(self):
        if dict.__contains__(self, "tensors"):
            self._find = None
            return
        with _completing:
            find, self._find = self._find, None
            if find is None:
                return
            try:
                tensors = find()
            except BaseException:
                self._find = find
                raise
            members = {}
            for key, value in dict.items(self):
                if key == "frames":
                    members["tensors"] = tensors
                members[key] = value
            dict.clear(self)
            dict.update(self, members)

    def known_tensors(self):
        """Those that were found, or None."""
        return dict.get(self, "tensors")

    def __missing__(self, key):
        with _completing:
            if key == "tensors":
                self._complete()
            if dict.__contains__(self, key):
                return dict.__getitem__(self, key)
        raise KeyError(key)

    def get(self, key, default=None):
        return self[key] if key in self else default

    def __contains__(self, key):
        if dict.__contains__(self, key):
            return True
        with _completing:
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
