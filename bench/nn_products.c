/* SPDX-License-Identifier: MIT */
/* bench/nn_products.c: what matrix products cost through ph_matmul, in f32, beside, on the host
 * device, the BLAS called directly; on a GPU also with ph_set_benchmark. Lines in giga
 * multiplications and additions a second.
 * PH_BENCH_DEVICE=host:threads=1 for one thread; PH_BLAS as in docs/reference/operators.md. */
#include "nn/timing.h"
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

typedef void sgemm_fn(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha,
                      const float *a, int lda, const float *b, int ldb, float beta, float *c,
                      int ldc);

typedef struct work {
    timing *t;
    sgemm_fn *sgemm;
    ph_tensor *a, *b;
    float *c;
    int m, n, k, times;
} work;

static ph_status ours(ph_stream *stream, void *user)
{
    const work *w = user;
    (void)stream;
    size_t mark = ph_tape_scope_begin(w->t->tape);
    for (int i = 0; i < w->times; i++) {
        size_t inner = ph_tape_scope_begin(w->t->tape);
        (void)ph_matmul(w->t->tape, w->a, w->b);
        ph_tape_scope_end(w->t->tape, inner, NULL, 0);
    }
    ph_tape_scope_end(w->t->tape, mark, NULL, 0);
    return ph_tape_status(w->t->tape);
}

static ph_status directly(ph_stream *stream, void *user)
{
    const work *w = user;
    (void)stream;
    for (int i = 0; i < w->times; i++)
        w->sgemm(101, 111, 111, w->m, w->n, w->k, 1, ph_tensor_data(w->a), w->k,
                 ph_tensor_data(w->b), w->n, 0, w->c, w->n);
    return PH_OK;
}

static void print(timing *t, const char *what, const char *side, const work *w,
                  timing_result result)
{
    timing_line(t, what, side, result);
    printf("    %-20s %-10s %8.1f GF/s\n", what, side, 2.0 * w->m * w->n * w->k / result.whole);
}

static void measure(timing *t, sgemm_fn *sgemm, int m, int n, int k)
{
    char what[64];
    work w = {.t = t, .sgemm = sgemm, .m = m, .n = n, .k = k};
    w.times = (int)(2e8 / ((double)m * n * k)) + 1;
    w.times = w.times > 1000 ? 1000 : w.times;
    (void)snprintf(what, sizeof what, "%dx%dx%d", m, n, k);
    w.a = ph_tensor_retain(ph_full(t->tape, PH_DTYPE_F32, PH_SHAPE(m, k), 0.5));
    w.b = ph_tensor_retain(ph_full(t->tape, PH_DTYPE_F32, PH_SHAPE(k, n), 0.25));
    w.c = malloc((size_t)m * (size_t)n * sizeof *w.c);
    OK(ph_tape_clear(t->tape));
    print(t, what, ph_benchmark() ? "benchmark" : "ph_matmul", &w,
          timing_run(t, 3, t->rounds, w.times, ours, &w));
    if (sgemm && w.c)
        print(t, what, "blas", &w, timing_run(t, 3, t->rounds, w.times, directly, &w));
    free(w.c);
    ph_tensor_release(w.a);
    ph_tensor_release(w.b);
}

int main(int argc, char **argv)
{
    static const int sizes[][3] = {
        {8, 8, 8},       {32, 32, 32},       {64, 64, 64},   {128, 128, 128}, {256, 256, 256},
        {512, 512, 512}, {1024, 1024, 1024}, {32, 256, 256}, {32, 64, 64},    {256, 3072, 768}};
    timing t;
    timing_open(&t, "nn_products", 15, argc, argv);
    /* The library's own way of loading it sets the environment; by now a product has done that. */
    ph_tensor *one = ph_full(t.tape, PH_DTYPE_F32, PH_SHAPE(1, 1), 1);
    (void)ph_matmul(t.tape, one, one);
    OK(ph_tape_clear(t.tape));
    const char *name = getenv("PH_BLAS");
    void *blas = t.gpu ? NULL : dlopen(name ? name : "libopenblas.so.0", RTLD_NOW | RTLD_NOLOAD);
    sgemm_fn *sgemm = NULL;
    if (blas)
        *(void **)&sgemm = dlsym(blas, "cblas_sgemm");
    size_t count = sizeof sizes / sizeof *sizes;
    for (size_t i = 0; i < count; i++)
        measure(&t, sgemm, sizes[i][0], sizes[i][1], sizes[i][2]);
    for (size_t i = timing_benchmark(&t) ? 0 : count; i < count; i++)
        measure(&t, NULL, sizes[i][0], sizes[i][1], sizes[i][2]);
    return timing_close(&t);
}
