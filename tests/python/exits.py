# SPDX-License-Identifier: MIT
"""The interpreter's exit with live objects: no crash, no hang, whatever is open. Each case is a process."""

import pytest

from conftest import run_child

pytestmark = pytest.mark.skipif("__import__('os').environ.get('PH_TEST_DEVICE', 'host') != 'host'")

BEGIN = """
import ctypes, sys, threading, time
import numpy
import phonograph as ph
device = ph.Device("host:threads=2")
stream = device.stream()
x, y = stream.zeros(1000), stream.zeros(1000)
seen = []
def host(range_, arguments):
    seen.append(1)
kernel = device.kernel("k", parameters=[("x", ph.address)], host=host)
graph = ph.Graph()
def capture():
    with graph.capture(stream, enable_annotations=True):
        stream.copy(y, x)
        stream.launch(kernel, x)
        stream.call(lambda: seen.append(2))
"""

CASES = {
    "a live graph": "capture(); graph.replay(stream); stream.synchronize()",
    "replays in flight": """
capture()
for _ in range(50): graph.replay(stream)
""",
    "slow functions in flight": """
for _ in range(5): stream.call(lambda: time.sleep(0.02))
stream.launch(kernel, x)
""",
    "an open capture": "scope = graph.capture(stream); scope.__enter__(); stream.copy(y, x)",
    "an open capture with a function": """
scope = graph.capture(stream); scope.__enter__(); stream.call(lambda: None)
other = device.stream()
other.call(lambda: time.sleep(0.05))
""",
    "a thread that replays": """
capture()
def forever():
    try:
        while True:
            graph.replay(stream)
            stream.synchronize()
    except ph.Error:
        pass
threading.Thread(target=forever, daemon=True).start()
time.sleep(0.05)
""",
    "a thread that captures": """
mine = device.stream()
def forever():
    try:
        while True:
            g = ph.Graph()
            with g.capture(mine, mode="thread_local"):
                mine.fill(y, 0); mine.call(lambda: None)
            g.replay(mine)
    except ph.Error:
        pass
threading.Thread(target=forever, daemon=True).start()
time.sleep(0.05)
""",
    "a thread that is not a daemon": """
capture()
def some():
    for _ in range(100): graph.replay(stream)
threading.Thread(target=some).start()
""",
    "a thread that waits in the library": """
gate = threading.Event()
def wait():
    try: stream.synchronize()
    except ph.Error: pass
stream.call(lambda: time.sleep(0.1))
threading.Thread(target=wait, daemon=True).start()
""",
    "an exception": "capture(); graph.replay(stream); raise SystemExit(0)",
    "circles": "capture(); a = [graph, stream, device, x]; a.append(a); del graph, stream, device, x, y",
    "views in numpy": "stream.synchronize(); sys.modules['keep'] = [numpy.asarray(x), numpy.from_dlpack(y), x.__dlpack__()]",
    "a log function": "ph.set_log(lambda *line: seen.append(line)); scope = graph.capture(stream); scope.__enter__()",
    "objects in a module": "sys.modules['keep'] = (graph, device, kernel); capture(); graph.replay(stream)",
    "an exit function that uses them": """
import atexit
capture()
atexit.register(lambda: (graph.replay(stream), stream.synchronize(), print("ran", flush=True)))
""",
    "a fork": """
import os
capture()
child = os.fork()
if child == 0:
    sys.exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
""",
}


@pytest.mark.parametrize("case", CASES)
def test_exit(case):
    status, out, error = run_child(BEGIN + CASES[case], timeout=60)
    lines = [line for line in error.splitlines() if "phonograph: warning" not in line]
    assert status == 0, (status, error)
    assert not lines, error
    if case == "an exit function that uses them":
        assert out == "ran\n"


def test_an_error_at_exit_is_the_programs_own():
    status, _, error = run_child(BEGIN + "capture()\nraise ValueError('mine')")
    assert status == 1 and "ValueError: mine" in error and "Fatal" not in error


def test_the_exit_waits_for_functions():
    status, out, error = run_child(BEGIN + "import os\nfor _ in range(5): stream.call(lambda: (time.sleep(0.05), os.write(1, b'.')))")
    assert (status, out, error) == (0, ".....", "")


@pytest.mark.parametrize("round_", range(5))
def test_threads_beside_the_exit(round_):
    """Threads make, use and drop everything while the interpreter goes."""
    status, _, error = run_child(
        BEGIN
        + """
def forever(number):
    try:
        while True:
            mine = device.stream()
            a, b = mine.array(numpy.arange(100.0)), mine.zeros(100, "float64")
            mine.launch(kernel, a)
            mine.copy(b, a)
            mine.call(lambda: seen.append(number))
            b.to_numpy()
    except (ph.Error, AttributeError):
        pass
for number in range(4):
    threading.Thread(target=forever, args=(number,), daemon=True).start()
time.sleep(0.05)
""",
        timeout=60,
    )
    assert status == 0, (status, error)
