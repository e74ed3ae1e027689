/* SPDX-License-Identifier: MIT */
/* base/fork.h: the one handler of fork() of the library. A child has only the thread that forked: a
 * lock that another thread held stays locked there for good, and its data may be half changed. So
 * fork() waits for the locks of the process, and both sides get them unlocked.
 * - Each file with such a lock has a part of the handler (PH__FORK_LOCK).
 * - Locks of objects have none: a child may not use its parent's devices and their objects, so
 *   nothing asks for these locks there. */
#ifndef PH_BASE_FORK_H
#define PH_BASE_FORK_H
#include <pthread.h>
#include <stdbool.h>

/* The order in which locks of the process may be taken, outermost first. */
typedef enum ph__fork_order {
    PH__FORK_GUARDS,
    PH__FORK_TORCH_POOLS,
    PH__FORK_TORCH_DEVICES,
    PH__FORK_BACKENDS,
    PH__FORK_VALUES,
    PH__FORK_ENGINES,
    PH__FORK_NCCL,
    PH__FORK_COMM_POOLS,
    PH__FORK_SLOTS,
    PH__FORK_RETAINING,
    PH__FORK_PRODUCTS_CUDA,
    PH__FORK_CUDNN,
    PH__FORK_PRODUCTS_HOST,
    PH__FORK_NESTED,
    PH__FORK_HOOKS,
    PH__FORK_ANNOTATED,
    PH__FORK_WRITERS,
    PH__FORK_MARKS,
    PH__FORK_SITES,
    PH__FORK_LANES,
    PH__FORK_DEVICES,
    PH__FORK_MEMORIES,
    PH__FORK_WORKERS,
    PH__FORK_KERNELS,
    PH__FORK_CUDA_CORE,
    PH__FORK_CUDA_NVRTC,
    PH__FORK_CUDA_TOOLS,
    PH__FORK_CUDA_ACTIVITY,
    PH__FORK_CUDA,
    PH__FORK_DRIVERS,
    PH__FORK_NVTX,
    PH__FORK_SOURCE_LINES,
    PH__FORK_CALLBACKS,
    PH__FORK_LOG
} ph__fork_order;

/* prepare: before the fork, outermost first; then either of the two others, innermost first. The
 * lock, where there is one, is held around all three. No function may allocate: the child's memory
 * is what the fork left. Each may be NULL. */
typedef struct ph__fork_part ph__fork_part;
struct ph__fork_part {
    ph__fork_order order;
    pthread_mutex_t *lock;
    void (*prepare)(void), (*parent)(void), (*child)(void);
    ph__fork_part *next;
};

/* The part is the caller's, and stays. Called when the library is loaded, by what PH__FORK_PART
 * makes. */
void ph__fork_add(ph__fork_part *part);
/* False: the system had no memory for the handler. Then no device may be opened. */
bool ph__fork_handled(void);

/* At most one in a file. */
#define PH__FORK_PART(...)                                                                         \
    static ph__fork_part fork_part = {__VA_ARGS__};                                                \
    __attribute__((constructor)) static void add_fork_part(void)                                   \
    {                                                                                              \
        ph__fork_add(&fork_part);                                                                  \
    }
#define PH__FORK_LOCK(its_order, mutex) PH__FORK_PART(.order = (its_order), .lock = &(mutex))
#endif
