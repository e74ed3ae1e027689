/* SPDX-License-Identifier: MIT */
/* tests/support/scenes_device.c: scenarios of devices, streams, events, kernels and submitted
 * work. */
#include "support/scenes.h"
#include <string.h>

enum {
    N = T_SCENE_N
};

static ph_status open_device(t_scene *s)
{
    ph_status status;
    ph_device *device = NULL;
    ph_stream *stream = NULL;
    int32_t *memory = NULL;
    (void)s;
    T_GO_OUT(device, ph_device_open(&device, t_device_name(), NULL));
    T_GO_OUT(stream, ph_stream_create(&stream, device, NULL));
    T_GO_OUT(memory, PH_NEW(&memory, N, stream));
    T_GO(ph_memset_u32(memory, 5, N, stream));
    T_GO(ph_stream_synchronize(stream));
    T_GO(t_same(stream, memory, N, 5));
out:
    ph_free(memory, NULL);
    ph_stream_destroy(stream);
    ph_device_release(device);
    return status;
}

static ph_status streams(t_scene *s)
{
    ph_status status;
    ph_stream *plain = NULL, *blocking = NULL;
    ph_stream_options options = {.priority = -1, .blocking = true};
    T_GO_OUT(plain, ph_stream_create(&plain, s->world.device, NULL));
    T_GO_OUT(blocking, ph_stream_create(&blocking, s->world.device, &options));
    T_GO(t_fill(&s->world, plain, s->x, N, 1));
    T_GO(ph_stream_wait_stream(blocking, plain));
    T_GO(t_add(&s->world, blocking, s->x, s->x, N, 1));
    T_GO(t_add(&s->world, ph_device_default_stream(s->world.device), s->x, s->x, N, 1));
    T_GO(ph_stream_synchronize(ph_device_default_stream(s->world.device)));
    T_GO(t_same(s->a, s->x, N, 3));
out:
    ph_stream_destroy(plain);
    ph_stream_destroy(blocking);
    return status;
}

static ph_status events(t_scene *s)
{
    ph_status status;
    ph_event *plain = NULL, *timed = NULL;
    ph_event_options timing = {.timing = true};
    bool done = false;
    float ms = -1;
    T_GO_OUT(plain, ph_event_create(&plain, s->world.device, NULL));
    T_GO_OUT(timed, ph_event_create(&timed, s->world.device, &timing));
    T_GO(ph_event_record(timed, s->a));
    T_GO(t_fill(&s->world, s->a, s->x, N, 2));
    T_GO(ph_event_record(plain, s->a));
    T_GO(ph_stream_wait_event(s->b, plain));
    T_GO(t_add(&s->world, s->b, s->x, s->y, N, 5));
    T_GO(ph_event_record(s->stop, s->b));
    T_GO(ph_event_synchronize(s->stop));
    T_GO(ph_event_query(&done, s->stop));
    assert_true(done);
    T_GO(ph_event_elapsed(&ms, timed, s->stop));
    assert_true(ms >= 0);
    T_GO(t_same(s->a, s->y, N, 7));
out:
    ph_event_destroy(plain);
    ph_event_destroy(timed);
    return status;
}

static ph_status kernels(t_scene *s)
{
    ph_status status;
    ph_kernel *kernel = NULL;
    ph_launch_config config = {.grid = {N, 1, 1}, .shared_bytes = 64};
    struct t_add_i32 args = {N, s->x, s->y, 10};
    T_GO_OUT(kernel,
             ph_kernel_create(&kernel, s->world.device, &t_kernel_sources[T_KERNEL_NEGATE]));
    T_GO(ph_memset_u32(s->x, 4, N, s->a));
    T_GO(ph_launch(s->a, kernel, &config, &args, sizeof args));
    ph_kernel_release(kernel); /* the launch keeps what it needs */
    kernel = NULL;
    T_GO(ph_stream_synchronize(s->a));
    T_GO(t_same(s->a, s->y, N, 6));
out:
    ph_kernel_release(kernel);
    return status;
}

static ph_status launches(t_scene *s)
{
    bool done = false;
    PH_TRY(t_fill(&s->world, s->a, s->x, N, 3));
    for (int i = 0; i < 40; i++)
        PH_TRY(t_add(&s->world, s->a, s->x, s->x, N, 1));
    PH_TRY(ph_event_record(s->event, s->a));
    PH_TRY(ph_stream_wait_event(s->b, s->event));
    PH_TRY(t_add(&s->world, s->b, s->x, s->y, N, 4));
    PH_TRY(ph_stream_query(&done, s->b));
    PH_TRY(ph_stream_synchronize(s->b));
    PH_TRY(t_same(s->b, s->y, N, 47));
    return PH_OK;
}

static ph_status copies(t_scene *s)
{
    for (size_t i = 0; i < N; i++)
        s->pageable[i] = 21;
    PH_TRY(ph_memcpy(s->x, s->pageable, sizeof s->pageable, s->a)); /* pageable to device */
    PH_TRY(ph_memcpy(s->y, s->x, sizeof s->pageable, s->a));        /* on the device */
    PH_TRY(ph_memcpy(s->pinned, s->y, sizeof s->pageable, s->a));   /* device to pinned */
    PH_TRY(ph_memset(s->x, 0, sizeof s->pageable, s->a));
    PH_TRY(ph_memcpy(s->x, s->pinned, sizeof s->pageable, s->a)); /* pinned to device */
    memset(s->pageable, 0, sizeof s->pageable);
    PH_TRY(ph_memcpy(s->pageable, s->x, sizeof s->pageable, s->a)); /* device to pageable: waits */
    t_same_host(s->pageable, N, 21);
    PH_TRY(ph_stream_synchronize(s->a));
    t_same_host(s->pinned, N, 21);
    return PH_OK;
}

static ph_status fills(t_scene *s)
{
    PH_TRY(ph_memset(s->x, 1, N * sizeof(int32_t), s->a));
    PH_TRY(ph_memset_u32(s->y, 77, N, s->a));
    PH_TRY(ph_memset_u32(s->pinned, 78, N, s->b));
    PH_TRY(ph_device_synchronize(s->world.device));
    PH_TRY(t_same(s->a, s->x, N, 0x01010101));
    PH_TRY(t_same(s->a, s->y, N, 77));
    t_same_host(s->pinned, N, 78);
    return PH_OK;
}

static void count_call(void *user)
{
    atomic_fetch_add((atomic_int *)user, 1);
}

static ph_status host_functions(t_scene *s)
{
    int before = atomic_load(&s->calls);
    for (int i = 0; i < 10; i++)
        PH_TRY(ph_launch_host(i % 2 ? s->a : s->b, count_call, &s->calls));
    PH_TRY(ph_stream_synchronize(s->a));
    PH_TRY(ph_stream_synchronize(s->b));
    assert_int_equal(atomic_load(&s->calls), before + 10);
    return PH_OK;
}

const t_scenario t_scenarios_device[] = {
    {"opening a device", open_device},
    {"streams", streams},
    {"events", events},
    {"kernels", kernels},
    {"launches", launches},
    {"copies", copies},
    {"fills", fills},
    {"host functions", host_functions},
    {NULL, NULL},
};
