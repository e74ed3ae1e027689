# SPDX-License-Identifier: MIT
"""Functions and objects of Python that the library holds, by numbers, until it lets go of them.

A hold is a number that goes through C as `user` or `object`. Launched work lets go of its hold by a
host function behind it on the stream; captured work by the graph (ph_graph_retain).
"""

import collections
import ctypes
import itertools

from . import lifetime
from .bindings import core
from .errors import CallerError, StateError, check, error_of

_holds = {}
_numbers = itertools.count(1)
_failures = collections.deque(maxlen=64)  # exceptions of callbacks that could not raise


def hold(thing):
    number = next(_numbers)
    _holds[number] = thing
    return number


def let_go(number):
    _holds.pop(number, None)


def holds_any():
    """Whether the library may still call Python, if only to let go of something."""
    return bool(_holds)


def add_failure(exception):
    """Remembers what a callback raised, for the next wait."""
    _failures.append(exception)


def raise_failure():
    """Raises what a callback has raised since the last wait."""
    if _failures:
        exception = _failures.popleft()
        raise CallerError(f"a function of Python has raised {type(exception).__name__}: {exception}") from exception


@core.ph_release_fn
def _release(number):
    with lifetime.in_callback:
        let_go(number)


@core.ph_host_fn
def _release_behind(number):
    with lifetime.in_callback:
        let_go(number)


@core.ph_host_fn
def _call(number):
    with lifetime.in_callback:
        try:
            _holds[number]()
        except BaseException as exception:
            add_failure(exception)


@core.ph_host_fn
def _call_once(number):
    with lifetime.in_callback:
        try:
            _holds[number]()
        except BaseException as exception:
            add_failure(exception)
        finally:
            let_go(number)


def capturing_graph(stream):
    """The handle of the graph whose capture the stream is in; None: of a capture that other code began."""
    out = ctypes.c_void_p()
    check(core.ph_stream_capturing_graph(ctypes.byref(out), stream))
    return out.value


def hold_in_graph(graph, thing):
    """Holds the thing until the graph, and each graph with a copy of its nodes, is reset."""
    number = hold(thing)
    status = core.ph_graph_retain(graph, _release, number, True)
    if status:
        error = error_of(status)
        let_go(number)
        raise error
    return number


def hold_behind(stream, thing):
    """Holds the thing until the work so far of the stream is done."""
    number = hold(thing)
    status = core.ph_launch_host(stream, _release_behind, number)
    if status:
        error = error_of(status)
        let_go(number)
        raise error


def hold_for_work(stream, thing):
    """Holds the thing for work that was just submitted to the stream. In a capture that other code began, that code must."""
    if not core.ph_stream_is_capturing(stream):
        hold_behind(stream, thing)
        return
    graph = capturing_graph(stream)
    if graph:
        hold_in_graph(graph, thing)


def call_on(stream, function):
    """Submits a function without parameters to the stream."""
    if core.ph_stream_is_capturing(stream):
        graph = capturing_graph(stream)
        if not graph:
            raise StateError(
                "Stream.call: the stream is in a capture that other code began, which would not keep the function alive:"
                " capture with phonograph.Graph"
            )
        check(core.ph_launch_host(stream, _call, hold_in_graph(graph, function)))
        return
    number = hold(function)
    status = core.ph_launch_host(stream, _call_once, number)
    if status:
        error = error_of(status)
        let_go(number)
        raise error
