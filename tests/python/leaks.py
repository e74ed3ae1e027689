# SPDX-License-Identifier: MIT
"""10^5 objects that are made and dropped leave memory flat. Each case is a process, which counts its own pages.

The short tier makes fewer of those that take longer."""

import os

import pytest

from conftest import run_child

pytestmark = pytest.mark.skipif("__import__('os').environ.get('PH_TEST_DEVICE', 'host') != 'host'")

PROGRAM = """
import ctypes, gc
import numpy
import phonograph as ph
from phonograph import functions, lifetime
device = ph.Device("host:threads=1")
stream = device.stream()
x, y = stream.zeros(64), stream.zeros(64)
def pages():
    gc.collect()
    stream.synchronize()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1])
%s
def some(count):
    for number in range(count):
        one(number)
        if number %% 1000 == 0:
            stream.synchronize()
count = %d
some(count // 4)  # caches fill
sizes = [pages()]
for part in range(3):
    some(count // 3)
    sizes.append(pages())
live = len(lifetime._live), len(functions._holds), len(lifetime._late)
grown = min(after - before for before, after in zip(sizes, sizes[1:]))  # what leaks leaks each time
print(grown * 4096, *live)
"""

CASES = {
    "arrays": (100000, "def one(n): stream.zeros(16)"),
    "events": (100000, "def one(n): stream.wait(stream.record())"),
    "streams": (3000, "def one(n): device.stream()"),
    "pools": (10000, "def one(n): device.pool()"),
    "graphs": (20000, """
def one(n):
    graph = ph.Graph()
    with graph.capture(stream):
        stream.copy(y, x)
        stream.call(lambda: None)
    graph.replay(stream)
"""),
    "kernels": (20000, """
def one(n):
    kernel = device.kernel("k", parameters=[("n", ctypes.c_int), ("x", ph.address)], host=lambda *_: None)
    stream.launch(kernel, n, x)
"""),
    "functions": (80000, "def one(n): stream.call(lambda: n)"),
    "views": (80000, """
stream.synchronize()
def one(n):
    a = ph.asarray(numpy.from_dlpack(x))
    ph.asarray(b"abc")
    x.__dlpack__(max_version=(1, 0))
"""),
    "numpy arrays in kernels": (20000, """
kernel = device.kernel("k", parameters=[("x", ph.address)], host=lambda *_: None)
def one(n): stream.launch(kernel, numpy.zeros(8, "float32"))
"""),
    "errors": (20000, """
def one(n):
    try: ph.Graph().replay(stream)
    except ph.StateError: pass
"""),
    "caches": (2000, """
def one(n):
    cache = ph.Cache(device, after=1, event=lambda event: n)
    for turn in range(4):
        cache.run(stream, n, lambda: stream.copy(y, x), pointers={"x": x, "y": y})
"""),
    "records": (3000, """
graph = ph.Graph()
with graph.capture(stream): stream.copy(y, x)
def one(n): graph.record(), graph.dot(), graph.inputs
"""),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_memory_stays_flat(case):
    count, text = CASES[case]
    if count < 100000 and os.environ.get("PH_TEST_TIER") != "nightly":
        count //= 4
    status, out, error = run_child(PROGRAM % (text, count), timeout=280)
    assert status == 0, error
    grown, live, holds, late = map(int, out.split())
    # Less than the smallest block of any allocator for each; below that many pages the allocators move about.
    assert grown < max(16 * (count // 3), 192 << 10), f"{grown} bytes for {count // 3}"
    assert live <= 8 and holds == 0 and late == 0, out
