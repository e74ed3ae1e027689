/* SPDX-License-Identifier: MIT */
/* tests/cuda/kernels.c: kernels on a GPU: the forms of their code, what their parameters take,
 * shared memory, functions of the user's, and unloading. */
#include "base/alloc.h"
#include "driver/cuda/load/device.h"
#include "driver/cuda/load/unload.h"
#include "fake/fake_cuda.h"
#include "support/support.h"
#include "support/test.h"
#include <phonograph/cuda.h>
#include <stdlib.h>
#include <string.h>

/* t_three(int *y, const void *, int value): *y = value. The parameters of t_struct: 16 bytes
 * aligned to 8, and 4 bytes. */
static const char ptx[] =
    "// A comment, and\n/* another\n */\n"
    ".version 7.0\n.target sm_60\n.address_size 64\n"
    ".visible .entry t_three(.param .u64 t_three_param_0, .param .u64 t_three_param_1, .param .u32 "
    "t_three_param_2)\n"
    "{\n"
    "    .reg .b64 %y;\n    .reg .b32 %value;\n"
    "    ld.param.u64 %y, [t_three_param_0];\n    ld.param.u32 %value, [t_three_param_2];\n"
    "    st.u32 [%y], %value;\n    ret;\n}\n"
    ".visible .entry t_struct(.param .align 8 .b8 t_struct_param_0[16], .param .u32 "
    "t_struct_param_1)\n"
    "{\n    ret;\n}\n"
    ".visible .entry t_none()\n{\n    ret;\n}\n";

struct three {
    int32_t *y;
    const void *unused;
    int32_t value;
};

static void three_on_host(const ph_block_range *range, const void *args)
{
    const struct three *three = args;
    (void)range;
    *three->y = three->value;
}

static void nothing_on_host(const ph_block_range *range, const void *args)
{
    (void)range;
    (void)args;
}

static ph_kernel_source three = {.name = "t_three",
                                 .host = three_on_host,
                                 .args_size = sizeof(struct three),
                                 .cuda_image = ptx,
                                 .cuda_image_bytes = sizeof ptx - 1};

static t_world world;

FIXTURE(open_world)
{
    const char *names[] = {"t_three", "t_struct", "t_none"};
    for (size_t i = 0; i < 3 && fake_cuda(); i++)
        fake_cuda()->register_kernel(names[i], i == 0 ? three_on_host : nothing_on_host);
    t_open(&world, NULL);
    return 0;
}

FIXTURE(close_world)
{
    ph__alloc_fail_after(PH__ALLOC_NEVER);
    t_close(&world);
    return 0;
}

/* Modules that are loaded now; 0 where nobody counts them. */
static int64_t modules(void)
{
    fake_cuda_counts live, left;
    if (!fake_cuda())
        return 0;
    fake_cuda()->count(&live, &left);
    return live.modules;
}

static int64_t counted(int64_t count)
{
    return fake_cuda() ? count : 0;
}

static ph_status create(ph_kernel_source source)
{
    ph_kernel *kernel = NULL;
    ph_status status = ph_kernel_create(&kernel, world.device, &source);
    assert_int_equal(status == PH_OK, kernel != NULL);
    ph_kernel_release(kernel);
    return status;
}

/* ---- forms ---- */

/* In memory of exactly that size, so that reading past its end shows. */
static ph_status create_of_bytes(const void *image, size_t bytes)
{
    ph_kernel_source source = three;
    void *copy = malloc(bytes ? bytes : 1);
    assert_non_null(copy);
    memcpy(copy, image, bytes);
    source.cuda_image = copy;
    source.cuda_image_bytes = bytes;
    ph_status status = create(source);
    free(copy);
    return status;
}

TEST(ptx_is_taken_with_and_without_its_final_zero)
{
    char padded[sizeof ptx + 8] = "";
    memcpy(padded, ptx, sizeof ptx);
    assert_ok(create_of_bytes(ptx, sizeof ptx - 1));
    assert_ok(create_of_bytes(ptx, sizeof ptx));
    assert_ok(create_of_bytes(padded, sizeof padded));
    padded[sizeof padded - 1] = 'x';
    assert_error(create_of_bytes(padded, sizeof padded), PH_ERROR_ARGUMENT, "neither PTX");
}

