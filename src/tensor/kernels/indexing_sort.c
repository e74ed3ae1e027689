/* SPDX-License-Identifier: MIT */
/* tensor/kernels/indexing_sort.c: the elements of an index are sorted by where they point, stably:
 * for up to RANK_LIMIT elements by a comparison of each with each; for more, by a pass of three
 * kernels over them for each 8 bits of the largest place. */
#include "tensor/kernels/indexing_sort.h"
#include "tensor/backend/kernels.h"
#include "tensor/kernels/indexing_kernels.h"
#include "tensor/tape/op.h"

enum {
    RANK_LIMIT = 2048,
    RANK_BLOCK = 8,
    TILE = 2048, /* keys of a block of a pass */
    DIGITS = 256
};

/* ---- arguments ---- */
typedef struct keys_args {
    const void *index;
    void *keys, *order;
    ph__places at;
    int64_t total, wide, none;
} keys_args;
static const ph_param keys_params[] = {
    PH_PARAM(keys_args, index, PH_PARAM_ADDRESS), PH_PARAM(keys_args, keys, PH_PARAM_ADDRESS),
    PH_PARAM(keys_args, order, PH_PARAM_ADDRESS), PH_PARAM(keys_args, at, PH_PARAM_VALUE),
    PH_PARAM(keys_args, total, PH_PARAM_VALUE),   PH_PARAM(keys_args, wide, PH_PARAM_VALUE),
    PH_PARAM(keys_args, none, PH_PARAM_VALUE)};
typedef struct rank_args {
    const void *keys;
    void *sorted, *order;
    int64_t total;
} rank_args;
static const ph_param rank_params[] = {
    PH_PARAM(rank_args, keys, PH_PARAM_ADDRESS), PH_PARAM(rank_args, sorted, PH_PARAM_ADDRESS),
    PH_PARAM(rank_args, order, PH_PARAM_ADDRESS), PH_PARAM(rank_args, total, PH_PARAM_VALUE)};
/* counts: [digit][tile] */
typedef struct count_args {
    const void *keys;
    void *counts;
    int64_t total, shift, tiles;
} count_args;
static const ph_param count_params[] = {
    PH_PARAM(count_args, keys, PH_PARAM_ADDRESS), PH_PARAM(count_args, counts, PH_PARAM_ADDRESS),
    PH_PARAM(count_args, total, PH_PARAM_VALUE), PH_PARAM(count_args, shift, PH_PARAM_VALUE),
    PH_PARAM(count_args, tiles, PH_PARAM_VALUE)};
typedef struct offsets_args {
    void *counts;
    int64_t total;
} offsets_args;
static const ph_param offsets_params[] = {PH_PARAM(offsets_args, counts, PH_PARAM_ADDRESS),
                                          PH_PARAM(offsets_args, total, PH_PARAM_VALUE)};
typedef struct move_args {
    const void *keys, *order, *offsets;
    void *keys_out, *order_out;
    int64_t total, shift, tiles;
} move_args;
static const ph_param move_params[] = {PH_PARAM(move_args, keys, PH_PARAM_ADDRESS),
                                       PH_PARAM(move_args, order, PH_PARAM_ADDRESS),
                                       PH_PARAM(move_args, offsets, PH_PARAM_ADDRESS),
                                       PH_PARAM(move_args, keys_out, PH_PARAM_ADDRESS),
                                       PH_PARAM(move_args, order_out, PH_PARAM_ADDRESS),
                                       PH_PARAM(move_args, total, PH_PARAM_VALUE),
                                       PH_PARAM(move_args, shift, PH_PARAM_VALUE),
                                       PH_PARAM(move_args, tiles, PH_PARAM_VALUE)};
/* ---- sorting on the host ---- */
static int64_t keys_of_blocks(const ph_block_range *range, int64_t block, int64_t total,
                              int64_t *begin)
{
    int64_t end = (int64_t)range->end * block;
    *begin = (int64_t)range->begin * block;
    return end < total ? end : total;
}

static void keys_host(const ph_block_range *range, const void *args)
{
    const keys_args *a = args;
    int64_t i, end = keys_of_blocks(range, PH__INDEX_BLOCK, a->total, &i);
    for (; i < end; i++) {
        int64_t v = ph__index_at(a->index, a->wide, i);
        ((uint32_t *)a->keys)[i] =
            (uint32_t)(v >= 0 && v < a->at.n ? ph__place_of(&a->at, i) + v * a->at.step : a->none);
        ((uint32_t *)a->order)[i] = (uint32_t)i;
    }
}

static void rank_host(const ph_block_range *range, const void *args)
{
    const rank_args *a = args;
    const uint32_t *keys = a->keys;
    int64_t me, end = keys_of_blocks(range, RANK_BLOCK, a->total, &me);
    for (; me < end; me++) {
        uint32_t key = keys[me], before = 0;
        for (int64_t i = 0; i < me; i++)
            before += keys[i] <= key;
        for (int64_t i = me; i < a->total; i++)
            before += keys[i] < key;
        ((uint32_t *)a->sorted)[before] = key;
        ((uint32_t *)a->order)[before] = (uint32_t)me;
    }
}

