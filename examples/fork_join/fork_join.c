/* SPDX-License-Identifier: MIT */
/* fork_join: two streams in one capture, timing events inside the graph, changes to one node,
 * and a drawing of it all. */
#include <phonograph/phonograph.h>
#include <stdio.h>

enum {
    N = 1 << 14
};

struct sum_args {
    const uint32_t *a, *b;
    uint32_t *y;
};

/* A block of 256 threads for 256 numbers. */
static const char sum_cuda[] =
    "extern \"C\" __global__ void sum(const unsigned *a, const unsigned *b, unsigned *y)\n"
    "{\n"
    "    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;\n"
    "    y[i] = a[i] + b[i];\n"
    "}\n";

static void sum(const ph_block_range *range, const void *args)
{
    const struct sum_args *s = args;
    for (uint64_t i = range->begin * 256; i < range->end * 256; i++)
        s->y[i] = s->a[i] + s->b[i];
}

struct app {
    ph_device *device;
    ph_stream *main, *side;
    ph_event *begin, *end;
    ph_kernel *sum;
    ph_graph *graph;
    uint32_t *a, *b, *y; /* device memory */
};

/* main fills a while side fills b. Waiting for a stream that is captured pulls side in (a fork),
 * and adds a dependency (a join). begin and end, events made with `external`, become nodes that
 * take the time of every replay. */
static ph_status step(ph_stream *main, void *user)
{
    struct app *app = user;
    struct sum_args args = {app->a, app->b, app->y};
    PH_TRY(ph_event_record(app->begin, main));
    PH_TRY(ph_stream_wait_stream(app->side, main));
    PH_TRY(ph_memset_u32(app->a, 1, N, main));
    PH_TRY(ph_memset_u32(app->b, 2, N, app->side));
    PH_TRY(ph_stream_wait_stream(main, app->side));
    PH_TRY(ph_launch(main, app->sum, &(ph_launch_config){.grid = {N / 256}, .block = {256}}, &args,
                     sizeof args));
    return ph_event_record(app->end, main);
}

static ph_status replay(struct app *app, const char *what, uint32_t expected)
{
    uint32_t y;
    float ms;
    PH_TRY(ph_graph_replay(app->graph, app->main));
    PH_TRY(ph_memcpy(&y, app->y + N - 1, sizeof y, app->main));
    PH_TRY(ph_stream_synchronize(app->main));
    PH_TRY(ph_event_elapsed(&ms, app->begin, app->end));
    printf("%-26s y = %u, %.3f ms on the device\n", what, y, (double)ms);
    return y == expected ? PH_OK
                         : ph_fail(PH_ERROR_CALLER, "%s: y is %u, expected %u", what, y, expected);
}

static ph_status setup(struct app *app, const char *device)
{
    ph_kernel_source source = {
        .name = "sum", .cuda = sum_cuda, .host = sum, .args_size = sizeof(struct sum_args)};
    ph_event_options timing = {.timing = true, .external = true};
    PH_TRY(ph_device_open(&app->device, device, NULL));
    PH_TRY(ph_stream_create(&app->main, app->device, NULL));
    PH_TRY(ph_stream_create(&app->side, app->device, NULL));
    PH_TRY(ph_event_create(&app->begin, app->device, &timing));
    PH_TRY(ph_event_create(&app->end, app->device, &timing));
    PH_TRY(ph_kernel_create(&app->sum, app->device, &source));
    PH_TRY(PH_NEW(&app->a, N, app->main));
    PH_TRY(PH_NEW(&app->b, N, app->main));
    PH_TRY(PH_NEW(&app->y, N, app->main));
    return ph_graph_create(&app->graph, NULL);
}

static ph_status run(struct app *app, const char *device)
{
    const ph_record *record;
    char *dot;
    PH_TRY(setup(app, device));
    PH_TRY(ph_graph_capture(app->graph, app->main, NULL, step, app));
    PH_TRY(replay(app, "as captured: 1 + 2", 3));

    /* Nodes are found in the record: here, what fills b. */
    PH_TRY(ph_graph_record(&record, app->graph));
    ph_node_info node = {0};
    for (size_t i = 0; node.kind != PH_NODE_MEMSET || node.dst != app->b; i++)
        PH_TRY(ph_record_node(&node, record, i));
    PH_TRY(ph_graph_node_set_memset(app->graph, node.index, app->b, 40, N));
    PH_TRY(replay(app, "b filled with 40: 1 + 40", 41));
    PH_TRY(ph_graph_node_set_enabled(app->graph, node.index, false));
    PH_TRY(ph_memset_u32(app->b, 6, N, app->main));
    PH_TRY(replay(app, "that node disabled: 1 + 6", 7));

    PH_TRY(ph_record_dot(&dot, record, false));
    printf("\n%s", dot);
    ph_string_free(dot);
    return PH_OK;
}

int main(int argc, char **argv)
{
    struct app app = {0};
    ph_status st = run(&app, argc > 1 ? argv[1] : "auto");
    ph_graph_destroy(app.graph);
    ph_free(app.a, NULL);
    ph_free(app.b, NULL);
    ph_free(app.y, NULL);
    ph_kernel_release(app.sum);
    ph_event_destroy(app.begin);
    ph_event_destroy(app.end);
    ph_stream_destroy(app.side);
    ph_stream_destroy(app.main);
    ph_device_release(app.device);
    if (st != PH_OK)
        fprintf(stderr, "fork_join: %s\n", ph_error_last()->message);
    return st != PH_OK;
}
