/* SPDX-License-Identifier: MIT */
/* python/module/ranges.h: ranges of memory as phonograph.words.pack packs them: pairs of 64-bit
 * numbers, begin and end of each; sorted, none overlaps. */
#ifndef PH_PYTHON_RANGES_H
#define PH_PYTHON_RANGES_H
#include "arguments.h"
#include <stdint.h>

typedef struct range {
    uint64_t begin, end;
} range;
typedef struct ranges {
    const range *at; /* borrowed from the bytes */
    size_t count;
} ranges;

/* False with an exception. */
static inline bool take_ranges(ranges *out, PyObject *bytes)
{
    char *text;
    Py_ssize_t size;
    if (PyBytes_AsStringAndSize(bytes, &text, &size) != 0)
        return false;
    *out = (ranges){(const range *)(const void *)text, (size_t)size / sizeof(range)};
    return true;
}

static inline bool ranges_have(const ranges *r, uint64_t value)
{
    size_t low = 0, high = r->count; /* the first range that ends behind it */
    if (high == 0 || value < r->at[0].begin || value >= r->at[high - 1].end)
        return false;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (r->at[middle].end <= value)
            low = middle + 1;
        else
            high = middle;
    }
    return r->at[low].begin <= value;
}
#endif
