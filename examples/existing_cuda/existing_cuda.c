/* SPDX-License-Identifier: MIT */
/* existing_cuda: a CUDA program that adopts phonograph.
 *
 * It has a stream, a kernel and a cuBLAS handle of its own, and a step that uses them: C = A B,
 * then B += rate C. Three lines, marked with +, turn the step into a graph; not one of its CUDA
 * calls changes. It runs 1000 steps and 1000 replays from the same start, and wants the same
 * bits. Then it prints what the record says of cuBLAS's kernels and of its own: their names, and
 * the buffers that their parameters lie in.
 *
 * A and C come from cuMemAlloc, B from ph_malloc. The record says of a word in B which allocation
 * that is, also later, when the memory is somebody else's. Of a word in A or C it says in which
 * allocation of other code it lies, as the driver tells it; their names only this program knows.
 * So memory moves over buffer by buffer, where one wants its inputs checked and its captures'
 * temporaries pooled; a capture and its replays need none of it.
 *
 * What a capture asks of a CUDA program: its own stream instead of the default one; nothing in
 * the step that waits for the device or allocates with cuMemAlloc; cuBLAS with a workspace of its
 * own, and called once before.
 *
 * Build, with the CUDA toolkit in /usr/local/cuda: cc existing_cuda.c -I/usr/local/cuda/include
 * $(pkg-config --cflags --libs phonograph) -L/usr/local/cuda/lib64
 * -L/usr/local/cuda/lib64/stubs -lcuda -lcublas */
#include <cublas_v2.h>
#include <cuda.h>
#include <phonograph/cuda.h>
#include <phonograph/phonograph.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    N = 256, /* rows and columns */
    STEPS = 1000,
    BLOCK = 256,
    WORKSPACE = 32 << 20
};
static const size_t matrix_bytes = (size_t)N * N * sizeof(float);

/* b[i] += rate * c[i] */
static const char kernel_text[] =
    ".version 6.0\n"
    ".target sm_50\n"
    ".address_size 64\n"
    ".visible .entry grow(.param .u64 b, .param .u64 c, .param .f32 rate)\n"
    "{\n"
    "    .reg .b32 %r<5>;\n"
    "    .reg .f32 %f<4>;\n"
    "    .reg .b64 %rd<6>;\n"
    "    ld.param.u64 %rd1, [b];\n"
    "    ld.param.u64 %rd2, [c];\n"
    "    ld.param.f32 %f1, [rate];\n"
    "    mov.u32 %r1, %ctaid.x;\n"
    "    mov.u32 %r2, %ntid.x;\n"
    "    mov.u32 %r3, %tid.x;\n"
    "    mad.lo.u32 %r4, %r1, %r2, %r3;\n"
    "    mul.wide.u32 %rd3, %r4, 4;\n"
    "    add.u64 %rd4, %rd1, %rd3;\n"
    "    add.u64 %rd5, %rd2, %rd3;\n"
    "    ld.global.f32 %f2, [%rd4];\n"
    "    ld.global.f32 %f3, [%rd5];\n"
    "    fma.rn.f32 %f2, %f3, %f1, %f2;\n"
    "    st.global.f32 [%rd4], %f2;\n"
    "    ret;\n"
    "}\n";

struct app {
    CUdevice gpu;
    CUcontext context;
    CUstream stream;
    CUmodule module;
    CUfunction grow;
    cublasHandle_t blas;
    CUdeviceptr a, c, workspace;
    float *b; /* device memory of phonograph's */
};

#define TRY_CUDA(call) PH_TRY(ph_fail_cuda((int)(call), #call))

