/* SPDX-License-Identifier: MIT */
/* saxpy: the smallest whole program: a step of two launches, captured, replayed a thousand
 * times, checked. */
#include <phonograph/phonograph.h>
#include <stdio.h>
#include <stdlib.h>

/* The arguments of a kernel are one struct, a member per parameter, in order. */
struct saxpy_args {
    uint64_t n;
    float a;
    const float *x;
    float *y;
};

/* A kernel has a form for each kind of device. On a GPU a block's threads share its work; on the
 * host device one call runs a whole range of blocks. */
static const char saxpy_cuda[] =
    "extern \"C\" __global__ void saxpy(unsigned long long n, float a, const float *x, float *y)\n"
    "{\n"
    "    unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;\n"
    "    if (i < n) y[i] += a * x[i];\n"
    "}\n";

static void saxpy_host(const ph_block_range *range, const void *args)
{
    const struct saxpy_args *s = args;
    uint64_t end = range->end * range->block[0] < s->n ? range->end * range->block[0] : s->n;
    for (uint64_t i = range->begin * range->block[0]; i < end; i++)
        s->y[i] += s->a * s->x[i];
}

/* Optional: which parameters are device addresses, and which are not, so that the record need
 * not guess. */
static const ph_param saxpy_params[] = {PH_PARAM(struct saxpy_args, n, PH_PARAM_VALUE),
                                        PH_PARAM(struct saxpy_args, a, PH_PARAM_VALUE),
                                        PH_PARAM(struct saxpy_args, x, PH_PARAM_ADDRESS),
                                        PH_PARAM(struct saxpy_args, y, PH_PARAM_ADDRESS)};

static const ph_kernel_source saxpy_source = {.name = "saxpy",
                                              .cuda = saxpy_cuda,
                                              .host = saxpy_host,
                                              .args_size = sizeof(struct saxpy_args),
                                              .params = saxpy_params,
                                              .param_count = 4};

struct app {
    ph_device *device;
    ph_stream *stream;
    ph_kernel *saxpy;
    ph_graph *graph;
    float *x, *y; /* device memory */
    size_t n;
};

/* What is captured: any function that submits work to the stream. While it is captured nothing
 * runs. */
static ph_status step(ph_stream *stream, void *user)
{
    struct app *app = user;
    struct saxpy_args args = {app->n, 0.5f, app->x, app->y};
    ph_launch_config config = {.grid = {(uint32_t)((app->n + 255) / 256)}, .block = {256}};
    PH_TRY(ph_launch(stream, app->saxpy, &config, &args, sizeof args));
    return ph_launch(stream, app->saxpy, &config, &args, sizeof args);
}

static ph_status run(struct app *app, const char *device, float *host)
{
    PH_TRY(ph_device_open(&app->device, device, NULL));
    PH_TRY(ph_stream_create(&app->stream, app->device, NULL));
    PH_TRY(ph_kernel_create(&app->saxpy, app->device, &saxpy_source));
    PH_TRY(PH_NEW(&app->x, app->n, app->stream));
    PH_TRY(PH_NEW(&app->y, app->n, app->stream));
    PH_TRY(ph_memcpy(app->x, host, app->n * sizeof *host, app->stream));
    PH_TRY(ph_memset(app->y, 0, app->n * sizeof *host, app->stream));

    PH_TRY(ph_graph_create(&app->graph, NULL));
    PH_TRY(ph_graph_capture(app->graph, app->stream, NULL, step, app));
    for (int i = 0; i < 1000; i++)
        PH_TRY(ph_graph_replay(app->graph, app->stream));

    PH_TRY(ph_memcpy(host, app->y, app->n * sizeof *host, app->stream));
    return ph_stream_synchronize(app->stream);
}

/* 1000 replays of two launches, each of which adds 0.5 * 1: small numbers, so that the sum is
 * exact. */
static ph_status check(const float *host, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (host[i] != 1000.0f)
            return ph_fail(PH_ERROR_CALLER, "y[%zu] is %g, expected 1000", i, (double)host[i]);
    return PH_OK;
}

/* The argument, where there is one, names the device; "auto" is a GPU where there is one. */
int main(int argc, char **argv)
{
    struct app app = {.n = 1 << 16};
    float *host = malloc(app.n * sizeof *host);
    for (size_t i = 0; host && i < app.n; i++)
        host[i] = 1.0f;
    const char *device = argc > 1 ? argv[1] : "auto";
    ph_status st = host ? run(&app, device, host)
                        : ph_fail(PH_ERROR_HOST_MEMORY, "no memory for %zu numbers", app.n);
    if (st == PH_OK)
        st = check(host, app.n);

    /* Clean-up takes NULL and leaves the error record as it is. */
    ph_graph_destroy(app.graph);
    ph_free(app.y, app.stream);
    ph_free(app.x, app.stream);
    ph_kernel_release(app.saxpy);
    ph_stream_destroy(app.stream);
    ph_device_release(app.device);
    free(host);
    if (st != PH_OK)
        fprintf(stderr, "saxpy: %s\n", ph_error_last()->message);
    else
        printf("1000 replays of 2 launches: y = 1000 in all %zu places\n", app.n);
    return st != PH_OK;
}
