/* SPDX-License-Identifier: MIT */
/* bench/nn/raw_buckets.c: the graphs of bench/nn_buckets.c made by cuBLASLt and the driver
 * alone. */
#include "nn/raw_buckets.h"
#include "driver/cuda/load/abi_params.h"
#include "driver/cuda/load/load.h"
#include "driver/node.h"
#include "nn/timing.h"
#include "tensor/products/cublaslt_abi.h"
#include <dlfcn.h>
#include <phonograph/cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_WORKSPACE = 4096
};

typedef struct shape {
    void *layout; /* of input and output */
    ph__lt_algorithm algorithm;
    size_t workspace;
    ph__cu_graph graph;
    ph__cu_exec exec;
} shape;

struct raw_buckets {
    ph__lt_functions lt;
    void *handle, *descriptor, *weights; /* weights: their layout */
    ph_device *device;
    struct CUstream_st *stream;
    int layers, width, count;
    void **weight, **bias, *buffers[2], *workspace;
    shape *shapes;
};

static void check(int result, const char *what)
{
    if (result == 0)
        return;
    fprintf(stderr, "%s: %d\n", what, result);
    exit(1);
}
#define RAW(call) check((int)(call), #call)

static void *need(size_t bytes)
{
    void *memory = calloc(1, bytes);
    if (!memory)
        check(1, "calloc");
    return memory;
}

