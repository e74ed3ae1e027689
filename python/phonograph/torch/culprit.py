# SPDX-License-Identifier: MIT
"""The call that killed a capture of torch's, in the notes of torch's exception."""

import sys
import threading
import traceback

import torch

from .. import driver
from ..foreign import CulpritWatch
from .report import device_of

_FRAMES = 3  # innermost ones of each thread
_THREADS = 4


def watch_culprit(index):
    """A CulpritWatch of the capture that the current stream is in; None: it is in none."""
    found = driver.capture_of(torch.cuda.current_stream().cuda_stream)
    return CulpritWatch(device_of(index), found[0]) if found else None


def _other_threads():
    """Where the other threads of Python are now, a line each."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    for ident, frame in sys._current_frames().items():
        if ident == threading.get_ident():
            continue
        frames = traceback.extract_stack(frame, limit=None)[-_FRAMES:]
        places = " < ".join(f"{frame.filename}:{frame.lineno} {frame.name}" for frame in reversed(frames))
        yield f"thread {names.get(ident, ident)} is now at {places}"


def add_culprit(error, watch):
    """Ends the watch. The exception gets a note of what it saw, where it saw something."""
    text = watch.end() if watch is not None else ""
    if not text:
        return
    error.add_note(f"the capture was killed by {text}")
    if "on this thread" not in text:
        for line in list(_other_threads())[:_THREADS]:
            error.add_note(line)
