/* SPDX-License-Identifier: MIT */
/* tests/fake/cudnn_run.c: goes through a graph of cuDNN's operations, in f64, with what lies
 * between two operations rounded to its type. */
#include "base/half.h"
#include "fake/cudnn_inside.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int64_t count_of(const fake_tensor *t)
{
    return t->dim[0] * t->dim[1] * t->dim[2] * t->dim[3];
}

static double get(const void *at, int dtype, int64_t i)
{
    if (dtype == PH__CUDNN_F16)
        return (double)ph__f16_get(((const uint16_t *)at)[i]);
    if (dtype == PH__CUDNN_BF16)
        return (double)ph__bf16_get(((const uint16_t *)at)[i]);
    return (double)((const float *)at)[i];
}

static void put(void *at, int dtype, int64_t i, double x)
{
    if (dtype == PH__CUDNN_F16)
        ((uint16_t *)at)[i] = ph__f16_put((float)x);
    else if (dtype == PH__CUDNN_BF16)
        ((uint16_t *)at)[i] = ph__bf16_put((float)x);
    else
        ((float *)at)[i] = (float)x;
}

static double round_to(int dtype, double x)
{
    return dtype == PH__CUDNN_F16    ? (double)ph__f16_get(ph__f16_put((float)x))
           : dtype == PH__CUDNN_BF16 ? (double)ph__bf16_get(ph__bf16_put((float)x))
           : dtype == PH__CUDNN_F32  ? (double)(float)x
                                     : x;
}

/* Four indices of element n. */
static void index_of(int64_t out[4], const fake_tensor *t, int64_t n)
{
    for (int i = 3; i >= 0; i--) {
        out[i] = n % t->dim[i];
        n /= t->dim[i];
    }
}

/* Where element n of `of` is in t: t's dimensions of one element are repeated, and heads that are
 * fewer are shared by neighbours. */
static int64_t place_in(const fake_tensor *t, const fake_tensor *of, int64_t n)
{
    int64_t at[4], place = 0;
    index_of(at, of, n);
    for (int i = 0; i < 4; i++)
        place = place * t->dim[i] + at[i] * t->dim[i] / of->dim[i];
    return place;
}

static int64_t offset_of(const fake_tensor *t, int64_t n)
{
    int64_t at[4], offset = 0;
    index_of(at, t, n);
    for (int i = 0; i < 4; i++)
        offset += at[i] * t->stride[i];
    return offset;
}

/* ---- steps ---- */
static double apply(int how, double x, double b)
{
    switch (how) {
    case PH__CUDNN_ADD:
        return x + b;
    case PH__CUDNN_SUBTRACT:
        return x - b;
    case PH__CUDNN_MULTIPLY:
        return x * b;
    case PH__CUDNN_DIVIDE:
        return x / b;
    case PH__CUDNN_EXP:
        return exp(x);
    case PH__CUDNN_LOG:
        return log(x);
    case PH__CUDNN_IDENTITY:
        return x;
    default:
        return x >= b;
    }
}

static void step_pointwise(const fake_program *p, const fake_step *s, double *const *v)
{
    const fake_tensor *y = &p->tensor[s->y], *b = &p->tensor[s->b < 0 ? s->x : s->b];
    for (int64_t n = 0; n < count_of(y); n++) {
        int64_t at[4];
        double x = v[s->x][n], other = s->b < 0 ? 0 : v[s->b][place_in(b, y, n)];
        index_of(at, y, n);
        v[s->y][n] = s->how == PH__CUDNN_INDEX    ? (double)at[s->axis]
                     : s->how == PH__CUDNN_SELECT ? (v[s->t][n] != 0 ? x : other)
                                                  : apply(s->how, x, other);
    }
}