static void find_functions(ph__lt_functions *lt)
{
    const char *named = secure_getenv("PH_CUBLASLT");
    void *library = dlopen(named ? named : "libcublasLt.so.13", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        library = dlopen("libcublasLt.so.12", RTLD_NOW | RTLD_LOCAL);
    check(library == NULL, "no cuBLASLt");
#define FIND(name, result, parameters)                                                             \
    {                                                                                              \
        void *found = dlsym(library, "cublasLt" #name);                                            \
        check(found == NULL, "cublasLt" #name);                                                    \
        memcpy(&lt->name, &found, sizeof found);                                                   \
    }
    PH__LT_FUNCTIONS(FIND)
#undef FIND
}

/* y = x w' + bias, which cuBLASLt, that counts by columns, sees as w x. */
static void describe(raw_buckets *raw)
{
    const int32_t transposed = PH__LT_TRANSPOSED, as_it_is = PH__LT_AS_IT_IS,
                  epilogue = PH__LT_EPILOGUE_BIAS, type = PH__LT_F16;
    RAW(raw->lt.Create(&raw->handle));
    RAW(raw->lt.MatmulDescCreate(&raw->descriptor, PH__LT_COMPUTE_F32, PH__LT_F32));
    RAW(raw->lt.MatmulDescSetAttribute(raw->descriptor, PH__LT_DESC_TRANSPOSE_A, &transposed,
                                       sizeof transposed));
    RAW(raw->lt.MatmulDescSetAttribute(raw->descriptor, PH__LT_DESC_TRANSPOSE_B, &as_it_is,
                                       sizeof as_it_is));
    RAW(raw->lt.MatmulDescSetAttribute(raw->descriptor, PH__LT_DESC_EPILOGUE, &epilogue,
                                       sizeof epilogue));
    RAW(raw->lt.MatmulDescSetAttribute(raw->descriptor, PH__LT_DESC_BIAS_TYPE, &type, sizeof type));
    RAW(raw->lt.MatrixLayoutCreate(&raw->weights, PH__LT_F16, (uint64_t)raw->width,
                                   (uint64_t)raw->width, raw->width));
}

static void choose(raw_buckets *raw, shape *s, int rows)
{
    enum {
        CHOICES = 16
    };
    void *preference;
    ph__lt_choice choices[CHOICES];
    const uint64_t pretended = 4U << 20;
    int found = 0, at = 0;
    memset(choices, 0, sizeof choices);
    RAW(raw->lt.MatrixLayoutCreate(&s->layout, PH__LT_F16, (uint64_t)raw->width, (uint64_t)rows,
                                   raw->width));
    RAW(raw->lt.MatmulPreferenceCreate(&preference));
    RAW(raw->lt.MatmulPreferenceSetAttribute(preference, PH__LT_PREFERENCE_WORKSPACE, &pretended,
                                             sizeof pretended));
    RAW(raw->lt.MatmulAlgoGetHeuristic(raw->handle, raw->descriptor, raw->weights, s->layout,
                                       s->layout, s->layout, preference, CHOICES, choices, &found));
    while (at < found && (choices[at].state != PH__LT_OK || choices[at].workspace > MOST_WORKSPACE))
        at++;
    check(at >= found, "no algorithm");
    s->algorithm = choices[at].algorithm;
    s->workspace = choices[at].workspace;
    RAW(raw->lt.MatmulPreferenceDestroy(preference));
}

static void allocate(raw_buckets *raw, ph_stream *stream, int most)
{
    size_t width = (size_t)raw->width;
    raw->weight = need((size_t)raw->layers * sizeof *raw->weight);
    raw->bias = need((size_t)raw->layers * sizeof *raw->bias);
    for (int i = 0; i < raw->layers; i++) {
        RAW(ph_malloc(&raw->weight[i], width * width, 2, stream));
        RAW(ph_malloc(&raw->bias[i], width, 2, stream));
    }
    for (int i = 0; i < 2; i++)
        RAW(ph_malloc(&raw->buffers[i], (size_t)most * width, 2, stream));
    RAW(ph_malloc(&raw->workspace, MOST_WORKSPACE, 1, stream));
}

static void submit(raw_buckets *raw, const shape *s)
{
    static const float zero = 0, one = 1;
    for (int i = 0; i < raw->layers; i++) {
        RAW(raw->lt.MatmulDescSetAttribute(raw->descriptor, PH__LT_DESC_BIAS_POINTER, &raw->bias[i],
                                           sizeof raw->bias[i]));
        RAW(raw->lt.Matmul(raw->handle, raw->descriptor, &one, raw->weight[i], raw->weights,
                           raw->buffers[i % 2], s->layout, &zero, raw->buffers[(i + 1) % 2],
                           s->layout, raw->buffers[(i + 1) % 2], s->layout, &s->algorithm,
                           raw->workspace, s->workspace, raw->stream));
    }
}

raw_buckets *raw_buckets_open(ph_device *device, ph_stream *stream, int layers, int width,
                              const int *rows, int count)
{
    raw_buckets *raw = need(sizeof *raw);
    *raw = (raw_buckets){.device = device, .layers = layers, .width = width, .count = count};
    raw->shapes = need((size_t)count * sizeof *raw->shapes);
    find_functions(&raw->lt);
    RAW(ph_stream_cuda(&raw->stream, stream));
    int most = 0;
    for (int i = 0; i < count; i++)
        most = rows[i] > most ? rows[i] : most;
    allocate(raw, stream, most);
    RAW(ph_context_push_cuda(device));
    describe(raw);
    for (int i = 0; i < count; i++) {
        choose(raw, &raw->shapes[i], rows[i]);
        submit(raw, &raw->shapes[i]); /* what is loaded for the first time */
    }
    ph_context_pop_cuda(device);
    RAW(ph_stream_synchronize(stream));
    return raw;
}

void raw_buckets_make(raw_buckets *raw)
{
    RAW(ph_context_push_cuda(raw->device));
    for (int i = 0; i < raw->count; i++) {
        shape *s = &raw->shapes[i];
        ph__cu_instantiate_params params = {.flags = PH__INSTANTIATE_AUTO_FREE_ON_LAUNCH |
                                                     PH__INSTANTIATE_USE_NODE_PRIORITY};
        RAW(ph__cu.StreamBeginCapture(raw->stream, PH_CAPTURE_GLOBAL));
        submit(raw, s);
        RAW(ph__cu.StreamEndCapture(raw->stream, &s->graph));
        RAW(ph__cu.GraphInstantiateWithParams(&s->exec, s->graph, &params));
    }
    ph_context_pop_cuda(raw->device);
}

void raw_buckets_drop(raw_buckets *raw)
{
    for (int i = 0; i < raw->count; i++) {
        RAW(ph__cu.GraphExecDestroy(raw->shapes[i].exec));
        RAW(ph__cu.GraphDestroy(raw->shapes[i].graph));
    }
}

void raw_buckets_close(raw_buckets *raw)
{
    for (int i = 0; i < raw->layers; i++) {
        ph_free(raw->weight[i], NULL);
        ph_free(raw->bias[i], NULL);
    }
    for (int i = 0; i < 2; i++)
        ph_free(raw->buffers[i], NULL);
    ph_free(raw->workspace, NULL);
    for (int i = 0; i < raw->count; i++)
        RAW(raw->lt.MatrixLayoutDestroy(raw->shapes[i].layout));
    RAW(raw->lt.MatrixLayoutDestroy(raw->weights));
    RAW(raw->lt.MatmulDescDestroy(raw->descriptor));
    RAW(raw->lt.Destroy(raw->handle));
    free(raw->weight);
    free(raw->bias);
    free(raw->shapes);
    free(raw);
}
