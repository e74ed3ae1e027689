/* SPDX-License-Identifier: MIT */
/* tests/nn/graphed_life.c: how long graphed callables live and what they hold: calls that
 * interleave, pools that sets share, memory over many calls, releases in any order; what can be
 * asked of them. */
#include "fake/fake_cuda.h"
#include "support/graphed_nets.h"
#include "support/test.h"

/* ---- interleaved calls ---- of callables that were made apart: passes may nest and cross. */
static void interleave(bool backward_of_first_first)
{
    t_scene s;
    t_scene_open(&s);
    ph_module *plain[2] = {gn_net(&s, GN_MLP, 1), gn_net(&s, GN_NORM, 2)}, *graphed[2];
    ph_tensor *x = gn_sample(&s, gn_shape(GN_MLP), true), *got[2], *want[2][2], *in[2], *loss[2],
              *grad;
    for (int i = 0; i < 2; i++)
        graphed[i] = gn_graph_one(plain[i], x, NULL);
    for (uint64_t round = 0; round < 3; round++) {
        for (int i = 0; i < 2; i++) {
            in[i] = gn_random(&s, gn_shape(GN_MLP), 10 * round + (uint64_t)i);
            assert_ok(ph_tensor_set_requires_grad(in[i], true));
            want[i][0] = ph_call(s.tape, plain[i], in[i]);
            loss[i] = ph_mean(s.tape, ph_square(s.tape, want[i][0]));
            ph_grad(s.tape, &want[i][1], &in[i], 1, &loss[i], NULL, 1, NULL);
        }
        for (int i = 0; i < 2; i++)
            got[i] = ph_call(s.tape, graphed[i], in[i]);
        for (int i = 0; i < 2; i++) {
            gn_expect_same(&s, got[i], want[i][0], "an output");
            loss[i] = ph_mean(s.tape, ph_square(s.tape, got[i]));
        }
        for (int k = 0; k < 2; k++) {
            int i = backward_of_first_first ? k : 1 - k;
            ph_grad(s.tape, &grad, &in[i], 1, &loss[i], NULL, 1, NULL);
            gn_expect_same(&s, grad, want[i][1], "a gradient");
        }
        assert_ok(ph_tape_clear(s.tape));
    }
    for (int i = 0; i < 2; i++) {
        ph_module_release(plain[i]);
        ph_module_release(graphed[i]);
    }
    ph_tensor_release(x);
    t_scene_close(&s);
}

TEST(calls_of_two_callables_may_nest_and_cross)
{
    interleave(true);
    interleave(false);
}

/* ---- one pool for two sets ---- used one after the other, a whole step each. */
TEST(test_shared_pool)
{
    t_scene s;
    ph_pool *pool;
    t_scene_open(&s);
    assert_ok(ph_pool_create(&pool, s.device, NULL));
    size_t uses = ph_pool_use_count(pool);
    ph_module *plain[2] = {gn_net(&s, GN_MLP, 1), gn_net(&s, GN_NORM, 2)}, *source[2], *graphed[2];
    ph_optimizer *a[2], *b[2];
    ph_tensor *x = gn_sample(&s, gn_shape(GN_MLP), false);
    for (int i = 0; i < 2; i++) {
        source[i] = i ? gn_net(&s, GN_NORM, 2) : gn_net(&s, GN_MLP, 1);
        graphed[i] = gn_graph_one(source[i], x, &(ph_graphed_options){.pool = pool});
        a[i] = gn_sgd(plain[i]);
        b[i] = gn_sgd(graphed[i]);
    }
    assert_true(ph_pool_use_count(pool) > uses);
    for (uint64_t step = 0; step < 6; step++)
        for (int i = 0; i < 2; i++) {
            gn_train_step(&s, plain[i], a[i], gn_shape(GN_MLP), step);
            gn_train_step(&s, graphed[i], b[i], gn_shape(GN_MLP), step);
            gn_expect_same_parameters(&s, graphed[i], plain[i], "with a shared pool");
        }
    for (int i = 0; i < 2; i++) {
        ph_optimizer_destroy(a[i]);
        ph_optimizer_destroy(b[i]);
        ph_module_release(plain[i]);
        ph_module_release(source[i]);
        ph_module_release(graphed[i]);
    }
    assert_int_equal(ph_pool_use_count(pool), uses);
    ph_pool_release(pool);
    ph_tensor_release(x);
    t_scene_close(&s);
}