/* ---- the program as it was ---- */
static CUresult old_step(struct app *app)
{
    const float one = 1, zero = 0;
    float rate = 0.001f;
    CUdeviceptr b = (CUdeviceptr)(uintptr_t)app->b;
    void *parameters[] = {&b, &app->c, &rate};
    if (cublasSgemm(app->blas, CUBLAS_OP_N, CUBLAS_OP_N, N, N, N, &one,
                    (const float *)(uintptr_t)app->a, N, app->b, N, &zero,
                    (float *)(uintptr_t)app->c, N) != CUBLAS_STATUS_SUCCESS)
        return CUDA_ERROR_UNKNOWN;
    return cuLaunchKernel(app->grow, N * N / BLOCK, 1, 1, BLOCK, 1, 1, 0, app->stream, parameters,
                          NULL);
}

static ph_status open_blas(struct app *app)
{
    if (cublasCreate(&app->blas) != CUBLAS_STATUS_SUCCESS)
        return ph_fail(PH_ERROR_CALLER, "cublasCreate failed");
    if (cublasSetStream(app->blas, app->stream) != CUBLAS_STATUS_SUCCESS)
        return ph_fail(PH_ERROR_CALLER, "cublasSetStream failed");
    /* A workspace that the program holds: what cuBLAS would take by itself is not the graph's to
     * keep. */
    if (cublasSetWorkspace(app->blas, (void *)(uintptr_t)app->workspace, WORKSPACE) !=
        CUBLAS_STATUS_SUCCESS)
        return ph_fail(PH_ERROR_CALLER, "cublasSetWorkspace failed");
    return PH_OK;
}

static ph_status open_cuda(struct app *app)
{
    TRY_CUDA(cuInit(0));
    TRY_CUDA(cuDeviceGet(&app->gpu, 0));
    TRY_CUDA(cuDevicePrimaryCtxRetain(&app->context, app->gpu));
    TRY_CUDA(cuCtxSetCurrent(app->context));
    TRY_CUDA(cuStreamCreate(&app->stream, CU_STREAM_NON_BLOCKING));
    TRY_CUDA(cuModuleLoadData(&app->module, kernel_text));
    TRY_CUDA(cuModuleGetFunction(&app->grow, app->module, "grow"));
    TRY_CUDA(cuMemAlloc(&app->a, matrix_bytes));
    TRY_CUDA(cuMemAlloc(&app->c, matrix_bytes));
    TRY_CUDA(cuMemAlloc(&app->workspace, WORKSPACE));
    return open_blas(app);
}

/* Each element of A B is a mean of B's rows, so that B grows slowly. */
static ph_status start(struct app *app, float *host)
{
    for (size_t i = 0; i < (size_t)N * N; i++)
        host[i] = 1.0f / N;
    TRY_CUDA(cuMemcpyHtoDAsync(app->a, host, matrix_bytes, app->stream));
    TRY_CUDA(cuStreamSynchronize(app->stream));
    for (size_t i = 0; i < (size_t)N * N; i++)
        host[i] = (float)(i % 101) / 101;
    TRY_CUDA(cuMemcpyHtoDAsync((CUdeviceptr)(uintptr_t)app->b, host, matrix_bytes, app->stream));
    return ph_fail_cuda((int)cuStreamSynchronize(app->stream), "cuStreamSynchronize");
}

static ph_status result(struct app *app, float *host)
{
    TRY_CUDA(cuMemcpyDtoHAsync(host, (CUdeviceptr)(uintptr_t)app->b, matrix_bytes, app->stream));
    return ph_fail_cuda((int)cuStreamSynchronize(app->stream), "cuStreamSynchronize");
}

/* ---- what the record says ---- */
static void print_word(const struct app *app, const ph_word *word)
{
    static const char *const kinds[] = {"a value", "suspected", "proved"};
    const struct {
        const char *name;
        uint64_t base;
        size_t bytes;
    } buffers[] = {{"A", app->a, matrix_bytes},
                   {"B", (uintptr_t)app->b, matrix_bytes},
                   {"C", app->c, matrix_bytes},
                   {"the workspace", app->workspace, WORKSPACE}};
    for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; i++)
        if (word->base && word->value - buffers[i].base < buffers[i].bytes)
            printf("        %-6s %s + %llu: an address (%s), in %zu bytes of %s\n", word->name,
                   buffers[i].name, (unsigned long long)(word->value - buffers[i].base),
                   kinds[word->kind], word->allocation_bytes,
                   word->foreign ? "other code's" : "ph_malloc");
}

