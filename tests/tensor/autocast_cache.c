/* SPDX-License-Identifier: MIT */
/* tests/tensor/autocast_cache.c: casts of weights that autocast keeps: for how long, and for whom; and autocast in captures, checkpoints, hooks and
 * custom operators. */
#include "support/grads.h"
#include "support/sweep.h"
#include <time.h>

static const ph_autocast off, to_f16 = {.dtype = PH_DTYPE_F16},
                              uncached = {.dtype = PH_DTYPE_F16, .no_cache = true};

/* A weight [2, 2], the identity times 2, and x = (1, 3); all numbers are exact in f16. */
typedef struct world {
    t_scene s;
    ph_tensor *w, *x, *y; /* y [2]: what captures write */
} world;

static void open_world(world *w)
{
    t_scene_open(&w->s);
    w->w = t_leaf(&w->s, PH_SHAPE(2, 2), 2, 0, 0, 2);
    w->x = t_leaf(&w->s, PH_SHAPE(2), 1, 3);
    assert_ok(ph_tensor_set_requires_grad(w->x, false));
    w->y = t_leaf(&w->s, PH_SHAPE(2), 0, 0);
    assert_ok(ph_tensor_set_requires_grad(w->y, false));
    (void)ph_tape_set_autocast(w->s.tape, to_f16);
}

static void close_world(world *w)
{
    ph_tensor_release(w->w);
    ph_tensor_release(w->x);
    ph_tensor_release(w->y);
    t_scene_close(&w->s);
}

static ph_tensor *product(const world *w)
{
    return ph_linear(w->s.tape, w->x, w->w, NULL);
}

static ph_tensor *in_f32(const world *w, ph_tensor *x)
{
    return ph_cast(w->s.tape, x, PH_DTYPE_F32);
}

#define expect_product(w, ...) t_expect_values((w)->s.tape, in_f32((w), product(w)), PH_SHAPE(2), __VA_ARGS__)

static void scale_weight(const world *w, double factor)
{
    bool enabled = ph_tape_set_grad_enabled(w->s.tape, false);
    ph_tensor_scale(w->s.tape, w->w, factor);
    (void)ph_tape_set_grad_enabled(w->s.tape, enabled);
}

/* Nodes that n products leave: one each, and one for each cast of the weight. */
static size_t casts_of(const world *w, size_t products)
{
    size_t before = t_info(&w->s).nodes;
    for (size_t i = 0; i < products; i++)
        assert_non_null(product(w));
    return t_info(&w->s).nodes - before - products;
}

