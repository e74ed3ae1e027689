# SPDX-License-Identifier: MIT
"""The calls of the C libraries, as they are: core (libphonograph) and nn (libphonograph_nn).

Both modules are generated from the public headers. A call takes and returns what its C declaration
says: handles are integers, out parameters are ctypes.byref(...), and a status is returned, not
raised (phonograph.check raises it). A NULL function is a type called without arguments, as
core.ph_log_fn(). Each name has the comment of its header as its docstring.
"""
