/* SPDX-License-Identifier: MIT */
/* tests/nn/graphed_uploads.c: the graphs of callables that are made together are uploaded one
 * behind the other: with one wait, and what is free of the device's memory is asked once for each
 * and once before. What each is said to take is what it takes alone. */
#include "fake/fake_cuda.h"
#include "support/graphed_nets.h"
#include "support/test.h"

enum {
    CALLABLES = 3,
    GRAPHS = 2 * CALLABLES
};
static const gn_kind kinds[CALLABLES] = {GN_MLP, GN_BLOCK, GN_NORM};

typedef struct scene {
    t_scene s;
    ph_module *plain[CALLABLES], *graphed[CALLABLES];
    ph_tensor *x[CALLABLES];
} scene;

static void scene_open(scene *c)
{
    t_scene_open(&c->s);
    for (size_t i = 0; i < CALLABLES; i++) {
        c->plain[i] = gn_net(&c->s, kinds[i], i + 1);
        c->x[i] = gn_sample(&c->s, gn_shape(kinds[i]), true);
    }
}

static ph_status make_with(scene *c, size_t first, size_t count, const ph_graphed_options *options)
{
    ph_sample samples[CALLABLES];
    for (size_t i = 0; i < count; i++)
        samples[i] = (ph_sample){.tensors = &c->x[first + i], .count = 1};
    return ph_make_graphed_callables(&c->graphed[first], &c->plain[first], samples, count, options);
}

static ph_status make_some(scene *c, size_t first, size_t count)
{
    return make_with(c, first, count, NULL);
}

static void drop_all(scene *c)
{
    for (size_t i = 0; i < CALLABLES; i++) {
        ph_module_release(c->graphed[i]);
        c->graphed[i] = NULL;
    }
    assert_ok(ph_tape_clear(c->s.tape));
}

static void scene_close(scene *c)
{
    drop_all(c);
    for (size_t i = 0; i < CALLABLES; i++) {
        ph_module_release(c->plain[i]);
        ph_tensor_release(c->x[i]);
    }
    t_scene_close(&c->s);
}

static size_t executable_of(ph_graph *graph)
{
    ph_graph_memory memory;
    assert_ok(ph_graph_get_memory(&memory, graph));
    return memory.executable;
}

/* Forward and backward of each. */
static void read_executables(size_t out[GRAPHS], const scene *c)
{
    for (size_t i = 0; i < CALLABLES; i++) {
        ph_graph *forward, *backward;
        assert_ok(ph_graphed_callable_graphs(&forward, &backward, c->graphed[i]));
        out[2 * i] = executable_of(forward);
        out[2 * i + 1] = executable_of(backward);
    }
}

/* ---- calls of libcuda ---- none are counted where there is none, or a real one. */
static int64_t calls_of(const char *name)
{
    return fake_cuda() ? fake_cuda()->calls_of(name) : 0;
}

static bool replays_are_right(const scene *c)
{
    for (size_t i = 0; i < CALLABLES; i++) {
        ph_tensor *got = ph_call(c->s.tape, c->graphed[i], c->x[i]),
                  *want = kinds[i] == GN_BLOCK ? NULL : ph_call(c->s.tape, c->plain[i], c->x[i]);
        assert_ok(ph_tape_status(c->s.tape));
        if (want)
            gn_expect_same(&c->s, got, want, gn_name(kinds[i]));
    }
    return ph_tape_clear(c->s.tape) == PH_OK;
}

