/* SPDX-License-Identifier: MIT */
/* tensor/operators/deterministic.c: whether operators keep to algorithms whose results repeat to
 * the bit: a setting of the process. */
#include <phonograph/operators.h>
#include <stdatomic.h>

static atomic_bool deterministic_only = true;

void ph_set_deterministic_algorithms(bool only)
{
    atomic_store_explicit(&deterministic_only, only, memory_order_relaxed);
}

bool ph_deterministic_algorithms(void)
{
    return atomic_load_explicit(&deterministic_only, memory_order_relaxed);
}
