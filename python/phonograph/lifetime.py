# SPDX-License-Identifier: MIT
"""The lives of objects: who ends a C object, when, and on which thread.

- A C object ends with its Python object, or at close().
- Python may collect an object anywhere, also in a callback on a thread of the library, which must
  not call the library. There the end is put off, until another thread makes or ends an object.
- At the interpreter's exit nothing is destroyed, as in a C program: the process ends everything.
  Only callbacks must not come any more: open captures are aborted, and the devices of live
  functions are waited for, with Python's lock released.
"""

import atexit
import collections
import ctypes
import threading
import weakref

from .bindings import core

_live = {}  # id -> weak reference of each object that has a handle
_late = collections.deque()  # (call, arguments) that were put off
_thread = threading.local()


class callback_scope:
    """In a callback that must not call the library. Reentrant."""

    def __enter__(self):
        _thread.depth = getattr(_thread, "depth", 0) + 1

    def __exit__(self, *error):
        _thread.depth -= 1


in_callback = callback_scope()


def end(call, *arguments):
    """Calls a destroy, release or free of the C library, now or later."""
    if getattr(_thread, "depth", 0):
        _late.append((call, arguments))
        return
    call(*arguments)
    if _late:
        end_late()


def end_late():
    """Makes the calls that were put off, unless this thread may not either."""
    while _late and not getattr(_thread, "depth", 0):
        try:
            call, arguments = _late.popleft()
        except IndexError:  # another thread was faster
            return
        call(*arguments)


_KINDS = {f"_{name.lower()}_handle": name for name in ("Device", "Stream", "Event", "Pool", "Kernel", "Graph")}


class Owner:
    """An object with a C handle. After close(), and at exit, its handle is None, which calls refuse.

    Who passes the handle of another object to C takes it by the name of its class, `_stream_handle`,
    which an object of another class does not have: C takes any address.
    """

    _handle = None
    _names = ()  # of its handle, by class
    _destroy = None  # the C call that ends it; None: borrowed

    def _own(self, handle):
        if _late:
            end_late()
        self._set_handle(handle)
        _live[id(self)] = weakref.ref(self)

    def __init_subclass__(cls, **keywords):
        super().__init_subclass__(**keywords)
        classes = {base.__name__ for base in cls.__mro__}
        cls._names = tuple(name for name, kind in _KINDS.items() if kind in classes)

    def _set_handle(self, handle):
        self._handle = handle
        for name in self._names:
            setattr(self, name, handle)

    def __getattr__(self, name):
        kind = _KINDS.get(name)
        if kind is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        raise TypeError(f"a phonograph.{kind} is needed here, not a phonograph.{type(self).__name__}")

    def close(self):
        """Ends the object now. A second call does nothing."""
        handle = self._handle
        self._set_handle(None)
        _live.pop(id(self), None)
        if handle and self._destroy:
            end(self._destroy, *self._end_arguments(handle))

    def _end_arguments(self, handle):
        return (handle,)

    def __del__(self):
        if self._handle is not None:
            self.close()

    def _abort(self, handle):
        """At the exit: ends an open capture."""

    def _devices(self, handle):
        """At the exit: the devices that may still call Python."""
        return []

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

    @property
    def handle(self):
        """The C handle, borrowed: an integer, for phonograph.bindings. None once closed."""
        return self._handle

    def __repr__(self):
        return f"<phonograph.{type(self).__name__} {'closed' if self._handle is None else hex(self._handle)}>"


def need(thing, kind, call):
    """TypeError: the thing is no object of that class of the package."""
    if not isinstance(thing, kind):
        raise TypeError(f"{call}: a phonograph.{kind.__name__} is needed, not {type(thing).__name__}")
    return thing


def handle_of_pool(pool, call):
    """The handle of an optional Pool. ArgumentError: it was closed, which C would take as none."""
    if pool is None:
        return None
    if pool._pool_handle is None:
        from .errors import ArgumentError

        raise ArgumentError(f"{call}: the phonograph.Pool was closed; make another one", core.PH_ERROR_ARGUMENT)
    return pool._pool_handle


def new_handle(create, *arguments):
    """Calls a C call whose first parameter is `T **out`, and returns what it wrote."""
    from .errors import check

    out = ctypes.c_void_p()
    check(create(ctypes.byref(out), *arguments))
    return out.value


@atexit.register
def _at_exit():
    objects = [reference() for reference in list(_live.values())]
    handles = [(thing, thing._handle) for thing in objects if thing is not None and thing._handle]
    for thing, _ in handles:
        thing._set_handle(None)  # threads that go on get errors
    core.ph_log_set(core.ph_log_fn(), None)
    from .functions import holds_any

    if holds_any():
        for thing, handle in handles:
            thing._abort(handle)
        for device in {device for thing, handle in handles for device in thing._devices(handle)}:
            core.ph_device_synchronize(device)