TEST(test_each_takes_what_it_takes_alone)
{
    scene c = {0};
    size_t alone[GRAPHS], together[GRAPHS];
    scene_open(&c);
    for (size_t i = 0; i < CALLABLES; i++)
        assert_ok(make_some(&c, i, 1));
    read_executables(alone, &c);
    drop_all(&c);
    const int64_t uploads = calls_of("cuGraphUpload"), asked = calls_of("cuMemGetInfo");
    assert_ok(make_some(&c, 0, CALLABLES));
    read_executables(together, &c);
    if (fake_cuda()) {
        assert_int_equal(calls_of("cuGraphUpload") - uploads, GRAPHS);
        assert_int_equal(calls_of("cuMemGetInfo") - asked, GRAPHS + 1);
    }
    for (size_t i = 0; i < GRAPHS && fake_cuda(); i++) {
        assert_true(together[i] > 0);
        assert_int_equal(together[i], alone[i]);
    }
    assert_true(replays_are_right(&c));
    scene_close(&c);
}

/* What calls that fail left uploaded goes with the callables. */
TEST(test_uploads_that_fail)
{
    static const struct {
        const char *name;
        int answer;
        ph_status status;
    } faults[] = {{"cuGraphUpload", 2, PH_ERROR_DEVICE_MEMORY},
                  {"cuMemGetInfo", 999, PH_ERROR_DEVICE}};
    scene c = {0};
    scene_open(&c);
    for (size_t i = 0; i < 2 && fake_cuda(); i++) {
        fake_cuda()->fail_call(faults[i].name, faults[i].answer, 1);
        assert_error(make_some(&c, 0, CALLABLES), faults[i].status, "uploading the graphs");
        for (size_t k = 0; k < CALLABLES; k++)
            assert_null(c.graphed[k]);
        fake_cuda()->fail_call(faults[i].name, 0, 0);
    }
    assert_ok(make_some(&c, 0, CALLABLES));
    assert_true(replays_are_right(&c));
    scene_close(&c);
}

static void step(const scene *c, size_t i, ph_module *module)
{
    ph_tensor *loss = ph_sum(c->s.tape, ph_call(c->s.tape, module, c->x[i]));
    ph_backward(c->s.tape, loss);
    assert_ok(ph_tape_clear(c->s.tape));
    ph_module_zero_grad(module);
    assert_ok(ph_tensor_set_grad(c->x[i], NULL));
}

TEST(deferred_uploads_are_made_by_the_first_calls)
{
    const ph_graphed_options options = {.defer_upload = true};
    scene c = {0};
    size_t executables[GRAPHS];
    scene_open(&c);
    int64_t uploads = calls_of("cuGraphUpload");
    assert_ok(make_with(&c, 0, CALLABLES, &options));
    assert_int_equal(calls_of("cuGraphUpload") - uploads, 0);
    read_executables(executables, &c);
    for (size_t i = 0; i < GRAPHS; i++)
        assert_int_equal(executables[i], 0);
    for (int turn = 0; turn < 3; turn++)
        for (size_t i = 0; i < CALLABLES; i++)
            step(&c, i, c.graphed[i]);
    if (fake_cuda())
        assert_int_equal(calls_of("cuGraphUpload") - uploads, GRAPHS);
    assert_true(replays_are_right(&c));
    drop_all(&c);

    ph_graph *graphs[GRAPHS];
    assert_ok(make_with(&c, 0, CALLABLES, &options));
    for (size_t i = 0; i < CALLABLES; i++)
        assert_ok(ph_graphed_callable_graphs(&graphs[2 * i], &graphs[2 * i + 1], c.graphed[i]));
    uploads = calls_of("cuGraphUpload");
    assert_ok(ph_graph_upload_all(graphs, GRAPHS, c.s.stream));
    for (size_t i = 0; i < CALLABLES; i++)
        step(&c, i, c.graphed[i]);
    if (fake_cuda())
        assert_int_equal(calls_of("cuGraphUpload") - uploads, GRAPHS);
    assert_true(replays_are_right(&c));
    scene_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_takes_what_it_takes_alone),
        cmocka_unit_test(deferred_uploads_are_made_by_the_first_calls),
        cmocka_unit_test(test_uploads_that_fail),
    };
    return cmocka_run_group_tests_name("nn.graphed_uploads", tests, NULL, NULL);
}
