/* SPDX-License-Identifier: MIT */
/* block: capture as a block of code (gcc and clang), and what happens when the block is left
 * early. */
#include <phonograph/block.h>
#include <phonograph/phonograph.h>
#include <stdio.h>

struct add_args {
    float value;
    float *y;
};

static const char add_cuda[] =
    "extern \"C\" __global__ void add(float value, float *y) { y[blockIdx.x] += value; }\n";

static void add(const ph_block_range *range, const void *args)
{
    const struct add_args *a = args;
    for (uint64_t i = range->begin; i < range->end; i++)
        a->y[i] += a->value;
}

static const ph_param params[] = {PH_PARAM(struct add_args, value, PH_PARAM_VALUE),
                                  PH_PARAM(struct add_args, y, PH_PARAM_ADDRESS)};

enum {
    N = 1024
};

struct app {
    ph_device *device;
    ph_stream *stream;
    ph_kernel *add;
    ph_graph *graph;
    float *y;
};

static ph_status launch(struct app *app, float value)
{
    struct add_args args = {value, app->y};
    ph_launch_config config = {.grid = {N}};
    return ph_launch(app->stream, app->add, &config, &args, sizeof args);
}

/* Reaching the end of the block ends the capture; `break` aborts it. Either way `st` says how it
 * went. */
static ph_status capture(struct app *app, int launches)
{
    ph_status st;
    PH_GRAPH(st, app->graph, app->stream, NULL)
    {
        for (int i = 0; i < launches && st == PH_OK; i++)
            st = launch(app, 1.0f);
        if (st == PH_OK && launches > 10)
            st = ph_fail(PH_ERROR_CALLER, "%d launches are more than this program wants", launches);
        if (st != PH_OK)
            break;
    }
    return st;
}

static ph_status setup(struct app *app, const char *device)
{
    ph_kernel_source source = {.name = "add",
                               .cuda = add_cuda,
                               .host = add,
                               .args_size = sizeof(struct add_args),
                               .params = params,
                               .param_count = 2};
    PH_TRY(ph_device_open(&app->device, device, NULL));
    PH_TRY(ph_stream_create(&app->stream, app->device, NULL));
    PH_TRY(ph_kernel_create(&app->add, app->device, &source));
    PH_TRY(PH_NEW(&app->y, N, app->stream));
    PH_TRY(ph_memset(app->y, 0, N * sizeof *app->y, app->stream));
    return ph_graph_create(&app->graph, NULL);
}

static ph_status run(struct app *app, const char *device)
{
    PH_TRY(setup(app, device));
    if (capture(app, 11) != PH_ERROR_CALLER)
        return ph_fail(PH_ERROR_CALLER, "a block that was left early gave no error");
    printf("left early: %s\n", ph_error_last()->message);

    /* The failed capture cost nothing: after a reset the same graph and stream capture again. */
    PH_TRY(ph_graph_reset(app->graph));
    PH_TRY(capture(app, 3));
    for (int i = 0; i < 5; i++)
        PH_TRY(ph_graph_replay(app->graph, app->stream));

    float host[N];
    PH_TRY(ph_memcpy(host, app->y, sizeof host, app->stream));
    PH_TRY(ph_stream_synchronize(app->stream));
    for (int i = 0; i < N; i++)
        if (host[i] != 15.0f)
            return ph_fail(PH_ERROR_CALLER, "y[%d] is %g, expected 15", i, (double)host[i]);
    printf("5 replays of 3 launches: y = 15\n");
    return PH_OK;
}

int main(int argc, char **argv)
{
    struct app app = {0};
    ph_status st = run(&app, argc > 1 ? argv[1] : "auto");
    ph_graph_destroy(app.graph);
    ph_free(app.y, app.stream);
    ph_kernel_release(app.add);
    ph_stream_destroy(app.stream);
    ph_device_release(app.device);
    if (st != PH_OK)
        fprintf(stderr, "block: %s\n", ph_error_last()->message);
    return st != PH_OK;
}
