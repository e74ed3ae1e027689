/* SPDX-License-Identifier: MIT */
/* tensor/core/relied.c: changes of what graphed callables rely on. */
#include "tensor/core/relied.h"

atomic_uint_fast64_t ph__relied_changes = 1;

/* Against another tape's use of the memory meanwhile, which sets last_key before it looks here: one
 * of the two sees the other. */
void ph__tensor_rely(ph_tensor *x)
{
    if (!atomic_load_explicit(&x->relied_on, memory_order_relaxed))
        atomic_store_explicit(&x->relied_on, true, memory_order_relaxed);
    if (!atomic_load_explicit(&x->storage->relied_on, memory_order_relaxed))
        atomic_store(&x->storage->relied_on, true);
}

void ph__relied_changed(void)
{
    atomic_fetch_add_explicit(&ph__relied_changes, 1, memory_order_relaxed);
}
