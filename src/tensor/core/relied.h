/* SPDX-License-Identifier: MIT */
/* tensor/core/relied.h: what graphed callables look at once and not in each call: of the parameters
 * of a module where they are, whether they require gradients, their history, their marks and which
 * tape used their memory last; of modules their mode. Whoever changes one of these counts it here,
 * and the next call looks at all of them again. */
#ifndef PH_TENSOR_CORE_RELIED_H
#define PH_TENSOR_CORE_RELIED_H
#include "tensor/core/tensor.h"

/* In the process, from 1 on. */
extern atomic_uint_fast64_t ph__relied_changes;

/* From now on changes of it, and of what its memory is used by, are counted. Who looks at it then
 * reads the number before this. */
void ph__tensor_rely(ph_tensor *x);

/* Counts a change, made just now. */
void ph__relied_changed(void);
static inline void ph__tensor_altered(const ph_tensor *x)
{
    if (__builtin_expect(atomic_load_explicit(&x->relied_on, memory_order_relaxed), 0))
        ph__relied_changed();
}
#endif
