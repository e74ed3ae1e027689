/* SPDX-License-Identifier: MIT */
/* base/vec.h: growing arrays. `struct { T *at; size_t count, capacity; }` made by PH__VEC(T);
 * zero is empty. */
#ifndef PH_BASE_VEC_H
#define PH_BASE_VEC_H
#include "base/alloc.h"
#include <stdbool.h>

#define PH__VEC(T)                                                                                 \
    struct {                                                                                       \
        T *at;                                                                                     \
        size_t count, capacity;                                                                    \
    }

/* Makes room for extra more elements; false when the memory cannot be had, and then nothing
 * changed. */
bool ph__vec_grow(void **at, size_t *capacity, size_t count, size_t extra, size_t element_size);
#define ph__vec_reserve(v, extra)                                                                  \
    ((extra) <= (v)->capacity - (v)->count ||                                                      \
     ph__vec_grow((void **)&(v)->at, &(v)->capacity, (v)->count, (extra), sizeof *(v)->at))

/* Appends; false when the memory cannot be had, and then nothing changed. value may read the
 * array: it is evaluated after the room is made and before the count grows. */
#define ph__vec_push(v, value)                                                                     \
    (ph__vec_reserve((v), 1) && ((v)->at[(v)->count] = (value), (v)->count++, true))
#define ph__vec_clear(v) ((void)((v)->count = 0))
#define ph__vec_free(v)                                                                            \
    do {                                                                                           \
        ph__free((v)->at);                                                                         \
        (v)->at = NULL;                                                                            \
        (v)->count = (v)->capacity = 0;                                                            \
    } while (0)
#endif
