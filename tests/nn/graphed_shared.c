/* SPDX-License-Identifier: MIT */
/* tests/nn/graphed_shared.c: leaves of a graphed callable whose gradients share memory, wholly
 * or in part: no launch writes it twice, and all that is added arrives. */
#include "nn/graphed/callable.h"
#include "support/graphed_nets.h"
#include "support/test.h"
#include "tensor/kernels/bundle.h"

enum {
    N = 1 << 14,
    LEAVES = 3,
    ROUNDS = 3
};

/* y = x (a + b + c) */
typedef struct sum {
    ph_tensor *weight[LEAVES];
    ph_module *plain, *graphed;
    ph_tensor *x, *flat;
    t_scene s;
} sum;

static void sum_forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    const sum *me = self;
    out[0] = ph_mul(tape, in[0], me->weight[0]);
    for (int i = 1; i < LEAVES; i++)
        out[0] = ph_add(tape, out[0], ph_mul(tape, in[0], me->weight[i]));
}

static void sum_open(sum *me)
{
    static const char *const names[LEAVES] = {"a", "b", "c"};
    ph_parameter parameters[LEAVES];
    t_scene_open(&me->s);
    for (int i = 0; i < LEAVES; i++) {
        assert_ok(ph_tensor_create(&me->weight[i], me->s.device, PH_DTYPE_F32, PH_SHAPE(N)));
        ph_tensor_fill(me->s.tape, me->weight[i], i + 1);
        parameters[i] = (ph_parameter){names[i], &me->weight[i]};
    }
    me->x = ph_tensor_retain(ph_full(me->s.tape, PH_DTYPE_F32, PH_SHAPE(N), 1));
    me->flat = ph_tensor_retain(ph_empty(me->s.tape, PH_DTYPE_F32, PH_SHAPE(LEAVES * N)));
    assert_ok(ph_tape_clear(me->s.tape));
    const ph_module_desc desc = {.name = "sum",
                                 .forward = sum_forward,
                                 .self = me,
                                 .parameters = parameters,
                                 .parameter_count = LEAVES};
    assert_ok(ph_module_create(&me->plain, me->s.device, &desc));
    me->graphed =
        gn_graph_one(me->plain, me->x, &(ph_graphed_options){.gradients = PH_GRAPHED_ACCUMULATE});
}

static void sum_close(sum *me)
{
    ph_module_release(me->graphed);
    ph_module_release(me->plain);
    ph_tensor_release(me->x);
    ph_tensor_release(me->flat);
    for (int i = 0; i < LEAVES; i++)
        ph_tensor_release(me->weight[i]);
    t_scene_close(&me->s);
}

/* Leaf i's gradient begins at element first[i] of one buffer. */
static void share(sum *me, const int64_t *first)
{
    for (int i = 0; i < LEAVES; i++) {
        ph_tensor *grad =
            first[i] < 0 ? NULL : ph_slice(me->s.tape, me->flat, 0, first[i], first[i] + N);
        assert_ok(ph_tensor_set_grad(me->weight[i], grad));
    }
    assert_ok(ph_tape_clear(me->s.tape));
}

/* How many of its gradients the last launch added to the leaves' own. */
static size_t added(const sum *me)
{
    const ph__callable *callable = me->graphed->self;
    size_t count = 0;
    for (size_t i = 0; i < callable->grad_input_count; i++)
        count += callable->ops[callable->grad_inputs[i].op_at] == PH__BUNDLE_ADD;
    return count;
}

static void expect_sums(sum *me, const int64_t *first, int rounds)
{
    static float want[LEAVES * N], got[LEAVES * N];
    memset(want, 0, sizeof want);
    for (int i = 0; i < LEAVES; i++)
        for (int k = 0; k < N && first[i] >= 0; k++)
            want[first[i] + k] += (float)rounds;
    assert_ok(ph_tensor_read(me->s.tape, me->flat, got, sizeof got));
    for (int k = 0; k < LEAVES * N; k++)
        if (got[k] != want[k])
            fail_msg("element %d is %g, expected %g", k, (double)got[k], (double)want[k]);
}

static void try_layout(sum *me, const int64_t *first, size_t want_added)
{
    share(me, first);
    ph_tensor_fill(me->s.tape, me->flat, 0);
    for (int round = 1; round <= ROUNDS; round++) {
        ph_backward(me->s.tape, ph_sum(me->s.tape, ph_call(me->s.tape, me->graphed, me->x)));
        assert_ok(ph_tape_clear(me->s.tape));
        assert_int_equal(added(me), want_added);
        expect_sums(me, first, round);
    }
}

/* -1: no gradient yet. */
TEST(gradients_that_share_memory_are_added_once)
{
    static const struct {
        int64_t first[LEAVES];
        size_t added;
    } layouts[] = {
        {{0, N, 2 * N}, 3},         /* neighbours in one buffer */
        {{2 * N, 0, N}, 3},         /* in another order */
        {{0, 0, 0}, 1},             /* one gradient */
        {{N, 0, N}, 2},             /* two of three */
        {{0, N / 2, N}, 2},         /* the middle one overlaps both */
        {{N / 2, 0, N - 1}, 1},     /* each overlaps the one before */
        {{N - 1, 0, 2 * N - 1}, 2}, /* by one element */
        {{0, N, 2 * N}, 3},         /* apart again */
    };
    sum me;
    sum_open(&me);
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++)
        try_layout(&me, layouts[i].first, layouts[i].added);
    sum_close(&me);
}

/* A leaf that takes over what another one has: the addresses are known, but the pairs are
 * others. */
TEST(test_handed_on)
{
    sum me;
    sum_open(&me);
    try_layout(&me, (const int64_t[]){0, N, 2 * N}, 3);
    try_layout(&me, (const int64_t[]){0, N, N}, 2);
    try_layout(&me, (const int64_t[]){N, N, 2 * N}, 2);
    try_layout(&me, (const int64_t[]){2 * N, N, 0}, 3);
    sum_close(&me);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_that_share_memory_are_added_once),
        cmocka_unit_test(test_handed_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
