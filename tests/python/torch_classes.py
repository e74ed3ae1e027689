# SPDX-License-Identifier: MIT
"""Classes of the user's on phonograph.torch.CUDAGraph: which replay is called. No GPU is needed."""

import pytest
import torch

import phonograph.torch as pt


class Timed(torch.cuda.CUDAGraph):
    """A class that knows torch's alone."""

    def replay(self):
        return "timed", super().replay


class Named(torch.cuda.CUDAGraph):
    def name(self):
        return "named"


def test_a_replay_that_would_be_passed_over_is_refused():
    with pytest.raises(TypeError, match=r"Both: Timed.replay stands behind .* as in class Both\(Timed, CUDAGraph\)"):

        class Both(pt.CUDAGraph, Timed):
            pass


def test_an_own_replay_does_not_hide_it():
    with pytest.raises(TypeError, match="Timed.replay"):

        class Both(pt.CUDAGraph, Timed):
            def replay(self, **tensors):
                return super().replay(**tensors)


def test_a_later_subclass_is_held_to_it():
    class Mine(pt.CUDAGraph):
        pass

    with pytest.raises(TypeError, match="Late: Timed.replay"):

        class Late(Mine, Timed):
            pass


def test_in_front_it_is_called_first():
    class Both(Timed, pt.CUDAGraph):
        pass

    assert Both.replay is Timed.replay
    assert Both.__mro__[1:4] == (Timed, pt.CUDAGraph, torch.cuda.CUDAGraph)


def test_classes_without_a_replay_may_stand_anywhere():
    class Both(pt.CUDAGraph, Named):
        def replay(self, **tensors):
            return super().replay(**tensors)

    assert Both.name(None) == "named"
    assert issubclass(Both, Named)
