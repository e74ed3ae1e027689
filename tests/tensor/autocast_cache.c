/* SPDX-License-Identifier: MIT */
/* tests/tensor/autocast_cache.c: casts of weights that autocast keeps: which ones, for how long,
 * and what becomes of their memory. */
#include "support/autocast.h"
#include "support/sweep.h"
#include "support/test.h"
#include <time.h>

/* ---- how long ---- */
TEST(test_once_for_all_uses)
{
    world w;
    open_world(&w);
    assert_int_equal(casts_of(&w, 3), 1);
    assert_int_equal(casts_of(&w, 2), 0);
    (void)ph_tape_set_autocast(w.s.tape, uncached);
    assert_int_equal(casts_of(&w, 3), 3);
    (void)ph_tape_set_autocast(w.s.tape, to_f16);
    assert_int_equal(casts_of(&w, 3), 1); /* what was kept before is gone */
    ph_autocast before = ph_tape_set_autocast(w.s.tape, off);
    (void)ph_tape_set_autocast(w.s.tape, before);
    assert_int_equal(casts_of(&w, 3), 1);
    (void)ph_tape_set_autocast(w.s.tape, to_f16); /* no change */
    assert_int_equal(casts_of(&w, 3), 0);
    assert_ok(ph_tape_clear(w.s.tape));
    assert_int_equal(casts_of(&w, 3), 1);
    close_world(&w);
}

/* Only weights: what was computed, what is no leaf in f32, or needs no gradient, is cast at each
 * use. */
TEST(test_what_is_kept)
{
    world w;
    open_world(&w);
    ph_tape *tape = w.s.tape;
    ph_tensor *made = ph_mul_scalar(tape, w.w, 1);
    size_t nodes = t_info(&w.s).nodes;
    for (int i = 0; i < 3; i++)
        assert_non_null(ph_linear(tape, w.x, made, NULL));
    assert_int_equal(t_info(&w.s).nodes - nodes, 6);
    ph_tensor *half = ph_tensor_retain(ph_detach(tape, ph_cast(tape, w.w, PH_DTYPE_BF16)));
    assert_ok(ph_tensor_set_requires_grad(half, true));
    nodes = t_info(&w.s).nodes;
    for (int i = 0; i < 3; i++)
        assert_non_null(ph_linear(tape, w.x, half, NULL));
    assert_int_equal(t_info(&w.s).nodes - nodes, 6);
    ph_tensor_release(half);
    size_t held = t_allocated(&w.s);
    assert_ok(ph_tensor_set_requires_grad(w.w, false));
    size_t mark = ph_tape_scope_begin(tape);
    assert_non_null(product(&w));
    ph_tape_scope_end(tape, mark, NULL, 0);
    assert_int_equal(t_allocated(&w.s), held);
    close_world(&w);
}

/* A cleared tape holds nothing, and one that is destroyed neither; the weight goes with its last
 * cast. */
