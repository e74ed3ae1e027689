# SPDX-License-Identifier: MIT
"""The words of a record that lie in given memory."""

import ctypes
import struct
from bisect import bisect_right

from . import hot
from .bindings import core
from .errors import check


def pack(ranges):
    """Pairs (begin, end) as words_in takes them: sorted and joined, without those that are empty."""
    joined = []
    for begin, end in sorted(ranges):
        if joined and begin <= joined[-1]:
            joined[-1] = max(joined[-1], end)
        elif begin < end:
            joined += [begin, end]
    return struct.pack(f"={len(joined)}Q", *joined)


def without(ranges, taken):
    """Ranges as pack takes them, less what lies in others."""
    left, edges = [], struct.unpack(f"={len(taken) // 8}Q", taken)
    for begin, end in ranges:
        at = bisect_right(edges, begin)
        if at % 2:
            begin = edges[at]
            at += 1
        while at < len(edges) and edges[at] < end:
            left.append((begin, edges[at]))
            begin, at = edges[at + 1], at + 2
        left.append((begin, end))
    return left


def words_in_by_ctypes(record, ranges, no_kernels=False, /):
    """words_in without the compiled module (module/words.h)."""
    edges = struct.unpack(f"={len(ranges) // 8}Q", ranges)
    node, word, found = core.ph_node_info(), core.ph_word(), []

    def search(at, path):
        for number in range(core.ph_record_node_count(at)):
            check(core.ph_record_node(ctypes.byref(node), at, number))
            kind, name, count, body = core.ph_node_kind_name(node.kind).decode(), node.name, node.word_count, node.body
            here = (*path, number)
            if no_kernels and node.kind == core.PH_NODE_KERNEL:
                count = 0
            for place in range(count):
                check(core.ph_record_word(ctypes.byref(word), at, number, place))
                if bisect_right(edges, word.value) % 2:
                    texts = (name.decode("utf-8", "replace"), word.name.decode("utf-8", "replace"))
                    found.append((here, place, word.value, word.kind == core.PH_WORD_PROVED, kind, *texts))
            if body:
                search(body, here)

    search(record, ())
    return found


words_in = hot.words_in or words_in_by_ctypes
