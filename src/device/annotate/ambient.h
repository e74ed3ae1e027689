/* SPDX-License-Identifier: MIT */
/* device/annotate/ambient.h: what is open on the calling thread. */
#ifndef PH_DEVICE_ANNOTATE_AMBIENT_H
#define PH_DEVICE_ANNOTATE_AMBIENT_H
#include "device/annotate/annotation.h"
#include <stdbool.h>
#include <stddef.h>

typedef struct ph__scope ph__scope;
struct ph__scope {
    ph__scope *outer;
    ph__annotation *annotation; /* with all that the outer ones give; NULL: nothing */
    uint64_t serial;
    bool forward_only;  /* who resumes what is open gets the outer one's */
    bool ranged;        /* a tool was told of it */
    bool heard;         /* a range that the program told NVTX of */
    bool quiet;         /* the library's own: no breadcrumb, no range tells of it */
    bool over;          /* the scope has ended, and goes with the scopes that began inside it */
    const void *domain; /* of a heard one */
};

/* The calling thread's scopes. */
typedef struct ph__ambient {
    ph__scope *top;  /* NULL: none is open */
    uint64_t serial; /* of it, unique in the process; 0: none */
    size_t depth;
} ph__ambient;
extern _Thread_local ph__ambient ph__thread_ambient __attribute__((visibility("hidden")));

/* Of the calling thread's scopes, borrowed: 0 is the innermost, 1 the one around it, and so on
 * to depth - 1. */
ph__annotation *ph__scope_at(size_t outwards);

/* Of the calling thread's innermost scope, borrowed; NULL: none is open, or it gives nothing. */
ph__annotation *ph__scope_annotation(void);
#endif
