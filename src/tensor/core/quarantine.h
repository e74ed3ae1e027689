/* SPDX-License-Identifier: MIT */
/* tensor/core/quarantine.h: a debug setting: handles whose last reference went are kept for a
 * while, so that their use is an error that names what made them, and not one of memory that is
 * gone. */
#ifndef PH_TENSOR_CORE_QUARANTINE_H
#define PH_TENSOR_CORE_QUARANTINE_H
#include "tensor/core/tensor.h"

/* Who let go of the last reference. */
typedef enum ph__going {
    PH__GOING_RELEASED = 0, /* ph_tensor_release, or what held it went */
    PH__GOING_WORK, /* the end of an operator, a module's call or a pass of backward that made it */
    PH__GOING_SCOPE, /* ph_tape_scope_end */
    PH__GOING_CLEARED,
    PH__GOING_DESTROYED /* their tape */
} ph__going;

/* Room for so many handles of the device, from now on and for as long as the backend lives; never
 * less than before. 0: nothing. */
ph_status ph__quarantine_enlarge(ph__backend *backend, size_t handles, const char *call);
/* *out: the number that PH_QUARANTINE has, or 0 where it is not set. ARGUMENT: it is no number. */
ph_status ph__quarantine_asked(size_t *out, const char *call);
static inline bool ph__quarantine_is_on(const ph__backend *backend)
{
    return atomic_load_explicit(&backend->quarantine, memory_order_acquire) != NULL;
}

/* A handle that will be kept (x->tracked); NULL: no host memory. */
ph_tensor *ph__quarantine_alloc(void);
/* Records the maker of the tensor, unless it is known already: copied. */
void ph__quarantine_name(ph_tensor *x, const char *name);
/* In the place of freeing it: all that it had was released. */
void ph__quarantine_put(ph__backend *backend, ph_tensor *x, ph__going going);

/* STATE: "<call>: operand 1 (f32[2]) is gone: 'add' made it, and ph_tape_clear let go of it; ...".
 */
ph_status ph__quarantine_fail(const ph_tensor *x, const char *call, const char *what);
/* PH_OK where it is not gone, or NULL. */
static inline ph_status ph__tensor_check_there(const ph_tensor *x, const char *call,
                                               const char *what)
{
    return x && __builtin_expect(x->gone, 0) ? ph__quarantine_fail(x, call, what) : PH_OK;
}
/* A handle that is gone is as NULL to calls without a status; the thread's record says so. */
static inline bool ph__tensor_is_there(const ph_tensor *x, const char *call)
{
    return x && ph__tensor_check_there(x, call, "the tensor") == PH_OK;
}
#endif
