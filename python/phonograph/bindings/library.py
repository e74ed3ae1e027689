# SPDX-License-Identifier: MIT
"""Finding and opening a shared library of the package, once in the process."""

import ctypes
import enum
import os
from pathlib import Path

_HERE = Path(__file__).resolve().parent.parent


def folder():
    """The folder of the shared libraries: PHONOGRAPH_LIBRARY_DIR, else lib/ in the package."""
    named = os.environ.get("PHONOGRAPH_LIBRARY_DIR")
    return Path(named) if named else _HERE / "lib"


def _find(name):
    found = sorted(folder().glob(f"lib{name}.so.[0-9]*"), key=lambda path: len(path.name))
    if not found:
        raise ImportError(
            f"lib{name}.so is not in {folder()}: install the wheel that ./build.sh wheel makes, or name the"
            " folder of the library in PHONOGRAPH_LIBRARY_DIR"
        )
    return str(found[0])


class Named(enum.IntEnum):
    """A number of C's that is printed by its name."""

    def __str__(self):
        return self.name

    def __format__(self, spec):
        return format(int(self), spec) if spec else self.name


class Library:
    """One library, with its calls that release Python's lock and its short ones that keep it."""

    def __init__(self, name):
        self.path = _find(name)
        self._waiting = ctypes.CDLL(self.path)
        self._short = ctypes.PyDLL(self.path)

    def function(self, name, result, arguments, words, short=False):
        """The call of that name. words: the names of its parameters."""
        try:
            found = getattr(self._short if short else self._waiting, name)
        except AttributeError:
            raise ImportError(
                f"{self.path} has no {name}: it is of another version than this package; install both from one build"
            ) from None
        found.restype, found.argtypes = result, arguments
        found.__name__, found.parameters, found.short = name, words, short
        return found

    def plain(self, name, result, arguments, short=False):
        """Another object for the same call, with types of its own."""
        found = (self._short if short else self._waiting)[name]
        found.restype, found.argtypes = result, arguments
        return found
