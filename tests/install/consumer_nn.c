/* SPDX-License-Identifier: MIT */
/* install/consumer_nn.c: one training step of a small layer with an installed library, eager and
 * replayed. */
#include <math.h>
#include <phonograph/nn.h>
#include <stdio.h>

typedef struct trainer {
    ph_tape *tape;
    ph_module *layer;
    ph_optimizer *optimizer;
    ph_tensor *x, *loss;
} trainer;

static ph_status step(ph_stream *stream, void *user)
{
    trainer *t = user;
    (void)stream;
    ph_optimizer_zero_grad(t->tape, t->optimizer);
    ph_tensor *loss = ph_mean(t->tape, ph_square(t->tape, ph_call(t->tape, t->layer, t->x)));
    ph_backward(t->tape, loss);
    ph_optimizer_step(t->tape, t->optimizer);
    ph_tensor_release(t->loss);
    t->loss = ph_tensor_retain(loss);
    return ph_tape_clear(t->tape);
}

static ph_status train(trainer *t, ph_graph *graph, ph_stream *stream, ph_device *device)
{
    double first, last;
    ph_sgd_options options = {.lr = 0.1, .momentum = 0.9};
    PH_TRY(ph_linear_create(&t->layer, device, 8, 4));
    PH_TRY(ph_sgd_create(&t->optimizer, t->layer, &options));
    PH_TRY(ph_tape_create(&t->tape, stream, NULL));
    t->x = ph_tensor_retain(ph_randn(t->tape, PH_DTYPE_F32, PH_SHAPE(16, 8)));
    PH_TRY(step(stream, t));
    PH_TRY(ph_tensor_item(&first, t->tape, t->loss));
    PH_TRY(ph_graph_capture(graph, stream, NULL, step, t));
    for (int i = 0; i < 100; i++)
        PH_TRY(ph_graph_replay(graph, stream));
    PH_TRY(ph_tensor_item(&last, t->tape, t->loss));
    printf("loss %.6f, after 100 replays %.6f\n", first, last);
    return last < first / 10 && isfinite(last) ? PH_OK
                                               : ph_fail(PH_ERROR_CALLER, "it has learnt nothing");
}

int main(void)
{
    trainer t = {0};
    ph_device *device = NULL;
    ph_stream *stream = NULL;
    ph_graph *graph = NULL;
    ph_status status = ph_device_open(&device, "host:threads=1", NULL);
    if (status == PH_OK)
        status = ph_stream_create(&stream, device, NULL);
    if (status == PH_OK)
        status = ph_graph_create(&graph, NULL);
    if (status == PH_OK)
        status = train(&t, graph, stream, device);
    if (status != PH_OK)
        fprintf(stderr, "%s: %s\n", ph_status_name(status), ph_error_last()->message);
    ph_graph_destroy(graph);
    ph_tape_destroy(t.tape);
    ph_optimizer_destroy(t.optimizer);
    ph_module_release(t.layer);
    ph_tensor_release(t.x);
    ph_tensor_release(t.loss);
    ph_stream_destroy(stream);
    ph_device_release(device);
    return status != PH_OK;
}
