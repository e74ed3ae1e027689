# SPDX-License-Identifier: MIT
"""A cache of graphs by key, for programs whose work comes in a few shapes."""

import ctypes
from numbers import Integral

from . import functions
from .bindings import core
from .bodies import body_of
from .errors import check
from .lifetime import Owner, handle_of_pool, new_handle
from .options import cache_options
from .slots import plain_array
from .structs import dict_of, read_struct, take_text


def _key_bytes(key):
    """Bytes are the key as they are. Of anything else, as (8, "decode"), it is repr(key)."""
    return key if isinstance(key, bytes) else repr(key).encode()


def _by_name(option, example, given):
    """pointers and values of Cache.run."""
    if given is not None and not isinstance(given, dict):
        raise TypeError(f'Cache.run: {option} is a {type(given).__name__}: it must be a dict by name, as {{"x": {example}}}')
    return given or {}


def _value(name, value):
    """(address, size) of an object of ctypes. A number does not say how many bytes of the parameters it takes."""
    try:
        return ctypes.addressof(value), ctypes.sizeof(value)
    except TypeError:
        raise TypeError(
            f"Cache.run: values: {name} is a {type(value).__name__}: it must be an object of ctypes of the kernel's own type, as "
            "ctypes.c_uint32(5)"
        ) from None


class Cache(Owner):
    """ph_graph_cache: runs a body by a key, eagerly at first, then as a graph.

    options: the members of ph_graph_cache_options, as budget, max_graphs, after, renew_after.
    fallback: "eager" or "update". capture: a dict of members of ph_capture_options, as
    {"plan": True}; its mode is "thread_local" by default. pool: a Pool. event: a function that is
    told {"what", "key", "reason"} of captures, learnt places, evictions and refusals; it may use the
    cache.
    """

    _destroy = core.ph_graph_cache_destroy

    def __init__(self, device, *, pool=None, event=None, **options):
        self.device, self._pool = device, pool
        settings = cache_options(options)
        settings.pool = handle_of_pool(pool, "Cache")
        if event is not None:
            self._event = self._event_call(event)
            settings.event = self._event
        self._own(new_handle(core.ph_graph_cache_create, device._device_handle, ctypes.byref(settings)))

    @staticmethod
    def _event_call(event):
        @core.ph_graph_cache_event_fn
        def tell(place, user):
            told = place.contents
            key = ctypes.string_at(told.key, told.key_bytes) if told.key else b""
            try:
                event({"what": core.ph_graph_cache_path(told.what).name, "key": key, "reason": (told.reason or b"").decode()})
            except BaseException as exception:
                functions.add_failure(exception)

        return tell

    def run(self, stream, key, body, pointers=None, values=None):
        """Runs body(), or replays its graph: a dict with path, epoch and reason.

        key: bytes, or anything whose repr says all that decides the launches. body submits to the stream, and may be
        called twice. pointers: by name, the contiguous arrays, or addresses, that the body uses. values: by name, objects of ctypes.
        A replay needs the same key, and sets what differs.
        """
        if not callable(body):
            raise TypeError(f"Cache.run: body is a {type(body).__name__}: it must be a function without parameters")
        pointers, values = _by_name("pointers", "array", pointers), _by_name("values", "ctypes.c_float(2)", values)
        call, kept = self._call(key, stream, pointers, values)
        run, finish = body_of(body)
        call.body = run
        result = core.ph_graph_cache_result()
        finish(core.ph_graph_cache_run(self._handle, stream._stream_handle, ctypes.byref(call), ctypes.byref(result)))
        if kept:
            functions.hold_for_work(stream._stream_handle, kept)
        found = dict_of(result, path=core.ph_graph_cache_path)
        del found["graph"]  # borrowed until the next call
        return found

    def _call(self, key, stream, pointers, values):
        key = _key_bytes(key)
        numbers = {name: int(value) for name, value in pointers.items() if isinstance(value, Integral)}
        arrays = {name: plain_array("Cache.run", name, value, stream) for name, value in pointers.items() if name not in numbers}
        for array in arrays.values():
            array._use(stream)
        call = core.ph_graph_cache_call(key_bytes=len(key), pointer_count=len(pointers), value_count=len(values))
        places = (ctypes.c_void_p * len(pointers))(*(arrays[name].address if name in arrays else numbers[name] for name in pointers))
        names = (ctypes.c_char_p * len(pointers))(*(name.encode() for name in pointers))
        pairs = (core.ph_graph_cache_value * len(values))(*(_value(name, value) for name, value in values.items()))
        call.key = ctypes.cast(ctypes.c_char_p(key), ctypes.c_void_p)
        call.pointers, call.pointer_names = ctypes.cast(places, type(call.pointers)), ctypes.cast(names, type(call.pointer_names))
        call.values = ctypes.cast(pairs, type(call.values))
        call.alive = (key, places, names, pairs, values)  # C has their addresses
        return call, tuple(array for array in arrays.values() if array.is_host and array.is_foreign)

    def drop(self, key):
        """Forgets the key, as if it had never come."""
        key = _key_bytes(key)
        check(core.ph_graph_cache_drop(self._handle, key, len(key)))

    @property
    def stats(self):
        """ph_graph_cache_stats as a dict: calls, and how they were done."""
        return dict_of(read_struct(core.ph_graph_cache_stats, core.ph_graph_cache_get_stats, self._handle))

    @property
    def entries(self):
        """A dict for each key, the latest used first; key is bytes."""
        found = []
        for index in range(self.stats["keys"]):
            entry = read_struct(core.ph_graph_cache_entry, core.ph_graph_cache_entry_at, self._handle, index)
            found.append({**dict_of(entry), "key": ctypes.string_at(entry.key, entry.key_bytes)})
        return found

    def __str__(self):
        return take_text(core.ph_graph_cache_text, self._handle) if self._handle else repr(self)

    # ---- buckets ----

    def set_buckets(self, sizes):
        """Replaces the ladder of sizes that work is padded to."""
        sizes = list(sizes)
        check(core.ph_graph_cache_set_buckets(self._handle, (ctypes.c_size_t * len(sizes))(*sizes), len(sizes)))

    def bucket(self, size):
        """The smallest bucket that is at least the size; 0: beyond the largest."""
        out = ctypes.c_size_t()
        check(core.ph_graph_cache_bucket(ctypes.byref(out), self._handle, size))
        return out.value

    def suggest(self, most):
        """The ladder of at most `most` buckets with the least padding for the sizes that came."""
        sizes, count = (ctypes.c_size_t * max(most, 1))(), ctypes.c_size_t()
        check(core.ph_graph_cache_suggest(sizes, ctypes.byref(count), self._handle, most))
        return list(sizes[: count.value])
