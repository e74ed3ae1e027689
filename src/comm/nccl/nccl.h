/* SPDX-License-Identifier: MIT */
/* comm/nccl/nccl.h: one communicator of NCCL's, a nonblocking one. Every wait for it is the
 * caller's, with a deadline. */
#ifndef PH_COMM_NCCL_NCCL_H
#define PH_COMM_NCCL_NCCL_H
#include "comm/engine/engine.h"
#include "comm/nccl/load.h"
#include "device/handles/device.h"

typedef struct ph__nccl ph__nccl;

/* An id that all ranks need; address: "HOST:PORT" of rank 0, which every rank names; NULL: a new id
 * for the others to be told. A failure's reason is in the text. */
int ph__nccl_make_id(ph__nccl_id *out, const char *address, char reason[PH__ENGINE_REASON]);
/* From now on communicators begin as ones whose captured and eager collectives are not mixed. NCCL
 * before 2.29 asks the environment for that once, in a thread of its own: the variable stays. */
ph_status ph__nccl_forbid_mixing(const char *call);
/* Begins a communicator, which may be used once ph__nccl_test says that it is done. address: as the
 * id was made with. NULL: no host memory, or the reason is in the text. */
ph__nccl *ph__nccl_begin(ph_device *device, uint32_t rank, uint32_t size, const ph__nccl_id *id,
                         const char *address, char reason[PH__ENGINE_REASON]);
/* Whether the last call on it is done. Not 0: NCCL has failed, here or on another rank. */
int ph__nccl_test(ph__nccl *nccl, bool *done, char reason[PH__ENGINE_REASON]);

/* Around calls of NCCL: the device's context, and a thread whose capture mode lets NCCL ask and
 * allocate. NULL: it has been aborted, and there is no leave. Other captures go on. */
ph__nccl_raw *ph__nccl_enter(ph__nccl *nccl, ph_capture_mode *mode);
void ph__nccl_leave(ph__nccl *nccl, ph_capture_mode mode);

/* Whether one that was aborted or let go of holds nothing any more. */
bool ph__nccl_is_over(const ph__nccl *nccl);
/* Ends what runs of it on this rank, and lets go of it in a thread of its own: NCCL waits for
 * graphs that have nodes of it. Never blocks. Once for each communicator, from one thread. */
void ph__nccl_abort(ph__nccl *nccl);
/* Lets go of one whose work is over, or that was aborted. False: not over in that time, and a
 * thread goes on with it. Takes NULL. */
bool ph__nccl_end(ph__nccl *nccl, uint64_t wait_ns);
/* The words for a result of NCCL's. */
void ph__nccl_reason(char reason[PH__ENGINE_REASON], ph__nccl_raw *raw, int result,
                     const char *call);
#endif
