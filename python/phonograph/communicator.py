# SPDX-License-Identifier: MIT
"""Communicators and collectives: the ranks (processes) of a program that work together."""

import contextlib
import ctypes

from .array import asarray
from .bindings import core
from .errors import check
from .lifetime import Owner, new_handle
from .pool import Pool
from .structs import struct_from

_DTYPES = {
    "float32": core.PH_DTYPE_F32, "float64": core.PH_DTYPE_F64, "float16": core.PH_DTYPE_F16, "bfloat16": core.PH_DTYPE_BF16,
    "int32": core.PH_DTYPE_I32, "int64": core.PH_DTYPE_I64, "uint8": core.PH_DTYPE_U8, "bool": core.PH_DTYPE_BOOL,
}  # fmt: skip
_OPERATIONS = {
    "sum": core.PH_REDUCE_SUM, "product": core.PH_REDUCE_PRODUCT, "min": core.PH_REDUCE_MIN, "max": core.PH_REDUCE_MAX,
    "mean": core.PH_REDUCE_MEAN,
}  # fmt: skip


def local_rank():
    """The number of this rank among those of its machine, to choose a GPU by; 0: no launcher says one."""
    out = ctypes.c_uint32()
    check(core.ph_comm_local_rank(ctypes.byref(out)))
    return out.value


def _dtype_of(array):
    found = _DTYPES.get(array.dtype.name)
    if found is None:
        raise TypeError(f"collectives take {', '.join(_DTYPES)}; this array is of {array.dtype.name}")
    return found


def _operation(op):
    if op not in _OPERATIONS:
        raise ValueError(f"{op!r} is no operation of collectives: {', '.join(_OPERATIONS)}")
    return _OPERATIONS[op]


def _operand(thing, stream, written=False):
    array = asarray(thing)
    if not array.is_contiguous or (written and array.readonly):
        raise ValueError("a collective of an array that is not contiguous, or that is read-only and would be written")
    if array.is_host and array.is_foreign:
        raise ValueError("a collective of memory of another library that no stream orders: copy it, with stream.array(x)")
    array._use(stream)
    return array


class Communicator(Owner):
    """ph_comm: all ranks of the program, each on a device of its own. Every rank makes it, and waits for the others.

    options: the members of ph_comm_options: size and rank (else the launcher's), timeout_ms, port.
    - Collectives are asynchronous work of a stream, which a capture records. Every rank calls the same ones, in the same order.
    - Arrays are the library's, or GPU memory that lives until the work is done.
    - PeerError: another rank failed, or did not come in time. Mismatch: ranks do not do the same.
    - close() lets go of this object's reference; graphs keep theirs.
    """

    _destroy = core.ph_comm_release
    _kept = None  # in a group: its arrays

    def __init__(self, device, **options):
        settings = struct_from(core.ph_comm_options, options)
        self.device = device
        self._own(new_handle(core.ph_comm_create, device._device_handle, ctypes.byref(settings)))
        self.rank, self.size = core.ph_comm_rank(self._handle), core.ph_comm_size(self._handle)

    def __repr__(self):
        return f"<phonograph.Communicator rank {self.rank} of {self.size}>"

    # ---- the ranks ----

    def barrier(self, timeout_ms=0):
        """Waits until every rank has called it; 0: for the communicator's own time at most."""
        check(core.ph_comm_barrier(self._handle, timeout_ms))

    def check(self):
        """Raises the first failure of the communicator, where there is one."""
        check(core.ph_comm_check(self._handle))

    def abort(self, reason=None):
        """Makes the communicator fail here; ranks of this machine that wait get PeerError with the reason."""
        core.ph_comm_abort(self._handle, reason.encode() if reason else None)

    def pool(self, **options):
        """A Pool whose memory is registered with the communicator (ph_comm_pool_create).

        options: reserve (bytes that captures may take from), limit, use_on_oom, no_split.
        """
        settings = struct_from(core.ph_comm_pool_options, options)
        return Pool._owning(new_handle(core.ph_comm_pool_create, self._handle, ctypes.byref(settings)), self.device)

    # ---- collectives ----

    def all_reduce(self, stream, receive, send=None, op="sum"):
        """receive = op over all ranks of send. send None: in place. op: sum, product, min, max, mean."""
        to = self._operand(receive, stream, written=True)
        of = to if send is None else self._operand(send, stream)
        if (of.size, of.dtype) != (to.size, to.dtype):
            raise ValueError(f"all_reduce of {of!r} into {to!r}")
        check(core.ph_all_reduce(self._handle, to.address, of.address, to.size, _dtype_of(to), _operation(op), stream._stream_handle))

    def broadcast(self, stream, array, root=0):
        """array = that of the root, on every rank."""
        to = self._operand(array, stream, written=True)
        check(core.ph_broadcast(self._handle, to.address, to.address, to.size, _dtype_of(to), root, stream._stream_handle))

    def all_gather(self, stream, receive, send):
        """receive = send of rank 0, of rank 1 and so on, one behind the other."""
        to, of = self._operand(receive, stream, written=True), self._operand(send, stream)
        if to.size != of.size * self.size or to.dtype != of.dtype:
            raise ValueError(f"all_gather of {of!r} by {self.size} ranks into {to!r}")
        check(core.ph_all_gather(self._handle, to.address, of.address, of.size, _dtype_of(to), stream._stream_handle))

    def reduce_scatter(self, stream, receive, send, op="sum"):
        """receive = this rank's part of op over all ranks of send."""
        to, of = self._operand(receive, stream, written=True), self._operand(send, stream)
        if of.size != to.size * self.size or to.dtype != of.dtype:
            raise ValueError(f"reduce_scatter of {of!r} by {self.size} ranks into {to!r}")
        check(
            core.ph_reduce_scatter(self._handle, to.address, of.address, to.size, _dtype_of(to), _operation(op), stream._stream_handle)
        )

    def send(self, stream, array, to):
        """Sends the elements to one rank, which receives as many of the same type."""
        of = self._operand(array, stream)
        check(core.ph_send(self._handle, of.address, of.size, _dtype_of(of), to, stream._stream_handle))

    def receive(self, stream, array, of):
        """Receives the elements that one rank sends."""
        to = self._operand(array, stream, written=True)
        check(core.ph_receive(self._handle, to.address, to.size, _dtype_of(to), of, stream._stream_handle))

    @contextlib.contextmanager
    def group(self):
        """`with comm.group():` submits the block's collectives at its end; its sends and receives wait for each other only there.

        Arrays of the block's collectives are kept until then.
        """
        check(core.ph_comm_group_begin(self._handle))
        self._kept = []
        try:
            yield self
        finally:
            kept, self._kept = self._kept, None
            check(core.ph_comm_group_end(self._handle))
            kept.clear()  # behind the submission: a free comes in the order of the stream

    def _operand(self, thing, stream, written=False):
        array = _operand(thing, stream, written)
        if self._kept is not None:
            self._kept.append(array)
        return array
