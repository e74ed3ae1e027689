/* SPDX-License-Identifier: MIT */
/* tests/fake/cudnn_compile.c: makes programs of descriptors, and refuses graphs that do not fit
 * together. */
#include "fake/cudnn_inside.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* All programs, until the process ends. */
static struct {
    pthread_mutex_t lock;
    struct kept {
        fake_program program;
        struct kept *next;
    } * first;
} all = {.lock = PTHREAD_MUTEX_INITIALIZER};

static fake_program *new_program(void)
{
    struct kept *made = calloc(1, sizeof *made);
    if (!made)
        return NULL;
    pthread_mutex_lock(&all.lock);
    made->next = all.first;
    all.first = made;
    pthread_mutex_unlock(&all.lock);
    return &made->program;
}

__attribute__((destructor)) static void free_programs(void)
{
    while (all.first) {
        struct kept *gone = all.first;
        all.first = gone->next;
        free(gone);
    }
}

static bool read_tensor(fake_tensor *out, const fake_descriptor *of)
{
    int64_t count;
    const int64_t *id = fake_cudnn_values(of, PH__CUDNN_TENSOR_ID, &count);
    const int64_t *dim = fake_cudnn_values(of, PH__CUDNN_TENSOR_DIMENSIONS, &count);
    if (!id || !dim || count != 4)
        return false;
    const int64_t *stride = fake_cudnn_values(of, PH__CUDNN_TENSOR_STRIDES, &count);
    if (!stride || count != 4)
        return false;
    *out = (fake_tensor){.id = *id, .dtype = fake_cudnn_number(of, PH__CUDNN_TENSOR_DTYPE, -1)};
    out->between = fake_cudnn_values(of, PH__CUDNN_TENSOR_VIRTUAL, &count) != NULL;
    out->number = fake_cudnn_values(of, PH__CUDNN_TENSOR_BY_VALUE, &count) != NULL;
    memcpy(out->dim, dim, sizeof out->dim);
    memcpy(out->stride, stride, sizeof out->stride);
    for (int i = 0; i < 4; i++)
        if (out->dim[i] < 1 || out->stride[i] < 1)
            return false;
    return out->dtype >= 0;
}

/* The number of a tensor in the program; -1: the operation has none of that name, or it does not
 * fit. */
static int find_tensor(fake_program *p, const fake_descriptor *operation, int name)
{
    fake_tensor t;
    const fake_descriptor *of = fake_cudnn_part(operation, name);
    if (!of || !read_tensor(&t, of))
        return -1;
    for (int i = 0; i < p->tensors; i++)
        if (p->tensor[i].id == t.id)
            return memcmp(p->tensor[i].dim, t.dim, sizeof t.dim) == 0 ? i : -1;
    if (p->tensors == FAKE_CUDNN_TENSORS)
        return -1;
    p->tensor[p->tensors] = t;
    return p->tensors++;
}

static bool is_known(int mode)
{
    return mode == PH__CUDNN_ADD || mode == PH__CUDNN_SUBTRACT || mode == PH__CUDNN_MULTIPLY ||
           mode == PH__CUDNN_DIVIDE || mode == PH__CUDNN_EXP || mode == PH__CUDNN_LOG ||
           mode == PH__CUDNN_IDENTITY || mode == PH__CUDNN_GREATER_EQUAL ||
           mode == PH__CUDNN_INDEX || mode == PH__CUDNN_SELECT;
}

static bool repeats(const fake_tensor *small, const fake_tensor *large)
{
    for (int i = 0; i < 4; i++)
        if (small->dim[i] != large->dim[i] && small->dim[i] != 1)
            return false;
    return true;
}

static bool read_pointwise(fake_program *p, fake_step *s, const fake_descriptor *of)
{
    int64_t count;
    const fake_descriptor *by = fake_cudnn_part(of, PH__CUDNN_OPERATION_POINTWISE_BY);
    const int64_t *axis = fake_cudnn_values(by, PH__CUDNN_POINTWISE_AXIS, &count);
    s->how = fake_cudnn_number(by, PH__CUDNN_POINTWISE_MODE, -1);
    s->axis = axis ? (int)*axis : -1;
    s->x = find_tensor(p, of, PH__CUDNN_OPERATION_POINTWISE_X);
    s->b = find_tensor(p, of, PH__CUDNN_OPERATION_POINTWISE_B);
    s->t = find_tensor(p, of, PH__CUDNN_OPERATION_POINTWISE_T);
    s->y = find_tensor(p, of, PH__CUDNN_OPERATION_POINTWISE_Y);
    bool one = s->how == PH__CUDNN_EXP || s->how == PH__CUDNN_LOG || s->how == PH__CUDNN_IDENTITY ||
               s->how == PH__CUDNN_INDEX;
    p->atomic = p->atomic || s->how == PH__CUDNN_IDENTITY;
    return is_known(s->how) && fake_cudnn_number(by, PH__CUDNN_POINTWISE_COMPUTE, -1) >= 0 &&
           s->x >= 0 && s->y >= 0 && one == (s->b < 0) &&
           (s->how == PH__CUDNN_SELECT) == (s->t >= 0) &&
           (s->how != PH__CUDNN_INDEX || (s->axis >= 0 && s->axis < 4)) &&
           repeats(&p->tensor[s->x], &p->tensor[s->y]) &&
           repeats(&p->tensor[s->y], &p->tensor[s->x]) &&
           (s->b < 0 || repeats(&p->tensor[s->b], &p->tensor[s->y]));
}

