/* SPDX-License-Identifier: MIT */
/* tests/support/host_trace.h: streams of the host device, and the order of host functions on
 * them. */
#ifndef PH_TESTS_SUPPORT_HOST_TRACE_H
#define PH_TESTS_SUPPORT_HOST_TRACE_H
#include "support/host_driver.h"

enum {
    LOG = 4096
};

typedef struct trace {
    atomic_uint count;
    int at[LOG];
} trace;

typedef struct entry {
    trace *to;
    int value;
} entry;

static inline void entry_body(void *user)
{
    const entry *e = user;
    e->to->at[atomic_fetch_add(&e->to->count, 1)] = e->value;
}

static inline void log_on(entry *e, ph__drv_stream *stream, trace *to, int value)
{
    *e = (entry){.to = to, .value = value};
    const ph__drv_host host = {.fn = entry_body, .user = e};
    assert_int_equal(drv->host(stream, &host), 0);
}

static inline int position(const trace *of, int value)
{
    for (unsigned i = 0; i < atomic_load(&of->count); i++)
        if (of->at[i] == value)
            return (int)i;
    fail_msg("%d did not run", value);
    return -1;
}

static inline ph__drv_stream *new_stream(const world *w, int flags)
{
    ph__drv_stream *stream = NULL;
    assert_int_equal(drv->stream_create(&stream, w->device, flags, 0), 0);
    return stream;
}

/* ---- threads ---- */
typedef struct submitter {
    const world *w;
    int slot; /* 0, 1, 2, ...: the word that it adds to */
} submitter;

/* Runs fn(submitter *) on so many threads at once, and waits for all of them. */
static inline void run_submitters(const world *w, int count, void *(*fn)(void *))
{
    enum {
        MOST = 8
    };
    pthread_t threads[MOST];
    submitter each[MOST];
    assert_true(count <= MOST);
    for (int i = 0; i < count; i++) {
        each[i] = (submitter){w, i};
        assert_int_equal(pthread_create(&threads[i], NULL, fn, &each[i]), 0);
    }
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
}
#endif
