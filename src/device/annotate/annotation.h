/* SPDX-License-Identifier: MIT */
/* device/annotate/annotation.h: annotations: pairs, merged and counted. */
#ifndef PH_DEVICE_ANNOTATE_ANNOTATION_H
#define PH_DEVICE_ANNOTATE_ANNOTATION_H
#include "base/status.h"
#include <phonograph/annotation.h>
#include <stdatomic.h>
#include <stdint.h>

typedef struct ph_annotation_scope ph__annotation;

/* The key that says why a library adds a node by itself. The record has it apart from the pairs. */
#define PH__MADE_FOR "made_for"

/* The pairs of all scopes that were open at once, merged, the innermost's where several have a
 * key. Immutable, counted; one allocation. */
struct ph_annotation_scope {
    atomic_uint references;
    uint64_t era; /* ph_clear_kernel_annotations begins a new one */
    size_t count; /* never 0: no pairs is NULL */
    ph_annotation_pair pairs[];
};
ph__annotation *ph__annotation_retain(ph__annotation *annotation); /* takes NULL, as release does */
void ph__annotation_release(ph__annotation *annotation);
/* inner's pairs over outer's: one of the two, retained, where that is enough. Either may be
 * NULL. */
ph_status ph__annotation_merge(ph__annotation **out, ph__annotation *outer, ph__annotation *inner,
                               const char *call);
/* The value of the key "name", where that is a text; else "". */
const char *ph__annotation_name(const ph__annotation *annotation);
/* The value of PH__MADE_FOR, where that is a text; else NULL. rest: the other pairs, retained; NULL
 * where there are none. */
ph_status ph__annotation_split(const char **made_for, ph__annotation **rest,
                               ph__annotation *annotation, const char *call);

typedef struct ph__pairs {
    const ph_annotation_pair *at;
    size_t count;
} ph__pairs;
/* All sources merged, of a key that several have the last's value; NULL where there are no
 * pairs. */
ph_status ph__annotation_make(ph__annotation **out, const ph__pairs *sources, size_t count,
                              const char *call);
uint64_t ph__annotations_era(void);

/* Scopes that are opened from now on are of a new era; what older ones give to work that comes
 * later is void. */
void ph__annotations_forget(void);
#endif