TEST(a_cleared_tape_holds_no_casts)
{
    world w;
    open_world(&w);
    size_t before = t_allocated(&w.s);
    assert_non_null(product(&w));
    assert_true(t_allocated(&w.s) > before);
    assert_ok(ph_tape_clear(w.s.tape));
    assert_int_equal(t_allocated(&w.s), before);
    int64_t live = 0;
    for (int i = 0; i < 50; i++) {
        ph_backward(w.s.tape, ph_sum(w.s.tape, product(&w)));
        assert_ok(ph_tape_clear(w.s.tape));
        t_zero_grad(w.w);
        assert_int_equal(t_allocated(&w.s), before);
        if (i == 10) {
            assert_ok(ph_device_synchronize(w.s.device));
            live = ph__alloc_live();
        }
    }
    assert_ok(ph_device_synchronize(w.s.device));
    /* Threads of the device let go a little later. */
    for (int i = 0; i < 2000 && ph__alloc_live() > live; i++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    assert_true(ph__alloc_live() <= live);
    assert_non_null(product(&w));
    close_world(&w); /* with a cast in the tape */
}

TEST(test_changed_in_place)
{
    world w;
    open_world(&w);
    expect_product(&w, 2, 6);
    scale_weight(&w, 5);
    expect_product(&w, 10, 30);
    assert_int_equal(casts_of(&w, 2), 0);
    close_world(&w);
}

/* Uses do not know that they share a cast: each may have a backward of its own, whichever use
 * was made first. */
TEST(test_after_backward)
{
    world w;
    open_world(&w);
    for (int i = 1; i <= 3; i++) {
        ph_backward(w.s.tape, ph_sum(w.s.tape, product(&w)));
        assert_ok(ph_tape_status(w.s.tape));
        t_expect_grad(&w.s, w.w, (float)i, (float)(3 * i), (float)i, (float)(3 * i));
    }
    assert_int_equal(ph_tensor_dtype(ph_tensor_grad(w.w)), PH_DTYPE_F32);
    assert_int_equal(casts_of(&w, 2), 1); /* backward lets go of casts as it goes */
    t_zero_grad(w.w);
    ph_tensor *a = ph_sum(w.s.tape, product(&w)), *b = ph_sum(w.s.tape, product(&w)), *g;
    ph_grad(w.s.tape, &g, &(ph_tensor *){w.w}, 1, &a, NULL, 1, NULL);
    ph_backward(w.s.tape, b);
    t_expect_grad(&w.s, w.w, 1, 3, 1, 3);
    close_world(&w);
}

/* Gradients of many uses are summed as those of casts of their own are, in f32: in bf16 a sum of
 * ones would end at 256. */
static void many_uses(world *w, ph_autocast mode)
{
    ph_tape *tape = w->s.tape;
    ph_tensor *ones = ph_full(tape, PH_DTYPE_F32, PH_SHAPE(2), 1), *sum = NULL;
    (void)ph_tape_set_autocast(tape, mode);
    for (int i = 0; i < 600; i++) {
        ph_tensor *y = ph_sum(tape, ph_linear(tape, ones, w->w, NULL));
        sum = sum ? ph_add(tape, sum, y) : y;
    }
    ph_backward(tape, sum);
    t_expect_grad(&w->s, w->w, 600, 600, 600, 600);
    t_zero_grad(w->w);
    assert_ok(ph_tape_clear(tape));
}

TEST(test_sums_of_gradients)
{
    static const ph_dtype dtypes[] = {PH_DTYPE_F16, PH_DTYPE_BF16};
    world w;
    open_world(&w);
    for (size_t i = 0; i < 2; i++) {
        many_uses(&w, (ph_autocast){.dtype = dtypes[i]});
        many_uses(&w, (ph_autocast){.dtype = dtypes[i], .no_cache = true});
    }
    close_world(&w);
}

/* Of an input that requires a gradient, likewise: what is differentiated twice is not the cast,
 * but each use. */
TEST(each_use_of_a_cast_input_is_differentiated_once)
{
    world w;
    open_world(&w);
    assert_ok(ph_tensor_set_requires_grad(w.x, true));
    ph_tensor *a = ph_sum(w.s.tape, product(&w)), *b = ph_sum(w.s.tape, product(&w)), *g;
    ph_grad(w.s.tape, &g, &(ph_tensor *){w.x}, 1, &a, NULL, 1, NULL);
    ph_backward(w.s.tape, b);
    t_expect_values(w.s.tape, g, PH_SHAPE(2), 2, 2);
    t_expect_grad(&w.s, w.x, 2, 2);
    ph_backward(w.s.tape, a);
    t_expect_failure(&w.s, PH_ERROR_STATE, "backward of sum: a second pass");
    close_world(&w);
}

/* A cast without history does not stand in the way of a gradient. */
TEST(test_gradient_modes)
{
    world w;
    open_world(&w);
    (void)ph_tape_set_grad_enabled(w.s.tape, false);
    expect_product(&w, 2, 6);
    (void)ph_tape_set_grad_enabled(w.s.tape, true);
    ph_tensor *y = product(&w);
    assert_true(ph_tensor_requires_grad(y));
    (void)ph_tape_set_grad_enabled(w.s.tape, false);
    assert_false(ph_tensor_requires_grad(product(&w)));
    (void)ph_tape_set_grad_enabled(w.s.tape, true);
    ph_backward(w.s.tape, ph_sum(w.s.tape, y));
    t_expect_grad(&w.s, w.w, 1, 3, 1, 3);
    close_world(&w);
}

/* ---- the user's memory ---- a weight that nobody else holds goes with its cast: what is called
 * then finds no casts, and cannot clear the tape. What operators that it calls leave goes with
 * the rest. */
typedef struct owner {
    world *w;
    int released;
} owner;

static void release_memory(void *user)
{
    owner *o = user;
    ph_tape *tape = o->w->s.tape;
    o->released++;
    assert_error(ph_tape_clear(tape), PH_ERROR_STATE, "called from inside");
    ph_autocast before = ph_tape_set_autocast(tape, to_f16);
    (void)ph_tape_set_grad_enabled(tape, true);
    assert_non_null(product(o->w));
    (void)ph_tape_set_grad_enabled(tape, false);
    (void)ph_tape_set_autocast(tape, before);
}

typedef enum ending {
    SWITCHED_OFF,
    CLEARED,
    DESTROYED
} ending;

static void last_reference(ending how)
{
    ph_tensor *weight;
    float *memory;
    world w;
    open_world(&w);
    owner o = {&w, 0};
    assert_ok(PH_NEW(&memory, 4, w.s.stream));
    assert_ok(ph_tensor_wrap(&weight, w.s.device, PH_DTYPE_F32, PH_SHAPE(2, 2), NULL, memory,
                             release_memory, &o));
    (void)ph_tape_set_grad_enabled(w.s.tape, false);
    ph_tensor_fill(w.s.tape, weight, 1);
    assert_ok(ph_tensor_set_requires_grad(weight, true));
    assert_non_null(ph_linear(w.s.tape, w.x, weight, NULL));
    ph_tensor_release(weight);
    assert_int_equal(o.released, 0);
    if (how == SWITCHED_OFF)
        (void)ph_tape_set_autocast(w.s.tape, off);
    if (how != DESTROYED)
        assert_ok(ph_tape_clear(w.s.tape));
    if (how == CLEARED) {
        assert_int_equal(t_info(&w.s).tensors, 0);
        assert_int_equal(t_info(&w.s).nodes, 0);
        assert_int_equal(t_info(&w.s).saved, 0);
    }
    assert_int_equal(o.released, how == DESTROYED ? 0 : 1);
    ph_tape_destroy(w.s.tape);
    w.s.tape = NULL;
    assert_int_equal(o.released, 1);
    ph_free(memory, w.s.stream);
    close_world(&w);
}

TEST(test_last_reference)
{
    last_reference(SWITCHED_OFF);
    last_reference(CLEARED);
    last_reference(DESTROYED);
}

/* Callbacks that bring about each other without end do not keep a clear from returning. */
typedef struct recycler {
    world *w;
    float *memory;
    bool over;
} recycler;

static void recycle(void *user);

static void use_again(recycler *r)
{
    ph_tensor *x;
    assert_ok(ph_tensor_wrap(&x, r->w->s.device, PH_DTYPE_F32, PH_SHAPE(2, 2), NULL, r->memory,
                             recycle, r));
    assert_ok(ph_tensor_set_requires_grad(x, true));
    assert_non_null(ph_linear(r->w->s.tape, r->w->x, x, NULL));
    ph_tensor_release(x);
}

static void recycle(void *user)
{
    recycler *r = user;
    if (!r->over)
        use_again(r);
}

TEST(test_endless_callbacks)
{
    world w;
    open_world(&w);
    recycler r = {.w = &w};
    assert_ok(PH_NEW(&r.memory, 4, w.s.stream));
    use_again(&r);
    assert_ok(ph_tape_clear(w.s.tape));
    r.over = true;
    assert_ok(ph_tape_clear(w.s.tape));
    assert_int_equal(t_info(&w.s).tensors, 0);
    ph_free(r.memory, w.s.stream);
    close_world(&w);
}

/* ---- no host memory ---- at every place; a cast that cannot be kept is made again. */
static ph_status run_all(void *user)
{
    world *w = user;
    ph_tape *tape = w->s.tape;
    ph_tensor *y = ph_add(tape, product(w), w->x);
    y = ph_concat(tape, (ph_tensor *[]){product(w), y}, 2, 0);
    y = ph_stack(tape, (ph_tensor *[]){y, in_f32(w, y)}, 2, 0);
    ph_backward(tape, ph_sum(tape, ph_softmax(tape, y, 0)));
    return ph_tape_clear(tape);
}

static void put_back(ph_status status, void *user)
{
    world *w = user;
    (void)status;
    t_zero_grad(w->w);
    assert_int_equal(ph_tape_autocast(w->s.tape).dtype, PH_DTYPE_F16);
}

TEST(test_host_memory)
{
    world w;
    open_world(&w);
    assert_ok(run_all(&w)); /* kernels are there */
    t_zero_grad(w.w);
    const t_swept swept = {.name = "autocast", .run = run_all, .reset = put_back, .user = &w};
    t_sweep_host_memory(&swept, 20);
    close_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_once_for_all_uses),
        cmocka_unit_test(test_what_is_kept),
        cmocka_unit_test(a_cleared_tape_holds_no_casts),
        cmocka_unit_test(test_changed_in_place),
        cmocka_unit_test(test_after_backward),
        cmocka_unit_test(each_use_of_a_cast_input_is_differentiated_once),
        cmocka_unit_test(test_sums_of_gradients),
        cmocka_unit_test(test_gradient_modes),
        cmocka_unit_test(test_last_reference),
        cmocka_unit_test(test_endless_callbacks),
        cmocka_unit_test(test_host_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
