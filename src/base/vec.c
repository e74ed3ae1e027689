/* SPDX-License-Identifier: MIT */
/* base/vec.c: growing of arrays. */
#include "base/vec.h"
#include "base/checked.h"
#include <string.h>

enum {
    FIRST_CAPACITY = 8
};

/* *at is really a T *: it is read and written as bytes, since a void * may not alias it. */
bool ph__vec_grow(void **at, size_t *capacity, size_t count, size_t extra, size_t element_size)
{
    size_t needed, doubled, bytes;
    if (!ph__add(count, extra, &needed))
        return false;
    if (needed <= *capacity)
        return true;
    if (!ph__mul(*capacity, 2, &doubled) || doubled < needed)
        doubled = needed;
    if (doubled < FIRST_CAPACITY)
        doubled = FIRST_CAPACITY;
    if (!ph__mul(doubled, element_size, &bytes))
        return false;
    void *array;
    memcpy(&array, at, sizeof array);
    array = ph__realloc(array, bytes);
    if (!array)
        return false;
    memcpy(at, &array, sizeof array);
    *capacity = doubled;
    return true;
}
