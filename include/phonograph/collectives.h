/* SPDX-License-Identifier: MIT */
/* phonograph/collectives.h: work of streams that all ranks of a communicator take part in.
 * docs/reference/collectives.md has what holds for all of it. */
#ifndef PHONOGRAPH_COLLECTIVES_H
#define PHONOGRAPH_COLLECTIVES_H
#include <phonograph/comm.h>
#include <phonograph/dtype.h>
#include <phonograph/stream.h>

PH_BEGIN_DECLS

/* How elements of several ranks become one. All ranks get the same bits.
 * - Host devices: in the order of the ranks, from 0 on, so that every run gives the same bits; f16
 *   and bf16 are reduced in f32, and rounded once. GPUs: in NCCL's order and rounding.
 * - Integers wrap around.
 * - MIN, MAX: bool has these two alone. Host devices: a NaN of any rank wins. GPUs: NCCL decides,
 *   and 2.28 gives the number where one rank has a NaN; a NaN that must be seen goes by SUM.
 * - MEAN: the sum, divided by the number of ranks; floating-point types alone. */
typedef enum ph_reduce_op {
    PH_REDUCE_SUM = 0,
    PH_REDUCE_PRODUCT = 1,
    PH_REDUCE_MIN = 2,
    PH_REDUCE_MAX = 3,
    PH_REDUCE_MEAN = 4
} ph_reduce_op;

/* Every call below submits one collective to stream, asynchronously, and a capturing stream records
 * it. Each replay runs it, together with the replays of the other ranks.
 *
 * Order:
 * - Every rank submits the same collectives of a communicator in the same order, with the same
 *   count, dtype, op and root, and replays graphs in the same order. A collective that differs is
 *   MISMATCH on all ranks, when it runs (docs/reference/collectives.md).
 * - Collectives of one communicator run in the order of their submission, also on several streams.
 *   In a capture, edges between their nodes keep the order, for all communicators together.
 * - One thread at a time submits to a communicator, captures collectives into a graph, or replays a
 *   graph that has them.
 *
 * Memory:
 * - Device or pinned memory of the communicator's device, aligned to its elements. It stays as the
 *   memory of any other work does; in a graph it is an input or the graph's own.
 * - send and receive may be the same memory, as each call says. Other overlaps: ARGUMENT.
 * - count 0 moves nothing, addresses may be NULL, and the ranks still meet.
 * - One rank: a copy, or nothing in place.
 *
 * In a graph:
 * - The graph retains the communicator. Its reset waits for its replays.
 * - The first replay blocks until all ranks come to theirs, and compare their collectives. MISMATCH
 *   on all ranks, with the first one that differs, and nothing is launched. The communicator stays
 *   good; reset and capture again.
 * - The node of a collective has no places of slots, and cannot be set or disabled.
 * - An update brings the same collectives, with other memory (MISMATCH otherwise).
 * - Such a graph cannot be replayed into another capture, and a capture that this library did not
 *   begin takes no collectives (UNSUPPORTED).
 *
 * Errors: ARGUMENT, SIZE (a product that overflows), WRONG_DEVICE, HOST_MEMORY, those of the
 * capture rules, and the failure of a communicator that has failed. A failure while the work runs
 * is told as ph_comm_check says. */

/* receive[i] = op over all ranks of send[i], on every rank. In place: receive == send. */
PH_CALL ph_all_reduce(ph_comm *comm, void *receive, const void *send, size_t count, ph_dtype dtype,
                      ph_reduce_op op, ph_stream *stream);
/* receive[i] = root's send[i], on every rank. In place: receive == send on root. Other ranks' send
 * is not looked at. */
PH_CALL ph_broadcast(ph_comm *comm, void *receive, const void *send, size_t count, ph_dtype dtype,
                     uint32_t root, ph_stream *stream);
/* receive[r * count + i] = rank r's send[i], on every rank. In place: send == receive + rank *
 * count. */
PH_CALL ph_all_gather(ph_comm *comm, void *receive, const void *send, size_t count, ph_dtype dtype,
                      ph_stream *stream);
/* receive[i] = op over all ranks of send[rank * count + i]: rank's part of an all_reduce of
 * ph_comm_size times count elements. In place: receive == send + rank * count. */
PH_CALL ph_reduce_scatter(ph_comm *comm, void *receive, const void *send, size_t count,
                          ph_dtype dtype, ph_reduce_op op, ph_stream *stream);
/* Elements to one rank, which receives as many of the same type from this one. MISMATCH on the
 * receiver otherwise. ARGUMENT: a rank that is this one. SIZE: 2 GiB or more. Two ranks that both
 * send before they receive wait for each other: use a group. */
PH_CALL ph_send(ph_comm *comm, const void *send, size_t count, ph_dtype dtype, uint32_t to,
                ph_stream *stream);
PH_CALL ph_receive(ph_comm *comm, void *receive, size_t count, ph_dtype dtype, uint32_t from,
                   ph_stream *stream);

/* Between begin and end the calls above check their arguments and keep the work. end submits all of
 * it, in that order. Sends and receives of a group wait for each other only at its end, in whatever
 * order.
 * - ARGUMENT: work for a second stream. STATE: begin in a group, end without one, or a capture that
 *   began or ended between. The group is dropped then.
 * - A failure of end in the middle of submitting is the communicator's. */
PH_CALL ph_comm_group_begin(ph_comm *comm);
PH_CALL ph_comm_group_end(ph_comm *comm);
/* Whether a group is open. false for NULL. */
PH_API bool ph_comm_in_group(const ph_comm *comm);

PH_END_DECLS
#endif
