/* SPDX-License-Identifier: MIT */
/* torch/filter.c: copies and calls of a std::function<bool(cudaStream_t)>. */
#include "torch/filter.h"
#include <stddef.h>
#include <string.h>

enum {
    CLONE = 2,
    DESTROY = 3
};

void ph__filter_copy(ph__filter *out, const void *function)
{
    const ph__filter *from = function;
    memset(out, 0, sizeof *out);
    if (from == NULL || from->manage == NULL)
        return;
    (void)from->manage(out->functor, from->functor, CLONE);
    out->manage = from->manage;
    out->call = from->call;
}

void ph__filter_destroy(ph__filter *filter)
{
    if (filter->manage)
        (void)filter->manage(filter->functor, filter->functor, DESTROY);
    memset(filter, 0, sizeof *filter);
}

bool ph__filter_accepts(const ph__filter *filter, void *stream)
{
    return filter->manage && filter->call(filter->functor, &stream);
}
