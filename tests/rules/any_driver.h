/* SPDX-License-Identifier: MIT */
/* tests/rules/any_driver.h: the driver that PH_TEST_DEVICE names ("cuda", say; the host's
 * otherwise), with a device, a stream, memory and a kernel. Device memory is never touched from
 * here. */
#ifndef PH_TESTS_RULES_ANY_DRIVER_H
#define PH_TESTS_RULES_ANY_DRIVER_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "device/handles/drivers.h"
#include "driver/driver.h"
#include "fake/fake_cuda.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum {
    WORDS = 64
};

static const ph__driver *drv;

typedef struct world {
    ph__drv_device *device;
    ph__drv_stream *a; /* non-blocking */
    ph__drv_kernel *add;
    int32_t *words; /* WORDS of device memory */
} world;

/* words[at] = words[at] * scale + value */
struct add_args {
    int32_t *words;
    int32_t at, scale, value;
};

static void add_body(const ph_block_range *range, const void *args)
{
    const struct add_args *add = args;
    if (range->begin == 0)
        add->words[add->at] =
            (int32_t)((uint32_t)add->words[add->at] * (uint32_t)add->scale + (uint32_t)add->value);
}

static const ph_kernel_source add_source = {
    .name = "add",
    .host = add_body,
    .cuda = "extern \"C\" __global__ void add(int *words, int at, int scale, int value)\n"
            "{ words[at] = (int)((unsigned)words[at] * (unsigned)scale + (unsigned)value); }\n",
    .args_size = sizeof(struct add_args)};

/* NULL, with a message: this build has no such driver. */
static inline const ph__driver *driver_under_test(void)
{
    const char *name = getenv("PH_TEST_DEVICE");
    if (!name || !*name)
        name = "host";
    size_t length = strcspn(name, ":");
    for (size_t i = 0; ph__drivers[i]; i++)
        if (strlen(ph__drivers[i]->name) == length &&
            strncmp(ph__drivers[i]->name, name, length) == 0)
            return ph__drivers[i];
    print_error("PH_TEST_DEVICE=%s: there is no such driver\n", name);
    return NULL;
}

/* 0, or the number of what failed, said with the driver's words. */
static inline int world_open(world *w)
{
    const ph__drv_device_options options = {.threads = 2, .memory_bytes = 64u << 20};
    void *memory = NULL;
    memset(w, 0, sizeof *w);
    if (strcmp(drv->name, "cuda") == 0)
        fake_cuda_register(&add_source);
    int result = drv->device_open(&w->device, 0, &options);
    if (!result)
        result = drv->stream_create(&w->a, w->device, PH__STREAM_NON_BLOCKING, 0);
    if (!result)
        result = drv->kernel_create(&w->add, w->device, &add_source);
    if (!result)
        result = drv->plain_alloc(&memory, w->device, WORDS * sizeof(int32_t));
    if (result)
        print_error("%s: %d (%s) %s\n", drv->name, result, ph__result_name(result),
                    ph__driver_reason());
    w->words = memory;
    return result;
}

static inline int world_close(world *w)
{
    int result = drv->plain_free(w->device, w->words);
    drv->kernel_destroy(w->add);
    drv->stream_destroy(w->a);
    drv->device_close(w->device);
    return result;
}

static inline int launch_add(const world *w, ph__drv_stream *stream, int32_t at, int32_t scale,
                             int32_t value)
{
    const struct add_args args = {.words = w->words, .at = at, .scale = scale, .value = value};
    const ph__drv_launch launch = {.grid = {1, 1, 1}, .block = {1, 1, 1}, .args = &args};
    return drv->launch(stream, w->add, &launch);
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

/* Runs fn(argument) on another thread and waits for it. */
static inline void on_another_thread(void *(*fn)(void *), void *argument)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, fn, argument), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}
#endif
