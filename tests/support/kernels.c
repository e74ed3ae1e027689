/* SPDX-License-Identifier: MIT */
/* tests/support/kernels.c: the kernels of the tests. In CUDA C there are no headers, and a
 * parameter for each member of the argument struct. */
#include "support/kernels.h"
#include "fake/fake_cuda.h"

#define GLOBAL "extern \"C\" __global__ void "
#define INDEX  "unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x; "

/* The elements of a range of blocks: [*begin, *end), cut at n. */
static void elements(const ph_block_range *range, uint64_t n, uint64_t *begin, uint64_t *end)
{
    *begin = range->begin * range->block[0];
    *end = range->end * range->block[0];
    *begin = *begin < n ? *begin : n;
    *end = *end < n ? *end : n;
}

/* ---- of a t_world ---- */
static void fill_i32(const ph_block_range *range, const void *args)
{
    const struct t_fill_i32 *p = args;
    uint64_t i, end;
    for (elements(range, p->n, &i, &end); i < end; i++)
        p->y[i] = p->value;
}
static const char fill_i32_cuda[] = GLOBAL
    "fill_i32(unsigned long long n, int *y, int value) { " INDEX "if (i < n) y[i] = value; }";

static void add_i32(const ph_block_range *range, const void *args)
{
    const struct t_add_i32 *p = args;
    uint64_t i, end;
    for (elements(range, p->n, &i, &end); i < end; i++)
        p->y[i] = (int32_t)((uint32_t)p->x[i] + (uint32_t)p->value); /* as on a GPU */
}
static const char add_i32_cuda[] =
    GLOBAL "add_i32(unsigned long long n, const int *x, int *y, int value) { " INDEX
           "if (i < n) y[i] = x[i] + value; }";

static void fill_f32(const ph_block_range *range, const void *args)
{
    const struct t_fill_f32 *p = args;
    uint64_t i, end;
    for (elements(range, p->n, &i, &end); i < end; i++)
        p->y[i] = p->value;
}
static const char fill_f32_cuda[] = GLOBAL
    "fill_f32(unsigned long long n, float *y, float value) { " INDEX "if (i < n) y[i] = value; }";

static void axpy_f32(const ph_block_range *range, const void *args)
{
    const struct t_axpy_f32 *p = args;
    uint64_t i, end;
    for (elements(range, p->n, &i, &end); i < end; i++)
        p->y[i] += p->a * p->x[i];
}
static const char axpy_f32_cuda[] =
    GLOBAL "axpy_f32(unsigned long long n, const float *x, float *y, float a) { " INDEX
           "if (i < n) y[i] += a * x[i]; }";

/* ---- of random programs ---- */
static void mix(const ph_block_range *range, const void *args)
{
    const struct t_mix *p = args;
    uint64_t i, end;
    for (elements(range, p->n, &i, &end); i < end; i++)
        p->y[i] = 31 * p->y[i] + p->x[(i + p->shift) % p->n] + p->value;
}
static const char mix_cuda[] =
    GLOBAL "mix(unsigned long long n, const unsigned *x, unsigned *y, unsigned value, unsigned "
           "shift) { " INDEX "if (i < n) y[i] = 31 * y[i] + x[(i + shift) % n] + value; }";

static void mix_racy(const ph_block_range *range, const void *args)
{
    const struct t_mix *p = args;
    uint64_t i, end;
    for (elements(range, p->n, &i, &end); i < end; i++) {
        uint32_t x = __atomic_load_n(&p->x[(i + p->shift) % p->n], __ATOMIC_RELAXED);
        uint32_t y = __atomic_load_n(&p->y[i], __ATOMIC_RELAXED);
        __atomic_store_n(&p->y[i], 31 * y + x + p->value, __ATOMIC_RELAXED);
    }
}

/* ---- the others ---- */
static void negate(const ph_block_range *range, const void *args)
{
    const struct t_add_i32 *p = args;
    int32_t *scratch = range->shared;
    for (uint64_t i = range->begin; i < range->end && i < p->n; i++) {
        *scratch = p->x[i];
        p->y[i] = p->value - *scratch;
    }
}
static const char negate_cuda[] =
    "extern __shared__ int scratch[];\n" GLOBAL
    "negate(unsigned long long n, const int *x, int *y, int value) { " INDEX
    "if (i < n) { scratch[threadIdx.x] = x[i]; y[i] = value - scratch[threadIdx.x]; } }";

static void add_one(const ph_block_range *range, const void *args)
{
    const struct t_add_one *p = args;
    (void)range;
    ++*p->y;
}
static const char add_one_cuda[] = GLOBAL "add_one(int *y) { ++*y; }";

