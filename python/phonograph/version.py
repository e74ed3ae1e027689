# SPDX-License-Identifier: MIT
"""The version of the loaded library, which is the package's own."""

from .bindings import core

__version__ = core.ph_version().decode()
