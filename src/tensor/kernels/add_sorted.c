/* SPDX-License-Identifier: MIT */
/* tensor/kernels/add_sorted.c: sums at repeated places in a fixed order: of a sorted index equal
 * elements are added in order, in runs of 32, and the runs in order. */
#include "tensor/kernels/add_sorted.h"
#include "base/half.h"
#include "tensor/backend/kernels.h"
#include "tensor/kernels/indexing_sort.h"
#include "tensor/tape/op.h"

enum {
    RUN = 32,
    JOBS = 4 /* of a block that adds runs */
};

/* ---- arguments ---- */
/* parts: [outer][2][ceil(total / RUN)][inner] in the dtype to compute in. tiles: of columns;
 * jobs: outer * total * tiles, of the elements; outer * ceil(total / RUN) * tiles, a block each,
 * of the parts. */
typedef struct add_sorted_args {
    const void *src, *keys, *order;
    void *out, *parts;
    int64_t total, n, inner, tiles, jobs, onto;
} add_sorted_args;
static const ph_param add_sorted_params[] = {PH_PARAM(add_sorted_args, src, PH_PARAM_ADDRESS),
                                             PH_PARAM(add_sorted_args, keys, PH_PARAM_ADDRESS),
                                             PH_PARAM(add_sorted_args, order, PH_PARAM_ADDRESS),
                                             PH_PARAM(add_sorted_args, out, PH_PARAM_ADDRESS),
                                             PH_PARAM(add_sorted_args, parts, PH_PARAM_ADDRESS),
                                             PH_PARAM(add_sorted_args, total, PH_PARAM_VALUE),
                                             PH_PARAM(add_sorted_args, n, PH_PARAM_VALUE),
                                             PH_PARAM(add_sorted_args, inner, PH_PARAM_VALUE),
                                             PH_PARAM(add_sorted_args, tiles, PH_PARAM_VALUE),
                                             PH_PARAM(add_sorted_args, jobs, PH_PARAM_VALUE),
                                             PH_PARAM(add_sorted_args, onto, PH_PARAM_VALUE)};
typedef struct add_parts_args {
    const void *keys, *parts;
    void *out;
    int64_t total, n, inner, tiles, jobs, onto;
} add_parts_args;
static const ph_param add_parts_params[] = {PH_PARAM(add_parts_args, keys, PH_PARAM_ADDRESS),
                                            PH_PARAM(add_parts_args, parts, PH_PARAM_ADDRESS),
                                            PH_PARAM(add_parts_args, out, PH_PARAM_ADDRESS),
                                            PH_PARAM(add_parts_args, total, PH_PARAM_VALUE),
                                            PH_PARAM(add_parts_args, n, PH_PARAM_VALUE),
                                            PH_PARAM(add_parts_args, inner, PH_PARAM_VALUE),
                                            PH_PARAM(add_parts_args, tiles, PH_PARAM_VALUE),
                                            PH_PARAM(add_parts_args, jobs, PH_PARAM_VALUE),
                                            PH_PARAM(add_parts_args, onto, PH_PARAM_VALUE)};

/* ---- adding on the host ---- */
typedef struct job {
    int64_t outer, slot, column, many;
} job;
static job job_of(int64_t number, int64_t total, int64_t tiles, int64_t inner, int64_t width)
{
    int64_t line = number / tiles, column = number % tiles * 32 * width;
    return (job){.outer = line / total,
                 .slot = line % total,
                 .column = column,
                 .many = inner - column < 32 * width ? inner - column : 32 * width};
}

/* Whether a run begins at slot; length: beyond RUN, more follow. */
static bool find_key_run(const uint32_t *keys, int64_t slot, int64_t total, int64_t *length,
                         bool *first)
{
    uint32_t key = keys[slot];
    *first = slot == 0 || keys[slot - 1] != key;
    if (!*first) {
        if (slot < RUN || keys[slot - RUN] != key)
            return false;
        int64_t low = 0, high = slot - RUN;
        while (low < high) {
            int64_t middle = low + (high - low) / 2;
            if (keys[middle] < key)
                low = middle + 1;
            else
                high = middle;
        }
        if ((slot - low) % RUN != 0)
            return false;
    }
    *length = 1;
    while (*length <= RUN && slot + *length < total && keys[slot + *length] == key)
        ++*length;
    return true;
}

