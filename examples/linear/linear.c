/* SPDX-License-Identifier: MIT */
/* linear: a layer of libphonograph_nn, captured once, then replayed with another input. */
#include <phonograph/nn.h>
#include <stdio.h>

struct app {
    ph_device *device;
    ph_stream *stream;
    ph_tape *tape;
    ph_module *layer;
    ph_tensor *x, *y; /* what the graph reads and writes: they stay where they are */
    ph_graph *graph;
};

/* No operator needs a check: what the tape returns answers for all of them, and ends the
 * capture. */
static ph_status forward(ph_stream *stream, void *user)
{
    struct app *app = user;
    (void)stream; /* the tape's own */
    ph_tensor_copy(app->tape, app->y, ph_call(app->tape, app->layer, app->x));
    return ph_tape_clear(app->tape);
}

/* What waits for the device, as the making of a layer does, comes before the capture. */
static ph_status prepare(struct app *app, const char *device)
{
    PH_TRY(ph_device_open(&app->device, device, NULL));
    PH_TRY(ph_stream_create(&app->stream, app->device, NULL));
    PH_TRY(ph_tape_create(&app->tape, app->stream, &(ph_tape_options){.no_grad = true}));
    PH_TRY(ph_linear_create(&app->layer, app->device, 3, 2));
    PH_TRY(ph_tensor_create(&app->x, app->device, PH_DTYPE_F32, PH_SHAPE(1, 3)));
    PH_TRY(ph_tensor_create(&app->y, app->device, PH_DTYPE_F32, PH_SHAPE(1, 2)));
    /* In place of the random start: each output is the sum of the inputs, and 1. */
    ph_tensor_fill(app->tape, ph_module_parameter(app->layer, "weight"), 1);
    ph_tensor_fill(app->tape, ph_module_parameter(app->layer, "bias"), 1);
    return ph_tape_clear(app->tape);
}

static ph_status run(struct app *app, const char *device)
{
    static const float inputs[2][3] = {{1, 2, 3}, {10, 20, 30}};
    float y[2];
    PH_TRY(prepare(app, device));
    PH_TRY(ph_graph_create(&app->graph, NULL));
    PH_TRY(ph_graph_capture(app->graph, app->stream, NULL, forward, app));
    for (int i = 0; i < 2; i++) {
        PH_TRY(ph_tensor_write(app->tape, app->x, inputs[i], sizeof inputs[i]));
        PH_TRY(ph_graph_replay(app->graph, app->stream));
        PH_TRY(ph_tensor_read(app->tape, app->y, y, sizeof y)); /* waits for the replay */
        printf("x = %g %g %g: y = %g %g\n", (double)inputs[i][0], (double)inputs[i][1],
               (double)inputs[i][2], (double)y[0], (double)y[1]);
    }
    return PH_OK;
}

int main(int argc, char **argv)
{
    struct app app = {0};
    ph_status st = run(&app, argc > 1 ? argv[1] : "auto");
    if (st != PH_OK)
        fprintf(stderr, "linear: %s\n", ph_error_last()->message);
    ph_graph_destroy(app.graph);
    ph_tensor_release(app.x);
    ph_tensor_release(app.y);
    ph_module_release(app.layer);
    ph_tape_destroy(app.tape);
    ph_stream_destroy(app.stream);
    ph_device_release(app.device);
    return st != PH_OK;
}
