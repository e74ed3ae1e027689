/* SPDX-License-Identifier: MIT */
/* device/annotate/ambient.c: what is open on the calling thread. */
#include "device/annotate/ambient.h"

_Thread_local ph__ambient ph__thread_ambient;

ph__annotation *ph__scope_annotation(void)
{
    const ph__scope *top = ph__thread_ambient.top;
    return top ? top->annotation : NULL;
}

ph__annotation *ph__scope_at(size_t outwards)
{
    const ph__scope *scope = ph__thread_ambient.top;
    for (; scope && outwards > 0; outwards--)
        scope = scope->outer;
    return scope ? scope->annotation : NULL;
}
