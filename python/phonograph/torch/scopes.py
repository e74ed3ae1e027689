# SPDX-License-Identifier: MIT
"""annotate: names and values for the nodes that torch captures, and for those of their gradients."""

import functools
import threading

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_iter

from .. import driver
from ..annotation import push, pop

_LEAF = 2**64 - 1  # the sequence number of a node that accumulates the gradient of a leaf
_BRACKETED = "phonograph.annotate"
_lock = threading.Lock()
_open = []  # captures that keep annotations: Marks, or Pushes


_epoch = 0  # counts the times that no such capture was left: scopes from before are void


class _Thread(threading.local):
    """The scopes that a thread is in: pairs, merged, the innermost last."""

    def __init__(self):
        self._scopes, self._epoch = [], 0

    def stack(self):
        if self._epoch != _epoch:  # an error may have left scopes of an older capture open
            self._scopes, self._epoch = [], _epoch
        return self._scopes

    @property
    def pairs(self):
        stack = self.stack()
        return stack[-1] if stack else {}


_thread = _Thread()


def _begin(capture):
    with _lock:
        _open.append(capture)


def _end(capture):
    global _epoch
    with _lock:
        if capture in _open:
            _open.remove(capture)
        if not _open:
            _epoch += 1


class Marks:
    """The scopes of one capture of torch's.

    The nodes on which the next node of a stream depends have the newest node of the capture among
    them, as far as the streams are known: the capture's, and those that were current at an edge of a
    scope. So an edge costs a question for each stream, and nothing is done for a node.
    """

    def __init__(self):
        stream = torch.cuda.current_stream().cuda_stream
        found = driver.capture_of(stream)
        self._capture, self._streams, self._edges = found and found[0], {stream}, []
        self._owner = threading.get_ident()
        self.edge(_thread.pairs)
        _begin(self)

    def edge(self, pairs):
        """From here on, nodes of this thread have these pairs."""
        current = torch.cuda.current_stream().cuda_stream
        inside = driver.capture_of(current)
        if inside is None or inside[0] != self._capture:
            if threading.get_ident() != self._owner:
                return
        else:
            self._streams.add(current)
        states = [driver.capture_of(stream) for stream in self._streams]
        self._edges.append(({node for state in states if state and state[0] == self._capture for node in state[1]}, pairs))

    opens = closes = edge

    def end(self):
        _end(self)

    def resolve(self, graph):
        """[(number of the first node, pairs)] of the captured CUgraph, as Graph.import_cuda takes them."""
        nodes = driver.nodes_of(graph)
        places, known, found = {node: place for place, node in enumerate(nodes)}, 0, []
        for frontier, pairs in self._edges:
            known = max([known, *(places[node] + 1 for node in frontier if node in places)])
            if found and found[-1][0] == known:
                found.pop()
            if pairs != (found[-1][1] if found else {}):
                found.append((known, pairs))
        return [(first, pairs) for first, pairs in found if first < len(nodes)]


class Pushes:
    """The scopes of a capture of this library's, which keeps them itself."""

    def __init__(self, stream):
        self._stream = stream
        _begin(self)

    def opens(self, pairs):
        push(self._stream, pairs.get("name"), **{key: value for key, value in pairs.items() if key != "name"})

    def closes(self, pairs):
        pop(self._stream)

    def end(self):
        _end(self)


def _enter(pairs):
    """Opens a scope of this thread: (its pairs, the captures that heard of it)."""
    merged = {**_thread.pairs, **pairs}
    _thread.stack().append(merged)
    heard = list(_open)
    for capture in heard:
        capture.opens(merged)
    return merged, heard


def _leave(merged, heard):
    """Ends that scope of this thread, which need not be the innermost: generators end theirs when they go on."""
    stack = _thread.stack()
    for at in reversed(range(len(stack))):
        if stack[at] is merged:
            del stack[at]
            break
    for capture in heard:
        if capture in _open:
            capture.closes(_thread.pairs)


class _Made(TorchFunctionMode):
    """Inside it, the nodes of autograd that functions of torch make are in `made`, and those that they found in `given`."""

    def __init__(self):
        super().__init__()
        self.made, self.given = {}, set()

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        before = [thing.grad_fn for thing in tree_iter((args, kwargs)) if isinstance(thing, torch.Tensor) and thing.grad_fn is not None]
        result = function(*args, **kwargs)
        self.given.update(node for node in before if node not in self.made)
        for thing in tree_iter(result):
            if isinstance(thing, torch.Tensor) and thing.grad_fn is not None and thing.grad_fn not in before:
                self.made[thing.grad_fn] = None
        return result


def _made_since(first, mode):
    """The nodes of autograd of that number or later, from those that were made back to those that were given."""
    waiting, seen = list(mode.made), set(mode.given)
    while waiting:
        node = waiting.pop()
        if node is None or node in seen or not first <= node._sequence_nr() < _LEAF:
            continue
        seen.add(node)
        yield node
        waiting += [further for further, _ in node.next_functions]


def _bracket(node, pairs):
    """The work of the node in backward lies in a scope, unless an inner scope has it."""
    if _BRACKETED in node.metadata:
        return
    node.metadata[_BRACKETED], heard = True, []

    def before(_gradients):
        if _open:
            heard.append(_enter({**pairs, "autograd_phase": "backward"}))

    def behind(_inputs, _outputs):
        if heard:
            _leave(*heard.pop())

    node.register_prehook(before)
    node.register_hook(behind)


class annotate:  # as torch's mark_kernels
    """The nodes that are captured inside get the name and the values, and so do those of their gradients. Also a decorator.

    - For captures of pt.graph with enable_annotations, and of capture_function. Outside of such a
      capture it does nothing. An inner scope's value of a key wins.
    - values: str, int, float or bool.
    - backward: gradients of what is computed inside get the pairs too, and autograd_phase="backward",
      also where they are captured in another graph. A node of autograd that C++ code or an
      autograd.Function made is seen where a function of torch uses it inside.
    - Work on a stream that was never current at an edge of a scope counts as of the scope in which a
      known stream waits for it.
    """

    def __init__(self, name=None, *, backward=True, **values):
        self._pairs = values if name is None else {"name": name, **values}
        for key, value in self._pairs.items():
            if not isinstance(value, (str, int, float)):
                raise TypeError(f"annotate: {key} is a {type(value).__name__}: it must be a str, int, float or bool")
        if not self._pairs:
            raise TypeError("annotate: a scope needs a name or values")
        self._backward, self._inside = backward, []

    def __call__(self, function):
        @functools.wraps(function)
        def annotated(*args, **kwargs):
            with _annotated(self._pairs, self._backward):
                return function(*args, **kwargs)

        return annotated

    def __enter__(self):
        inside = None
        if _open:
            merged, heard = _enter(self._pairs)
            made = _Made() if self._backward and torch.is_grad_enabled() else None
            if made:
                made.__enter__()
            inside = (merged, heard, made, torch.autograd._get_sequence_nr())
        self._inside.append(inside)
        return self

    def __exit__(self, *error):
        inside = self._inside.pop()
        if inside is None:
            return
        merged, heard, made, first = inside
        if made:
            made.__exit__(*error)
            for node in _made_since(first, made):
                _bracket(node, merged)
        _leave(merged, heard)


def _annotated(pairs, backward):
    """A scope of these pairs, whatever their keys."""
    scope = annotate.__new__(annotate)
    scope._pairs, scope._backward, scope._inside = pairs, backward, []
    return scope
