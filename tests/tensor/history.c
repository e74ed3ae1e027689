/* SPDX-License-Identifier: MIT */
/* tests/tensor/history.c: forward and backward over and over: memory stays flat, failed
 * allocations leave nothing behind, threads share leaves. */
#include "support/grads.h"
#include "support/test.h"
#include <pthread.h>

/* ---- a step that has a bit of everything ---- */
typedef struct net {
    t_scene s;
    ph_tensor *x, *w, *b;
} net;

static void square_forward(ph_custom *custom, ph_tape *tape, ph_tensor **out, ph_tensor *const *in)
{
    out[0] = ph_mul(tape, in[0], in[0]);
    out[1] = ph_mul_scalar(tape, in[0], 2);
    ph_custom_save(custom, &out[1], 1);
}
static void square_backward(ph_custom *custom, ph_tape *tape, ph_tensor **grad_in,
                            ph_tensor *const *grad_out, const bool *needed)
{
    (void)needed;
    grad_in[0] = grad_out[0] ? ph_mul(tape, grad_out[0], ph_custom_saved(custom, 0)) : NULL;
}
static const ph_custom_operator square = {
    .name = "square", .forward = square_forward, .backward = square_backward};

static void inner(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *user)
{
    net *n = user;
    out[0] = ph_relu(tape, ph_mul(tape, in[0], n->w));
}
static void outer(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *user)
{
    net *n = user;
    ph_tensor *x =
        ph_add(tape, ph_mul(tape, in[0], ph_rand(tape, PH_DTYPE_F32, PH_SHAPE(4))), n->b);
    ph_checkpoint(tape, inner, user, &x, 1, (ph_tensor *[]){x}, 1);
    out[0] = x;
}

static ph_tensor *double_it(ph_tape *tape, ph_tensor *grad, void *user)
{
    (void)user;
    return ph_mul_scalar(tape, grad, 2);
}

static ph_tensor *forward(net *n)
{
    ph_tape *tape = n->s.tape;
    ph_tensor *y[2], *x = ph_mul(tape, n->x, n->w);
    size_t mark = ph_tape_scope_begin(tape);
    ph_custom_call(tape, &square, y, 2, &x, 1);
    ph_tensor *z = ph_relu(tape, ph_add(tape, y[0], n->b));
    ph_tape_scope_end(tape, mark, &z, 1);
    ph_checkpoint(tape, outer, n, &z, 1, (ph_tensor *[]){z}, 1);
    return z ? ph_sum(tape, ph_add(tape, z, x)) : NULL;
}

static ph_status step(net *n)
{
    ph_tape *tape = n->s.tape;
    ph_tensor_hook *hook = NULL;
    ph_tensor *loss = forward(n), *inputs[] = {n->w, n->x}, *out[2];
    if (loss && ph_tensor_hook_add(&hook, loss, double_it, NULL) != PH_OK)
        ph_tape_check(tape, ph_error_last()->status);
    ph_grad(tape, out, inputs, 2, &loss, NULL, 1, &(ph_grad_options){.retain_graph = true});
    for (int i = 0; i < 2; i++)
        if (!ph_tape_status(tape) && !out[i])
            ph_tape_fail(tape, PH_ERROR_CALLER, "no gradient for input %d", i);
    ph_backward(tape, loss);
    ph_status status = ph_tape_clear(tape);
    ph_tensor_hook_remove(hook);
    return status;
}

static void open_net(net *n)
{
    *n = (net){0};
    t_scene_open(&n->s);
    n->x = t_leaf(&n->s, PH_SHAPE(4), 1, 2, 3, 4);
    n->w = t_leaf(&n->s, PH_SHAPE(4), 1, -1, 2, 1);
    n->b = t_leaf(&n->s, PH_SHAPE(1), 1);
}

static void close_net(net *n)
{
    ph_tensor_release(n->x);
    ph_tensor_release(n->w);
    ph_tensor_release(n->b);
    t_scene_close(&n->s);
}

static void zero_grads(net *n)
{
    t_zero_grad(n->x);
    t_zero_grad(n->w);
    t_zero_grad(n->b);
}

static void read_all(net *n, float to[9])
{
    assert_ok(ph_tensor_read(n->s.tape, ph_tensor_grad(n->x), to, 16));
    assert_ok(ph_tensor_read(n->s.tape, ph_tensor_grad(n->w), to + 4, 16));
    assert_ok(ph_tensor_read(n->s.tape, ph_tensor_grad(n->b), to + 8, 4));
}

static void expect_clear(const net *n, int64_t live, size_t allocated)
{
    ph_tape_info info = t_info(&n->s);
    assert_int_equal(info.tensors + info.nodes + info.saved + info.depth, 0);
    assert_int_equal(t_allocated(&n->s), allocated);
    assert_int_equal(ph__alloc_live(), live);
}