static ph_status print_record(const struct app *app, ph_graph *graph)
{
    const ph_record *record;
    PH_TRY(ph_graph_record(&record, graph));
    printf("\nthe captured step: %zu nodes, %zu edges\n", ph_record_node_count(record),
           ph_record_edge_count(record));
    for (size_t n = 0; n < ph_record_node_count(record); n++) {
        ph_node_info node;
        ph_word word;
        PH_TRY(ph_record_node(&node, record, n));
        printf("    %zu: %s %s, %zu bytes of parameters\n", n, ph_node_kind_name(node.kind),
               node.name, node.args_size);
        for (size_t w = 0; w < node.word_count; w++) {
            PH_TRY(ph_record_word(&word, record, n, w));
            print_word(app, &word);
        }
    }
    return PH_OK;
}

/* ---- the adoption ---- */
/* What is captured is the old step. */
static ph_status step(ph_stream *stream, void *user)
{
    (void)stream;
    return ph_fail_cuda((int)old_step(user), "old_step");
}

static ph_status run(struct app *app, ph_stream **stream, ph_graph **graph, float *eager,
                     float *replayed)
{
    PH_TRY(open_cuda(app));
    PH_TRY(ph_stream_wrap_cuda(stream, app->stream)); /* + */
    PH_TRY(PH_NEW(&app->b, N * N, *stream));          /* was cuMemAlloc, and could be still */

    PH_TRY(start(app, eager));
    for (int i = 0; i < STEPS; i++)
        TRY_CUDA(old_step(app));
    PH_TRY(result(app, eager));

    PH_TRY(ph_graph_create(graph, NULL));                       /* + */
    PH_TRY(ph_graph_capture(*graph, *stream, NULL, step, app)); /* + */
    PH_TRY(start(app, replayed));
    for (int i = 0; i < STEPS; i++)
        PH_TRY(ph_graph_replay(*graph, *stream)); /* was old_step(app) */
    PH_TRY(result(app, replayed));

    if (memcmp(eager, replayed, matrix_bytes) != 0)
        return ph_fail(PH_ERROR_MISMATCH, "1000 steps and 1000 replays differ");
    printf("%d steps and %d replays: the same bits, B[0] = %.6f\n", STEPS, STEPS, (double)eager[0]);
    return print_record(app, *graph);
}

/* Everything of CUDA's goes after what phonograph made of it. */
static void close_cuda(struct app *app)
{
    if (app->blas)
        (void)cublasDestroy(app->blas);
    if (app->module)
        (void)cuModuleUnload(app->module);
    if (app->a)
        (void)cuMemFree(app->a);
    if (app->c)
        (void)cuMemFree(app->c);
    if (app->workspace)
        (void)cuMemFree(app->workspace);
    if (app->stream)
        (void)cuStreamDestroy(app->stream);
    if (app->context)
        (void)cuDevicePrimaryCtxRelease(app->gpu);
}

int main(void)
{
    struct app app = {0};
    ph_stream *stream = NULL;
    ph_graph *graph = NULL;
    float *eager = malloc(matrix_bytes), *replayed = malloc(matrix_bytes);
    ph_status st = eager && replayed ? run(&app, &stream, &graph, eager, replayed)
                                     : ph_fail(PH_ERROR_HOST_MEMORY, "no memory for two matrices");
    ph_graph_destroy(graph);
    ph_free(app.b, NULL);
    ph_stream_destroy(stream);
    close_cuda(&app);
    free(eager);
    free(replayed);
    if (st != PH_OK)
        fprintf(stderr, "existing_cuda: %s\n", ph_error_last()->message);
    return st != PH_OK;
}
