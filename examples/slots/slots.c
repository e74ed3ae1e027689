/* SPDX-License-Identifier: MIT */
/* slots: one graph replayed on other buffers: found by declared parameters, then proved by a
 * second capture. */
#include <phonograph/phonograph.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    COUNT = 1 << 16,
    BYTES = COUNT * sizeof(float),
    PAIRS = 3
};

struct twice_args {
    uint64_t n;
    const float *in;
    float *out;
};

static const char twice_cuda[] =
    "extern \"C\" __global__ void twice(unsigned long long n, const float *in, float *out)\n"
    "{\n"
    "    unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;\n"
    "    if (i < n) out[i] = 2.0f * in[i];\n"
    "}\n";

static void twice_host(const ph_block_range *range, const void *args)
{
    const struct twice_args *t = args;
    uint64_t end = range->end * range->block[0] < t->n ? range->end * range->block[0] : t->n;
    for (uint64_t i = range->begin * range->block[0]; i < end; i++)
        t->out[i] = 2.0f * t->in[i];
}

static const ph_param twice_params[] = {PH_PARAM(struct twice_args, n, PH_PARAM_VALUE),
                                        PH_PARAM(struct twice_args, in, PH_PARAM_ADDRESS),
                                        PH_PARAM(struct twice_args, out, PH_PARAM_ADDRESS)};

/* The same kernel with its parameters declared, and as another library would launch it: as bytes
 * that say nothing of themselves. */
static const ph_kernel_source typed_source = {.name = "twice",
                                              .cuda = twice_cuda,
                                              .host = twice_host,
                                              .args_size = sizeof(struct twice_args),
                                              .params = twice_params,
                                              .param_count = 3};
static const ph_kernel_source untyped_source = {.name = "twice",
                                                .cuda = twice_cuda,
                                                .host = twice_host,
                                                .args_size = sizeof(struct twice_args)};

typedef struct pair {
    float *in, *out;
} pair;

struct app {
    ph_device *device;
    ph_stream *stream;
    ph_kernel *typed, *untyped;
    ph_graph *found, *proved, *shifted;
    pair pairs[PAIRS];
    void *block; /* of the captures that only prove */
    float *host;
};

/* What is captured: one launch on one pair of buffers. */
struct work {
    ph_kernel *kernel;
    pair buffers;
};

static ph_status submit(ph_stream *stream, void *user)
{
    const struct work *w = user;
    struct twice_args args = {COUNT, w->buffers.in, w->buffers.out};
    ph_launch_config config = {.grid = {COUNT / 256}, .block = {256}};
    return ph_launch(stream, w->kernel, &config, &args, sizeof args);
}

static ph_status capture(struct app *app, ph_graph **graph, ph_kernel *kernel, pair buffers)
{
    struct work work = {kernel, buffers};
    PH_TRY(ph_graph_create(graph, NULL));
    return ph_graph_capture(*graph, app->stream, NULL, submit, &work);
}

/* Replays on buffers that the graph was not captured with, and looks at what came out. */
static ph_status replay_on(struct app *app, ph_graph *graph, size_t in, size_t out, pair buffers,
                           float value)
{
    for (size_t i = 0; i < COUNT; i++)
        app->host[i] = value;
    PH_TRY(ph_memcpy(buffers.in, app->host, BYTES, app->stream));
    const ph_slot_value values[] = {{in, buffers.in}, {out, buffers.out}};
    PH_TRY(ph_graph_replay_with(graph, app->stream, values, 2));
    PH_TRY(ph_memcpy(app->host, buffers.out, BYTES, app->stream));
    PH_TRY(ph_stream_synchronize(app->stream));
    for (size_t i = 0; i < COUNT; i++)
        if (app->host[i] != 2.0f * value)
            return ph_fail(PH_ERROR_CALLER, "out[%zu] is %g, expected %g", i, (double)app->host[i],
                           (double)(2.0f * value));
    return PH_OK;
}

/* Declared parameters: the record knows which words are addresses, so the places are found. */
static ph_status find(struct app *app)
{
    size_t in, out;
    PH_TRY(capture(app, &app->found, app->typed, app->pairs[0]));
    PH_TRY(ph_graph_slot_find(&in, app->found, "in", app->pairs[0].in, BYTES, NULL));
    PH_TRY(ph_graph_slot_find(&out, app->found, "out", app->pairs[0].out, BYTES, NULL));
    for (size_t i = 0; i < PAIRS; i++)
        PH_TRY(replay_on(app, app->found, in, out, app->pairs[i], (float)(i + 1)));
    printf("found: one graph, %d pairs of buffers\n", PAIRS);
    return PH_OK;
}

