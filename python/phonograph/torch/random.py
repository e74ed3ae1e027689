# SPDX-License-Identifier: MIT
"""Whether torch's replay of a graph does more than launch it: it gives kernels that draw random numbers their state."""

import torch

from ..bindings import core
from ..structs import read_struct
from ..words import pack, words_in
from . import allocator
from .blocks import Blocks

_KNOWN = "2.11."  # the version whose replay is known: device, states of generators, launch
_STATE = 8  # bytes of a state: seed and offset are tensors of one int64 each


def _has_conditions(record):
    """Whether a node has work that no record shows."""
    for number in range(core.ph_record_node_count(record)):
        node = read_struct(core.ph_node_info, core.ph_record_node, record, number)
        if node.kind == core.PH_NODE_CONDITIONAL or node.body and _has_conditions(node.body):
            return True
    return False


def may_draw(graph, index):
    """Whether a kernel of the phonograph.Graph may read the state of one of torch's generators: then torch must replay it.

    A kernel gets seed and offset by address. Both live while a graph that was captured with the
    generator does, in blocks of torch of that size; a graph without a word in any such block draws
    nothing. One of another tensor of that size is taken for a state.
    """
    if not torch.__version__.startswith(_KNOWN):
        return True
    record, blocks = graph.record_handle(), Blocks(allocator.torch_snapshot(index))
    states = [(block.address, block.address + _STATE) for block in blocks if block.requested == _STATE]
    return bool(words_in(record, pack(states))) or _has_conditions(record)
