/* SPDX-License-Identifier: MIT */
/* nn/graphed/watch.h: changes in place outside of the graphs' own memory. */
#ifndef PH_NN_GRAPHED_WATCH_H
#define PH_NN_GRAPHED_WATCH_H
#include "nn/graphed/capture.h"

/* The versions of a module's parameters and buffers before its capture. */
typedef struct ph__seen {
    ph__storage *storage;
    uint64_t version;
} ph__seen;
typedef struct ph__graphed_watch {
    PH__VEC(ph__seen) seen;
} ph__graphed_watch;
/* Around the capture of forward: the callable's `changed` and
 * `exposed`. free: also after a failure. */
ph_status ph__watch_begin(ph__graphed_watch *watch, const ph_module *module, const char *call);
ph_status ph__watch_end(ph__graphed_watch *watch, const ph__trial *trial, const char *call);
void ph__watch_free(ph__graphed_watch *watch);

void ph__storages_free(ph__storages *list);
void ph__callable_count_changes(const ph__callable *callable); /* forward has been replayed */
uint64_t ph__callable_versions(
    const ph__callable *callable); /* of what is exposed: another number, once one was changed */
#endif
