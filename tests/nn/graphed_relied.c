/* SPDX-License-Identifier: MIT */
/* tests/nn/graphed_relied.c: what calls of graphed callables look at once, and again behind each
 * change: parameters that are frozen, moved, marked, used by other tapes or let go of, and modes of
 * modules (tensor/core/relied.h). Records that handles on outputs leave to the tape's tensors. */
#include "support/graphed_nets.h"
#include "support/nets.h"
#include "support/test.h"
#include "tensor/core/overwrite_tag.h"
#include "tensor/core/released.h"
#include "tensor/core/relied.h"
#include "tensor/core/storage.h"
#include "tensor/tape/tape.h"
#include <stdio.h>

enum {
    CALLS = 3 /* the last ones look at nothing that the first has seen */
};

typedef struct scene {
    t_scene s;
    t_scale scale;
    ph_module *inner, *net, *graphed; /* net: a sequence of inner alone */
    ph_tensor *x, *weight;
} scene;

static void expect_graphed(const scene *c)
{
    ph_graphed_info before = gn_info(c->graphed);
    t_expect_values(c->s.tape, ph_call(c->s.tape, c->graphed, c->x), PH_SHAPE(2), 3, 12);
    assert_ok(ph_tape_clear(c->s.tape));
    assert_int_equal(gn_info(c->graphed).forward_calls, before.forward_calls + 1);
}

static void expect_calls(const scene *c)
{
    for (int i = 0; i < CALLS; i++)
        expect_graphed(c);
}

/* Nothing is launched; the tape goes on. */
static void expect_refused(const scene *c, ph_status status, const char *what)
{
    ph_graphed_info before = gn_info(c->graphed);
    assert_null(ph_call(c->s.tape, c->graphed, c->x));
    t_expect_failure(&c->s, status, what);
    assert_int_equal(gn_info(c->graphed).forward_calls, before.forward_calls);
}

static void begin(scene *c)
{
    t_scene_open(&c->s);
    c->inner = t_scale_open(&c->s, &c->scale, 3);
    c->weight = c->scale.weight;
    assert_ok(ph_sequential_create(&c->net, &c->inner, 1));
    c->x = gn_sample(&c->s, PH_SHAPE(2), true);
    assert_ok(ph_tensor_write(c->s.tape, c->x, (const float[]){1, 2}, 2 * sizeof(float)));
    c->graphed = gn_graph_one(c->net, c->x, NULL);
    expect_calls(c);
}

static void end(scene *c)
{
    ph_module_release(c->graphed);
    ph_module_release(c->net);
    ph_module_release(c->inner);
    ph_tensor_release(c->x);
    t_scene_close(&c->s);
}

TEST(a_parameter_that_is_frozen_between_calls_is_refused)
{
    scene c;
    begin(&c);
    assert_ok(ph_tensor_set_requires_grad(c.weight, false));
    expect_refused(&c, PH_ERROR_STATE, "parameter '0.weight' requires no gradient any more");
    expect_refused(&c, PH_ERROR_STATE, "parameter '0.weight' requires no gradient any more");
    assert_ok(ph_tensor_set_requires_grad(c.weight, true));
    expect_calls(&c);
    end(&c);
}

TEST(a_parameter_whose_memory_is_elsewhere_is_refused)
{
    scene c;
    char *before;
    begin(&c);
    before = c.weight->storage->data;
    ph__tensor_move(c.weight, c.weight->storage, c.x->data);
    expect_refused(&c, PH_ERROR_STATE, "parameter '0.weight' is not where it was at the capture");
    c.weight->data = before;
    ph__relied_changed();
    expect_calls(&c);
    end(&c);
}

static void describe_mark(const ph__overwrite_tag *tag, uint64_t sequence, uint64_t call,
                          char *text, size_t size)
{
    (void)tag;
    (void)sequence;
    (void)call;
    (void)snprintf(text, size, "by this test");
}

static void destroy_mark(ph__overwrite_tag *tag)
{
    (void)tag;
}

TEST(a_parameter_that_was_overwritten_is_refused)
{
    scene c;
    ph__overwrite_tag tag = {
        .references = 1, .now = 2, .describe = describe_mark, .destroy = destroy_mark};
    begin(&c);
    ph__tensor_tag(c.weight, &tag, 1, 1);
    expect_refused(&c, PH_ERROR_OVERWRITTEN, "by this test");
    ph__tensor_tag(c.weight, NULL, 0, 0);
    expect_calls(&c);
    end(&c);
}

/* Its stream is told to the allocator again, as the last one that used the memory. */
TEST(a_parameter_that_another_tape_has_used_is_looked_at)
{
    scene c;
    ph_stream *stream;
    ph_tape *tape;
    begin(&c);
    assert_ok(ph_stream_create(&stream, c.s.device, NULL));
    assert_ok(ph_tape_create(&tape, stream, NULL));
    const atomic_uint_fast64_t *last = &c.weight->storage->last_key;
    for (int i = 0; i < CALLS; i++) {
        assert_int_equal(atomic_load(last), ph__tape_key(c.s.tape));
        assert_non_null(ph_relu(tape, c.weight));
        assert_int_equal(atomic_load(last), ph__tape_key(tape));
        assert_ok(ph_tape_clear(tape));
        assert_ok(ph_stream_synchronize(stream));
        expect_graphed(&c);
    }
    ph_tape_destroy(tape);
    ph_stream_destroy(stream);
    end(&c);
}

