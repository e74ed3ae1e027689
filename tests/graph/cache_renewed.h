/* SPDX-License-Identifier: MIT */
/* tests/graph/cache_renewed.h: a cache that makes executables anew, and what its events told. */
#ifndef PH_TESTS_GRAPH_CACHE_RENEWED_H
#define PH_TESTS_GRAPH_CACHE_RENEWED_H
#include "support/renewed.h"

#include "base/alloc.h"
#include <stdio.h>

static t_cached s;
static struct {
    int renewed, kept;
    char reason[240];
} told;

static inline void on_event(const ph_graph_cache_event *event, void *user)
{
    (void)user;
    told.renewed += event->what == PH_CACHE_RENEWED;
    told.kept += event->what == PH_CACHE_KEPT;
    if (event->what == PH_CACHE_KEPT)
        (void)snprintf(told.reason, sizeof told.reason, "%s", event->reason);
}

static const ph_graph_cache_options usual = {.after = PH_ZERO,
                                             .fallback = PH_CACHE_FALLBACK_UPDATE,
                                             .event = on_event,
                                             .renew_after = T_RENEWED_CALM};

static inline void open_with(const ph_graph_cache_options *options)
{
    memset(&told, 0, sizeof told);
    t_cached_open(&s, options);
}

static inline void close_scene(void)
{
    t_cached_close(&s);
    assert_int_equal(ph__alloc_live(), 0);
}
#endif
