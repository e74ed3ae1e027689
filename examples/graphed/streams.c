/* SPDX-License-Identifier: MIT */
/* graphed/streams.c: several streams, in two ways: two branches of one graph that run side by
 * side, and graphed callables that are called on streams of their own. */
#include "common/common.h"
#include <stdio.h>

enum {
    BATCH = 64,
    HIDDEN = 256,
    ROUNDS = 10
};

struct app {
    common c;
    ph_stream *side;
    ph_tape *side_tape; /* operators run where their tape is */
    ph_module *left, *right, *graphed[2];
    ph_graph *graph;
    ph_tensor *x, *out; /* what the captured step reads, and what it made */
};

/* ---- two branches in one graph ---- the side stream waits for the main one, which takes it
 * into the capture (a fork), and the main stream waits for the side one (a join). Run eagerly,
 * the very same function does the same work without a graph. */
static ph_status both_branches(ph_stream *main, void *user)
{
    struct app *a = user;
    ph_tape *tape = a->c.tape;
    PH_TRY(ph_stream_wait_stream(a->side, main));
    ph_tensor *left = ph_call(tape, a->left, a->x);
    ph_tensor *right = ph_call(a->side_tape, a->right, a->x);
    PH_TRY(ph_stream_wait_stream(main, a->side));
    ph_tensor *sum = ph_add(tape, left, right);
    ph_tensor_release(a->out);
    a->out = ph_tensor_retain(sum);
    ph_status status = ph_tape_clear(tape), side = ph_tape_clear(a->side_tape);
    return side != PH_OK ? side : status;
}

static ph_status one_graph(struct app *a)
{
    PH_TRY(ph_tensor_create(&a->x, a->c.device, PH_DTYPE_F32, PH_SHAPE(BATCH, PIXELS)));
    ph_tensor_copy(a->c.tape, a->x, common_batch(&a->c, a->c.images, 0, BATCH));
    /* once eagerly: kernels are compiled now, not in the capture */
    PH_TRY(both_branches(a->c.stream, a));
    PH_TRY(ph_graph_create(&a->graph, NULL));
    PH_TRY(ph_graph_capture(a->graph, a->c.stream, NULL, both_branches, a));
    for (int i = 0; i < ROUNDS; i++) {
        ph_tensor *batch = common_batch(&a->c, a->c.images, i, BATCH);
        ph_tensor *expected = ph_add(a->c.tape, ph_call(a->c.tape, a->left, batch),
                                     ph_call(a->c.tape, a->right, batch));
        ph_tensor_copy(a->c.tape, a->x, batch);
        /* A replay goes to any stream: here to the side one, which waits for the input and is
         * waited for. */
        PH_TRY(ph_stream_wait_stream(a->side, a->c.stream));
        PH_TRY(ph_graph_replay(a->graph, a->side));
        PH_TRY(ph_stream_wait_stream(a->c.stream, a->side));
        bool same = false;
        ph_status st = expected ? common_same(&same, a->c.tape, expected, a->out) : PH_OK;
        PH_TRY(ph_tape_clear(a->c.tape));
        PH_TRY(st);
        if (!same)
            return ph_fail(PH_ERROR_CALLER, "replay %d differs from the eager branches", i);
    }
    printf("two branches in one graph, replayed on another stream: %d batches, all bits as eager\n",
           ROUNDS);
    return PH_OK;
}

/* ---- graphed callables on two streams ---- each is made by a call of its own, so each has a
 * pool of its own, and the two may run at once. Of one pool they would be put in order, which is
 * safe, and slower. */
static ph_status make_graphed(struct app *a)
{
    ph_sample sample = {.tensors = &a->x, .count = 1};
    PH_TRY(ph_make_graphed_callables(&a->graphed[0], &a->left, &sample, 1, NULL));
    return ph_make_graphed_callables(&a->graphed[1], &a->right, &sample, 1, NULL);
}

static ph_status round_on_two_streams(struct app *a, int64_t index)
{
    ph_tape *tape = a->c.tape;
    ph_tensor *batch = common_batch(&a->c, a->c.images, index, BATCH);
    ph_tensor *expected =
        ph_add(tape, ph_call(tape, a->left, batch), ph_call(tape, a->right, batch));
    PH_TRY(ph_stream_wait_stream(a->side, a->c.stream));
    ph_tensor *left = ph_call(tape, a->graphed[0], batch);
    ph_tensor *right = ph_call(a->side_tape, a->graphed[1], batch);
    PH_TRY(ph_stream_wait_stream(a->c.stream, a->side));
    ph_tensor *sum = ph_add(tape, left, right);
    bool same = false;
    ph_status st = sum ? common_same(&same, tape, expected, sum) : PH_OK;
    ph_status side = ph_tape_clear(a->side_tape);
    PH_TRY(ph_tape_clear(tape));
    PH_TRY(side);
    PH_TRY(st);
    return same ? PH_OK
                : ph_fail(PH_ERROR_CALLER, "batch %d differs from the eager branches", (int)index);
}

static ph_status run(struct app *a, int argc, char **argv)
{
    const int64_t widths[] = {PIXELS, HIDDEN, HIDDEN, CLASSES};
    const ph_tape_options no_grad = {.no_grad = true};
    PH_TRY(common_open(&a->c, argc, argv));
    PH_TRY(ph_stream_create(&a->side, a->c.device, NULL));
    PH_TRY(ph_tape_create(&a->side_tape, a->side, &no_grad));
    ph_tape_set_grad_enabled(a->c.tape, false);
    PH_TRY(common_network(&a->left, &a->c, widths, 4, 0, 1));
    PH_TRY(common_network(&a->right, &a->c, widths, 4, 0, 2));
    PH_TRY(one_graph(a));
    PH_TRY(make_graphed(a));
    for (int i = 0; i < ROUNDS; i++)
        PH_TRY(round_on_two_streams(a, i));
    printf("two graphed callables on two streams: %d batches, all bits as eager\n", ROUNDS);
    return PH_OK;
}

int main(int argc, char **argv)
{
    struct app a = {0};
    int status = common_end("streams", run(&a, argc, argv));
    ph_graph_destroy(a.graph);
    ph_tensor_release(a.x);
    ph_tensor_release(a.out);
    ph_module *modules[] = {a.left, a.right, a.graphed[0], a.graphed[1]};
    for (size_t i = 0; i < sizeof modules / sizeof modules[0]; i++)
        ph_module_release(modules[i]);
    ph_tape_destroy(a.side_tape);
    ph_stream_destroy(a.side);
    common_close(&a.c);
    return status;
}
