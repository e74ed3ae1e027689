/* SPDX-License-Identifier: MIT */
/* tests/cuda/tools_ids.c: what NVIDIA's tools call annotated nodes: asked of a driver that can
 * tell, or of CUPTI where the process has it. */
#include "support/annotations.h"

#include "fake/fake_cuda.h"
#include "support/fixture.h"
#include <stdlib.h>

enum {
    N = 16,
    MOST = 8
};
static t_world world;
static int32_t *x;

WORLD(world, .arrays = {{&x, N}});

static ph_status body(ph_stream *stream, void *user)
{
    (void)user;
    PH_TRY(t_fill(&world, stream, x, N, 1));
    PH_TRY(ph_annotation_push(stream, "scope", NULL));
    PH_TRY(t_fill(&world, stream, x, N, 2));
    PH_TRY(ph_memset(x, 0, sizeof *x, stream));
    return ph_annotation_pop(stream);
}

static void read_list(ph_kernel_annotation all[MOST], size_t want)
{
    size_t count;
    assert_ok(ph_get_kernel_annotations(all, MOST, &count));
    assert_int_equal(count, want);
}

/* All of one executable have its number above their own; 0 is all that some drivers tell. */
TEST(test_ids_of_executables)
{
    ph_graph *first, *second;
    ph_kernel_annotation all[MOST];
    ph_graph_options keep = {.keep_graph = true};
    assert_ok(ph_graph_create(&first, &keep));
    assert_ok(ph_graph_create(&second, NULL));
    t_capture_annotated(first, world.stream, body, NULL);
    t_capture_annotated(second, world.stream, body, NULL);
    read_list(all, 4);
    assert_true(all[0].tools_id == 0 && all[1].tools_id == 0); /* no executable */
    assert_ok(ph_graph_instantiate(first));
    read_list(all, 4);
    bool told = all[0].tools_id != 0;
    for (int i = 0; i < 4; i++)
        assert_int_equal(all[i].tools_id != 0, told);
    if (fake_cuda())
        assert_true(told); /* it is of a version that tells */
    if (told) {
        assert_int_equal(all[0].tools_id >> 32, all[1].tools_id >> 32);
        assert_int_equal(all[2].tools_id >> 32, all[3].tools_id >> 32);
        assert_int_not_equal(all[0].tools_id >> 32, all[2].tools_id >> 32);
        assert_int_not_equal(all[0].tools_id, all[1].tools_id);
        uint64_t before = all[0].tools_id;
        assert_ok(ph_graph_instantiate(first));
        read_list(all, 4);
        assert_int_not_equal(all[0].tools_id >> 32, before >> 32);
        assert_int_equal(all[0].tools_id & UINT32_MAX, before & UINT32_MAX);
    } else {
        print_message("this driver does not tell ids, and there is no CUPTI\n");
    }
    ph_graph_destroy(first);
    ph_graph_destroy(second);
}

/* On a GPU with a toolkit CUPTI is there to be asked. */
int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_ids_of_executables)};
    if (setenv("FAKE_CUDA_VERSION", "13010", 1) != 0)
        return 1;
    (void)dlopen("libcupti.so.13", RTLD_NOW | RTLD_LOCAL);
    return cmocka_run_group_tests(tests, open_world, close_world);
}
