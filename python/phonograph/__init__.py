# SPDX-License-Identifier: MIT
"""phonograph: record GPU work once, replay it with a single launch.

    import phonograph

    device = phonograph.Device("auto")      # the first GPU that works, else the host device
    stream = device.stream()
    x = stream.zeros(1024, "float32")
    graph = phonograph.Graph()
    with graph.capture(stream):
        stream.fill(x, 1)
    graph.replay(stream)

The objects here own what they stand for; phonograph.bindings has every call of the C libraries.
"""

from .annotation import annotate
from .array import Array, asarray
from .cache import Cache
from .communicator import Communicator, local_rank
from . import errors
from .device import Device, drivers
from .errors import (
    ArgumentError, CallerError, CaptureError, DefaultStream, DeviceError, DeviceMemoryError, Error, FileError,
    HostMemoryError, Mismatch, NotFound, Overwritten, PeerError, PoolBusy, PoolLimit, SizeError, StaleInput, StateError,
    Unpinned, UnsupportedError, WrongDevice, check,
)
from .foreign import ForeignBlock
from .graph import Graph
from .kernel import Kernel, address
from .log import set_log
from .pool import Pool
from .profile import Profile
from .record import Record
from .stream import Event, Stream
from .version import __version__

__all__ = [
    "Array", "ArgumentError", "Cache", "CallerError", "CaptureError", "Communicator", "DefaultStream", "Device", "DeviceError",
    "DeviceMemoryError", "Error", "Event", "FileError", "ForeignBlock", "Graph", "HostMemoryError", "Kernel", "Mismatch",
    "NotFound", "Overwritten", "PeerError", "Pool", "PoolBusy", "PoolLimit", "Profile", "Record", "SizeError", "StaleInput",
    "StateError", "Stream", "Unpinned", "UnsupportedError", "WrongDevice", "address", "annotate", "asarray", "check",
    "drivers", "local_rank", "set_log",
]
