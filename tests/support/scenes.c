/* SPDX-License-Identifier: MIT */
/* tests/support/scenes.c: the scene of the failure sweeps, and the sweep over one scenario. */
#include "support/scenes.h"
#include "base/alloc.h"
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

/* One run with the fault at n; whether it was reached. */
static bool run_with_fault(t_scene *scene, const t_scenario *scenario, const t_fault *fault, int64_t n)
{
    fault->arm(n);
    ph_status status = scenario->run(scene);
    ph_error error = *ph_error_last();
    bool hit = fault->disarm();
    if (status == PH_OK)
        return hit;
    if (!hit)
        fail_msg("%s: failed though no %s had failed: %s: %s", scenario->name, fault->what,
                 ph_status_name(status), error.message);
    if (!fault->expects(status))
        fail_msg("%s: failing %s %lld gave %s: %s", scenario->name, fault->what, (long long)n,
                 ph_status_name(status), error.message);
    if (error.status != status)
        fail_msg("%s: failing %s %lld gave %s, but the record says %s: %s", scenario->name, fault->what,
                 (long long)n, ph_status_name(status), ph_status_name(error.status), error.message);
    if (strlen(error.message) < 15)
        fail_msg("%s: failing %s %lld: the message says nothing: \"%s\"", scenario->name, fault->what,
                 (long long)n, error.message);
    return true;
}

int64_t t_sweep(const t_scenario *scenario, const t_fault *fault, const char *device)
{
    static t_scene scene;
    running = scenario->name;
    for (int64_t n = 0; n < 20000; n++) {
        int64_t live = ph__alloc_live();
        t_scene_open(&scene, device, fault->prepare);
        bool hit = run_with_fault(&scene, scenario, fault, n);
        if (ph_stream_is_capturing(scene.a) || ph_stream_is_capturing(scene.b))
            fail_msg("%s: a stream is still capturing after %s %lld failed", scenario->name, fault->what,
                     (long long)n);
        ph_status status = ph_device_synchronize(scene.world.device);
        if (status == PH_OK)
            status = scenario->run(&scene);
        if (status != PH_OK)
            fail_msg("%s: does not work any more after %s %lld failed: %s: %s", scenario->name, fault->what,
                     (long long)n, ph_status_name(status), ph_error_last()->message);
        t_scene_close(&scene);
        if (ph__alloc_live() != live)
            fail_msg("%s: %lld allocations leaked after %s %lld failed", scenario->name,
                     (long long)(ph__alloc_live() - live), fault->what, (long long)n);
        if (!hit)
            return n;
    }
    fail_msg("%s: no end of %s", scenario->name, fault->what);
    return 0;
}

void t_sweep_all(const t_scenario *scenarios, const t_fault *fault, const char *device)
{
    int64_t faults = 0;
    t_hold_context();
    t_log_start();
    for (; scenarios->name; scenarios++)
        faults += t_sweep(scenarios, fault, device);
    t_log_stop();
    print_message("%lld times a %s failed\n", (long long)faults, fault->what);
    assert_true(faults > 0);
}
