/* SPDX-License-Identifier: MIT */
/* tests/support/benchmark.h: work that is done eagerly with ph_set_benchmark, and captured without,
 * and how long the software libraries say that proposals take. */
#ifndef PH_TESTS_BENCHMARK_H
#define PH_TESTS_BENCHMARK_H
#include "fake/fake_cuda.h"
#include "support/tensors.h"
#include <math.h>

static inline bool t_on_fake(void)
{
    return !t_on_host() && fake_cuda();
}

static inline void t_say(const char *variable, const char *value)
{
    assert_int_equal(value ? setenv(variable, value, 1) : unsetenv(variable), 0);
    if (t_on_fake())
        fake_cuda()->tell_time(-1);
}

static inline int64_t t_timings(void)
{
    return t_on_fake() ? fake_cuda()->calls_of("cuEventElapsedTime") : 0;
}

/* ---- work ---- a product, or attention with its backward: results are copied into out. */
typedef struct t_work {
    ph_tape *tape;
    ph_tensor *in[4], *out[4];
    int results;
} t_work;

static inline ph_tensor *t_some(t_scene *s, ph_dtype dtype, ph_shape shape)
{
    return ph_tensor_retain(ph_cast(s->tape, ph_randn(s->tape, PH_DTYPE_F32, shape), dtype));
}

static inline void t_work_free(const t_work *w)
{
    for (int i = 0; i < 4; i++) {
        ph_tensor_release(w->in[i]);
        ph_tensor_release(w->out[i]);
    }
}

typedef ph_status (*t_body_fn)(ph_stream *stream, void *user);

static inline char *t_work_contents(t_scene *s, const t_work *w, size_t *bytes)
{
    size_t one = ph_tensor_bytes(w->out[0]);
    char *all = malloc((size_t)w->results * one);
    assert_non_null(all);
    for (int i = 0; i < w->results; i++)
        assert_ok(ph_tensor_read(s->tape, w->out[i], all + (size_t)i * one, one));
    *bytes = (size_t)w->results * one;
    return all;
}

/* Captures the work, and replays it: its results are those of `eager`, to the bit. How many kernels
 * have that name. */
static inline size_t t_captured_named(t_scene *s, t_work *w, t_body_fn body, const char *name,
                                      const char *eager)
{
    ph_graph *graph;
    const ph_record *record;
    size_t named = 0, bytes;
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, s->stream, NULL, body, w));
    assert_ok(ph_graph_record(&record, graph));
    for (size_t i = 0; i < ph_record_node_count(record); i++) {
        ph_node_info node;
        assert_ok(ph_record_node(&node, record, i));
        named += node.name && strcmp(node.name, name) == 0;
    }
    for (int i = 0; i < w->results; i++)
        ph_tensor_fill(s->tape, w->out[i], NAN);
    assert_ok(ph_graph_replay(graph, s->stream));
    char *replayed = t_work_contents(s, w, &bytes);
    if (eager)
        assert_memory_equal(replayed, eager, bytes);
    free(replayed);
    ph_graph_destroy(graph);
    return named;
}

/* Eager with the switch on, and captured with it off. */
static inline size_t t_named_after_timing(t_scene *s, t_work *w, t_body_fn body, const char *name)
{
    size_t bytes;
    ph_set_benchmark(true);
    assert_ok(body(s->stream, w));
    char *eager = t_work_contents(s, w, &bytes);
    ph_set_benchmark(false);
    size_t named = t_captured_named(s, w, body, name, eager);
    free(eager);
    return named;
}
#endif