TEST(test_pool_that_has_gone)
{
    t_scene s;
    ph_pool *pool;
    t_scene_open(&s);
    assert_ok(ph_pool_create(&pool, s.device, NULL));
    ph_pool_release(pool);
    ph_module *plain = gn_net(&s, GN_MLP, 1), *graphed;
    ph_tensor *x = gn_sample(&s, gn_shape(GN_MLP), false);
    const ph_sample sample = {.tensors = &x, .count = 1};
    const ph_graphed_options options = {.pool = pool};
    t_log_start();
    assert_error(ph_make_graphed_callables(&graphed, &plain, &sample, 1, &options),
                 PH_ERROR_ARGUMENT, "ph_graphed_options.pool");
    t_log_stop();
    assert_null(graphed);
    ph_module_release(plain);
    ph_tensor_release(x);
    t_scene_close(&s);
}

/* ---- many calls ---- each with inputs in new memory, which goes after it: memory stays as it
 * was.
 *
 * Queues keep the memory of as many commands as were in flight at once, which is a matter of who
 * is faster. So TOGETHER calls are queued behind a gate before anything is counted, and no more
 * than those are in flight afterwards. */
enum {
    SOURCES = 7,
    PLACES = 5,
    TOGETHER = 25,
    START = 300
};

typedef struct endless {
    t_scene s;
    ph_module *plain, *graphed;
    ph_tensor *source[SOURCES], *want[SOURCES]; /* values of inputs, and what their gradients are */
    const void *places[PLACES];                 /* where inputs were */
} endless;

static void endless_open(endless *e, const ph_graphed_options *options)
{
    t_scene *s = &e->s;
    *e = (endless){0};
    t_scene_open(s);
    e->plain = gn_net(s, GN_MLP, 1);
    ph_tensor *x = gn_sample(s, gn_shape(GN_MLP), true);
    e->graphed = gn_graph_one(e->plain, x, options);
    for (uint64_t i = 0; i < SOURCES; i++) {
        e->source[i] = ph_tensor_retain(gn_random(s, gn_shape(GN_MLP), i));
        assert_ok(ph_tensor_set_requires_grad(e->source[i], true));
        ph_tensor *loss =
            ph_sum(s->tape, ph_square(s->tape, ph_call(s->tape, e->plain, e->source[i])));
        ph_grad(s->tape, &e->want[i], &e->source[i], 1, &loss, NULL, 1, NULL);
        ph_tensor_retain(e->want[i]);
        assert_ok(ph_tape_clear(s->tape));
    }
    ph_tensor_release(x);
}

static void endless_close(endless *e)
{
    for (int i = 0; i < SOURCES; i++) {
        ph_tensor_release(e->source[i]);
        ph_tensor_release(e->want[i]);
    }
    ph_module_release(e->plain);
    ph_module_release(e->graphed);
    t_scene_close(&e->s);
}

static ph_tensor *new_memory(const t_scene *s)
{
    return ph_tensor_retain(ph_empty(s->tape, PH_DTYPE_F32, gn_shape(GN_MLP)));
}

/* The input is new, and made after others of its size, more of them than at the call before:
 * elsewhere than that one's was. */
static void call_with_new_input(endless *e, int i, bool compare)
{
    t_scene *s = &e->s;
    int before = i % PLACES;
    ph_tensor *others[PLACES], *grad;
    for (int k = 0; k < before; k++)
        others[k] = new_memory(s);
    ph_tensor *now = new_memory(s);
    e->places[before] = ph_tensor_data(now);
    ph_tensor_copy(s->tape, now, ph_detach(s->tape, e->source[i % SOURCES]));
    assert_ok(ph_tensor_set_requires_grad(now, true));
    ph_tensor *loss = ph_sum(s->tape, ph_square(s->tape, ph_call(s->tape, e->graphed, now)));
    ph_grad(s->tape, &grad, &now, 1, &loss, NULL, 1, NULL);
    if (compare)
        gn_expect_same(s, grad, e->want[i % SOURCES], "a gradient");
    assert_ok(ph_tape_clear(s->tape));
    ph_tensor_release(now);
    for (int k = 0; k < before; k++)
        ph_tensor_release(others[k]);
}

static int count_places(const endless *e)
{
    int count = 0;
    for (int i = 0; i < PLACES; i++) {
        bool new = true;
        for (int k = 0; k < i; k++)
            new = new && e->places[k] != e->places[i];
        count += new;
    }
    return count;
}

