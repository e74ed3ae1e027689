/* SPDX-License-Identifier: MIT */
/* tensor/kernels/elementwise_pieces.c: brings operands of any strides and dtypes into contiguous
 * arrays of the dtype that is computed in, piece by piece, runs the core's loop, and puts the
 * results where they belong. */
#include "tensor/kernels/elementwise_pieces.h"
#include "tensor/kernels/elementwise_move.h"

static const ph__scalar none = {0};

static void convert_half(const ph__element_job *j, size_t column, void *to, const void *from,
                         int64_t n)
{
    j->cores[PH__CORE_HALF][column](to, from, NULL, NULL, n, none, none);
}

/* ---- any strides ---- */
void ph__find_index(int64_t index[PH_MAX_RANK], const ph__element_job *j, int64_t position)
{
    for (size_t d = j->rank; d-- > 0;) {
        index[d] = position % j->dim[d];
        position /= j->dim[d];
    }
}

void ph__move_piece(const ph__element_job *j, const ph__side *s, char *array, int64_t position,
                    int64_t n, bool into_array)
{
    int64_t index[PH_MAX_RANK];
    const size_t last = j->rank - 1;
    ph__find_index(index, j, position);
    while (n > 0) {
        int64_t offset = 0, run = j->dim[last] - index[last];
        for (size_t d = 0; d <= last; d++)
            offset += index[d] * s->stride[d];
        run = run < n ? run : n;
        char *place = s->at + offset * (int64_t)s->size;
        if (into_array)
            ph__move_run(array, 1, place, s->stride[last], s->size, run);
        else
            ph__move_run(place, s->stride[last], array, 1, s->size, run);
        array += (size_t)run * s->size;
        n -= run;
        index[last] += run;
        for (size_t d = last; d > 0 && index[d] == j->dim[d]; d--) {
            index[d] = 0;
            index[d - 1]++;
        }
    }
}

/* ---- pieces ---- */
void ph__repeat_element(const ph__element_job *j, const ph__side *s, ph__piece_buffer *to,
                        int64_t n)
{
    ph__piece_buffer raw;
    ph__move_run((char *)(s->half ? raw.bytes : to->bytes), 1, s->at, 0, s->size, n);
    if (s->half)
        convert_half(j, s->half - 1, to->bytes, raw.bytes, n);
}

/* Whether n elements from position on lie side by side; then *at is where. */
static bool find_contiguous_run(const char **at, const ph__element_job *j, const ph__side *s,
                                int64_t position, int64_t n)
{
    const size_t last = j->rank - 1;
    int64_t index[PH_MAX_RANK] = {0}, offset = 0;
    if (s->stride[last] != 1 || position % j->dim[last] + n > j->dim[last])
        return false;
    ph__find_index(index, j, position);
    for (size_t d = 0; d <= last; d++)
        offset += index[d] * s->stride[d];
    *at = s->at + offset * (int64_t)s->size;
    return true;
}

/* Whether n elements from position on are one element of a line of those; then *at is where. */
static bool find_repeated_run(const char **at, const ph__element_job *j, const ph__side *s,
                              int64_t position, int64_t n)
{
    const size_t last = j->rank - 1;
    int64_t index[PH_MAX_RANK] = {0}, offset = 0;
    if (s->dense || s->stride[last] != 0 || position % j->dim[last] + n > j->dim[last])
        return false;
    ph__find_index(index, j, position);
    for (size_t d = 0; d < last; d++)
        offset += index[d] * s->stride[d];
    *at = s->at + offset * (int64_t)s->size;
    return true;
}

/* Where the core finds n elements from position on; in `space` if they must be brought together. */
static const void *fetch_operand(const ph__element_job *j, const ph__side *s,
                                 ph__piece_buffer *space, ph__repeated *one, int64_t position,
                                 int64_t n)
{
    ph__piece_buffer raw;
    const char *element;
    if (s->uniform)
        return space->bytes;
    if (find_repeated_run(&element, j, s, position, n)) {
        ph__side same = *s;
        same.at = (char *)(uintptr_t)element;
        if (one->at != element || one->n < n)
            ph__repeat_element(j, &same, space, n);
        *one = (ph__repeated){element, one->at == element && one->n > n ? one->n : n};
        return space->bytes;
    }
    one->at = NULL;
    const char *from = s->at + position * (int64_t)s->size;
    if (!s->dense && !find_contiguous_run(&from, j, s, position, n)) {
        char *to = (char *)(s->half ? raw.bytes : space->bytes);
        ph__move_piece(j, s, to, position, n, true);
        from = to;
    }
    if (!s->half)
        return from;
    convert_half(j, s->half - 1, space->bytes, from, n);
    return space->bytes;
}

static void deliver_result(const ph__element_job *j, const ph__piece_buffer *result,
                           int64_t position, int64_t n)
{
    const ph__side *s = &j->sides[PH__SIDE_OUT];
    ph__piece_buffer single, narrow;
    const char *from = (const char *)result->bytes;
    if (s->half && j->info->out_type == PH_DTYPE_F64) {
        convert_half(j, 4, single.bytes, from, n);
        from = (const char *)single.bytes;
    }
    if (s->half) {
        char *to = s->dense ? s->at + position * (int64_t)s->size : (char *)narrow.bytes;
        convert_half(j, s->half, to, from, n);
        from = to;
    }
    if (!s->dense)
        ph__move_piece(j, s, (char *)(uintptr_t)from, position, n, false);
}

void ph__run_pieces(const ph__element_job *j, int64_t begin, int64_t end)
{
    const ph__elementwise_info *info = j->info;
    ph__core core = j->cores[info->core][info->type];
    ph__piece_buffer space[PH__SIDES];
    ph__repeated ones[PH__SIDES] = {{NULL, 0}};
    const ph__side *out = &j->sides[PH__SIDE_OUT];
    const bool direct = out->dense && !out->half;
    for (size_t o = 1; o <= info->arity; o++)
        if (j->sides[o].uniform)
            ph__repeat_element(j, &j->sides[o], &space[o],
                               end - begin < PH__PIECE ? end - begin : PH__PIECE);
    for (int64_t at = begin; at < end; at += PH__PIECE) {
        int64_t n = end - at < PH__PIECE ? end - at : PH__PIECE;
        const void *in[PH__SIDES] = {0};
        for (size_t o = 1; o <= info->arity; o++)
            in[o] = fetch_operand(j, &j->sides[o], &space[o], &ones[o], at, n);
        void *to = direct ? (void *)(out->at + at * (int64_t)out->size)
                          : (void *)space[PH__SIDE_OUT].bytes;
        core(to, in[1], in[2], in[3], n, j->a, j->b);
        if (!direct)
            deliver_result(j, &space[PH__SIDE_OUT], at, n);
    }
}
