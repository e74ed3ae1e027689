/* SPDX-License-Identifier: MIT */
/* phonograph/comm.h: communicators: the ranks (processes) of a program that work together, each on
 * a device of its own. docs/reference/collectives.md has the ways to start one. */
#ifndef PHONOGRAPH_COMM_H
#define PHONOGRAPH_COMM_H
#include <phonograph/device.h>

PH_BEGIN_DECLS

typedef struct ph_comm ph_comm;

typedef struct ph_comm_options {
    /* Number of ranks, and the number of this one, below size. size 0: the first of these that says
     * both: RANK and WORLD_SIZE, MPI, SLURM_PROCID and SLURM_NTASKS; else one rank. */
    uint32_t size, rank;
    /* The longest that a rank waits for the others, in create, a barrier and each collective that
     * a stream runs. Milliseconds; 0: ten minutes. */
    uint64_t timeout_ms;
    /* GPUs without MPI: where NCCL's ranks meet, on rank 0's host (MASTER_ADDR). The n-th
     * communicator of the process takes the n-th port from here on. 0: PH_COMM_PORT, else the port
     * behind MASTER_PORT. */
    uint64_t port;
    uint64_t reserved[5];
} ph_comm_options;

/* Makes a communicator of all ranks of the program. Every rank calls it, and the n-th call of one
 * rank meets the n-th of each other. Blocks until all have come.
 * - One rank needs no other software, on any device.
 * - More host devices need MPI: libphonograph_mpi.so (docs/guide/dependencies.md) beside this
 *   library, or the file that PH_COMM_MPI names.
 * - More GPUs, one a rank, need NCCL 2.18 or newer: libnccl.so.2, or the file that PH_NCCL names.
 *   Where a launcher of MPI started the process MPI is needed, too; else MASTER_ADDR.
 * - Where the program has not initialised MPI, this call does, with MPI_THREAD_MULTIPLE, and the
 *   exit of the process finalises it. Where the program has, it finalises it, after the last
 *   release of every communicator.
 * - UNSUPPORTED: no such library, or MPI without MPI_THREAD_MULTIPLE. MISMATCH: MPI has another
 *   rank or size. STATE: MPI was finalised. ARGUMENT: a rank not below size, a variable that is no
 *   number, or no address to meet at.
 * - PEER: a rank failed, or did not come in time. MPI_Init itself has no time limit.
 * - The caller has one reference, and the communicator one to the device. Legal in a capture.
 *   Thread-safe, but threads that create communicators at once need an order of their own. */
PH_CALL ph_comm_create(ph_comm **out, ph_device *device, const ph_comm_options *options);
PH_API ph_comm *ph_comm_retain(ph_comm *comm); /* takes NULL */
/* Takes NULL. The last release waits for collectives that were submitted, which end with their
 * time, and for no other rank. Others that still wait for this one get PEER. */
PH_API void ph_comm_release(ph_comm *comm);
/* Promises that the program never mixes captured and eager collectives of a communicator, for the
 * rest of the process. NCCL then leaves out what orders the two, and graphs with small collectives
 * replay faster.
 * - While a graph with collectives of a communicator lives, eager ones of it are refused (STATE),
 *   on host devices too. They are legal before the first capture, behind the last reset, and on
 *   another communicator.
 * - The promise holds for all that the process does with NCCL. Of collectives that it gives to
 *   NCCL itself this library knows nothing: mixed ones hang, or give wrong sums.
 * - NCCL before 2.29 has a variable for it, NCCL_GRAPH_MIXING_SUPPORT, which the first
 *   ph_comm_create of several GPUs sets to 0 for good, with setenv: no other thread may call getenv
 *   or setenv during that call. NCCL must not have been used in the process before.
 * - NCCL 2.29 and newer are told by their configuration. Leave the variable unset there.
 * - STATE: the process has made a communicator. It may be called twice. Thread-safe, legal in a
 *   capture. */
PH_CALL ph_comm_forbid_mixing(void);
/* The number of this rank among those of its machine, to choose a GPU by, before any device is
 * open: the first of LOCAL_RANK, OMPI_COMM_WORLD_LOCAL_RANK, MPI_LOCALRANKID and SLURM_LOCALID; 0:
 * none. ARGUMENT: it is no number. Thread-safe, legal in a capture. */
PH_CALL ph_comm_local_rank(uint32_t *out);
PH_API uint32_t ph_comm_rank(const ph_comm *comm); /* 0 for NULL */
PH_API uint32_t ph_comm_size(const ph_comm *comm); /* 0 for NULL */

/* Waits until every rank has called it, for timeout_ms at most (0: the communicator's own). Blocks
 * the calling thread, and orders no stream. PEER: a rank failed, or did not come in time, and the
 * communicator has failed. One thread at a time. Legal in a capture. */
PH_CALL ph_comm_barrier(ph_comm *comm, uint64_t timeout_ms);

/* The first failure of the communicator, with the message that says which rank did what, or PH_OK.
 * - A communicator that has failed stays so: every later call on it returns that failure, and makes
 *   no call of MPI. The program should make no call of MPI either, except MPI_Abort.
 * - Until ph_comm_abort or the last release, what waits for work of the device returns the failure
 *   too: ph_stream_synchronize, ph_event_synchronize, ph_device_synchronize, and copies to pageable
 *   memory. The work behind a failed collective has run, on contents that mean nothing.
 * - Thread-safe, legal in a capture. */
PH_CALL ph_comm_check(const ph_comm *comm);

/* Makes the communicator fail on this rank, with `reason` (NULL: none) in the message, if it has
 * not failed already. Then the device's waits report its failure no more. Takes NULL.
 * - Ranks on the same machine that wait for this one, or will, get PEER with the reason. Ranks on
 *   other machines get PEER when their time is over.
 * - Never blocks. Thread-safe, legal in a capture. */
PH_API void ph_comm_abort(ph_comm *comm, const char *reason);

PH_END_DECLS
#endif