static uint64_t device_free(const endless *e)
{
    ph_device_info info;
    assert_ok(ph_stream_synchronize(e->s.stream));
    assert_ok(ph_device_get_info(&info, e->s.device));
    return info.memory_free;
}

/* What a GPU's driver takes for itself, it takes in large pieces, and other processes take
 * theirs: less than a kilobyte for each call it is. */
static void expect_as_free(uint64_t after, uint64_t before)
{
    const uint64_t slack = t_on_host() || fake_cuda() ? 0 : 4u << 20;
    if (after + slack < before)
        fail_msg("the device has %llu bytes less", (unsigned long long)(before - after));
}

static void many_calls(const ph_graphed_options *options)
{
    endless e;
    t_gate gate = {0};
    ph_memory_stats before = {0}, after;
    int calls = t_nightly() ? 20000 : 1000;
    int64_t live = 0;
    uint64_t free_before = 0;
    endless_open(&e, options);
    for (int i = 0; i < calls; i++) {
        call_with_new_input(&e, i, i < 3 * SOURCES || i % 50 == 0);
        if (i == START - TOGETHER)
            t_gate_open(&gate);
        /* work in flight has memory of the host */
        if (i % TOGETHER == 0)
            assert_ok(ph_stream_synchronize(e.s.stream));
        if (i == START - 2 * TOGETHER)
            assert_ok(t_gate_wait_guarded(&gate, e.s.stream));
        if (i == START) {
            free_before = device_free(&e);
            assert_ok(ph_memory_get_stats(&before, e.s.device));
            live = ph__alloc_live();
        }
        if (i > START && i % 50 == 0 &&
            ph__alloc_live() > live + 16) /* what threads of the device have in hand */
            fail_msg("call %d: %lld more host allocations than after call %d", i,
                     (long long)(ph__alloc_live() - live), START);
    }
    expect_as_free(device_free(&e), free_before);
    assert_ok(ph_memory_get_stats(&after, e.s.device));
    assert_int_equal(after.allocated, before.allocated);
    assert_int_equal(after.reserved, before.reserved);
    assert_int_equal(after.segments, before.segments);
    assert_int_equal(after.pinned, before.pinned);
    assert_int_equal(after.deferred, before.deferred);
    assert_int_equal(gn_info(e.graphed).forward_calls, calls);
    assert_true(count_places(&e) > 1);
    endless_close(&e);
}

TEST(test_many_calls)
{
    many_calls(NULL);
    many_calls(&(ph_graphed_options){.inputs = PH_GRAPHED_COPY_INPUTS});
}

/* ---- inside a checkpointed function ---- which calls it once more in backward. */
static void checkpointed(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *user)
{
    out[0] = ph_square(tape, ph_call(tape, user, in[0]));
}

TEST(a_callable_runs_twice_in_a_checkpoint)
{
    t_scene s;
    t_scale scale;
    t_scene_open(&s);
    ph_module *plain = t_scale_open(&s, &scale, 3);
    ph_tensor *x = gn_sample(&s, PH_SHAPE(2), true), *in = t_leaf(&s, PH_SHAPE(2), 1, 2), *out;
    ph_module *graphed = gn_graph_one(plain, x, NULL);
    for (int i = 1; i <= 2; i++) {
        ph_checkpoint(s.tape, checkpointed, graphed, &out, 1, &in, 1);
        t_expect_values(s.tape, out, PH_SHAPE(2), 9, 144);
        ph_backward(s.tape, ph_sum(s.tape, out));
        t_expect_grad(&s, in, (float)(i * 18), (float)(i * 144));
        t_expect_grad(&s, scale.weight, (float)(i * 6), (float)(i * 48));
        assert_ok(ph_tape_clear(s.tape));
    }
    assert_int_equal(gn_info(graphed).forward_calls, 4);
    assert_int_equal(gn_info(graphed).backward_calls, 2);
    ph_tensor_release(x);
    ph_tensor_release(in);
    ph_module_release(graphed);
    ph_module_release(plain);
    t_scene_close(&s);
}

/* ---- releases ---- the original first, the graphed module while a tape has its history, the
 * tape before both. */