static void step_matmul(const fake_program *p, const fake_step *s, double *const *v)
{
    const fake_tensor *a = &p->tensor[s->x], *b = &p->tensor[s->b], *y = &p->tensor[s->y];
    int64_t m = y->dim[2], n = y->dim[3], k = a->dim[3];
    for (int64_t batch = 0; batch < y->dim[0]; batch++)
        for (int64_t head = 0; head < y->dim[1]; head++) {
            int64_t other = batch * b->dim[1] + head * b->dim[1] / y->dim[1];
            const double *x = v[s->x] + (batch * y->dim[1] + head) * m * k,
                         *w = v[s->b] + other * k * n;
            double *to = v[s->y] + (batch * y->dim[1] + head) * m * n;
            memset(to, 0, (size_t)(m * n) * sizeof *to);
            for (int64_t i = 0; i < m; i++)
                for (int64_t l = 0; l < k; l++)
                    for (int64_t j = 0; j < n; j++)
                        to[i * n + j] += x[i * k + l] * w[l * n + j];
        }
}

static void step_reduce(const fake_program *p, const fake_step *s, double *const *v)
{
    const fake_tensor *x = &p->tensor[s->x], *y = &p->tensor[s->y];
    for (int64_t n = 0; n < count_of(y); n++)
        v[s->y][n] = s->how == PH__CUDNN_MAX ? -INFINITY : 0;
    for (int64_t n = 0; n < count_of(x); n++) {
        double *to = &v[s->y][place_in(y, x, n)];
        *to = s->how == PH__CUDNN_SUM ? *to + v[s->x][n] : *to > v[s->x][n] ? *to : v[s->x][n];
    }
}

static void step_transpose(const fake_program *p, const fake_step *s, double *const *v)
{
    const fake_tensor *x = &p->tensor[s->x];
    int64_t rows = x->dim[2], columns = x->dim[3];
    for (int64_t n = 0; n < count_of(x); n++) {
        int64_t matrix = n / (rows * columns), i = n / columns % rows, j = n % columns;
        v[s->y][matrix * rows * columns + j * rows + i] = v[s->x][n];
    }
}

/* ---- a call ---- */
static void *address_of(const fake_cudnn_call *call, int64_t id)
{
    for (int64_t i = 0; i < call->count; i++)
        if (call->id[i] == id)
            return call->address[i];
    return NULL;
}

static void read_tensor(const fake_cudnn_call *call, const fake_tensor *t, double *to)
{
    const void *at = address_of(call, t->id);
    for (int64_t i = 0; t->number && i < call->count; i++)
        if (call->id[i] == t->id)
            to[0] = (double)call->number[i];
    for (int64_t n = 0; !t->number && !t->between && n < count_of(t); n++)
        to[n] = get(at, t->dtype, offset_of(t, n));
}

static void do_step(const fake_cudnn_call *call, const fake_step *s, double *const *v)
{
    const fake_program *p = call->program;
    const fake_tensor *y = &p->tensor[s->y];
    if (s->type == PH__CUDNN_OPERATION_MATMUL)
        step_matmul(p, s, v);
    else if (s->type == PH__CUDNN_OPERATION_REDUCTION)
        step_reduce(p, s, v);
    else if (s->type == PH__CUDNN_OPERATION_RESHAPE)
        step_transpose(p, s, v);
    else
        step_pointwise(p, s, v);
    for (int64_t n = 0; n < count_of(y); n++)
        v[s->y][n] = round_to(y->dtype, v[s->y][n]);
    for (int64_t n = 0; !y->between && n < count_of(y); n++)
        put(address_of(call, y->id), y->dtype, offset_of(y, n), v[s->y][n]);
}

/* One block does all; it spoils the workspace. */
void fake_cudnn_run(const ph_block_range *range, const void *args)
{
    const fake_cudnn_call *call = args;
    const fake_program *p = call->program;
    double *v[FAKE_CUDNN_TENSORS] = {NULL};
    bool room = range->begin == 0;
    for (int i = 0; room && i < p->tensors; i++)
        room = (v[i] = malloc((size_t)count_of(&p->tensor[i]) * sizeof *v[i] + 1)) != NULL;
    for (int i = 0; room && i < p->tensors; i++)
        read_tensor(call, &p->tensor[i], v[i]);
    for (int i = 0; room && i < p->steps; i++)
        do_step(call, &p->step[i], v);
    if (room && call->workspace)
        memset(call->workspace, 0xff, FAKE_CUDNN_WORKSPACE);
    for (int i = 0; i < p->tensors; i++)
        free(v[i]);
}
