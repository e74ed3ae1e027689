# SPDX-License-Identifier: MIT
"""Communicators: one rank, and two ranks of the host device under mpirun."""

import os
import pathlib
import shutil
import subprocess
import sys
import weakref

import numpy
import pytest

import phonograph as ph
from phonograph.bindings import core

PLUG_IN = pathlib.Path(os.environ.get("PH_TEST_BUILD", ".")) / "lib" / "libphonograph_mpi.so"


@pytest.fixture
def comm(device):
    with ph.Communicator(device, size=1) as made:
        yield made


def test_one_rank_has_its_own_elements(stream, comm):
    assert (comm.rank, comm.size) == (0, 1) and "rank 0 of 1" in repr(comm)
    x, y = stream.array(numpy.arange(6, dtype="float32")), stream.zeros(6)
    comm.all_reduce(stream, y, x)
    comm.all_reduce(stream, y, op="mean")
    comm.broadcast(stream, y)
    comm.all_gather(stream, y, x)
    comm.reduce_scatter(stream, y, x, op="max")
    comm.barrier()
    comm.check()
    assert (y.to_numpy() == numpy.arange(6)).all()


def test_a_graph_keeps_the_communicator(device, stream):
    comm = ph.Communicator(device, size=1)
    x, y = stream.array(numpy.ones(4, "float32")), stream.zeros(4)
    graph = ph.Graph()
    with graph.capture(stream):
        comm.all_reduce(stream, y, x)
    comm.close()
    graph.replay(stream)
    assert (y.to_numpy() == 1).all()
    graph.close()


def test_a_pool_of_registered_memory_serves_a_graph(stream, comm):
    pool, graph = comm.pool(reserve=1 << 21), ph.Graph()
    with graph.capture(stream, pool=pool):
        x = stream.zeros(4)
        comm.all_reduce(stream, x)
    graph.replay(stream)
    assert (x.to_numpy() == 0).all() and pool.use_count == 2 and pool.memory["reserved"] == 1 << 21
    with pytest.raises(ph.StateError, match="reserve"), ph.Graph().capture(stream, pool=comm.pool()):
        stream.zeros(4)
    with pytest.raises(ph.ArgumentError, match="above the limit"):
        comm.pool(reserve=1 << 22, limit=1 << 21)
    graph.close()
    del x
    pool.close()


def test_arrays_of_a_group_are_kept_until_its_end(stream, comm):
    y, x = stream.zeros(6), stream.array(numpy.ones(6, "float32"))
    gone = weakref.finalize(x, int)
    with comm.group():
        comm.all_reduce(stream, y, x)
        del x
        assert gone.alive
    assert not gone.alive
    with pytest.raises(KeyError), comm.group():
        comm.broadcast(stream, y)
        raise KeyError
    assert not core.ph_comm_in_group(comm.handle)


def test_operands_that_are_no_array_of_collectives_are_refused(stream, comm):
    x = stream.zeros(6)
    with pytest.raises(ValueError, match="all_reduce of"):
        comm.all_reduce(stream, x, stream.zeros(5))
    with pytest.raises(ValueError, match="all_gather of"):
        comm.all_gather(stream, x, stream.zeros(3))
    with pytest.raises(ValueError, match="reduce_scatter of"):
        comm.reduce_scatter(stream, x, stream.zeros(3))
    with pytest.raises(ValueError, match="'average' is no operation"):
        comm.all_reduce(stream, x, op="average")
    with pytest.raises(TypeError, match="this array is of int16"):
        comm.broadcast(stream, stream.zeros(4, "int16"))
    with pytest.raises(ValueError, match="copy it, with stream.array"):
        comm.broadcast(stream, numpy.zeros(4, "float32"))
    with pytest.raises(ph.ArgumentError, match="rank 1 of 1"):
        comm.broadcast(stream, x, root=1)
    with pytest.raises(TypeError, match="has no ranks"):
        ph.Communicator(stream.device, ranks=2)


def test_an_abort_is_told(stream, comm):
    comm.abort("no data left")
    with pytest.raises(ph.PeerError, match="no data left"):
        comm.check()
    with pytest.raises(ph.PeerError):
        comm.all_reduce(stream, stream.zeros(4))


RANKS = """
import pathlib
import sys

import numpy
import phonograph as ph

device = ph.Device("host:threads=2")
stream = device.stream()
comm = ph.Communicator(device, timeout_ms=30000)
assert comm.size == 2 and ph.local_rank() == comm.rank
x, total, both = stream.array(numpy.full(3, comm.rank + 1, "float32")), stream.zeros(3), stream.zeros(6)
graph = ph.Graph()
with graph.capture(stream):
    comm.all_reduce(stream, total, x)
    comm.all_gather(stream, both, x)
for _ in range(3):
    graph.replay(stream)
assert (total.to_numpy() == 3).all()
assert (both.to_numpy() == [1, 1, 1, 2, 2, 2]).all()
other = stream.zeros(3)
with comm.group():
    comm.send(stream, x, 1 - comm.rank)
    comm.receive(stream, other, 1 - comm.rank)
assert (other.to_numpy() == 2 - comm.rank).all()
SIZE = 1 << 16
sums = stream.zeros(SIZE)
stream.synchronize()
with comm.group():
    comm.all_reduce(stream, sums, stream.array(numpy.full(SIZE, 3, "float32")))
    others = [stream.array(numpy.full(SIZE, 7, "float32")) for _ in range(4)]  # take memory that was freed
assert (sums.to_numpy() == 6).all()
part = stream.zeros(3)
comm.reduce_scatter(stream, part, both, op="mean")
comm.broadcast(stream, x, root=1)
assert (part.to_numpy() == comm.rank + 1).all() and (x.to_numpy() == 2).all()
try:
    comm.all_reduce(stream, stream.zeros(4 + comm.rank))
    stream.synchronize()
except ph.Mismatch as error:
    pathlib.Path(sys.argv[1], f"mismatch{comm.rank}").write_text(str(error))
"""


def test_two_ranks_under_mpirun(tmp_path):
    mpirun = shutil.which("mpirun")
    if not mpirun or not PLUG_IN.exists():
        pytest.skip("there is no mpirun, or the library was built without MPI")
    program = tmp_path / "ranks.py"
    program.write_text(RANKS)
    environment = {
        **os.environ, "PH_COMM_MPI": str(PLUG_IN), "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_rmaps_base_oversubscribe": "1",
    }  # fmt: skip
    environment.pop("PH_TEST_DEVICE", None)
    done = subprocess.run(
        [mpirun, "-n", "2", sys.executable, "-B", str(program), str(tmp_path)], capture_output=True, text=True, timeout=100, check=False,
        env=environment, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    for rank in range(2):
        assert "rank" in (tmp_path / f"mismatch{rank}").read_text(), done.stdout + done.stderr