TEST(handles_may_be_released_in_any_order)
{
    t_scene s;
    t_scale scale;
    t_scene_open(&s);
    size_t start = t_allocated(&s);
    for (int order = 0; order < 4; order++) {
        ph_module *plain = t_scale_open(&s, &scale, 3);
        ph_tensor *weight = ph_tensor_retain(scale.weight), *x = gn_sample(&s, PH_SHAPE(2), true);
        ph_module *graphed = gn_graph_one(plain, x, NULL);
        if (order & 1)
            ph_module_release(plain);
        assert_int_equal(scale.destroyed, 0); /* the graphed one holds it */
        assert_ptr_equal(ph_module_self(graphed), &scale);
        ph_tensor *in = t_leaf(&s, PH_SHAPE(2), 5, 7);
        ph_tensor *y = ph_call(s.tape, graphed, in);
        if (order & 2)
            ph_module_release(graphed);
        t_expect_values(s.tape, y, PH_SHAPE(2), 15, 42);
        ph_backward(s.tape, ph_sum(s.tape, y));
        t_expect_grad(&s, weight, 5, 7);
        t_expect_grad(&s, in, 3, 6);
        assert_ok(ph_tape_clear(s.tape));
        if (!(order & 2))
            ph_module_release(graphed);
        t_expect_grad(&s, weight, 5, 7);
        if (!(order & 1))
            ph_module_release(plain);
        assert_int_equal(scale.destroyed, 1);
        ph_tensor_release(in);
        ph_tensor_release(x);
        ph_tensor_release(weight);
        assert_int_equal(t_allocated(&s), start);
    }
    t_scene_close(&s);
}

/* More outputs, and calls that backward has not seen, than references are taken ahead: all keep
 * what they need, on two tapes, whoever goes first, and the last gives it back. */
TEST(many_outputs_at_once_keep_what_they_need)
{
    enum {
        OUTPUTS = 2 * 1024 + 50
    };
    t_scene s;
    t_scale scale;
    ph_tape *tape;
    t_scene_open(&s);
    size_t start = t_allocated(&s);
    for (int order = 0; order < 2; order++) {
        ph_module *plain = t_scale_open(&s, &scale, 3);
        ph_tensor *x = gn_sample(&s, PH_SHAPE(2), true), **y = calloc(OUTPUTS, sizeof *y);
        ph_module *graphed = gn_graph_one(plain, x, NULL);
        ph_tensor *in = t_leaf(&s, PH_SHAPE(2), 5, 7);
        assert_ok(ph_tape_create(&tape, s.stream, NULL));
        assert_non_null(y);
        for (int i = 0; i < OUTPUTS; i++)
            y[i] = ph_tensor_retain(ph_call(i % 2 ? tape : s.tape, graphed, in));
        assert_true(t_allocated(&s) > start);
        ph_module_release(plain);
        ph_module_release(graphed);
        assert_int_equal(scale.destroyed, 0); /* nodes of calls hold it */
        t_expect_values(tape, y[OUTPUTS - 1], PH_SHAPE(2), 15, 42);
        if (order)
            ph_tape_destroy(tape);
        assert_ok(ph_tape_clear(s.tape));
        if (!order)
            ph_tape_destroy(tape);
        assert_int_equal(scale.destroyed, 1);
        t_expect_values(s.tape, y[OUTPUTS - 1], PH_SHAPE(2), 15, 42);
        assert_ok(ph_tape_clear(s.tape));
        ph_tensor_release(in);
        ph_tensor_release(x);
        for (int i = 0; i < OUTPUTS; i++) {
            assert_true(t_allocated(&s) > start);
            ph_tensor_release(y[i]);
        }
        assert_int_equal(t_allocated(&s), start);
        free(y);
    }
    t_scene_close(&s);
}

/* Of several that were made in one call any may go first; an output that was kept stays as it
 * is. */
