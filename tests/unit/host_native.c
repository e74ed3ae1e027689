/* SPDX-License-Identifier: MIT */
/* tests/unit/host_native.c: handles from and for outside, of which the host device has its own
 * alone, and kernels that it keeps. */
#include "support/host_driver.h"
#include "support/test.h"

TEST(handles_of_others_are_refused)
{
    world w;
    int priority = 1, flags = 2, number = 3;
    uint32_t ordinal = 4;
    size_t args_size = 5;
    const char *name = "name";
    ph__drv_stream *stream = NULL;
    ph__drv_kernel *kernel = NULL;
    ph__drv_graph *graph = NULL;
    world_open(&w, 0);
    assert_int_equal(drv->stream_wrap(&stream, w.device, &number, &priority, &flags), 801);
    assert_non_null(strstr(ph__driver_reason(), "streams"));
    assert_int_equal(drv->stream_ordinal(&ordinal, &number), 801);
    assert_int_equal(drv->kernel_wrap(&kernel, w.device, &number, &args_size, &name), 801);
    assert_non_null(strstr(ph__driver_reason(), "functions"));
    assert_int_equal(drv->graph_import(&graph, w.device, &number), 801);
    assert_non_null(strstr(ph__driver_reason(), "graphs"));
    assert_null(stream);
    assert_null(kernel);
    assert_null(graph);
    assert_int_equal(priority + flags + (int)ordinal + (int)args_size, 1 + 2 + 4 + 5);
    assert_string_equal(name, "name");
    world_close(&w);
}

TEST(a_kept_kernel_outlives_its_handle)
{
    int64_t live = ph__alloc_live();
    world w;
    ph__drv_kernel *kernels[3] = {NULL};
    const ph_kernel_source source = {
        .name = "kept", .host = add_body, .args_size = sizeof(struct add_args)};
    world_open(&w, 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(drv->kernel_create(&kernels[i], w.device, &source), 0);
    int64_t with_kernels = ph__alloc_live();
    drv->kernel_keep(kernels[0]);
    drv->kernel_keep(kernels[0]); /* once is enough */
    drv->kernel_keep(kernels[2]);
    drv->kernel_keep(NULL);
    for (int i = 0; i < 3; i++)
        drv->kernel_destroy(kernels[i]);
    /* the one that was not kept, and its name */
    assert_int_equal(ph__alloc_live(), with_kernels - 2);
    world_close(&w);
    assert_int_equal(ph__alloc_live(), live);
}

typedef struct keeper {
    ph__drv_kernel *const *kernels;
    int count;
} keeper;

static void *keep_all(void *argument)
{
    const keeper *k = argument;
    for (int i = 0; i < k->count; i++)
        drv->kernel_keep(k->kernels[i]);
    return NULL;
}

TEST(threads_keep_the_same_kernels)
{
    enum {
        KERNELS = 200,
        THREADS = 3
    };
    int64_t live = ph__alloc_live();
    world w;
    ph__drv_kernel *kernels[KERNELS];
    keeper k = {.kernels = kernels, .count = KERNELS};
    pthread_t threads[THREADS];
    const ph_kernel_source source = {
        .name = "kept", .host = add_body, .args_size = sizeof(struct add_args)};
    world_open(&w, 0);
    for (int i = 0; i < KERNELS; i++)
        assert_int_equal(drv->kernel_create(&kernels[i], w.device, &source), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, keep_all, &k), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    int64_t before = ph__alloc_live();
    for (int i = 0; i < KERNELS; i++)
        drv->kernel_destroy(kernels[i]);
    assert_int_equal(ph__alloc_live(), before);
    world_close(&w);
    assert_int_equal(ph__alloc_live(), live);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(handles_of_others_are_refused),
        cmocka_unit_test(a_kept_kernel_outlives_its_handle),
        cmocka_unit_test(threads_keep_the_same_kernels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
