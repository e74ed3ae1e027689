/* SPDX-License-Identifier: MIT */
/* tests/unit/instructions_calls.c: how many instructions calls of a graphed callable of 8 x (Linear
 * + ReLU) take on the host device, with the clear that lets their results go, and replays with
 * another address for a slot; not counted is the launch itself, in which the device may do the work
 * (support/instructions.h). */
#include "support/instructions.h"
#include <phonograph/graphed.h>
#include <phonograph/nn.h>
#include <phonograph/slots.h>

enum {
    LAYERS = 8,
    WIDTH = 4,
    BYTES = 256
};

typedef struct scene {
    ph_device *device;
    ph_stream *stream;
    ph_tape *tape;
    ph_module *net, *graphed;
    ph_tensor *x, *grad;
    ph_graph *graph;
    size_t slot;
    char *from[2], *to;
    unsigned turn;
} scene;

/* ---- what is counted ---- */
static bool forward(scene *s)
{
    return ph_call(s->tape, s->graphed, s->x) != NULL;
}

static bool forward_no_grad(scene *s)
{
    bool before = ph_tape_set_grad_enabled(s->tape, false), done = forward(s);
    ph_tape_set_grad_enabled(s->tape, before);
    return done;
}

static bool forward_backward(scene *s)
{
    ph_module_zero_grad(s->net);
    ph_tensor *y = ph_call(s->tape, s->graphed, s->x);
    ph_backward_from(s->tape, &y, &s->grad, 1, NULL);
    return y != NULL;
}

static bool replay_moved(scene *s)
{
    const ph_slot_value value = {s->slot, s->from[s->turn++ % 2]};
    return ph_graph_replay_with(s->graph, s->stream, &value, 1) == PH_OK;
}

static bool set_and_replay(scene *s)
{
    const ph_slot_value value = {s->slot, s->from[s->turn++ % 2]};
    return ph_graph_slots_set(s->graph, &value, 1) == PH_OK &&
           ph_graph_replay(s->graph, s->stream) == PH_OK;
}

static const struct {
    const char *name;
    bool (*fn)(scene *s);
} calls[] = {{"graphed_no_grad", forward_no_grad},
             {"graphed_forward", forward},
             {"graphed_backward", forward_backward},
             {"slot_replay_with", replay_moved},
             {"slot_set_replay", set_and_replay}};
enum {
    CASES = sizeof calls / sizeof calls[0]
};

/* Collected by its name. */
__attribute__((noinline)) void instructions_measured(bool (*fn)(scene *), scene *s);
void instructions_measured(bool (*fn)(scene *), scene *s)
{
    for (int i = 0; i < TI_CALLS; i++)
        if (!fn(s) || ph_tape_clear(s->tape) != PH_OK)
            abort();
}

/* ---- the scene ---- */
static void make_graphed(scene *s)
{
    ph_module *layers[2 * LAYERS];
    for (int i = 0; i < LAYERS; i++) {
        assert_ok(ph_linear_create(&layers[2 * i], s->device, WIDTH, WIDTH));
        assert_ok(ph_activation_create(&layers[2 * i + 1], s->device, "relu", ph_relu));
    }
    assert_ok(ph_sequential_create(&s->net, layers, 2 * LAYERS));
    for (int i = 0; i < 2 * LAYERS; i++)
        ph_module_release(layers[i]);
    assert_ok(ph_tensor_create(&s->x, s->device, PH_DTYPE_F32, PH_SHAPE(2, WIDTH)));
    assert_ok(ph_tensor_create(&s->grad, s->device, PH_DTYPE_F32, PH_SHAPE(2, WIDTH)));
    ph_tensor_fill(s->tape, s->x, 0.5);
    ph_tensor_fill(s->tape, s->grad, 1);
    assert_ok(ph_tape_clear(s->tape));
    assert_ok(ph_make_graphed_callables(&s->graphed, &s->net,
                                        &(ph_sample){.tensors = &s->x, .count = 1}, 1, NULL));
}

static ph_status copy(ph_stream *stream, void *user)
{
    const scene *s = user;
    return ph_memcpy(s->to, s->from[0], BYTES, stream);
}

static void make_graph(scene *s)
{
    for (int i = 0; i < 2; i++)
        assert_ok(PH_NEW(&s->from[i], BYTES, s->stream));
    assert_ok(PH_NEW(&s->to, BYTES, s->stream));
    assert_ok(ph_graph_create(&s->graph, NULL));
    assert_ok(ph_graph_capture(s->graph, s->stream, NULL, copy, s));
    assert_ok(ph_graph_slot_find(&s->slot, s->graph, "x", s->from[0], BYTES, NULL));
}

static void close_scene(scene *s)
{
    ph_graph_destroy(s->graph);
    for (int i = 0; i < 2; i++)
        ph_free(s->from[i], s->stream);
    ph_free(s->to, s->stream);
    ph_module_release(s->graphed);
    ph_module_release(s->net);
    ph_tensor_release(s->x);
    ph_tensor_release(s->grad);
    ph_tape_destroy(s->tape);
    ph_stream_destroy(s->stream);
    ph_device_release(s->device);
}

static int run_one(const char *name)
{
    scene s = {.turn = 0};
    assert_ok(ph_device_open(&s.device, "host:threads=1", NULL));
    assert_ok(ph_stream_create(&s.stream, s.device, NULL));
    assert_ok(ph_tape_create(&s.tape, s.stream, NULL));
    make_graphed(&s);
    make_graph(&s);
    assert_ok(ph_stream_synchronize(s.stream));
    for (int i = 0; i < CASES; i++) {
        if (strcmp(calls[i].name, name) != 0)
            continue;
        for (int k = 0; k < TI_WARM_UP; k++) {
            assert_true(calls[i].fn(&s));
            assert_ok(ph_tape_clear(s.tape));
            assert_ok(ph_stream_synchronize(s.stream));
        }
        instructions_measured(calls[i].fn, &s);
    }
    close_scene(&s);
    return 0;
}

static ti_cases all_calls(void)
{
    static const char *names[CASES];
    for (int i = 0; i < CASES; i++)
        names[i] = calls[i].name;
    return (ti_cases){names, CASES,
                      "--toggle-collect=ph__host_exec_launch "
                      "--toggle-collect=ph__host_exec_relaunch"};
}

TEST(no_call_takes_a_tenth_more_than_the_table_says)
{
    const ti_cases cases = all_calls();
    ti_check(&cases);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_call_takes_a_tenth_more_than_the_table_says)};
    if (argc == 3 && strcmp(argv[1], "--one") == 0)
        return run_one(argv[2]);
    if (argc == 2 && strcmp(argv[1], "--table") == 0) {
        const ti_cases cases = all_calls();
        return ti_write_table(&cases);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