TEST(test_release_of_several)
{
    t_scene s;
    t_scale scale[2];
    t_scene_open(&s);
    for (int first = 0; first < 2; first++) {
        ph_module *plain[2] = {t_scale_open(&s, &scale[0], 3), t_scale_open(&s, &scale[1], 5)},
                  *graphed[2];
        ph_tensor *x = gn_sample(&s, PH_SHAPE(2), true);
        const ph_sample samples[2] = {{.tensors = &x, .count = 1}, {.tensors = &x, .count = 1}};
        assert_ok(ph_make_graphed_callables(graphed, plain, samples, 2, NULL));
        ph_tensor *y = ph_tensor_retain(ph_call(s.tape, graphed[first], t_input(&s, 1, 2)));
        assert_ok(ph_tape_clear(s.tape));
        ph_module_release(graphed[first]);
        float w = first ? 3 : 5, kept = first ? 5 : 3;
        t_expect_values(s.tape, ph_call(s.tape, graphed[1 - first], t_input(&s, 1, 1)), PH_SHAPE(2),
                        w, 2 * w);
        t_expect_values(s.tape, y, PH_SHAPE(2), kept, 4 * kept);
        assert_ok(ph_tape_clear(s.tape));
        ph_module_release(graphed[1 - first]);
        t_expect_values(s.tape, y, PH_SHAPE(2), kept, 4 * kept);
        ph_tensor_release(y);
        ph_tensor_release(x);
        ph_module_release(plain[0]);
        ph_module_release(plain[1]);
    }
    t_scene_close(&s);
}

/* One module graphed twice: each has graphs of its own, the parameters are the same. */
TEST(test_made_twice)
{
    t_scene s;
    t_scale scale;
    t_scene_open(&s);
    ph_module *plain = t_scale_open(&s, &scale, 3);
    ph_tensor *x = gn_sample(&s, PH_SHAPE(2), false);
    ph_module *first = gn_graph_one(plain, x, NULL), *second = gn_graph_one(plain, x, NULL);
    for (int i = 1; i <= 3; i++) {
        ph_module *graphed = i % 2 ? second : first;
        ph_backward(s.tape, ph_sum(s.tape, ph_call(s.tape, graphed, t_input(&s, 1, 2))));
        t_expect_grad(&s, scale.weight, (float)i, (float)(2 * i));
        assert_ok(ph_tape_clear(s.tape));
    }
    ph_tensor_release(x);
    ph_module_release(plain);
    ph_module_release(first);
    ph_module_release(second);
    t_scene_close(&s);
}

/* Each make without a stream of the caller's captures on one that came back from an earlier one:
 * what the device notes of streams does not grow. */
TEST(test_made_often)
{
    enum {
        WARM = 5,
        ROUNDS = 40,
        SLACK = 16 /* queues of the host device grow to a plateau */
    };
    t_scene s;
    t_scale scale;
    int64_t live = 0;
    t_scene_open(&s);
    ph_module *plain = t_scale_open(&s, &scale, 3);
    ph_tensor *x = gn_sample(&s, PH_SHAPE(2), false);
    for (int i = 0; i < WARM + ROUNDS; i++) {
        ph_module_release(gn_graph_one(plain, x, NULL));
        assert_ok(ph_device_synchronize(s.device));
        if (i == WARM)
            live = ph__alloc_live();
    }
    assert_true(ph__alloc_live() <= live + SLACK);
    ph_tensor_release(x);
    ph_module_release(plain);
    t_scene_close(&s);
}

/* ---- looking ---- */
TEST(a_callable_reports_its_graphs_and_counts)
{
    t_scene s;
    t_scale scale;
    ph_graph *forward, *backward;
    ph_graphed_info info;
    ph_graphed_input input;
    char *text;
    t_scene_open(&s);
    ph_module *plain = t_scale_open(&s, &scale, 3);
    ph_tensor *x = gn_sample(&s, PH_SHAPE(2), true);
    ph_module *graphed =
        gn_graph_one(plain, x, &(ph_graphed_options){.gradients = PH_GRAPHED_BORROW});
    assert_false(ph_module_is_graphed(NULL));
    assert_false(ph_module_is_graphed(plain));
    assert_error(ph_graphed_callable_info(&info, plain), PH_ERROR_STATE, "scale");
    assert_error(ph_graphed_callable_input(&input, plain, 0, false), PH_ERROR_STATE, "scale");
    assert_error(ph_graphed_callable_describe(&text, plain), PH_ERROR_STATE, "scale");
    assert_null(text);
    assert_error(ph_graphed_callable_graphs(&forward, &backward, plain), PH_ERROR_STATE, "scale");
    (void)ph_call(s.tape, graphed, t_input(&s, 1, 2));
    assert_ok(ph_tape_clear(s.tape));

    info = gn_info(graphed);
    assert_int_equal(info.input_count, 1);
    assert_int_equal(info.output_count, 1);
    assert_int_equal(info.parameter_count, 1);
    assert_true(info.forward_nodes >= 1 && info.backward_nodes >= 1);
    assert_int_equal(info.forward_calls, 1);
    assert_int_equal(info.backward_calls, 0);
    assert_int_equal(info.gradients, PH_GRAPHED_BORROW);
    input = gn_input(graphed, 0, false);
    assert_true(input.backward_reads); /* the weight's gradient needs it */
    assert_int_equal(input.rebound, input.uses > 0);
    assert_int_equal(input.rebound, input.reason[0] == '\0');
    assert_error(ph_graphed_callable_input(&input, graphed, 1, false), PH_ERROR_NOT_FOUND,
                 "has 1 inputs, and no number 1");
    assert_error(ph_graphed_callable_input(&input, graphed, 1, true), PH_ERROR_NOT_FOUND,
                 "has 1 outputs, and no number 1");
    assert_ok(ph_graphed_callable_describe(&text, graphed));
    assert_non_null(strstr(text, "scale"));
    assert_int_equal(text[strlen(text) - 1], '\n');
    ph_string_free(text);
    assert_ok(ph_graphed_callable_graphs(&forward, &backward, graphed));
    assert_int_equal(ph_graph_get_state(forward), PH_GRAPH_READY);
    assert_int_equal(ph_graph_get_state(backward), PH_GRAPH_READY);
    assert_ptr_equal(ph_module_parameter(graphed, "weight"), scale.weight);
    assert_ptr_equal(ph_module_parameter(graphed, "count"), scale.count); /* a buffer */
    assert_string_equal(ph_module_name(graphed), "scale");
    assert_ptr_equal(ph_module_device(graphed), s.device);
    ph_tensor_release(x);
    ph_module_release(graphed);
    ph_module_release(plain);
    t_scene_close(&s);
}

