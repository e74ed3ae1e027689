/* SPDX-License-Identifier: MIT */
/* tests/device/wrap_cuda.c: misuse of what adopts CUDA's handles and of kernel images; CUDA's
 * numbers. */
#include "support/fixture.h"

#include <phonograph/cuda.h>
#include <string.h>

static t_world world;

WORLD(world);

/* ---- kernels ---- */
static void run(const ph_block_range *range, const void *args)
{
    (void)range;
    (void)args;
}

TEST(a_kernel_image_needs_its_size_and_a_valid_form)
{
    static const char image[] = "no image at all";
    ph_kernel *kernel;
    ph_kernel_source source = {.name = "k", .host = run};
    source.cuda_image = image;
    assert_error(ph_kernel_create(&kernel, world.device, &source), PH_ERROR_ARGUMENT,
                 "cuda_image_bytes is 0");
    assert_null(kernel);
    source.cuda_image = NULL;
    source.cuda_image_bytes = sizeof image;
    assert_error(ph_kernel_create(&kernel, world.device, &source), PH_ERROR_ARGUMENT,
                 "cuda_image is NULL");
    source.cuda_image = image;
    if (t_on_host()) { /* which looks at its own form alone */
        source.cuda_options = "-DN=4";
        assert_ok(ph_kernel_create(&kernel, world.device, &source));
        ph_kernel_release(kernel);
        source.host = NULL;
        assert_error(ph_kernel_create(&kernel, world.device, &source), PH_ERROR_UNSUPPORTED,
                     "no form");
    } else {
        assert_status(ph_kernel_create(&kernel, world.device, &source), PH_ERROR_ARGUMENT);
        assert_null(kernel);
    }
}

TEST(test_no_form)
{
    ph_kernel *kernel;
    ph_kernel_source source = {.name = "k"};
    assert_error(ph_kernel_create(&kernel, world.device, &source), PH_ERROR_UNSUPPORTED,
                 "kernel k has no form");
    assert_null(kernel);
    const char *remedy = t_on_host() ? "set ph_kernel_source.host" : "set ph_kernel_source.cuda ";
    assert_non_null(strstr(ph_error_last()->message, remedy));
}

TEST(test_args_size)
{
    assert_int_equal(ph_kernel_args_size(world.add_i32), sizeof(struct t_add_i32));
    assert_int_equal(ph_kernel_args_size(NULL), 0);
}

TEST(test_wrapping_a_function)
{
    int something;
    struct CUfunc_st *function = (struct CUfunc_st *)(void *)&something;
    ph_kernel *kernel;
    assert_error(ph_kernel_wrap_cuda(NULL, world.device, function, NULL, 0), PH_ERROR_ARGUMENT,
                 "out is NULL");
    assert_error(ph_kernel_wrap_cuda(&kernel, NULL, function, NULL, 0), PH_ERROR_ARGUMENT,
                 "device is NULL");
    assert_error(ph_kernel_wrap_cuda(&kernel, world.device, NULL, NULL, 0), PH_ERROR_ARGUMENT,
                 "function is NULL");
    if (t_on_host())
        assert_status(ph_kernel_wrap_cuda(&kernel, world.device, function, NULL, 0),
                      PH_ERROR_UNSUPPORTED);
    assert_null(kernel);
}

/* ---- streams ---- */
TEST(test_wrapping_a_stream)
{
    int something;
    struct CUstream_st *native = (struct CUstream_st *)(void *)&something;
    ph_stream *stream = world.stream;
    ph_driver_info info;
    bool cuda = false;
    for (size_t i = 0; ph_driver_get_info(&info, i) == PH_OK; i++)
        cuda = cuda || (strcmp(info.name, "cuda") == 0 && info.reason[0] == '\0');
    assert_error(ph_stream_wrap_cuda(NULL, native), PH_ERROR_ARGUMENT, "out is NULL");
    assert_status(ph_stream_wrap_cuda_on(NULL, world.device, native), PH_ERROR_ARGUMENT);
    assert_status(ph_stream_wrap_cuda_on(&stream, NULL, native), PH_ERROR_ARGUMENT);
    assert_status(ph_stream_wrap_cuda_on(&stream, world.device, NULL), PH_ERROR_ARGUMENT);
    assert_null(stream);
    if (t_on_host())
        assert_status(ph_stream_wrap_cuda_on(&stream, world.device, native), PH_ERROR_UNSUPPORTED);
    for (uintptr_t name = 0; name <= 2; name++) { /* CUDA's names of default streams */
        assert_error(ph_stream_wrap_cuda(&stream, (struct CUstream_st *)name), PH_ERROR_ARGUMENT,
                     name == 2 ? "can capture but is another stream on each thread"
                               : "the legacy default stream, which cannot capture");
        assert_null(stream);
    }
    if (!cuda)
        assert_error(ph_stream_wrap_cuda(&stream, native), PH_ERROR_NOT_FOUND,
                     "CUDA cannot be used");
    assert_null(stream);
}

