# SPDX-License-Identifier: MIT
"""The calls that keep Python's lock (ctypes.PyDLL). All others release it (ctypes.CDLL).

A call is short where all of this holds:
- It never waits: for a device, a stream, an event, a driver that may wait, a file, a pipe.
- It runs no callback of the caller.
- No lock that it takes is held while a callback runs, or while other work waits for one.

So a thread inside one of them cannot wait for a thread that waits for Python's lock. A short call
takes some nanoseconds; releasing and taking the lock would take longer.
"""

SHORT_CALLS = frozenset(
    """
    ph_error_last ph_error_set ph_status_name ph_version
    ph_device_retain ph_device_default_stream ph_device_is_capturing ph_stream_device ph_stream_priority
    ph_stream_is_capturing ph_stream_get_capture_info
    ph_kernel_name ph_kernel_args_size ph_pool_get_id
    ph_graph_get_state ph_graph_epoch ph_graph_slot_count ph_graph_slot_get ph_graph_writes
    ph_node_kind_name ph_change_kind_name ph_record_node_count ph_record_edge_count ph_record_node
    ph_record_readable_name ph_record_made_for
    ph_record_edge ph_record_dependencies ph_record_dependents ph_record_word ph_record_next_address ph_record_annotation
    ph_diff_count ph_diff_at ph_races_count ph_races_found ph_races_at
    ph_profile_get ph_profile_node_at ph_profile_critical_path ph_profile_scope_count ph_profile_scope_at
    ph_profile_gap_count ph_profile_gap_at
    ph_annotation_depth ph_string_free
    """.split()
)