#define OWN_GET(type, data, i)    ((const type *)(data))[i]
#define OWN_PUT(type, data, i, x) ((type *)(data))[i] = (x)
#define REAL                      float
#define OF(name)                  name##_f32
#define WIDTH                     4
#define GET(data, i)              OWN_GET(float, data, i)
#define PUT(data, i, x)           OWN_PUT(float, data, i, x)
#include "tensor/kernels/add_sorted_real.h"
#undef OF
#undef WIDTH
#undef GET
#undef PUT
#define OF(name)        name##_f16
#define WIDTH           8
#define GET(data, i)    ph__f16_get(OWN_GET(uint16_t, data, i))
#define PUT(data, i, x) OWN_PUT(uint16_t, data, i, ph__f16_put(x))
#include "tensor/kernels/add_sorted_real.h"
#undef OF
#undef GET
#undef PUT
#define OF(name)        name##_bf16
#define GET(data, i)    ph__bf16_get(OWN_GET(uint16_t, data, i))
#define PUT(data, i, x) OWN_PUT(uint16_t, data, i, ph__bf16_put(x))
#include "tensor/kernels/add_sorted_real.h"
#undef REAL
#undef OF
#undef WIDTH
#undef GET
#undef PUT
#define REAL            double
#define OF(name)        name##_f64
#define WIDTH           2
#define GET(data, i)    OWN_GET(double, data, i)
#define PUT(data, i, x) OWN_PUT(double, data, i, x)
#include "tensor/kernels/add_sorted_real.h"
#undef REAL
#undef OF
#undef WIDTH
#define REAL     uint32_t
#define OF(name) name##_i32
#define WIDTH    1
#undef GET
#undef PUT
#define GET(data, i)    OWN_GET(uint32_t, data, i)
#define PUT(data, i, x) OWN_PUT(uint32_t, data, i, x)
#include "tensor/kernels/add_sorted_real.h"
#undef REAL
#undef OF
#undef GET
#undef PUT
#define REAL            uint64_t
#define OF(name)        name##_i64
#define GET(data, i)    OWN_GET(uint64_t, data, i)
#define PUT(data, i, x) OWN_PUT(uint64_t, data, i, x)
#include "tensor/kernels/add_sorted_real.h"
#undef REAL
#undef OF
#undef GET
#undef PUT
#define REAL            uint8_t
#define OF(name)        name##_u8
#define GET(data, i)    OWN_GET(uint8_t, data, i)
#define PUT(data, i, x) OWN_PUT(uint8_t, data, i, x)
#include "tensor/kernels/add_sorted_real.h"

#define ADD_DEF(kernel, dtype, flags, parameters, rows)                                            \
    {                                                                                              \
        .name = "ph_" #kernel "_" #dtype,                                                          \
        .cuda = (const char *const[]){flags, rows, ph__text_indexing, NULL},                       \
        .host = kernel##_##dtype, .args_size = sizeof(kernel##_args), .params = parameters,        \
        .param_count = sizeof parameters / sizeof parameters[0]                                    \
    }
#define ADD_FLAGS(kernel, dtype, word, flag, more)                                                 \
    "#define T " word "\n#define KERNEL ph_" #kernel "_" #dtype "\n#define " flag "\n" more
#define ADD_DEFS(kernel, flag, parameters)                                                         \
    static ph__kernel_def kernel##_kernels[PH_DTYPE_U8] = {                                        \
        ADD_DEF(kernel, f32, ADD_FLAGS(kernel, f32, "f32", flag, ""), parameters, ph__text_rows),  \
        ADD_DEF(kernel, f64, ADD_FLAGS(kernel, f64, "f64", flag, ""), parameters, ph__text_rows),  \
        ADD_DEF(kernel, f16, ADD_FLAGS(kernel, f16, "f16", flag, ""), parameters, ph__text_rows),  \
        ADD_DEF(kernel, bf16, ADD_FLAGS(kernel, bf16, "bf16", flag, ""), parameters,               \
                ph__text_rows),                                                                    \
        ADD_DEF(kernel, i32, ADD_FLAGS(kernel, i32, "u32", flag, "#define WHOLE\n"), parameters,   \
                ""),                                                                               \
        ADD_DEF(kernel, i64, ADD_FLAGS(kernel, i64, "u64", flag, "#define WHOLE\n"), parameters,   \
                ""),                                                                               \
        ADD_DEF(kernel, u8, ADD_FLAGS(kernel, u8, "u8", flag, "#define WHOLE\n"), parameters,      \
                "")};
ADD_DEFS(add_sorted, "ADD_SORTED", add_sorted_params)
ADD_DEFS(add_parts, "ADD_PARTS", add_parts_params)
#define SEVEN(defs) &defs[0], &defs[1], &defs[2], &defs[3], &defs[4], &defs[5], &defs[6]
PH__KERNEL_FAMILY(add_sorted) = {SEVEN(add_sorted_kernels), SEVEN(add_parts_kernels), NULL};

/* ---- launching ---- */
bool ph__add_sorted(ph__op *op, const ph__sorted *sorted, const ph_tensor *src, ph_tensor *out,
                    int64_t outer, int64_t n, int64_t inner, bool onto)
{
    ph_dtype dtype = out->dtype;
    int64_t width = dtype >= PH_DTYPE_I32 ? 1 : 16 / (int64_t)ph_dtype_size(dtype),
            total = sorted->total;
    int64_t tiles = ph__ceil_div(inner, 32 * width), jobs = outer * total * tiles,
            runs = ph__ceil_div(total, RUN);
    bool several = total > RUN;
    if (jobs == 0 || n == 0)
        return true;
    ph_tensor *parts =
        ph__op_output(op, ph__compute_dtype(dtype), &PH_SHAPE(outer, 2, several ? runs : 0, inner));
    if (!parts)
        return false;
    add_sorted_args add = {.src = src->data,
                           .keys = sorted->keys->data,
                           .order = sorted->order->data,
                           .out = out->data,
                           .parts = parts->data,
                           .total = total,
                           .n = n,
                           .inner = inner,
                           .tiles = tiles,
                           .jobs = jobs,
                           .onto = onto};
    add_parts_args rest = {.keys = sorted->keys->data,
                           .parts = parts->data,
                           .out = out->data,
                           .total = total,
                           .n = n,
                           .inner = inner,
                           .tiles = tiles,
                           .jobs = outer * runs * tiles,
                           .onto = onto};
    return ph__op_launch(op, &add_sorted_kernels[dtype - PH_DTYPE_F32],
                         (uint64_t)ph__ceil_div(jobs, JOBS), 32 * JOBS, 0, &add) &&
           (!several || ph__op_launch(op, &add_parts_kernels[dtype - PH_DTYPE_F32],
                                      (uint64_t)rest.jobs, 256, 0, &rest));
}