static bool read_matmul(fake_program *p, fake_step *s, const fake_descriptor *of)
{
    s->x = find_tensor(p, of, PH__CUDNN_OPERATION_MATMUL_A);
    s->b = find_tensor(p, of, PH__CUDNN_OPERATION_MATMUL_B);
    s->y = find_tensor(p, of, PH__CUDNN_OPERATION_MATMUL_C);
    if (s->x < 0 || s->b < 0 || s->y < 0 || !fake_cudnn_part(of, PH__CUDNN_OPERATION_MATMUL_BY))
        return false;
    const int64_t *a = p->tensor[s->x].dim, *b = p->tensor[s->b].dim, *y = p->tensor[s->y].dim;
    return a[0] == y[0] && b[0] == y[0] && a[1] == y[1] && y[1] % b[1] == 0 && a[2] == y[2] &&
           a[3] == b[2] && b[3] == y[3] && p->tensor[s->x].dtype != PH__CUDNN_I32;
}

static bool read_reduction(fake_program *p, fake_step *s, const fake_descriptor *of)
{
    const fake_descriptor *by = fake_cudnn_part(of, PH__CUDNN_OPERATION_REDUCTION_BY);
    s->how = fake_cudnn_number(by, PH__CUDNN_REDUCTION_OPERATOR, -1);
    s->x = find_tensor(p, of, PH__CUDNN_OPERATION_REDUCTION_X);
    s->y = find_tensor(p, of, PH__CUDNN_OPERATION_REDUCTION_Y);
    bool fits = s->x >= 0 && s->y >= 0 && (s->how == PH__CUDNN_SUM || s->how == PH__CUDNN_MAX);
    for (int i = 0; fits && i < 4; i++)
        fits = p->tensor[s->x].dim[i] % p->tensor[s->y].dim[i] == 0;
    return fits;
}

static bool read_reshape(fake_program *p, fake_step *s, const fake_descriptor *of)
{
    s->x = find_tensor(p, of, PH__CUDNN_OPERATION_RESHAPE_X);
    s->y = find_tensor(p, of, PH__CUDNN_OPERATION_RESHAPE_Y);
    if (s->x < 0 || s->y < 0)
        return false;
    const fake_tensor *x = &p->tensor[s->x], *y = &p->tensor[s->y];
    return x->dim[2] == y->dim[3] && x->dim[3] == y->dim[2] && x->stride[2] == y->stride[3] &&
           x->stride[3] == y->stride[2];
}

static bool read_step(fake_program *p, fake_step *s, const fake_descriptor *of)
{
    *s = (fake_step){.type = of->type, .x = -1, .b = -1, .t = -1, .y = -1};
    if (!of->final)
        return false;
    switch (of->type) {
    case PH__CUDNN_OPERATION_POINTWISE:
        return read_pointwise(p, s, of);
    case PH__CUDNN_OPERATION_MATMUL:
        return read_matmul(p, s, of);
    case PH__CUDNN_OPERATION_REDUCTION:
        return read_reduction(p, s, of);
    case PH__CUDNN_OPERATION_RESHAPE:
        return read_reshape(p, s, of);
    default:
        return false;
    }
}

int fake_cudnn_compile(const fake_program **out, const fake_descriptor *operations)
{
    int64_t count;
    fake_descriptor *const *list = fake_cudnn_values(operations, PH__CUDNN_OPERATIONS_LIST, &count);
    fake_program *p = list && count <= FAKE_CUDNN_STEPS ? new_program() : NULL;
    if (!p)
        return FAKE_CUDNN_BAD;
    for (int64_t i = 0; i < count; i++)
        if (!read_step(p, &p->step[p->steps++], list[i]))
            return FAKE_CUDNN_UNSUPPORTED;
    *out = p;
    return PH__CUDNN_OK;
}