TEST(memory_stays_flat_over_thousands_of_passes)
{
    int passes = t_nightly() ? 100000 : 10000;
    net n;
    ph_memory_stats before, after;
    open_net(&n);
    for (int i = 0; i < 20; i++)
        assert_ok(step(&n));
    assert_ok(ph_stream_synchronize(n.s.stream));
    int64_t live = ph__alloc_live();
    assert_ok(ph_memory_get_stats(&before, n.s.device));
    for (int i = 0; i < passes; i++) {
        if (i % 3 == 0)
            zero_grads(&n);
        if (step(&n) != PH_OK)
            assert_ok(ph_error_last()->status);
    }
    assert_ok(ph_stream_synchronize(n.s.stream));
    assert_ok(ph_memory_get_stats(&after, n.s.device));
    assert_int_equal(after.allocated, before.allocated);
    assert_int_equal(after.reserved, before.reserved);
    expect_clear(&n, live, before.allocated);
    close_net(&n);
}

/* The n-th allocation and all after it fail, for every n: the tape says so, and is as new when
 * it is cleared. */
TEST(a_tape_is_new_after_any_failed_allocation)
{
    net n;
    ph_generator *generator;
    float want[9], got[9];
    open_net(&n);
    assert_ok(ph_generator_create(&generator, n.s.device, 1));
    ph_tape_set_generator(n.s.tape, generator);
    assert_ok(step(&n));
    read_all(&n, want);
    zero_grads(&n);
    assert_ok(ph_stream_synchronize(n.s.stream));
    int64_t live = ph__alloc_live();
    size_t allocated = t_allocated(&n.s);
    ph_status status = PH_ERROR_HOST_MEMORY;
    int64_t at = 0;
    for (; status != PH_OK; at++) {
        assert_ok(ph_generator_set_offset(generator, 0));
        ph__alloc_fail_after(at);
        status = step(&n);
        ph__alloc_fail_after(PH__ALLOC_NEVER);
        if (status != PH_OK) {
            assert_error(status, PH_ERROR_HOST_MEMORY, "no host memory");
            zero_grads(&n);
            assert_ok(ph_stream_synchronize(n.s.stream));
            expect_clear(&n, live, allocated);
        }
    }
    assert_true(at > 50);
    read_all(&n, got);
    assert_memory_equal(got, want, sizeof want);
    ph_tape_set_generator(n.s.tape, NULL);
    ph_generator_release(generator);
    close_net(&n);
}

/* Device memory runs out somewhere in the middle, and comes back. */
TEST(test_device_memory)
{
    t_scene s;
    t_scene_open(&s);
    static float values[4096];
    ph_tensor *w = t_leaf_of(&s, PH_SHAPE(4096), values);
    ph_memory_stats stats;
    assert_ok(ph_memory_get_stats(&stats, s.device));
    assert_ok(ph_memory_set_limit(s.device, stats.reserved + (4 << 20)));
    size_t allocated = stats.allocated;
    int steps = 0;
    ph_tensor *x = w;
    while (ph_tape_status(s.tape) == PH_OK && steps++ < 100000)
        x = ph_mul(s.tape, x, w);
    assert_null(x);
    assert_error(ph_tape_status(s.tape), PH_ERROR_POOL_LIMIT, "mul: ");
    t_expect_failure(&s, PH_ERROR_POOL_LIMIT, "(got f32[4096], f32[4096])");
    assert_int_equal(t_allocated(&s), allocated);
    ph_backward(s.tape, ph_sum(s.tape, ph_mul(s.tape, w, w)));
    assert_ok(ph_tape_clear(s.tape));
    assert_ok(ph_memory_set_limit(s.device, 0));
    ph_tensor_release(w);
    t_scene_close(&s);
}

/* ---- long ones ---- without recursion. */
TEST(a_long_chain_is_differentiated_without_recursion)
{
    t_scene s;
    t_scene_open(&s);
    size_t depth = t_nightly() ? 1000000 : 100000;
    ph_tensor *w = t_leaf(&s, PH_SCALAR, 1), *x = w;
    for (size_t i = 0; i < depth; i++) {
        size_t mark = ph_tape_scope_begin(s.tape);
        x = ph_relu(s.tape, x);
        ph_tape_scope_end(s.tape, mark, &x, 1);
    }
    assert_int_equal(t_info(&s).nodes, depth);
    ph_backward(s.tape, x);
    t_expect_grad(&s, w, 1);
    assert_int_equal(t_info(&s).saved, 0);
    assert_ok(ph_tape_clear(s.tape));
    /* And without the pass: a tape that goes with all its history. */
    x = w;
    for (size_t i = 0; i < depth; i++)
        x = ph_relu(s.tape, x);
    x = ph_tensor_retain(x);
    assert_ok(ph_tape_clear(s.tape));
    ph_tensor_release(x);
    ph_tensor_release(w);
    t_scene_close(&s);
}