/* One callable on two tapes in turn: neither goes by what the other has seen. */
TEST(calls_of_another_tape_look_at_all)
{
    scene c;
    ph_stream *stream;
    ph_tape *tape, *first;
    begin(&c);
    first = c.s.tape;
    assert_ok(ph_stream_create(&stream, c.s.device, NULL));
    assert_ok(ph_tape_create(&tape, stream, NULL));
    for (int i = 0; i < 2 * CALLS; i++) {
        assert_ok(ph_stream_synchronize(c.s.tape->stream));
        c.s.tape = i % 2 ? first : tape;
        expect_graphed(&c);
        assert_int_equal(atomic_load(&c.weight->storage->last_key), ph__tape_key(c.s.tape));
    }
    ph_tape_destroy(tape);
    ph_stream_destroy(stream);
    end(&c);
}

static void expect_original(scene *c)
{
    const int calls = c->scale.calls;
    ph_graphed_info before = gn_info(c->graphed);
    t_expect_values(c->s.tape, ph_call(c->s.tape, c->graphed, c->x), PH_SHAPE(2), 3, 12);
    assert_ok(ph_tape_clear(c->s.tape));
    assert_int_equal(c->scale.calls, calls + 1);
    assert_int_equal(gn_info(c->graphed).forward_calls, before.forward_calls);
}

TEST(a_mode_that_changes_between_calls_calls_the_original)
{
    scene c;
    begin(&c);
    ph_module *const changed[] = {c.graphed, c.net, c.inner};
    for (size_t i = 0; i < sizeof changed / sizeof changed[0]; i++) {
        ph_module_train(changed[i], false);
        expect_original(&c);
        expect_original(&c);
        ph_module_train(changed[i], true);
        expect_calls(&c);
    }
    end(&c);
}

TEST(a_parameter_that_was_released_too_often_is_refused)
{
    scene c;
    if (!PH__RECYCLES) {
        print_message("skipped: handles go at once, so that tools which watch the heap see it\n");
        skip();
    }
    begin(&c);
    while (!c.weight->gone)
        ph_tensor_release(c.weight);
    expect_refused(&c, PH_ERROR_STATE, "is gone: its last reference was released");
    end(&c);
}

/* ---- records ---- */
static void turn(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    (void)self;
    out[0] = ph_transpose(tape, ph_mul_scalar(tape, in[0], 2), 0, 1);
}

/* A handle on an output has strides of its own, and no memory of its own. */
TEST(results_in_the_records_of_outputs_have_memory_and_strides_of_their_own)
{
    t_scene s;
    ph_module *module, *graphed;
    t_scene_open(&s);
    const ph_module_desc desc = {.name = "turn", .forward = turn};
    assert_ok(ph_module_create(&module, s.device, &desc));
    ph_tensor *x = ph_tensor_retain(t_counting(s.tape, PH_SHAPE(2, 2)));
    assert_ok(ph_tape_clear(s.tape));
    graphed = gn_graph_one(module, x, NULL);
    for (int i = 0; i < CALLS; i++) {
        ph_tensor *y = ph_call(s.tape, graphed, x);
        assert_false(ph_tensor_is_contiguous(y));
        t_expect_values(s.tape, y, PH_SHAPE(2, 2), 0, 4, 2, 6);
        const void *outputs = ph_tensor_data(y);
        assert_ok(ph_tape_clear(s.tape));
        ph_tensor *sum = ph_add(s.tape, x, x);
        assert_true(PH__RECYCLES ? (void *)sum == (void *)y : sum != NULL);
        assert_true(ph_tensor_is_contiguous(sum));
        assert_ptr_not_equal(ph_tensor_data(sum), outputs);
        t_expect_values(s.tape, sum, PH_SHAPE(2, 2), 0, 2, 4, 6);
        assert_ok(ph_tape_clear(s.tape));
    }
    ph_module_release(graphed);
    ph_module_release(module);
    ph_tensor_release(x);
    t_scene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_parameter_that_is_frozen_between_calls_is_refused),
        cmocka_unit_test(a_parameter_whose_memory_is_elsewhere_is_refused),
        cmocka_unit_test(a_parameter_that_was_overwritten_is_refused),
        cmocka_unit_test(a_parameter_that_another_tape_has_used_is_looked_at),
        cmocka_unit_test(calls_of_another_tape_look_at_all),
        cmocka_unit_test(a_mode_that_changes_between_calls_calls_the_original),
        cmocka_unit_test(a_parameter_that_was_released_too_often_is_refused),
        cmocka_unit_test(results_in_the_records_of_outputs_have_memory_and_strides_of_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
