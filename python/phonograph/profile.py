# SPDX-License-Identifier: MIT
"""The time of a graph, by node and by annotation."""

import ctypes
import json
import tempfile
from pathlib import Path

from .bindings import core
from .lifetime import Owner
from .record import Record
from .structs import dict_of, read_struct, struct_from, take_text


class Profile(Owner):
    """ph_profile: measured replays of a graph. All times are nanoseconds, and medians.

    options: the members of ph_profile_options, as replays=20. It does not need the graph any more.
    """

    _destroy = core.ph_profile_destroy

    def __init__(self, graph, stream, **options):
        from .errors import check

        settings, out = struct_from(core.ph_profile_options, options), ctypes.c_void_p()
        check(core.ph_graph_profile(ctypes.byref(out), graph._graph_handle, stream._stream_handle, ctypes.byref(settings)))
        self._own(out.value)
        with tempfile.TemporaryDirectory(prefix="phonograph-") as folder:
            path = Path(folder, "record.json")
            check(core.ph_profile_dump_record(self._handle, graph._graph_handle, str(path).encode()))
            self.record = Record.load(path)

    @property
    def summary(self):
        """replay_ns, busy_ns, idle_ns, work_ns, critical_ns, and counts."""
        found = read_struct(core.ph_profile_summary, core.ph_profile_get, self._handle)
        return dict_of(found, source=core.ph_profile_source)

    @property
    def nodes(self):
        """A dict for each node: start_ns, median_ns, least_ns, most_ns, slack_ns, lane, critical, measured."""
        count = self.summary["node_count"]
        return [dict_of(read_struct(core.ph_profile_node, core.ph_profile_node_at, self._handle, n)) for n in range(count)]

    @property
    def critical_path(self):
        """The numbers of the nodes of the longest chain by time, in order."""
        nodes, count = ctypes.POINTER(ctypes.c_size_t)(), ctypes.c_size_t()
        from .errors import check

        check(core.ph_profile_critical_path(ctypes.byref(nodes), ctypes.byref(count), self._handle))
        return nodes[: count.value]

    @property
    def gaps(self):
        """Times in which no node ran, by descending length: dicts."""
        count = core.ph_profile_gap_count(self._handle)
        return [dict_of(read_struct(core.ph_profile_gap, core.ph_profile_gap_at, self._handle, n)) for n in range(count)]

    @property
    def trace(self):
        """The median replay as a Chrome trace, for Perfetto: a dict."""
        return json.loads(take_text(core.ph_profile_trace, self._handle))

    def html(self):
        """The page of `phonograph view`, with times."""
        return self.record.html()

    def _repr_html_(self):
        return self.record._repr_html_()
