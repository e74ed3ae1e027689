/* SPDX-License-Identifier: MIT */
/* device/annotate/scopes.h: what scopes.c and annotate.c share. */
#ifndef PH_DEVICE_ANNOTATE_SCOPES_H
#define PH_DEVICE_ANNOTATE_SCOPES_H
#include "device/annotate/annotate.h"

typedef struct ph__pairs {
    const ph_annotation_pair *at;
    size_t count;
} ph__pairs;
/* All sources merged, of a key that several have the last's value; NULL where there are no
 * pairs. */
ph_status ph__annotation_make(ph__annotation **out, const ph__pairs *sources, size_t count,
                              const char *call);
uint64_t ph__annotations_era(void);

/* Of the calling thread's innermost scope, borrowed; NULL: none is open, or it gives nothing. */
ph__annotation *ph__scope_annotation(void);

/* What is open on the calling thread has changed: so it does in the captures that it was the
 * last to submit to, and in that which the stream is in. NULL: in those of the thread alone. */
ph_status ph__marks_change(const ph_stream *stream, const char *call);
/* The annotated capture that the stream is in, NULL: there is none. It is open as long as its
 * user leaves it so. */
ph_status ph__marks_find(ph__capture **out, const ph_stream *stream, const char *call);
/* annotated captures that are open and have a function for scopes */
extern atomic_uint ph__marks_told;
#endif
