/* SPDX-License-Identifier: MIT */
/* tests/support/scenes.c: the scene of the failure sweeps, and the sweep over scenarios. */
#include "support/scenes.h"
#include "support/test.h"
#include <string.h>

void t_scene_open(t_scene *scene, const char *name, void (*prepare)(ph_device *device))
{
    ph_event_options timing = {.timing = true};
    ph_graph_options keep = {.keep_graph = true};
    memset(scene, 0, sizeof *scene);
    t_open(&scene->world, name);
    if (prepare)
        prepare(scene->world.device);
    assert_ok(ph_stream_create(&scene->a, scene->world.device, NULL));
    assert_ok(ph_stream_create(&scene->b, scene->world.device, NULL));
    assert_ok(ph_event_create(&scene->event, scene->world.device, NULL));
    assert_ok(ph_event_create(&scene->start, scene->world.device, &timing));
    assert_ok(ph_event_create(&scene->stop, scene->world.device, &timing));
    assert_ok(PH_NEW(&scene->x, T_SCENE_N, scene->world.stream));
    assert_ok(PH_NEW(&scene->y, T_SCENE_N, scene->world.stream));
    assert_ok(ph_malloc_pinned(&scene->pinned, T_SCENE_N, sizeof(int32_t), scene->world.stream));
    memset(scene->pinned, 0, T_SCENE_N * sizeof(int32_t));
    assert_ok(ph_graph_create(&scene->graph, NULL));
    assert_ok(ph_graph_create(&scene->other, NULL));
    assert_ok(ph_graph_create(&scene->kept, &keep));
    assert_ok(ph_pool_create(&scene->pool, scene->world.device, NULL));
    assert_ok(ph_device_synchronize(scene->world.device));
}

void t_scene_close(t_scene *scene)
{
    ph_graph_destroy(scene->graph);
    ph_graph_destroy(scene->other);
    ph_graph_destroy(scene->kept);
    ph_pool_release(scene->pool);
    ph_free(scene->x, NULL);
    ph_free(scene->y, NULL);
    ph_free_pinned(scene->pinned, NULL);
    ph_event_destroy(scene->event);
    ph_event_destroy(scene->start);
    ph_event_destroy(scene->stop);
    ph_stream_destroy(scene->a);
    ph_stream_destroy(scene->b);
    t_close(&scene->world);
    assert_int_equal(atomic_load(&scene->segments), 0);
}

static const char *running = "";

void t_same_host(const int32_t *y, size_t n, int32_t value)
{
    for (size_t i = 0; i < n; i++)
        if (y[i] != value)
            fail_msg("%s: element %zu is %d, not %d", running, i, (int)y[i], (int)value);
}

ph_status t_same(ph_stream *stream, const int32_t *y, size_t n, int32_t value)
{
    int32_t host[T_SCENE_N];
    PH_TRY(ph_memcpy(host, y, n * sizeof *host, stream));
    PH_TRY(ph_stream_synchronize(stream));
    t_same_host(host, n, value);
    return PH_OK;
}

/* ---- the sweep ---- what is swept now */
static t_scene swept_scene;
static const t_fault *swept_fault;
static const char *swept_device;

FIXTURE(open_scene)
{
    t_scene_open(&swept_scene, swept_device, swept_fault->prepare);
    return 0;
}

FIXTURE(close_scene)
{
    t_scene_close(&swept_scene);
    return 0;
}

static ph_status run_scenario(void *scenario)
{
    return ((const t_scenario *)scenario)->run(&swept_scene);
}

static void reset_scene(ph_status status, void *scenario)
{
    (void)status;
    (void)scenario;
    if (ph_stream_is_capturing(swept_scene.a) || ph_stream_is_capturing(swept_scene.b))
        fail_msg("%s: a stream is still capturing after %s failed", running, t_sweep_place());
    status = ph_device_synchronize(swept_scene.world.device);
    if (status != PH_OK)
        fail_msg("%s: does not work any more after %s failed: %s: %s", running, t_sweep_place(),
                 ph_status_name(status), ph_error_last()->message);
}

void t_sweep_all(const t_scenario *scenarios, const t_fault *fault, const char *device)
{
    int64_t faults = 0;
    swept_fault = fault;
    swept_device = device;
    for (; scenarios->name; scenarios++) {
        running = scenarios->name;
        const t_swept swept = {.name = running,
                               .open = open_scene,
                               .close = close_scene,
                               .run = run_scenario,
                               .reset = reset_scene,
                               .user = (void *)(uintptr_t)scenarios};
        faults += t_sweep(&swept, fault).reached;
    }
    print_message("%lld times a %s failed\n", (long long)faults, fault->what);
    assert_true(faults > 0);
}
