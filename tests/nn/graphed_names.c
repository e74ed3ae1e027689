/* SPDX-License-Identifier: MIT */
/* tests/nn/graphed_names.c: two kernels of one name, of which one declares its parameters: what
 * each writes outside is found as if the other were not there. */
#include "support/graphed_nets.h"
#include "support/test.h"
#include <stdlib.h>

enum {
    N = 4,
    PAGE = 4096
};

typedef struct side_args {
    float *side;
} side_args;

static void put_minus_one(const ph_block_range *range, const void *args)
{
    const side_args *a = args;
    (void)range;
    for (int i = 0; i < N; i++)
        a->side[i] = -1;
}

static const ph_param params[] = {PH_PARAM(side_args, side, PH_PARAM_ADDRESS)};
static const ph_kernel_source typed = {.name = "side",
                                       .host = put_minus_one,
                                       .args_size = sizeof(side_args),
                                       .params = params,
                                       .param_count = 1},
                              untyped = {.name = "side",
                                         .host = put_minus_one,
                                         .args_size = sizeof(side_args)};

typedef struct part {
    ph_kernel *kernel;
    float *side;
} part;

/* Writes outside, then reads the input. */
static void forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    const part *p = self;
    const side_args args = {p->side};
    ph_tape_check(tape, ph_launch(ph_tape_stream(tape), p->kernel, NULL, &args, sizeof args));
    out[0] = ph_mul_scalar(tape, in[0], 2);
}

/* The input lies where the second one's kernel writes, in memory that the library does not know:
 * it is copied first. */
static void call_over_its_memory(const t_scene *s, ph_module *graphed, float *memory)
{
    static const float values[N] = {5, 6, 7, 8};
    float got[N];
    ph_tensor *x;
    assert_ok(ph_tensor_wrap(&x, s->device, PH_DTYPE_F32, PH_SHAPE(N), NULL, memory, NULL, NULL));
    assert_ok(ph_tensor_write(s->tape, x, values, sizeof values));
    ph_tensor *y = ph_call(s->tape, graphed, x);
    assert_non_null(y);
    assert_ok(ph_tensor_read(s->tape, y, got, sizeof got));
    for (int i = 0; i < N; i++)
        assert_true(got[i] == 2 * values[i]);
    assert_ok(ph_tape_clear(s->tape));
    ph_tensor_release(x);
}

TEST(a_typed_kernel_beside_an_untyped_one_of_its_name)
{
    t_scene s;
    part parts[2];
    ph_module *plain[2], *graphed[2];
    t_host_only("a GPU cannot use memory of malloc");
    t_scene_open(&s);
    assert_ok(ph_kernel_create(&parts[0].kernel, s.device, &untyped));
    assert_ok(ph_kernel_create(&parts[1].kernel, s.device, &typed));
    assert_ok(PH_NEW(&parts[0].side, N, s.stream));
    parts[1].side = aligned_alloc(PAGE, PAGE);
    assert_non_null(parts[1].side);
    ph_tensor *x = gn_sample(&s, PH_SHAPE(N), false);
    ph_sample samples[2] = {{.tensors = &x, .count = 1}, {.tensors = &x, .count = 1}};
    for (int i = 0; i < 2; i++)
        plain[i] = gn_function(&s, "side", forward, &parts[i], 1, 1);
    assert_ok(ph_make_graphed_callables(graphed, plain, samples, 2, NULL));
    call_over_its_memory(&s, graphed[1], parts[1].side);
    for (int i = 0; i < 2; i++) {
        ph_module_release(graphed[i]);
        ph_module_release(plain[i]);
        ph_kernel_release(parts[i].kernel);
    }
    ph_tensor_release(x);
    ph_free(parts[0].side, s.stream);
    t_scene_close(&s);
    free(parts[1].side);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_typed_kernel_beside_an_untyped_one_of_its_name)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
