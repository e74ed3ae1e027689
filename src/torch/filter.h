/* SPDX-License-Identifier: MIT */
/* torch/filter.h: a std::function<bool(cudaStream_t)> of libstdc++, whose layout is part of that
 * library's binary interface: room for the functor, the function that manages it, the function that
 * calls it. */
#ifndef PH_TORCH_FILTER_H
#define PH_TORCH_FILTER_H
#include <stdbool.h>

typedef struct ph__filter {
    _Alignas(void *) unsigned char functor[2 * sizeof(void *)];
    /* operations: 2 clones the functor at `from` into `to`, 3 destroys the one at `to` */
    bool (*manage)(void *to, const void *from, int operation);
    bool (*call)(const void *functor, void *const *stream);
} ph__filter;

/* May throw what the functor's copy throws. */
void ph__filter_copy(ph__filter *out, const void *function);
void ph__filter_destroy(ph__filter *filter);
/* False for an empty function. May throw what the functor throws. */
bool ph__filter_accepts(const ph__filter *filter, void *stream);
#endif