/* ---- how long ---- */
static void test_once_for_all_uses(void **state)
{
    (void)state;
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

/* Only weights: what was computed, what is no leaf in f32, or needs no gradient, is cast at each use. */
static void test_what_is_kept(void **state)
{
    (void)state;
    world w;
    open_world(&w);
    ph_tape *tape = w.s.tape;
    ph_tensor *made = ph_mul_scalar(tape, w.w, 1);
    size_t nodes = t_info(&w.s).nodes;
    for (int i = 0; i < 3; i++)
        assert_non_null(ph_linear(tape, w.x, made, NULL));
    assert_int_equal(t_info(&w.s).nodes - nodes, 6);
    size_t held = t_allocated(&w.s);
    assert_ok(ph_tensor_set_requires_grad(w.w, false));
    size_t mark = ph_tape_scope_begin(tape);
    assert_non_null(product(&w));
    ph_tape_scope_end(tape, mark, NULL, 0);
    assert_int_equal(t_allocated(&w.s), held);
    close_world(&w);
}

/* A cleared tape holds nothing, and one that is destroyed neither; the weight goes with its last cast. */
static void test_memory(void **state)
{
    (void)state;
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

static void test_changed_in_place(void **state)
{
    (void)state;
    world w;
    open_world(&w);
    expect_product(&w, 2, 6);
    scale_weight(&w, 5);
    expect_product(&w, 10, 30);
    assert_int_equal(casts_of(&w, 2), 0);
    close_world(&w);
}

/* What one backward has been through is of no use for another, unless its history was kept. */
static void test_after_backward(void **state)
{
    (void)state;
    world w;
    open_world(&w);
    for (int i = 1; i <= 3; i++) {
        ph_backward(w.s.tape, ph_sum(w.s.tape, product(&w)));
        assert_ok(ph_tape_status(w.s.tape));
        t_expect_grad(&w.s, w.w, (float)i, (float)(3 * i), (float)i, (float)(3 * i));
    }
    assert_int_equal(ph_tensor_dtype(ph_tensor_grad(w.w)), PH_DTYPE_F32);
    assert_int_equal(casts_of(&w, 2), 1);
    ph_tensor *loss = ph_sum(w.s.tape, product(&w));
    ph_backward_from(w.s.tape, &loss, NULL, 1, &(ph_backward_options){.retain_graph = true});
    assert_int_equal(casts_of(&w, 2), 0);
    ph_backward(w.s.tape, loss);
    assert_ok(ph_tape_clear(w.s.tape));
    close_world(&w);
}

/* A cast without history does not stand in the way of a gradient. */
static void test_gradient_modes(void **state)
{
    (void)state;
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

/* ---- captures ---- */
static ph_status forward(ph_stream *stream, void *user)
{
    const world *w = user;
    (void)stream;
    assert_non_null(product(w));
    ph_tensor_copy(w->s.tape, w->y, product(w));
    return ph_tape_status(w->s.tape);
}

static size_t node_count(ph_graph *graph)
{
    const ph_record *record;
    assert_ok(ph_graph_record(&record, graph));
    return ph_record_node_count(record);
}

/* A cast from before the capture would be read by each replay, whatever became of the weight; one from inside has no value before a replay. */
static void test_captures(void **state)
{
    ph_graph *graph;
    (void)state;
    world w;
    open_world(&w);
    (void)ph_tape_set_grad_enabled(w.s.tape, false);
    expect_product(&w, 2, 6);
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, w.s.stream, NULL, forward, &w));
    size_t nodes = node_count(graph);
    expect_product(&w, 2, 6); /* before any replay */
    scale_weight(&w, 5);
    assert_ok(ph_graph_replay(graph, w.s.stream));
    t_expect_values(w.s.tape, w.y, PH_SHAPE(2), 10, 30);
    assert_ok(ph_graph_reset(graph));
    assert_ok(ph_graph_capture(graph, w.s.stream, NULL, forward, &w)); /* another capture of the same body */
    assert_int_equal(node_count(graph), nodes);
    assert_ok(ph_graph_reset(graph));
    (void)ph_tape_set_autocast(w.s.tape, uncached);
    assert_ok(ph_graph_capture(graph, w.s.stream, NULL, forward, &w));
    assert_int_equal(node_count(graph), nodes + 1); /* the second product's cast of the weight */
    assert_ok(ph_tape_clear(w.s.tape));
    ph_graph_destroy(graph);
    close_world(&w);
}

/* ---- a whole step ---- eager, captured, replayed: the same bits. */
typedef struct step {
    world w;
    ph_autocast mode;
} step;

static ph_status whole_step(ph_stream *stream, void *user)
{
    const step *st = user;
    ph_tape *tape = st->w.s.tape;
    (void)stream;
    ph_autocast before = ph_tape_set_autocast(tape, st->mode);
    ph_tensor *h = ph_gelu(tape, product(&st->w));
    ph_tensor *loss = ph_mse(tape, ph_linear(tape, h, st->w.w, NULL), st->w.x), *g;
    ph_grad(tape, &g, &(ph_tensor *){st->w.w}, 1, &loss, NULL, 1, NULL);
    (void)ph_tape_set_grad_enabled(tape, false);
    ph_tensor_add(tape, st->w.w, g, -0.125);
    (void)ph_tape_set_grad_enabled(tape, true);
    (void)ph_tape_set_autocast(tape, before);
    return ph_tape_clear(tape);
}

static void run_steps(float out[4], ph_autocast mode, bool captured)
{
    step st = {.mode = mode};
    ph_graph *graph = NULL;
    open_world(&st.w);
    (void)ph_tape_set_autocast(st.w.s.tape, off);
    if (captured) {
        assert_ok(ph_graph_create(&graph, NULL));
        assert_ok(ph_graph_capture(graph, st.w.s.stream, NULL, whole_step, &st));
    }
    for (int i = 0; i < 5; i++)
        assert_ok(captured ? ph_graph_replay(graph, st.w.s.stream) : whole_step(NULL, &st));
    assert_ok(ph_tensor_read(out, 4 * sizeof *out, st.w.s.tape, st.w.w));
    ph_graph_destroy(graph);
    close_world(&st.w);
}

static void test_whole_step(void **state)
{
    float eager[4], captured[4], full[4];
    (void)state;
    run_steps(full, off, false);
    run_steps(eager, to_f16, false);
    run_steps(captured, to_f16, true);
    assert_memory_equal(captured, eager, sizeof eager);
    assert_memory_not_equal(eager, full, sizeof eager); /* it was in f16 */
    run_steps(eager, uncached, false);
    run_steps(captured, uncached, true);
    assert_memory_equal(captured, eager, sizeof eager);
}

/* ---- checkpoints ---- both runs cast each use alike, though the second comes from backward, where it is off. */
typedef struct checkpointed {
    world *w;
    int runs;
    ph_dtype seen[2];
} checkpointed;

static void two_products(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *user)
{
    checkpointed *c = user;
    c->seen[c->runs++ % 2] = ph_tape_autocast(tape).dtype;
    out[0] = ph_linear(tape, ph_linear(tape, in[0], c->w->w, NULL), c->w->w, NULL);
}

static void test_checkpoint(void **state)
{
    (void)state;
    world w;
    open_world(&w);
    checkpointed c = {.w = &w};
    ph_tensor *out;
    assert_non_null(product(&w)); /* its cast is there, and is not used inside */
    ph_checkpoint(w.s.tape, two_products, &c, &out, 1, &w.x, 1);
    t_expect_values(w.s.tape, in_f32(&w, out), PH_SHAPE(2), 4, 12);
    (void)ph_tape_set_autocast(w.s.tape, off);
    ph_backward(w.s.tape, ph_sum(w.s.tape, in_f32(&w, out)));
    assert_ok(ph_tape_status(w.s.tape));
    assert_int_equal(c.runs, 2);
    assert_int_equal(c.seen[0], PH_DTYPE_F16);
    assert_int_equal(c.seen[1], PH_DTYPE_F16);
    assert_int_equal(ph_tape_autocast(w.s.tape).dtype, 0);
    t_expect_grad(&w.s, w.w, 4, 12, 4, 12);
    close_world(&w);
}

/* ---- what runs in a pass of backward ---- */
typedef struct watched {
    ph_dtype forward, backward, hook;
} watched;

static void custom_forward(ph_custom *custom, ph_tape *tape, ph_tensor **out, ph_tensor *const *in)
{
    watched *seen = ph_custom_user(custom);
    seen->forward = ph_tape_autocast(tape).dtype;
    out[0] = ph_matmul(tape, in[0], in[0]);
}

static void custom_backward(ph_custom *custom, ph_tape *tape, ph_tensor **grad_in, ph_tensor *const *grad_out,
                            const bool *needed)
{
    watched *seen = ph_custom_user(custom);
    (void)needed;
    seen->backward = ph_tape_autocast(tape).dtype;
    grad_in[0] = ph_cast(tape, grad_out[0], PH_DTYPE_F32);
}

static ph_tensor *look(ph_tape *tape, ph_tensor *grad, void *user)
{
    watched *seen = user;
    seen->hook = ph_tape_autocast(tape).dtype;
    return grad;
}

static void test_custom_operators_and_hooks(void **state)
{
    ph_tensor_hook *hook;
    ph_tensor *out;
    (void)state;
    world w;
    open_world(&w);
    watched seen = {0, PH_DTYPE_F64, PH_DTYPE_F64};
    const ph_custom_operator op = {
        .name = "squared", .forward = custom_forward, .backward = custom_backward, .user = &seen};
    assert_ok(ph_tensor_hook_add(&hook, w.w, look, &seen));
    ph_custom_call(w.s.tape, &op, &out, 1, &w.w, 1);
    assert_int_equal(ph_tensor_dtype(out), PH_DTYPE_F16); /* forward's operators cast as all do */
    ph_backward(w.s.tape, ph_sum(w.s.tape, out));
    assert_ok(ph_tape_status(w.s.tape));
    assert_int_equal(seen.forward, PH_DTYPE_F16);
    assert_int_equal(seen.backward, 0);
    assert_int_equal(seen.hook, 0);
    assert_int_equal(ph_tape_autocast(w.s.tape).dtype, PH_DTYPE_F16);
    t_expect_grad(&w.s, w.w, 1, 1, 1, 1);
    ph_tensor_hook_remove(hook);
    close_world(&w);
}

/* ---- the user's memory ---- a weight that nobody else holds goes with its cast: what is called then finds no casts, and cannot clear the tape. */
typedef struct owner {
    ph_tape *tape;
    int released;
} owner;

static void release_memory(void *user)
{
    owner *o = user;
    o->released++;
    assert_error(ph_tape_clear(o->tape), PH_ERROR_STATE, "called from inside");
    assert_int_equal(ph_tape_set_autocast(o->tape, to_f16).dtype, 0);
    (void)ph_tape_set_autocast(o->tape, off);
}

static void test_last_reference(void **state)
{
    ph_tensor *weight;
    float *memory;
    (void)state;
    world w;
    open_world(&w);
    owner o = {w.s.tape, 0};
    assert_ok(PH_NEW(&memory, 4, w.s.stream));
    assert_ok(
        ph_tensor_wrap(&weight, w.s.device, PH_DTYPE_F32, PH_SHAPE(2, 2), NULL, memory, release_memory, &o));
    (void)ph_tape_set_grad_enabled(w.s.tape, false);
    ph_tensor_fill(w.s.tape, weight, 1);
    assert_ok(ph_tensor_set_requires_grad(weight, true));
    assert_non_null(ph_linear(w.s.tape, w.x, weight, NULL));
    ph_tensor_release(weight);
    assert_int_equal(o.released, 0);
    (void)ph_tape_set_autocast(w.s.tape, off);
    assert_int_equal(o.released, 1);
    assert_ok(ph_tape_clear(w.s.tape));
    ph_free(memory, w.s.stream);
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

static void test_host_memory(void **state)
{
    (void)state;
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
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_changed_in_place),
        cmocka_unit_test(test_after_backward),
        cmocka_unit_test(test_gradient_modes),
        cmocka_unit_test(test_captures),
        cmocka_unit_test(test_whole_step),
        cmocka_unit_test(test_checkpoint),
        cmocka_unit_test(test_custom_operators_and_hooks),
        cmocka_unit_test(test_last_reference),
        cmocka_unit_test(test_host_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