static void put(const ph_block_range *range, const void *args)
{
    const struct t_put *p = args;
    (void)range;
    *p->y = (int32_t)p->value;
}
static const char put_cuda[] = GLOBAL "put(int *y, long long value) { *y = (int)value; }";

static void copy_first(const ph_block_range *range, const void *args)
{
    const struct t_copy_first *p = args;
    (void)range;
    *p->y = *p->x;
}
static const char copy_first_cuda[] = GLOBAL "copy_first(const int *x, int *y) { *y = *x; }";

static void ignore(const ph_block_range *range, const void *args)
{
    (void)range;
    (void)args;
}
static const char ignore_words_cuda[] =
    "struct words { unsigned at[7]; };\n" GLOBAL "ignore_words(words all) { }";
static const char ignore_bytes_cuda[] =
    "struct bytes { unsigned char at[33]; };\n" GLOBAL "ignore_bytes(bytes all) { }";

/* ---- the table ---- */
#define VALUE(type, member)   PH_PARAM(struct type, member, PH_PARAM_VALUE)
#define ADDRESS(type, member) PH_PARAM(struct type, member, PH_PARAM_ADDRESS)
static const ph_param fill_i32_params[] = {VALUE(t_fill_i32, n), ADDRESS(t_fill_i32, y),
                                           VALUE(t_fill_i32, value)};
static const ph_param add_i32_params[] = {VALUE(t_add_i32, n), ADDRESS(t_add_i32, x),
                                          ADDRESS(t_add_i32, y), VALUE(t_add_i32, value)};
static const ph_param fill_f32_params[] = {VALUE(t_fill_f32, n), ADDRESS(t_fill_f32, y),
                                           VALUE(t_fill_f32, value)};
static const ph_param axpy_f32_params[] = {VALUE(t_axpy_f32, n), ADDRESS(t_axpy_f32, x),
                                           ADDRESS(t_axpy_f32, y), VALUE(t_axpy_f32, a)};
static const ph_param mix_params[] = {ADDRESS(t_mix, x), ADDRESS(t_mix, y)};
static const ph_param negate_params[] = {ADDRESS(t_add_i32, x), ADDRESS(t_add_i32, y)};
static const ph_param put_params[] = {ADDRESS(t_put, y), VALUE(t_put, value)};

#define FORMS(function, bytes)                                                                     \
    .name = #function, .cuda = function##_cuda, .host = function, .args_size = (bytes)
#define TYPED(function, type, parameters)                                                          \
    {                                                                                              \
        FORMS(function, sizeof(struct type)),                                                      \
            .params = parameters, .param_count = sizeof parameters / sizeof parameters[0]          \
    }
#define UNTYPED(function, bytes)                                                                   \
    {                                                                                              \
        FORMS(function, bytes)                                                                     \
    }

const ph_kernel_source t_kernel_sources[T_KERNELS] = {
    [T_KERNEL_FILL_I32] = TYPED(fill_i32, t_fill_i32, fill_i32_params),
    [T_KERNEL_ADD_I32] = TYPED(add_i32, t_add_i32, add_i32_params),
    [T_KERNEL_FILL_F32] = TYPED(fill_f32, t_fill_f32, fill_f32_params),
    [T_KERNEL_AXPY_F32] = TYPED(axpy_f32, t_axpy_f32, axpy_f32_params),
    [T_KERNEL_MIX] = TYPED(mix, t_mix, mix_params),
    [T_KERNEL_MIX_RACY] = {.name = "mix",
                           .cuda = mix_cuda,
                           .host = mix_racy,
                           .args_size = sizeof(struct t_mix),
                           .params = mix_params,
                           .param_count = 2},
    [T_KERNEL_NEGATE] = TYPED(negate, t_add_i32, negate_params),
    [T_KERNEL_ADD_ONE] = UNTYPED(add_one, sizeof(struct t_add_one)),
    [T_KERNEL_PUT] = TYPED(put, t_put, put_params),
    [T_KERNEL_COPY_FIRST] = UNTYPED(copy_first, sizeof(struct t_copy_first)),
    [T_KERNEL_IGNORE_WORDS] = {.name = "ignore_words",
                               .cuda = ignore_words_cuda,
                               .host = ignore,
                               .args_size = 28},
    [T_KERNEL_IGNORE_BYTES] = {.name = "ignore_bytes",
                               .cuda = ignore_bytes_cuda,
                               .host = ignore,
                               .args_size = 33},
};

void t_register_kernels(void)
{
    for (int id = 0; id < T_KERNELS; id++)
        fake_cuda_register(&t_kernel_sources[id]);
}
