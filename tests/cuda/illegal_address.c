/* SPDX-License-Identifier: MIT */
/* tests/cuda/illegal_address.c: a kernel writes where no memory is, and the GPU's context is
 * lost for this process: the calls say so, and everything can be destroyed. tests/cuda/lost.c
 * makes the software libcuda lose its context. */
#include "program.h"
#include "support/scenes.h"
#include "support/test.h"

enum {
    N = T_SCENE_N
};

static t_scene scene;

static void assert_is_lost(ph_status status, const char *call)
{
    if (status != PH_ERROR_DEVICE || ph_error_last()->native_code != PH__R_ILLEGAL_ADDRESS ||
        !strstr(ph_error_last()->message, "the device is lost"))
        fail_msg("%s gave %s, native %d: %s", call, ph_status_name(status),
                 ph_error_last()->native_code, ph_error_last()->message);
}
#define assert_lost(call) assert_is_lost((call), #call)

/* For calls of which CUDA does not promise that they notice: PH_OK, or the device's error with
 * words. */
static void look_at(ph_status status, const char *call)
{
    if (status == PH_OK)
        print_message("on a lost device still well: %s\n", call);
    else if (status != PH_ERROR_DEVICE || !strstr(ph_error_last()->message, "lost"))
        print_message("on a lost device: %s gave %s: %s\n", call, ph_status_name(status),
                      ph_error_last()->message);
    assert_true(status == PH_OK || ph_error_last()->message[0] != '\0');
}
#define look(call) look_at((call), #call)

static ph_status body(ph_stream *stream, void *user)
{
    (void)user;
    return t_fill(&scene.world, stream, scene.x, N, 1);
}

static void nothing(void *user)
{
    (void)user;
}

static void lose_it(ph_kernel *kernel)
{
    const struct t_add_one nowhere = {(int32_t *)(uintptr_t)64};
    assert_ok(ph_launch(scene.b, kernel, NULL, &nowhere, sizeof nowhere));
    assert_lost(ph_stream_synchronize(scene.b));
    assert_non_null(strstr(ph_error_last()->message, "CUDA_ERROR_ILLEGAL_ADDRESS"));
    assert_non_null(strstr(ph_error_last()->message, "destroying works"));
    print_message("%s\n", ph_error_last()->message);
}

static void work_says_so(void)
{
    bool done = true;
    assert_lost(t_fill(&scene.world, scene.a, scene.x, N, 1));
    assert_lost(ph_launch_host(scene.a, nothing, NULL));
    assert_lost(ph_graph_replay(scene.graph, scene.a));
    assert_lost(ph_stream_synchronize(scene.a));
    assert_lost(ph_stream_query(&done, scene.a));
    assert_false(done);
    assert_lost(ph_device_synchronize(scene.world.device));
    assert_lost(ph_event_record(scene.event, scene.a));
    assert_lost(ph_event_synchronize(scene.event));
    look(ph_memcpy(scene.y, scene.x, N * sizeof *scene.y, scene.a));
    look(ph_memset(scene.x, 0, N * sizeof *scene.x, scene.a));
}

static void making_says_so(void)
{
    ph_stream *stream = NULL;
    ph_event *event = NULL;
    ph_kernel *kernel = NULL;
    ph_device *device = NULL;
    void *memory = NULL, *pinned = NULL;
    look(ph_stream_create(&stream, scene.world.device, NULL));
    look(ph_event_create(&event, scene.world.device, NULL));
    look(ph_kernel_create(&kernel, scene.world.device, &t_kernel_sources[T_KERNEL_PUT]));
    look(ph_malloc(&memory, 1, 64u << 20, scene.a));
    look(ph_malloc_pinned(&pinned, 1, 64u << 20, scene.a));
    look(ph_device_open(&device, t_device_name(), NULL));
    look(ph_graph_capture(scene.other, scene.a, NULL, body, NULL));
    look(ph_graph_instantiate(scene.kept));
    ph_free(memory, NULL);
    ph_free_pinned(pinned, NULL);
    ph_kernel_release(kernel);
    ph_event_destroy(event);
    ph_stream_destroy(stream);
    ph_device_release(device);
}

TEST(a_kernel_writes_nowhere)
{
    ph_kernel *bad;
    ph_pool *pool;
    void *p;
    t_scene_open(&scene, NULL, NULL);
    assert_ok(ph_kernel_create(&bad, scene.world.device, &t_kernel_sources[T_KERNEL_ADD_ONE]));
    assert_ok(ph_graph_capture(scene.graph, scene.a, NULL, body, NULL));
    assert_ok(ph_graph_capture(scene.kept, scene.a, NULL, body, NULL));
    assert_ok(ph_graph_replay(scene.graph, scene.a));
    assert_ok(ph_pool_create(&pool, scene.world.device, NULL));
    assert_ok(ph_pool_begin(pool));
    assert_ok(ph_malloc(&p, N, 4, scene.a));
    assert_ok(ph_pool_end(pool));
    assert_ok(ph_record_stream(p, scene.b));
    assert_ok(ph_event_record(scene.event, scene.a));
    assert_ok(ph_device_synchronize(scene.world.device));
    t_log_start();
    lose_it(bad);
    work_says_so();
    making_says_so();
    (void)ph_fail(PH_ERROR_CALLER, "mine");
    ph_free(p, scene.a); /* another stream is noted for it */
    ph_pool_release(pool);
    ph_kernel_release(bad);
    t_scene_close(&scene);
    assert_string_equal(ph_error_last()->message, "mine");
    t_log_stop();
    assert_int_equal(ph__alloc_live(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_kernel_writes_nowhere),
    };
    return cmocka_run_group_tests_name("cuda.illegal_address", tests, NULL, NULL);
}