typedef ph_status give_handle(struct CUstream_st **out, const ph_stream *stream);

static void expect_handle(give_handle *give)
{
    struct CUstream_st *native = NULL, *legacy = (struct CUstream_st *)(void *)&native;
    assert_error(give(NULL, world.stream), PH_ERROR_ARGUMENT, "out is NULL");
    assert_error(give(&native, NULL), PH_ERROR_ARGUMENT, "stream is NULL");
    if (t_on_host()) {
        assert_error(give(&native, world.stream), PH_ERROR_UNSUPPORTED, "no CUDA handles");
        assert_status(give(&legacy, ph_device_default_stream(world.device)), PH_ERROR_UNSUPPORTED);
    } else {
        assert_ok(give(&native, world.stream));
        assert_non_null(native);
        assert_ok(give(&legacy, ph_device_default_stream(world.device)));
    }
    assert_null(legacy);
}

TEST(test_handle_of_a_stream)
{
    expect_handle(ph_stream_cuda);
    expect_handle(ph_stream_lend_cuda);
}

/* Of the same stream. */
TEST(test_lent_handle)
{
    struct CUstream_st *lent, *native;
    t_not_on_host("the host device has no CUDA handles");
    assert_ok(ph_stream_lend_cuda(&lent, world.stream));
    assert_ok(ph_stream_cuda(&native, world.stream));
    assert_ptr_equal(lent, native);
}

/* ---- numbers ---- */
TEST(error_numbers_of_cuda_become_statuses_and_messages)
{
    char call[200];
    memset(call, 'c', sizeof call - 1);
    call[sizeof call - 1] = 0;
    ph_ignore(ph_fail(PH_ERROR_SIZE, "as it was"));
    assert_int_equal(ph_fail_cuda(0, "cuInit"), PH_OK);
    assert_string_equal(ph_error_last()->message, "as it was");
    assert_error(ph_fail_cuda(900, "cudaMalloc"), PH_ERROR_CAPTURE,
                 "cudaMalloc gave 900 (CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED");
    assert_native(900);
    assert_string_equal(ph_error_last()->native_call, "cudaMalloc");
    assert_status(ph_fail_cuda(2, "cudaMalloc"), PH_ERROR_DEVICE_MEMORY);
    assert_status(ph_fail_cuda(1, "f"), PH_ERROR_ARGUMENT);
    assert_null(strstr(ph_error_last()->message, "lost"));
    assert_error(ph_fail_cuda(719, "f"), PH_ERROR_DEVICE, "the device is lost");
    assert_status(ph_fail_cuda(-5, NULL), PH_ERROR_DEVICE);
    assert_string_equal(ph_error_last()->native_call, "");
    assert_status(ph_fail_cuda(719, call), PH_ERROR_DEVICE); /* cut to fit */
    assert_true(strlen(ph_error_last()->native_call) < sizeof ph_error_last()->native_call);
    assert_memory_equal(ph_error_last()->native_call, call, 32);
}

static ph_status body(ph_stream *stream, void *user)
{
    (void)stream;
    (void)user;
    return ph_fail_cuda(700, "cublasSgemm");
}

TEST(test_numbers_in_a_body)
{
    ph_graph *graph;
    assert_ok(ph_graph_create(&graph, NULL));
    assert_error(ph_graph_capture(graph, world.stream, NULL, body, NULL), PH_ERROR_DEVICE,
                 "cublasSgemm gave 700");
    assert_native(700);
    ph_graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(a_kernel_image_needs_its_size_and_a_valid_form),
        IN_WORLD(test_no_form),
        IN_WORLD(test_args_size),
        IN_WORLD(test_wrapping_a_function),
        IN_WORLD(test_wrapping_a_stream),
        IN_WORLD(test_handle_of_a_stream),
        IN_WORLD(test_lent_handle),
        IN_WORLD(error_numbers_of_cuda_become_statuses_and_messages),
        IN_WORLD(test_numbers_in_a_body),
    };
    return cmocka_run_group_tests_name("device.adopt", tests, NULL, NULL);
}