TEST(test_no_form)
{
    static const char junk[] = "int main(void) { return 0; }", comment[] = "// .version",
                      open_comment[] = "/* .version 7.0";
    int64_t before = modules();
    unsigned char elf[128] = {0x7f, 'E', 'L', 'F', 2, 1, 1},
                  fatbin[32] = {0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0, 17};
    ph_kernel_source source = three;
    source.cuda_image = NULL;
    source.cuda_image_bytes = 0;
    assert_error(create(source), PH_ERROR_UNSUPPORTED, "set ph_kernel_source.cuda ");
    assert_error(create_of_bytes(junk, sizeof junk), PH_ERROR_ARGUMENT, "neither PTX");
    assert_error(create_of_bytes(comment, sizeof comment - 1), PH_ERROR_ARGUMENT, "neither PTX");
    assert_error(create_of_bytes(open_comment, sizeof open_comment - 1), PH_ERROR_ARGUMENT,
                 "neither PTX");
    for (size_t bytes = 4; bytes < 64; bytes++)
        assert_error(create_of_bytes(elf, bytes), PH_ERROR_ARGUMENT, "cut off");
    elf[0x28] = 64; /* one section header of 64 bytes from byte 64 on, and then from byte 65 */
    elf[0x3a] = 64;
    elf[0x3c] = 1;
    elf[0x29] = 1;
    assert_error(create_of_bytes(elf, sizeof elf), PH_ERROR_ARGUMENT, "cut off");
    for (size_t bytes = 4; bytes <= sizeof fatbin; bytes++)
        assert_error(create_of_bytes(fatbin, bytes), PH_ERROR_ARGUMENT, "cut off");
    fatbin[6] = 15;
    assert_error(create_of_bytes(fatbin, sizeof fatbin), PH_ERROR_ARGUMENT, "cut off");
    assert_int_equal(modules(), before);
}

TEST(test_text_that_the_driver_refuses)
{
    static const char wrong[] = ".version 7.0\n.target sm_60\n.address_size 64\n.visible .entry "
                                "t_three(.param .u99 x)\n{ nonsense; }\n";
    int64_t before = modules();
    assert_error(create_of_bytes(wrong, sizeof wrong), PH_ERROR_ARGUMENT, "t_three");
    ph_kernel_source source = three;
    source.name = "t_four";
    assert_error(create(source), PH_ERROR_ARGUMENT, "extern \"C\"");
    assert_int_equal(modules(), before);
}

/* ---- parameters ---- */

TEST(test_args_size)
{
    static const size_t threes[] = {20, 24}, structs[] = {20, 24, 32};
    for (size_t bytes = 0; bytes < 80; bytes++) {
        ph_kernel_source source = three;
        source.args_size = bytes;
        bool fits = bytes == threes[0] || bytes == threes[1];
        if (fits)
            assert_ok(create(source));
        else
            assert_error(create(source), PH_ERROR_ARGUMENT, "its parameters take 20 bytes");
        source.name = "t_struct";
        fits = bytes == structs[0] || bytes == structs[1] || bytes == structs[2];
        assert_status(create(source), fits ? PH_OK : PH_ERROR_ARGUMENT);
        source.name = "t_none";
        assert_status(create(source), bytes == 0 ? PH_OK : PH_ERROR_ARGUMENT);
    }
}

TEST(typed_parameters_must_lie_within_those_of_the_function)
{
    static const ph_param good[] = {PH_PARAM(struct three, y, PH_PARAM_ADDRESS),
                                    PH_PARAM(struct three, unused, PH_PARAM_ADDRESS),
                                    PH_PARAM(struct three, value, PH_PARAM_VALUE)};
    static const ph_param members[] = {{"p", PH_PARAM_ADDRESS, 0, 8, {0}},
                                       {"n", PH_PARAM_VALUE, 12, 4, {0}}};
    static const ph_param across[] = {{"y", PH_PARAM_ADDRESS, 0, 8, {0}},
                                      {"mixed", PH_PARAM_VALUE, 12, 8, {0}}};
    static const ph_param padding[] = {{"pad", PH_PARAM_VALUE, 20, 4, {0}}};
    ph_kernel_source source = three;
    source.params = good;
    source.param_count = 3;
    assert_ok(create(source));
    source.params = across;
    source.param_count = 2;
    assert_error(create(source), PH_ERROR_ARGUMENT,
                 "typed parameter 1 (mixed), 8 bytes at offset 12");
    source.params = padding;
    source.param_count = 1;
    assert_error(create(source), PH_ERROR_ARGUMENT, "(pad)");
    source.name = "t_struct";
    source.params = members;
    source.param_count = 2;
    assert_ok(create(source));
}

