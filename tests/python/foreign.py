# SPDX-License-Identifier: MIT
"""ForeignBlock: blocks of another allocator, and graphs that are told of them."""

import gc

import pytest

import phonograph
from phonograph.bindings import core

ADDRESS = 1 << 44  # nothing reads it


@pytest.fixture
def graph(stream):
    """A graph that checks its inputs, with one that is declared, in a block of 64 bytes."""
    block = phonograph.ForeignBlock(stream.device, ADDRESS, 64, "block one\nmodel.py:3 forward")
    made, y = phonograph.Graph(), stream.zeros(8, "float32")
    with made.capture(stream, check_input_liveness=True):
        phonograph.check(core.ph_stream_declare_use(stream.handle, ADDRESS + 4, b"x"))
        stream.fill(y, 1)
    made.replay(stream)
    yield made, block, y
    stream.synchronize()
    made.close()


def declared(graph):
    return next(entry for entry in graph.inputs if entry["address"] == ADDRESS + 4)


def test_the_end_of_a_block_refuses_the_replay(graph, stream):
    made, block, _ = graph
    assert block.live and declared(made)["allocated_at"] == "block one\nmodel.py:3 forward"
    assert declared(made)["foreign"] and declared(made)["bytes"] == 64
    made.replay(stream)
    assert block.end("train.py:9 step") and not block.live and not block.end()
    with pytest.raises(phonograph.StaleInput, match=r"of another allocator \(block one\)"):
        made.replay(stream)
    assert declared(made)["freed_at"] == "train.py:9 step"


def test_another_block_at_the_same_address_is_told_apart(graph, stream):
    made, block, _ = graph
    with phonograph.ForeignBlock(stream.device, ADDRESS, 64, "two") as other:
        assert other.live and not block.live and other.generation > block.generation
        with pytest.raises(phonograph.StaleInput, match="replaced"):
            made.replay(stream)
        assert not block.end()
    assert not other.live


def test_a_block_ends_with_its_object(graph, stream):
    block = phonograph.ForeignBlock(stream.device, ADDRESS + 4096, 8)
    assert core.ph_foreign_count(stream.device.handle) == 2
    del block
    gc.collect()
    assert core.ph_foreign_count(stream.device.handle) == 1


def test_misuse_is_refused(device, stream):
    with pytest.raises(phonograph.ArgumentError, match="0 bytes"):
        phonograph.ForeignBlock(device, ADDRESS, 0)
    y = stream.zeros(8, "float32")
    with pytest.raises(phonograph.ArgumentError, match="this library's allocator"):
        phonograph.ForeignBlock(device, y.address, 8)


def test_a_block_outlives_its_device_quietly():
    device = phonograph.Device("host")
    block = phonograph.ForeignBlock(device, ADDRESS, 8)
    device.close()
    assert not block.live and not block.end()
