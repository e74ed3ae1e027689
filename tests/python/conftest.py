# SPDX-License-Identifier: MIT
"""What the tests of the Python package share: the device of PH_TEST_DEVICE, and children of Python."""

import ctypes
import gc
import os
import subprocess
import sys

import numpy
import pytest

import phonograph


@pytest.fixture
def device():
    name = os.environ.get("PH_TEST_DEVICE", "host")
    with phonograph.Device("host:threads=2" if name == "host" else name) as opened:
        yield opened


@pytest.fixture
def stream(device):
    with device.stream() as made:
        yield made


@pytest.fixture(params=["torch", "phonograph"])
def api(request):
    """Of the tests of behaviours: each runs on both."""
    import torch

    from behaviours import Api

    torch.manual_seed(0)
    yield Api(request.param)
    gc.collect()
    torch.cuda.synchronize()


SAXPY = [
    ("n", ctypes.c_uint32), ("a", ctypes.c_float), ("x", phonograph.address("in", "n", 4)),
    ("y", phonograph.address("inout", "n", 4)),
]  # fmt: skip


def floats(place, count):
    return numpy.ctypeslib.as_array((ctypes.c_float * count).from_address(place))


def saxpy(_, arguments):
    floats(arguments.y, arguments.n)[:] += arguments.a * floats(arguments.x, arguments.n)


@pytest.fixture
def axpy(device):
    """y += a x, by a function of Python. The host device's alone."""
    if device.is_cuda:
        pytest.skip("a function of Python runs on the host device")
    return device.kernel("saxpy", parameters=SAXPY, host=saxpy)


def run_child(text, timeout=120, **environment):
    """Runs a program of its own; (status, stdout, stderr)."""
    done = subprocess.run(
        [sys.executable, "-B", "-X", "faulthandler", "-c", text], capture_output=True, text=True, timeout=timeout, check=False,
        env={**os.environ, **environment}, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


def pytest_terminal_summary(terminalreporter):
    """`./build.sh test` lists such lines at its end."""
    reasons = {}
    for report in terminalreporter.stats.get("skipped", []):
        test, reason = report.nodeid.split("/")[-1].replace(".py::", " "), report.longrepr[2].removeprefix("Skipped: ")
        reasons.setdefault((test.split(" ")[0], reason), []).append(test)
    for (file, reason), tests in reasons.items():
        name = tests[0] if len(tests) == 1 else f"{file} ({len(tests)} tests)"
        terminalreporter.write_line(f"skipped: python.{name}: {reason}")


def pytest_sessionfinish():
    """The software libcuda counts what is left at the exit: frames of exceptions keep objects in circles."""
    gc.collect()
