/* SPDX-License-Identifier: MIT */
/* tensor/products/tf32.c: whether products of f32 on a GPU may be in TF32: a setting of the
 * process. */
#include <phonograph/operators.h>
#include <stdatomic.h>

static atomic_bool tf32_allowed;

void ph_set_tf32(bool allowed)
{
    atomic_store_explicit(&tf32_allowed, allowed, memory_order_relaxed);
}

bool ph_tf32(void)
{
    return atomic_load_explicit(&tf32_allowed, memory_order_relaxed);
}
