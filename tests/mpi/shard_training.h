/* SPDX-License-Identifier: MIT */
/* tests/mpi/shard_training.h: steps of the small network, with and without shards. */
#ifndef PH_TESTS_MPI_SHARD_TRAINING_H
#define PH_TESTS_MPI_SHARD_TRAINING_H
#include "training_net.h"

enum {
    ROWS = 2
};

typedef struct training {
    ph_module *net;
    ph_data_parallel *parallel;
    ph_optimizer *optimizer;
    ph_grad_scaler *scaler; /* NULL: none */
    ph_tensor *x, *y;
    double most; /* norm of the gradients; 0: they are not clipped */
} training;

static inline ph_module *stepped(const training *t)
{
    ph_module *shards = ph_data_parallel_shards(t->parallel);
    return shards ? shards : t->net;
}

static inline void open_training(training *t, const ph_data_parallel_options *options, bool sgd)
{
    const ph_adam_options adam = {.lr = 0.02, .weight_decay = 0.01};
    const ph_sgd_options momentum = {.lr = 0.1, .momentum = 0.9};
    *t = (training){.net = new_net(1)};
    assert_ok(ph_data_parallel_create(&t->parallel, t->net, team.comm, options));
    assert_ok(sgd ? ph_sgd_create(&t->optimizer, stepped(t), &momentum)
                  : ph_adamw_create(&t->optimizer, stepped(t), &adam));
    assert_ok(ph_tensor_create(&t->x, team.device, PH_DTYPE_F32, PH_SHAPE(ROWS, IN)));
    assert_ok(ph_tensor_create(&t->y, team.device, PH_DTYPE_F32, PH_SHAPE(ROWS, OUT)));
}

static inline void close_training(training *t)
{
    ph_data_parallel_destroy(t->parallel);
    ph_optimizer_destroy(t->optimizer);
    ph_grad_scaler_destroy(t->scaler);
    ph_module_release(t->net);
    ph_tensor_release(t->x);
    ph_tensor_release(t->y);
}

static inline void fill_batch(const training *t, int step)
{
    float x[ROWS * IN], y[ROWS * OUT];
    size_t first = (size_t)team.rank * 64 + (size_t)step;
    for (size_t i = 0; i < ROWS * IN; i++)
        x[i] = (float)((first + i * 37) % 23) / 11.0F - 1;
    for (size_t i = 0; i < ROWS * OUT; i++)
        y[i] = (float)((first + i * 17) % 13) / 6.0F - 1;
    assert_ok(ph_tensor_write(tape, t->x, x, sizeof x));
    assert_ok(ph_tensor_write(tape, t->y, y, sizeof y));
}

static inline void pass(const training *t)
{
    ph_tensor *loss = ph_mse(tape, ph_call(tape, t->net, t->x), t->y);
    if (t->scaler)
        loss = ph_grad_scaler_scale(tape, t->scaler, loss);
    ph_data_parallel_backward(tape, t->parallel, loss);
}

static inline ph_status step(ph_stream *stream, void *user)
{
    training *t = user;
    (void)stream;
    ph_optimizer_zero_grad(tape, t->optimizer);
    pass(t);
    if (t->most > 0)
        (void)ph_data_parallel_clip_grad_norm(tape, t->parallel, t->most);
    if (t->scaler) {
        ph_grad_scaler_step(tape, t->scaler, t->optimizer);
        ph_grad_scaler_update(tape, t->scaler);
    } else {
        ph_optimizer_step(tape, t->optimizer);
    }
    ph_data_parallel_gather(tape, t->parallel);
    return ph_tape_clear(tape);
}

static inline void run_steps(training *t, int first, int end, bool graphed)
{
    ph_graph *graph;
    assert_ok(ph_graph_create(&graph, NULL));
    for (int i = first; i < end; i++) {
        fill_batch(t, i);
        if (graphed && i == first + 1)
            assert_ok(ph_graph_capture(graph, team.stream, NULL, step, t));
        assert_ok(graphed && i > first ? ph_graph_replay(graph, team.stream)
                                       : step(team.stream, t));
    }
    ph_graph_destroy(graph);
}
#endif