/* Where a buffer lies in the capture that only proves: at a place in its page that has all bits
 * from the replays' alignment on otherwise than the buffer itself. */
static void *opposite(void *block, const void *of)
{
    uintptr_t page = ((uintptr_t)block + 4095) / 4096 * 4096;
    return (void *)(page + (~(uintptr_t)of & (4096 - 256)));
}

/* Parameters that nobody declared: what differs between two captures by a buffer's distance is
 * that buffer's. */
static ph_status prove(struct app *app)
{
    const pair *a = &app->pairs[0];
    char *block = app->block;
    pair b = {opposite(block, a->in), opposite(block + BYTES + 3 * 4096, a->out)};
    size_t slot;
    ph_slot_proof proofs[2];
    PH_TRY(capture(app, &app->proved, app->untyped, *a));
    if (ph_graph_slot_find(&slot, app->proved, "in", a->in, BYTES, NULL) != PH_ERROR_UNSUPPORTED)
        return ph_fail(PH_ERROR_CALLER, "an address of an untyped launch was taken for certain");
    PH_TRY(capture(app, &app->shifted, app->untyped, b));
    const void *in = b.in, *out = b.out; /* one address for each capture: here there is one */
    const ph_slot_span spans[] = {
        {.name = "in", .base = a->in, .shifted = &in, .bytes = BYTES, .alignment = 256},
        {.name = "out", .base = a->out, .shifted = &out, .bytes = BYTES, .alignment = 256}};
    PH_TRY(ph_graph_slot_prove(proofs, app->proved, &app->shifted, 1, spans, 2));
    /* a program for all cases would copy into a->in instead */
    for (size_t i = 0; i < 2; i++)
        if (proofs[i].slot == PH_SLOT_NONE)
            return ph_fail(PH_ERROR_CALLER, "%s is not proved: %s", spans[i].name,
                           proofs[i].reason);
    PH_TRY(ph_graph_reset(app->shifted));
    for (size_t i = 0; i < PAIRS; i++)
        PH_TRY(replay_on(app, app->proved, proofs[0].slot, proofs[1].slot, app->pairs[i],
                         (float)(i + 1)));
    printf("proved: %zu and %zu uses, the same %d pairs\n", proofs[0].uses, proofs[1].uses, PAIRS);
    return PH_OK;
}

/* The two buffers of the second capture must be moved by different distances: prove has some
 * pages more between them than lie between the first capture's. */
static ph_status run(struct app *app, const char *device)
{
    PH_TRY(ph_device_open(&app->device, device, NULL));
    PH_TRY(ph_stream_create(&app->stream, app->device, NULL));
    PH_TRY(ph_kernel_create(&app->typed, app->device, &typed_source));
    PH_TRY(ph_kernel_create(&app->untyped, app->device, &untyped_source));
    for (size_t i = 0; i < PAIRS; i++) {
        PH_TRY(PH_NEW(&app->pairs[i].in, COUNT, app->stream));
        PH_TRY(PH_NEW(&app->pairs[i].out, COUNT, app->stream));
    }
    PH_TRY(ph_malloc(&app->block, 2 * (size_t)BYTES + 8 * 4096, 1, app->stream));
    PH_TRY(find(app));
    return prove(app);
}

int main(int argc, char **argv)
{
    struct app app = {.host = malloc(BYTES)};
    ph_status st = app.host ? run(&app, argc > 1 ? argv[1] : "auto")
                            : ph_fail(PH_ERROR_HOST_MEMORY, "no host memory");

    ph_graph_destroy(app.shifted);
    ph_graph_destroy(app.proved);
    ph_graph_destroy(app.found);
    for (size_t i = 0; i < PAIRS; i++) {
        ph_free(app.pairs[i].out, app.stream);
        ph_free(app.pairs[i].in, app.stream);
    }
    ph_free(app.block, app.stream);
    ph_kernel_release(app.untyped);
    ph_kernel_release(app.typed);
    ph_stream_destroy(app.stream);
    ph_device_release(app.device);
    free(app.host);
    if (st != PH_OK)
        fprintf(stderr, "slots: %s\n", ph_error_last()->message);
    return st != PH_OK;
}
