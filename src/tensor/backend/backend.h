/* SPDX-License-Identifier: MIT */
/* tensor/backend/backend.h: what this library keeps for each device, for as long as any tensor,
 * tape, generator or module of it lives. */
#ifndef PH_TENSOR_BACKEND_BACKEND_H
#define PH_TENSOR_BACKEND_BACKEND_H
#include "base/vec.h"
#include <phonograph/phonograph.h>
#include <phonograph/random.h>
#include <pthread.h>
#include <stdatomic.h>

typedef struct ph__backend ph__backend;
typedef struct ph__products ph__products;     /* products.h */
typedef struct ph__workspaces ph__workspaces; /* products_workspace.h */
typedef struct ph__cudnn ph__cudnn;           /* cudnn.h */
typedef struct ph__quarantine ph__quarantine; /* quarantine.h */

enum {
    PH__KERNEL_SLOTS = 4096
};
struct ph__backend {
    atomic_int references; /* the registry holds none */
    ph_device *device;     /* retained */
    ph_device_info info;
    bool forked; /* its device is of the process that this one was forked from */
    bool cuda;   /* products go to cuBLASLt, and kernels have warps: asked by the few that must */
    int32_t ordinal; /* of the GPU, as CUDA counts them; else 0 */
    pthread_mutex_t lock;
    /* by ph__kernel_def.slot: made at first use, under lock */
    _Atomic(ph_kernel *) kernels[PH__KERNEL_SLOTS];
    _Atomic(ph__products *) products; /* made at first use, under lock */
    _Atomic(ph__cudnn *) cudnn;       /* the same */
    ph__workspaces *workspaces;       /* of captured products; nothing is in it on the host */
    atomic_bool had_tape;             /* without one there are no operators */
    ph_tape *tapes;                   /* tapes that are alive, by tape_list.c; under lock */
    PH__VEC(ph_stream *) idle;        /* streams that were lent and came back; under lock */
    /* made with the backend, a part of it (generator.h) */
    ph_generator *default_generator;
    _Atomic(ph__quarantine *) quarantine; /* of handles; NULL: it is off */
    ph__backend *next;                    /* in the registry */
};

/* The device's backend, found or made; retained. Not thread-bound; legal in a capture. */
ph_status ph__backend_of(ph__backend **out, ph_device *device, const char *call);
static inline ph__backend *ph__backend_retain(ph__backend *backend)
{
    atomic_fetch_add_explicit(&backend->references, 1, memory_order_relaxed);
    return backend;
}
/* Of the last reference: lets kernels, products and device go. */
void ph__backend_end(ph__backend *backend);
/* takes NULL */
static inline void ph__backend_release(ph__backend *backend)
{
    if (backend && atomic_fetch_sub_explicit(&backend->references, 1, memory_order_acq_rel) == 1)
        ph__backend_end(backend);
}

/* The order of the parts that rooms above keep in each backend. Parts are known before the first
 * backend is made. */
typedef enum ph__backend_order {
    PH__BACKEND_PRODUCTS,
    PH__BACKEND_CUDNN,
    PH__BACKEND_GENERATOR,
    PH__BACKEND_TAPES,
    PH__BACKEND_QUARANTINE
} ph__backend_order;

/* Each function may be NULL. In the order of their numbers, one after the other:
 * - create: with the backend, in the name of call; what it made goes by destroy, which is also
 *   called where it failed;
 * - destroy: the backend is nobody's;
 * - expect: the device's first tape is made;
 * - before_capture: a capture of the device's is about to begin;
 * - forked: in the child of fork(), where the backend is of the parent. */
typedef struct ph__backend_part ph__backend_part;
struct ph__backend_part {
    ph__backend_order order;
    ph_status (*create)(ph__backend *backend, const char *call);
    void (*destroy)(ph__backend *backend);
    void (*expect)(ph__backend *backend);
    void (*before_capture)(ph__backend *backend);
    void (*forked)(ph__backend *backend);
    ph__backend_part *next;
};
/* The part is the caller's, and stays. Called when the library is loaded, by what
 * PH__BACKEND_PART makes. */
void ph__backend_part_add(ph__backend_part *part);
/* At most one in a file. */
#define PH__BACKEND_PART(...)                                                                      \
    static ph__backend_part backend_part = {__VA_ARGS__};                                          \
    __attribute__((constructor)) static void add_backend_part(void)                                \
    {                                                                                              \
        ph__backend_part_add(&backend_part);                                                       \
    }
/* A tape is being made: at the first one the parts' expect. */
void ph__backend_expect_work(ph__backend *backend);

/* A stream for captures, and for as long as their memory is kept apart: one that came back
 * before, or a new one. What the device notes of a stream stays with the device, so that new
 * ones each time would add up. give_back: NULL is taken; its work need not be done. */
ph_status ph__backend_lend_stream(ph_stream **out, ph__backend *backend);
void ph__backend_give_back_stream(ph__backend *backend, ph_stream *stream);

/* Between two devices, in order of a stream of the first one's; src must be complete. Not in a
 * capture of stream. What src held is taken when it returns. */
ph_status ph__backend_copy(ph__backend *to, void *dst, ph_stream *stream, const ph__backend *from,
                           const void *src, size_t bytes);
#endif