/* ---- launching ---- */

TEST(test_shared_memory)
{
    ph_kernel *kernel;
    ph_launch_config config = {.shared_bytes = 48 << 10};
    int32_t *y;
    assert_ok(ph_kernel_create(&kernel, world.device, &three));
    assert_ok(PH_NEW(&y, 1, world.stream));
    struct three args = {y, NULL, 1};
    int64_t before = fake_cuda() ? fake_cuda()->calls_of("cuFuncSetAttribute") : 0;
    assert_ok(ph_launch(world.stream, kernel, &config, &args, sizeof args));
    if (fake_cuda())
        assert_int_equal(fake_cuda()->calls_of("cuFuncSetAttribute"), before);
    for (int32_t value = 2; value < 5; value++) { /* asked for once */
        config.shared_bytes = (size_t)(60 - value) << 10;
        args.value = value;
        assert_ok(ph_launch(world.stream, kernel, &config, &args, sizeof args));
        t_all(y, 1, value, world.stream);
    }
    if (fake_cuda())
        assert_int_equal(fake_cuda()->calls_of("cuFuncSetAttribute"), before + 1);
    config.shared_bytes = 232448;
    ph_status most = ph_launch(world.stream, kernel, &config, &args, sizeof args);
    if (most != PH_OK) /* a GPU with less */
        assert_error(most, PH_ERROR_ARGUMENT, "dynamic shared memory");
    ph_free(y, world.stream);
    ph_kernel_release(kernel);
}

/* ---- the driver's entries ---- */

static ph__drv_device *open_device(void)
{
    ph__drv_device *device = NULL;
    ph__drv_device_options options = {0};
    assert_int_equal(ph__driver_cuda.device_open(&device, 0, &options), 0);
    return device;
}

TEST(the_last_kernel_wrapped_around_a_function_is_found)
{
    const ph__driver *driver = &ph__driver_cuda;
    ph__drv_device *device = open_device();
    ph__drv_kernel *own, *wrapped[3];
    size_t bytes = 0;
    const char *name = NULL;
    assert_int_equal(driver->kernel_create(&own, device, &three), 0);
    ph__cu_function function = own->function;
    assert_ptr_equal(ph__cuda_kernel_of(device, function, UINT64_MAX), own);
    assert_int_equal(driver->kernel_wrap(&wrapped[0], device, NULL, &bytes, &name), 400);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(driver->kernel_wrap(&wrapped[i], device, function, &bytes, &name), 0);
        assert_int_equal(bytes, 24);
        assert_string_equal(name, "t_three");
        assert_ptr_equal(ph__cuda_kernel_of(device, function, UINT64_MAX), wrapped[i]);
    }
    driver->kernel_destroy(wrapped[1]);
    assert_ptr_equal(ph__cuda_kernel_of(device, function, UINT64_MAX), wrapped[2]);
    driver->kernel_destroy(wrapped[2]);
    assert_ptr_equal(ph__cuda_kernel_of(device, function, UINT64_MAX), wrapped[0]);
    driver->kernel_destroy(wrapped[0]);
    assert_ptr_equal(ph__cuda_kernel_of(device, function, UINT64_MAX), own);
    driver->kernel_destroy(own);
    assert_null(ph__cuda_kernel_of(device, function, UINT64_MAX));
    driver->kernel_destroy(NULL);
    driver->device_close(device);
}

TEST(test_unloaded_when_idle)
{
    const ph__driver *driver = &ph__driver_cuda;
    ph__drv_device *device = open_device();
    ph__drv_kernel *kernels[3];
    int64_t before = modules();
    for (int i = 0; i < 3; i++)
        assert_int_equal(driver->kernel_create(&kernels[i], device, &three), 0);
    driver->kernel_keep(kernels[1]);
    driver->kernel_destroy(kernels[0]);
    driver->kernel_destroy(kernels[1]);
    assert_int_equal(modules(), before + counted(3));
    assert_int_equal(driver->device_synchronize(device), 0);
    assert_int_equal(modules(), before + counted(2)); /* one is in use, one is kept */
    driver->kernel_destroy(kernels[2]);
    assert_int_equal(driver->device_synchronize(device), 0);
    assert_int_equal(modules(), before + counted(1));
    driver->device_close(device);
    assert_int_equal(modules(), before - counted(1)); /* the library's own went with the device */
}

