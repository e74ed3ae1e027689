/* SPDX-License-Identifier: MIT */
/* tensor/kernels/elementwise_host.c: the host form that all kernels of elementwise.def share: which
 * way the elements go. Dense ones straight through the core, long lines one by one, the rest in
 * pieces; copies without a change straight to their place. */
#include "tensor/kernels/elementwise_host.h"
#include "tensor/kernels/elementwise.h"
#include "tensor/kernels/elementwise_lines.h"
#include "tensor/kernels/elementwise_move.h"
#include "tensor/kernels/elementwise_pieces.h"
#include <string.h>

static int64_t smaller_of(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ---- copies ---- */
/* As ph__move_piece into an array, of a side whose dimension before the last has stride 1: whole
 * rows are turned together. */
static void turn_piece(const ph__element_job *j, const ph__side *s, char *array, int64_t begin,
                       int64_t end)
{
    const size_t last = j->rank - 1;
    const int64_t columns = j->dim[last];
    while (begin < end) {
        int64_t index[PH_MAX_RANK], offset = 0,
                                    n = smaller_of(columns - begin % columns, end - begin);
        ph__find_index(index, j, begin);
        if (n < columns) {
            ph__move_piece(j, s, array, begin, n, true);
        } else {
            const int64_t rows =
                smaller_of((end - begin) / columns, j->dim[last - 1] - index[last - 1]);
            for (size_t d = 0; d <= last; d++)
                offset += index[d] * s->stride[d];
            ph__transpose_tile(array, s->at + offset * (int64_t)s->size, s->stride[last], s->size,
                               rows, columns);
            n = rows * columns;
        }
        array += (size_t)n * s->size;
        begin += n;
    }
}

/* Copies without a change go straight to their place. */
static bool run_move(const ph__element_job *j, int64_t begin, int64_t end)
{
    const ph__side *to = &j->sides[PH__SIDE_OUT], *from = &j->sides[1];
    const size_t last = j->rank - 1;
    if (j->info->core != PH__CORE_COPY || from->uniform || !(to->dense || from->dense))
        return false;
    char *array = (to->dense ? to : from)->at + begin * (int64_t)to->size;
    if (to->dense && from->dense)
        memcpy(array, from->at + begin * (int64_t)from->size, (size_t)(end - begin) * to->size);
    else if (to->dense && j->rank > 1 && from->stride[last - 1] == 1 && from->stride[last] > 1)
        turn_piece(j, from, array, begin, end);
    else
        ph__move_piece(j, to->dense ? from : to, array, begin, end - begin, to->dense);
    return true;
}

static void run_range(const ph__element_job *j, int64_t begin, int64_t end)
{
    const ph__elementwise_info *info = j->info;
    bool plain = true;
    if (begin >= end || run_move(j, begin, end))
        return;
    for (size_t o = 0; o <= info->arity; o++)
        plain = plain && j->sides[o].dense && !j->sides[o].half;
    if (!plain) {
        if (ph__has_long_lines(j))
            ph__run_lines(j, begin, end);
        else
            ph__run_pieces(j, begin, end);
        return;
    }
    const void *at[PH__SIDES] = {0};
    for (size_t o = 0; o <= info->arity; o++)
        at[o] = j->sides[o].at + begin * (int64_t)j->sides[o].size;
    j->cores[info->core][info->type]((void *)(uintptr_t)at[PH__SIDE_OUT], at[1], at[2], at[3],
                                     end - begin, j->a, j->b);
}

/* ---- entries ---- */
static void set_up_elementwise_job(ph__element_job *j, const ph__elementwise_info *info,
                                   const void *args)
{
    static const uint8_t sizes[PH__ELEMENTWISE_DTYPES + 1] = {0, 4, 8, 2, 2, 4, 8, 1, 1, 2};
    static const uint8_t halves[PH__ELEMENTWISE_DTYPES + 1] = {
        [PH_DTYPE_F16] = 1, [PH_DTYPE_BF16] = 3};
    char *const *at = args;
    j->info = info;
    j->cores = ph__cores();
    for (size_t o = 0; o <= info->arity; o++) {
        j->sides[o].at = at[o];
        j->sides[o].size = sizes[info->dtype[o]];
        j->sides[o].half = halves[info->dtype[o]];
    }
}

/* From the first element on, all operands dense and of the dtype that is computed in: the core
 * gets the addresses as they are. */
static bool run_direct(const ph_block_range *range, char *const *at,
                       const ph__elementwise_flat *flat, const ph__elementwise_info *info)
{
    const size_t arity = info->arity;
    if (!info->direct || range->begin != 0)
        return false;
    for (size_t o = 1; o <= arity; o++)
        if (flat->step[o] == 0)
            return false;
    ph__cores()[info->core][info->type](
        at[PH__SIDE_OUT], arity > 0 ? at[1] : NULL, arity > 1 ? at[2] : NULL,
        arity > 2 ? at[3] : NULL, smaller_of((int64_t)range->end * PH__ELEMENTWISE_ITEMS, flat->n),
        flat->a, flat->b);
    return true;
}

void ph__elementwise_host_flat(const ph_block_range *range, const void *args,
                               const ph__elementwise_info *info)
{
    const ph__elementwise_flat *flat = (const void *)((char *const *)args + info->arity + 1);
    if (run_direct(range, args, flat, info))
        return;
    static const int64_t strides[2] = {0, 1};
    ph__element_job j = {.a = flat->a, .b = flat->b, .dim = &flat->n, .rank = 1};
    set_up_elementwise_job(&j, info, args);
    for (size_t o = 0; o <= info->arity; o++) {
        j.sides[o].stride = &strides[flat->step[o]];
        j.sides[o].dense = flat->step[o] == 1;
        j.sides[o].uniform = flat->step[o] == 0;
    }
    run_range(&j, smaller_of((int64_t)range->begin * PH__ELEMENTWISE_ITEMS, flat->n),
              smaller_of((int64_t)range->end * PH__ELEMENTWISE_ITEMS, flat->n));
}

void ph__elementwise_host_strided(const ph_block_range *range, const void *args,
                                  const ph__elementwise_info *info)
{
    const ph__elementwise_strided *s = (const void *)((char *const *)args + info->arity + 1);
    ph__element_job j = {.a = s->a, .b = s->b, .rank = s->rank};
    int64_t dim[PH_MAX_RANK];
    set_up_elementwise_job(&j, info, args);
    for (size_t d = 0; d < s->rank; d++)
        dim[d] = d + 1 == s->rank ? s->dim[d] * s->vec : s->dim[d];
    j.dim = dim;
    for (size_t o = 0; o <= info->arity; o++) {
        int64_t step = 1;
        j.sides[o].stride = s->stride[o];
        j.sides[o].dense = j.sides[o].uniform = true;
        for (size_t d = s->rank; d-- > 0; step *= dim[d]) {
            j.sides[o].dense = j.sides[o].dense && s->stride[o][d] == step;
            j.sides[o].uniform = j.sides[o].uniform && s->stride[o][d] == 0;
        }
    }
    const int64_t n = s->n * s->vec;
    run_range(&j, smaller_of((int64_t)range->begin * PH__ELEMENTWISE_ITEMS, n),
              smaller_of((int64_t)range->end * PH__ELEMENTWISE_ITEMS, n));
}
