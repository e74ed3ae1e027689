/* SPDX-License-Identifier: MIT */
/* tests/support/host_driver.h: for tests below the device layer: a host device through its
 * driver table, with streams and one kernel. */
#ifndef PH_TESTS_SUPPORT_HOST_DRIVER_H
#define PH_TESTS_SUPPORT_HOST_DRIVER_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "driver/driver.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

static const ph__driver *const drv = &ph__driver_host;

enum {
    WORDS = 64
};

typedef struct world {
    ph__drv_device *device;
    ph__drv_stream *a, *b; /* non-blocking */
    ph__drv_kernel *add;
    int32_t *words; /* WORDS of device memory, zeroed; the host device's is readable here */
} world;

/* words[at] = words[at] * scale + value: not commutative, so that the order of two of them
 * shows. */
struct add_args {
    int32_t *words;
    int32_t at, scale, value;
};

#define ADD_CUDA(name)                                                                             \
    "extern \"C\" __global__ void " name "(int *words, int at, int scale, int value)\n"            \
    "{ words[at] = (int)((unsigned)words[at] * (unsigned)scale + (unsigned)value); }\n"

static inline void add_body(const ph_block_range *range, const void *args)
{
    const struct add_args *add = args;
    if (range->begin == 0)
        add->words[add->at] =
            (int32_t)((uint32_t)add->words[add->at] * (uint32_t)add->scale + (uint32_t)add->value);
}

static inline void world_open(world *w, uint64_t chaos_seed)
{
    const ph__drv_device_options options = {
        .threads = 2, .chaos_seed = chaos_seed, .memory_bytes = 64u << 20};
    const ph_kernel_source source = {.name = "add",
                                     .cuda = ADD_CUDA("add"),
                                     .host = add_body,
                                     .args_size = sizeof(struct add_args)};
    void *memory = NULL;
    memset(w, 0, sizeof *w);
    assert_int_equal(drv->device_open(&w->device, 0, &options), 0);
    assert_int_equal(drv->stream_create(&w->a, w->device, PH__STREAM_NON_BLOCKING, 0), 0);
    assert_int_equal(drv->stream_create(&w->b, w->device, PH__STREAM_NON_BLOCKING, 0), 0);
    assert_int_equal(drv->kernel_create(&w->add, w->device, &source), 0);
    assert_int_equal(drv->plain_alloc(&memory, w->device, WORDS * sizeof(int32_t)), 0);
    w->words = memory;
    memset(w->words, 0, WORDS * sizeof(int32_t));
}

static inline void world_close(world *w)
{
    assert_int_equal(drv->plain_free(w->device, w->words), 0);
    drv->kernel_destroy(w->add);
    drv->stream_destroy(w->b);
    drv->stream_destroy(w->a);
    drv->device_close(w->device);
}

static inline int launch_add(const world *w, ph__drv_stream *stream, int32_t at, int32_t scale,
                             int32_t value)
{
    const struct add_args args = {.words = w->words, .at = at, .scale = scale, .value = value};
    const ph__drv_launch launch = {.grid = {1, 1, 1}, .block = {1, 1, 1}, .args = &args};
    return drv->launch(stream, w->add, &launch);
}

/* What `event` marks on `from` is waited for by `to`. */
static inline int order(ph__drv_event *event, ph__drv_stream *from, ph__drv_stream *to)
{
    int result = drv->event_record(event, from, 0);
    return result ? result : drv->stream_wait_event(to, event, 0);
}

static inline ph__drv_event *new_event(const world *w)
{
    ph__drv_event *event = NULL;
    assert_int_equal(drv->event_create(&event, w->device, PH__EVENT_DISABLE_TIMING), 0);
    return event;
}

static inline ph_capture_status status_of(ph__drv_stream *stream)
{
    ph__drv_capture capture;
    assert_int_equal(drv->capture_get(&capture, stream), 0);
    return capture.status;
}

static inline size_t node_count(ph__drv_graph *graph)
{
    ph__drv_node *const *nodes = NULL;
    size_t count = 0;
    assert_int_equal(drv->graph_nodes(&nodes, &count, graph), 0);
    return count;
}

static inline ph__drv_node *node_at(ph__drv_graph *graph, size_t index)
{
    ph__drv_node *const *nodes = NULL;
    size_t count = 0;
    assert_int_equal(drv->graph_nodes(&nodes, &count, graph), 0);
    assert_true(index < count);
    return nodes[index];
}

static inline ph__drv_node_info info_at(ph__drv_graph *graph, size_t index)
{
    ph__drv_node_info info;
    assert_int_equal(drv->node_info(&info, node_at(graph, index)), 0);
    return info;
}

/* Runs fn(argument) on another thread and waits for it. */
static inline void on_another_thread(void *(*fn)(void *), void *argument)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, fn, argument), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

/* ---- captures and launches that must go well ---- */

static inline void begin(ph__drv_stream *stream)
{
    assert_int_equal(drv->capture_begin(stream, PH_CAPTURE_GLOBAL), 0);
}

static inline ph__drv_graph *end(ph__drv_stream *stream)
{
    ph__drv_graph *graph = NULL;
    assert_int_equal(drv->capture_end(&graph, stream), 0);
    return graph;
}

static inline ph__drv_exec *instantiate(ph__drv_graph *graph)
{
    ph__drv_exec *exec = NULL;
    ph__drv_node *failed = NULL;
    assert_int_equal(drv->instantiate(&exec, graph, 0, &failed), 0);
    return exec;
}

static inline void launch(ph__drv_exec *exec, ph__drv_stream *stream)
{
    assert_int_equal(drv->exec_launch(exec, stream), 0);
}

static inline void wait_for(ph__drv_stream *stream)
{
    assert_int_equal(drv->stream_synchronize(stream), 0);
}

/* words[0] = words[0] * 2 + 1, twice on a stream and a fork between them that fills words[1] and
 * copies it to words[2]. */
static inline ph__drv_graph *capture_mixed(world *w)
{
    ph__drv_event *event = new_event(w);
    const ph__drv_memset fill = {.dst = w->words + 1, .value = 7, .value_size = 4, .count = 1};
    const ph__drv_memcpy copy = {.dst = w->words + 2, .src = w->words + 1, .bytes = 4};
    begin(w->a);
    assert_int_equal(launch_add(w, w->a, 0, 2, 1), 0); /* 0 */
    assert_int_equal(order(event, w->a, w->b), 0);
    assert_int_equal(drv->fill(w->b, &fill), 0);       /* 1 */
    assert_int_equal(drv->copy(w->b, &copy, NULL), 0); /* 2 */
    assert_int_equal(launch_add(w, w->a, 0, 2, 1), 0); /* 3 */
    assert_int_equal(order(event, w->b, w->a), 0);
    assert_int_equal(launch_add(w, w->a, 2, 3, 1), 0); /* 4 */
    drv->event_destroy(event);
    return end(w->a);
}

/* ---- gates ---- a host function that holds its stream until the gate is opened. */
typedef struct gate {
    atomic_bool reached, open;
} gate;

static inline void gate_body(void *user)
{
    gate *g = user;
    atomic_store(&g->reached, true);
    while (!atomic_load(&g->open))
        sched_yield();
}

static inline int gate_wait(gate *g, ph__drv_stream *stream)
{
    const ph__drv_host host = {.fn = gate_body, .user = g};
    return drv->host(stream, &host);
}

static inline void wait_until_reached(gate *g)
{
    while (!atomic_load(&g->reached))
        sched_yield();
}
#endif