/* A launch that has not begun finds its code, though its kernel was let go of. */
TEST(test_released_before_it_runs)
{
    ph_kernel *kernel;
    t_gate gate = {0};
    int32_t *y;
    assert_ok(PH_NEW(&y, 1, world.stream));
    assert_ok(ph_kernel_create(&kernel, world.device, &three));
    struct three args = {y, NULL, 77};
    assert_ok(t_gate_wait_guarded(&gate, world.stream));
    assert_ok(ph_launch(world.stream, kernel, NULL, &args, sizeof args));
    ph_kernel_release(kernel);
    t_gate_open(&gate);
    t_all(y, 1, 77, world.stream);
    ph_free(y, world.stream);
    assert_ok(ph_device_synchronize(world.device));
}

/* ---- failures ---- */

TEST(test_every_failure)
{
    const ph__driver *driver = &ph__driver_cuda;
    ph__drv_device *device = open_device();
    ph__drv_kernel *kernel = NULL;
    int64_t before = modules();
    int result = 2;
    for (int64_t n = 0; result != 0 && n < 100; n++) {
        int64_t live = ph__alloc_live();
        ph__alloc_fail_after(n);
        result = driver->kernel_create(&kernel, device, &three);
        ph__alloc_fail_after(PH__ALLOC_NEVER);
        assert_true(result == 0 || result == 2);
        if (result != 0 && !fake_cuda())
            assert_int_equal(ph__alloc_live(), live);
    }
    assert_int_equal(result, 0);
    driver->kernel_destroy(kernel);
    for (int64_t n = 0; fake_cuda() && n < 100; n++) {
        fake_cuda()->fail_after(n, 999);
        result = driver->kernel_create(&kernel, device, &three);
        fake_cuda()->fail_after(-1, 0);
        if (result == 0)
            break;
        assert_int_equal(result, 999);
        assert_int_equal(modules(), before + 1);
    }
    if (fake_cuda()) {
        assert_int_equal(result, 0);
        driver->kernel_destroy(kernel);
    }
    driver->device_close(device);
    assert_int_equal(modules(), before - counted(1)); /* the library's own */
}

/* Code that was loaded in a capture for a kernel that then could not be made stays until no
 * capture is open: unloading it would invalidate the capture where a tool such as memcheck
 * watches. */
TEST(test_failures_in_a_capture)
{
    ph_graph *graph;
    int64_t *y, before;
    size_t failed = 0, loaded = 0;
    assert_ok(PH_NEW(&y, 1, world.stream));
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture_begin(graph, world.stream, NULL));
    before = modules();
    for (ph_status status = PH_ERROR_HOST_MEMORY; status != PH_OK && failed < 100; failed++) {
        ph__alloc_fail_after((int64_t)failed);
        status = create(three);
        ph__alloc_fail_after(PH__ALLOC_NEVER);
        assert_true(status == PH_OK || status == PH_ERROR_HOST_MEMORY);
        loaded = (size_t)(modules() - before);
    }
    assert_in_range(failed, 2, 99);
    assert_true(loaded > 1 || !fake_cuda());
    assert_ok(ph_memset(y, 1, sizeof *y, world.stream));
    assert_ok(ph_graph_capture_end(graph, PH_OK));
    assert_ok(ph_device_synchronize(world.device));
    assert_int_equal(modules(), before);
    ph_graph_destroy(graph);
    ph_free(y, world.stream);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(ptx_is_taken_with_and_without_its_final_zero),
        IN_WORLD(test_no_form),
        IN_WORLD(test_text_that_the_driver_refuses),
        IN_WORLD(test_args_size),
        IN_WORLD(typed_parameters_must_lie_within_those_of_the_function),
        IN_WORLD(test_shared_memory),
        IN_WORLD(the_last_kernel_wrapped_around_a_function_is_found),
        IN_WORLD(test_unloaded_when_idle),
        IN_WORLD(test_released_before_it_runs),
        IN_WORLD(test_every_failure),
        IN_WORLD(test_failures_in_a_capture),
    };
    return cmocka_run_group_tests_name("cuda_kernels", tests, NULL, NULL);
}