/* ---- memory goes as the pass does ---- */
static size_t lowest;
static ph_tensor *watch(ph_tape *tape, ph_tensor *grad, void *user)
{
    ph_tape_info info;
    assert_ok(ph_tape_get_info(&info, tape));
    assert_true(info.saved < lowest);
    lowest = info.saved;
    (void)user;
    return grad;
}

TEST(test_frees_as_it_goes)
{
    enum {
        LAYERS = 10
    };
    t_scene s;
    t_scene_open(&s);
    ph_tensor *w = t_leaf_of(&s, PH_SHAPE(1024), (float[1024]){1});
    ph_tensor_hook *hooks[LAYERS];
    ph_tensor *x = w;
    size_t one = t_allocated(&s);
    for (int i = 0; i < LAYERS; i++) {
        size_t mark = ph_tape_scope_begin(s.tape);
        x = ph_relu(s.tape, x);
        assert_ok(ph_tensor_hook_add(&hooks[i], x, watch, NULL));
        ph_tape_scope_end(s.tape, mark, &x, i == LAYERS - 1);
    }
    ph_tensor *loss = ph_sum(s.tape, x);
    lowest = SIZE_MAX;
    assert_ok(ph_memory_reset_peaks(s.device));
    ph_backward(s.tape, loss);
    assert_ok(ph_tape_status(s.tape));
    assert_int_equal(t_info(&s).saved, 0);
    ph_memory_stats stats;
    assert_ok(ph_memory_get_stats(&stats, s.device));
    /* Activations, the leaf, the loss with its seed, and two gradients: that of a layer, and the
     * next. */
    assert_true(stats.allocated_peak <= (LAYERS + 1 + 2) * one + 2048);
    assert_true(stats.allocated <= 3 * one + 2048);
    for (int i = 0; i < LAYERS; i++)
        ph_tensor_hook_remove(hooks[i]);
    assert_ok(ph_tape_clear(s.tape));
    ph_tensor_release(w);
    t_scene_close(&s);
}

/* ---- threads ---- each with a stream and a tape of its own, over the same leaves. */
typedef struct worker {
    pthread_t thread;
    ph_device *device;
    ph_tensor *w, *x;
    ph_tensor *handed_over; /* released by the other thread */
    int rounds, failures;
    float scale;
} worker;

static void work(worker *k, ph_tape *tape, ph_stream *stream)
{
    for (int i = 0; i < k->rounds; i++) {
        ph_tensor *y = ph_mul_scalar(tape, ph_mul(tape, k->w, k->x), k->scale),
                  *loss = ph_sum(tape, ph_mul(tape, y, y)), *out;
        ph_grad(tape, &out, &k->w, 1, &loss, NULL, 1, NULL);
        float got[2] = {0}, c = k->scale * k->scale * 2;
        if (ph_tensor_read(tape, out, got, sizeof got) != PH_OK || got[0] != c * 2 * 25 ||
            got[1] != c * 3 * 49)
            k->failures++;
        if (!k->handed_over)
            k->handed_over = ph_tensor_retain(y);
        if (ph_tape_clear(tape) != PH_OK)
            k->failures++;
    }
    k->failures += ph_stream_synchronize(stream) != PH_OK;
}

static void *run_worker(void *user)
{
    worker *k = user;
    ph_stream *stream;
    ph_tape *tape = NULL;
    k->failures = 1;
    if (ph_stream_create(&stream, k->device, NULL) != PH_OK)
        return NULL;
    if (ph_tape_create(&tape, stream, NULL) == PH_OK) {
        k->failures = 0;
        work(k, tape, stream);
    }
    ph_tape_destroy(tape);
    ph_stream_destroy(stream);
    return NULL;
}

TEST(threads_share_leaves_with_a_tape_each)
{
    enum {
        THREADS = 3
    };
    t_scene s;
    t_scene_open(&s);
    worker workers[THREADS];
    ph_tensor *w = t_leaf(&s, PH_SHAPE(2), 2, 3), *x = t_leaf(&s, PH_SHAPE(2), 5, 7);
    assert_ok(ph_tensor_set_requires_grad(x, false));
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (worker){.device = s.device,
                              .w = w,
                              .x = x,
                              .rounds = t_nightly() ? 3000 : 300,
                              .scale = (float)(i + 1)};
        assert_int_equal(pthread_create(&workers[i].thread, NULL, run_worker, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
        assert_int_equal(workers[i].failures, 0);
        assert_true(ph_tensor_is_leaf(workers[i].handed_over));
        ph_tensor_release(workers[i].handed_over);
    }
    ph_tensor_release(w);
    ph_tensor_release(x);
    t_scene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_stays_flat_over_thousands_of_passes),
        cmocka_unit_test(a_tape_is_new_after_any_failed_allocation),
        cmocka_unit_test(test_device_memory),
        cmocka_unit_test(a_long_chain_is_differentiated_without_recursion),
        cmocka_unit_test(test_frees_as_it_goes),
        cmocka_unit_test(threads_share_leaves_with_a_tape_each),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