/* Names of modules and of inputs cannot steer the terminal that the text is read on. */
static void pass_on(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    (void)self;
    out[0] = ph_neg(tape, in[0]);
}

TEST(test_hostile_names)
{
    static const char *const keys[] = {"k\x1b[2J\xe2\x80\xaey\xff"};
    static const ph_structure structure = {PH_STRUCTURE_DICT, 1, keys, NULL};
    t_scene s;
    ph_module *graphed = NULL;
    char *text;
    t_scene_open(&s);
    ph_module *plain = gn_function(&s, "m\x1b[2J\xc2\x9bn", pass_on, NULL, 1, 1);
    ph_tensor *x = gn_sample(&s, PH_SHAPE(2), false);
    assert_ok(ph_make_graphed_callables(
        &graphed, &plain, &(ph_sample){.tensors = &x, .count = 1, .structure = &structure}, 1,
        NULL));
    assert_ok(ph_graphed_callable_describe(&text, graphed));
    assert_non_null(strstr(text, "graphed callable 'm [2J n'"));
    assert_non_null(strstr(text, "  input k [2J y? "));
    ph_string_free(text);
    ph_tensor_release(x);
    ph_module_release(graphed);
    ph_module_release(plain);
    t_scene_close(&s);
}

/* Without anything differentiable there is no backward. */
TEST(test_info_of_forward_alone)
{
    t_scene s;
    ph_graph *forward, *backward;
    ph_module *relu;
    t_scene_open(&s);
    assert_ok(ph_activation_create(&relu, s.device, "relu", ph_relu));
    ph_tensor *x = gn_sample(&s, PH_SHAPE(2), false);
    ph_module *graphed = gn_graph_one(relu, x, NULL);
    assert_ok(ph_graphed_callable_graphs(&forward, &backward, graphed));
    assert_non_null(forward);
    assert_null(backward);
    assert_int_equal(gn_info(graphed).backward_nodes, 0);
    ph_tensor_release(x);
    ph_module_release(graphed);
    ph_module_release(relu);
    t_scene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_of_two_callables_may_nest_and_cross),
        cmocka_unit_test(test_shared_pool),
        cmocka_unit_test(test_pool_that_has_gone),
        cmocka_unit_test(test_many_calls),
        cmocka_unit_test(handles_may_be_released_in_any_order),
        cmocka_unit_test(test_made_twice),
        cmocka_unit_test(many_outputs_at_once_keep_what_they_need),
        cmocka_unit_test(test_release_of_several),
        cmocka_unit_test(a_callable_reports_its_graphs_and_counts),
        cmocka_unit_test(test_info_of_forward_alone),
        cmocka_unit_test(a_callable_runs_twice_in_a_checkpoint),
        cmocka_unit_test(test_made_often),
        cmocka_unit_test(test_hostile_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
