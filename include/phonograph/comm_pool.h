/* SPDX-License-Identifier: MIT */
/* phonograph/comm_pool.h: pools whose memory is registered with a communicator. */
#ifndef PHONOGRAPH_COMM_POOL_H
#define PHONOGRAPH_COMM_POOL_H
#include <phonograph/comm.h>
#include <phonograph/memory.h>

PH_BEGIN_DECLS

typedef struct ph_comm_pool_options {
    /* Bytes that are registered when the pool is created, and stay as long as the pool.
     * - Allocations take from them first, and those in captures from them alone. 0: none.
     * - Rounded up to 2 MiB. The allocator takes segments of them: 2 MiB for requests up to 1 MiB,
     *   20 MiB for those below 10 MiB, and the next multiple of 2 MiB for larger ones. */
    size_t reserve;
    size_t limit;    /* the most bytes of segments, the reserve's among them; 0: no limit */
    bool use_on_oom; /* as in ph_pool_options */
    bool no_split;   /* as in ph_pool_options */
    uint64_t reserved[4];
} ph_comm_pool_options;

/* Makes a pool (memory.h) of the communicator's device, whose memory NCCL may move between GPUs
 * without copies into buffers of its own. Every rank that gives such memory to a collective makes a
 * pool. The call waits for no other rank.
 *
 * Memory:
 * - Several GPUs: ncclMemAlloc allocates it, and ncclCommRegister registers it. UNSUPPORTED: NCCL
 *   before 2.19.
 * - Host devices, and one rank: ordinary memory of the device. Nothing is registered, and the
 *   refusals are the same.
 * - A graph keeps the memory that it uses, as of each pool. Memory of the pool that captured
 *   collectives address is held (ph_graph_hold_memory): also after a free, no request gets it
 *   before the graph is reset.
 * - No limit and no statistics count the part of the reserve that no segment has taken.
 *
 * Captures: while one is open on the device nothing is registered. A request that the reserve
 * cannot serve is refused (STATE), and the capture goes on.
 *
 * Lifetimes:
 * - The pool does not hold the communicator. After the communicator's end or failure the memory
 *   stays usable. New segments are refused (STATE, or the failure).
 * - The registration of memory ends before the communicator does, and before the memory goes back
 *   to the device. Where NCCL does not end the registration, the memory stays allocated.
 * - ph_pool_release is for it as for each pool.
 *
 * Errors: ARGUMENT (a reserve above the limit), STATE (a reserve while a capture is open on the
 * device), DEVICE_MEMORY, DEVICE (NCCL cannot register), HOST_MEMORY, and the failure of a
 * communicator that has failed.
 *
 * Threads: thread-safe, and so is the pool. A registration waits while another thread submits a
 * collective of the communicator. Legal in a capture, without a reserve. */
PH_CALL ph_comm_pool_create(ph_pool **out, ph_comm *comm, const ph_comm_pool_options *options);

PH_END_DECLS
#endif