static void count_host(const ph_block_range *range, const void *args)
{
    const count_args *a = args;
    for (int64_t tile = (int64_t)range->begin; tile < (int64_t)range->end; tile++) {
        uint32_t count[DIGITS] = {0};
        int64_t end = (tile + 1) * TILE < a->total ? (tile + 1) * TILE : a->total;
        for (int64_t i = tile * TILE; i < end; i++)
            count[((const uint32_t *)a->keys)[i] >> a->shift & (DIGITS - 1)]++;
        for (int64_t d = 0; d < DIGITS; d++)
            ((uint32_t *)a->counts)[d * a->tiles + tile] = count[d];
    }
}

static void offsets_host(const ph_block_range *range, const void *args)
{
    const offsets_args *a = args;
    uint32_t *counts = a->counts, sum = 0;
    (void)range;
    for (int64_t i = 0; i < a->total; i++) {
        uint32_t mine = counts[i];
        counts[i] = sum;
        sum += mine;
    }
}

static void move_host(const ph_block_range *range, const void *args)
{
    const move_args *a = args;
    for (int64_t tile = (int64_t)range->begin; tile < (int64_t)range->end; tile++) {
        uint32_t next[DIGITS];
        int64_t end = (tile + 1) * TILE < a->total ? (tile + 1) * TILE : a->total;
        for (int64_t d = 0; d < DIGITS; d++)
            next[d] = ((const uint32_t *)a->offsets)[d * a->tiles + tile];
        for (int64_t i = tile * TILE; i < end; i++) {
            uint32_t key = ((const uint32_t *)a->keys)[i],
                     place = next[key >> a->shift & (DIGITS - 1)]++;
            ((uint32_t *)a->keys_out)[place] = key;
            ((uint32_t *)a->order_out)[place] = ((const uint32_t *)a->order)[i];
        }
    }
}

#define DEF(kernel, flag, parameters)                                                              \
    static ph__kernel_def kernel##_kernel = {                                                      \
        .name = "ph_sort_" #kernel,                                                                \
        .cuda = (const char *const[]){"#define KERNEL ph_sort_" #kernel "\n#define " flag "\n",    \
                                      ph__text_indexing, NULL},                                    \
        .host = kernel##_host,                                                                     \
        .args_size = sizeof(kernel##_args),                                                        \
        .params = parameters,                                                                      \
        .param_count = sizeof parameters / sizeof parameters[0]};
DEF(keys, "KEYS", keys_params)
DEF(rank, "RANK", rank_params)
DEF(count, "COUNT", count_params)
DEF(offsets, "OFFSETS", offsets_params)
DEF(move, "MOVE", move_params)

PH__KERNEL_FAMILY(sort) = {&keys_kernel,    &rank_kernel, &count_kernel,
                           &offsets_kernel, &move_kernel, NULL};

/* ---- launching ---- */
static ph_tensor *make_words(ph__op *op, int64_t count)
{
    return ph__op_output(op, PH_DTYPE_I32, &PH_SHAPE(count));
}

/* from and to change places after each pass; the result is in from. */
static bool sort_by_radix(ph__op *op, ph__sorted *from, ph__sorted *to, int64_t none)
{
    int64_t tiles = ph__ceil_div(from->total, TILE);
    ph_tensor *counts = make_words(op, DIGITS * tiles);
    for (int64_t shift = 0; counts && shift < 32 && none >> shift > 0; shift += 8) {
        count_args count = {from->keys->data, counts->data, from->total, shift, tiles};
        offsets_args offsets = {counts->data, DIGITS * tiles};
        move_args move = {from->keys->data, from->order->data, counts->data, to->keys->data,
                          to->order->data,  from->total,       shift,        tiles};
        if (!ph__op_launch(op, &count_kernel, (uint64_t)tiles, 256, 0, &count) ||
            !ph__op_launch(op, &offsets_kernel, 1, 1024, 0, &offsets) ||
            !ph__op_launch(op, &move_kernel, (uint64_t)tiles, 256, 0, &move))
            return false;
        ph__sorted done = *to;
        *to = *from;
        *from = done;
    }
    return counts != NULL;
}

bool ph__sort_index(ph__op *op, ph__sorted *out, const ph_tensor *index, const ph__places *at,
                    int64_t none)
{
    int64_t total = index->count;
    if (total >= UINT32_MAX || none >= UINT32_MAX) {
        ph__op_fail(op, PH_ERROR_SIZE, "sums at repeated places take fewer than 2^32 - 1 of them");
        return false;
    }
    ph__sorted first = {make_words(op, total), make_words(op, total), total},
               second = {make_words(op, total), make_words(op, total), total};
    if (!first.keys || !first.order || !second.keys || !second.order)
        return false;
    *out = first;
    if (total == 0)
        return true;
    keys_args keys = {.index = index->data,
                      .keys = first.keys->data,
                      .order = first.order->data,
                      .at = *at,
                      .total = total,
                      .wide = index->dtype == PH_DTYPE_I64,
                      .none = none};
    if (!ph__op_launch(op, &keys_kernel, (uint64_t)ph__ceil_div(total, PH__INDEX_BLOCK),
                       PH__INDEX_BLOCK, 0, &keys))
        return false;
    if (total > RANK_LIMIT)
        return sort_by_radix(op, out, &second, none);
    rank_args rank = {first.keys->data, second.keys->data, second.order->data, total};
    *out = second;
    return ph__op_launch(op, &rank_kernel, (uint64_t)ph__ceil_div(total, RANK_BLOCK),
                         32 * RANK_BLOCK, 0, &rank);
}
