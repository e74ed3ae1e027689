/* SPDX-License-Identifier: MIT */
/* tensor/kernels/elementwise_lines.c: the core goes through the tensors' own memory a line at a
 * time. An operand that stays is a number of the core, where there is such a form, and is
 * repeated into an array elsewhere. */
#include "tensor/kernels/elementwise_lines.h"

enum {
    LONG_LINE = 64 /* shorter ones are brought together, some to a piece */
};

static const ph__scalar none = {0};

static int64_t shorter_run(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

bool ph__has_long_lines(const ph__element_job *j)
{
    const size_t last = j->rank - 1;
    if (!j->info->direct || !j->sides[PH__SIDE_OUT].dense || j->rank == 0 ||
        j->dim[last] < LONG_LINE)
        return false;
    for (size_t o = 1; o <= j->info->arity; o++)
        if (j->sides[o].stride[last] != 0 && j->sides[o].stride[last] != 1)
            return false;
    return true;
}

static ph__scalar element_as_scalar(const ph__elementwise_info *info, const void *at)
{
    switch (info->type) {
    case PH__CORE_F32:
        return (ph__scalar){.f = (double)*(const float *)at};
    case PH__CORE_F64:
        return (ph__scalar){.f = *(const double *)at};
    case PH__CORE_I32:
        return (ph__scalar){.i = *(const int32_t *)at};
    case PH__CORE_I64:
        return (ph__scalar){.i = *(const int64_t *)at};
    default:
        return (ph__scalar){.i = *(const uint8_t *)at};
    }
}

/* Of a function of two operands that has a form with a number in the place of one: whether
 * operand `still`, the same along the line, may be that number. */
static bool run_line_with_scalar(const ph__element_job *j, void *to,
                                 const void *const in[PH__SIDES], size_t still, int64_t n)
{
    const int core = j->info->core == PH__CORE_add   ? PH__CORE_add_scalar
                     : j->info->core == PH__CORE_mul ? PH__CORE_mul_scalar
                                                     : PH__CORES;
    if (core == PH__CORES)
        return false;
    j->cores[core][j->info->type](to, in[3 - still], NULL, NULL, n,
                                  element_as_scalar(j->info, in[still]), none);
    return true;
}

/* in: where the operands are at the line's begin; bit o of still: operand o stays there. */
static void run_line(const ph__element_job *j, char *to, const void *in[PH__SIDES], uint32_t still,
                     int64_t n, ph__piece_buffer space[PH__SIDES], ph__repeated ones[PH__SIDES])
{
    const ph__elementwise_info *info = j->info;
    const int64_t most = still ? PH__PIECE : n;
    ph__core core = j->cores[info->core][info->type];
    if ((still == 1u << 1 || still == 1u << 2) && run_line_with_scalar(j, to, in, still >> 1, n))
        return;
    for (size_t o = 1; still && o <= info->arity; o++) {
        ph__side same = j->sides[o];
        int64_t many = shorter_run(n, most);
        if (!(still >> o & 1))
            continue;
        same.at = (char *)(uintptr_t)in[o];
        if (ones[o].at != in[o] || ones[o].n < many) {
            ph__repeat_element(j, &same, &space[o], many);
            ones[o] = (ph__repeated){in[o], many};
        }
        in[o] = space[o].bytes;
    }
    for (int64_t i = 0; i < n; i += most) {
        core(to, in[1], in[2], in[3], shorter_run(n - i, most), j->a, j->b);
        to += (size_t)most * j->sides[PH__SIDE_OUT].size;
        for (size_t o = 1; o <= info->arity; o++)
            if (!(still >> o & 1))
                in[o] = (const char *)in[o] + (size_t)most * j->sides[o].size;
    }
}

void ph__run_lines(const ph__element_job *j, int64_t begin, int64_t end)
{
    const size_t last = j->rank - 1, arity = j->info->arity;
    int64_t index[PH_MAX_RANK], n;
    ph__piece_buffer space[PH__SIDES];
    ph__repeated ones[PH__SIDES] = {{NULL, 0}};
    uint32_t still = 0;
    for (size_t o = 1; o <= arity; o++)
        still |= (uint32_t)(j->sides[o].stride[last] == 0) << o;
    ph__find_index(index, j, begin);
    for (int64_t at = begin; at < end; at += n) {
        const void *in[PH__SIDES] = {NULL};
        n = shorter_run(j->dim[last] - index[last], end - at);
        for (size_t o = 1; o <= arity; o++) {
            int64_t offset = 0;
            for (size_t d = 0; d <= last; d++)
                offset += index[d] * j->sides[o].stride[d];
            in[o] = j->sides[o].at + offset * (int64_t)j->sides[o].size;
        }
        run_line(j, j->sides[PH__SIDE_OUT].at + at * (int64_t)j->sides[PH__SIDE_OUT].size, in,
                 still, n, space, ones);
        index[last] += n;
        for (size_t d = last; d > 0 && index[d] == j->dim[d]; d--) {
            index[d] = 0;
            index[d - 1]++;
        }
    }
}
