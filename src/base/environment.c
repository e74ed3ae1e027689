/* SPDX-License-Identifier: MIT */
/* base/environment.c: variables that name what is loaded, read or written. */
#include "base/environment.h"
#include <stdatomic.h>
#include <stdlib.h>

static atomic_bool distrusted;

const char *ph__environment(const char *name)
{
    return atomic_load_explicit(&distrusted, memory_order_relaxed) ? NULL : secure_getenv(name);
}

void ph__environment_distrust(bool on)
{
    atomic_store(&distrusted, on);
}
