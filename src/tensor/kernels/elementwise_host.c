/* SPDX-License-Identifier: MIT */
/* tensor/kernels/elementwise_host.c: the host form that all kernels of elementwise.def share:
 * brings operands of any strides and dtypes into contiguous arrays of the dtype that is computed
 * in, piece by piece, runs the core's loop, and puts the results where they belong. */
#include "tensor/kernels/elementwise_host.h"
#include "tensor/kernels/elementwise.h"
#include "tensor/kernels/elementwise_cores.h"
#include "tensor/kernels/elementwise_move.h"
#include <string.h>

enum {
    PIECE = 512, /* elements */
    OUT = 0,
    MOST = 4
};

/* An operand, or the output (index 0), as the pieces see it. */
typedef struct side {
    char *at; /* of the first element */
    /* bytes of an element; half: 1 + the column of its conversion to f32, or 0 */
    size_t size, half;
    bool dense, uniform; /* element i is at at + i * size; all elements are one */
    const int64_t *stride;
} side;

typedef struct job {
    const ph__elementwise_info *info;
    ph__core_table cores;
    side sides[MOST];
    ph__scalar a, b;
    const int64_t *dim; /* NULL: flat */
    size_t rank;
} job;

typedef union buffer {
    uint8_t bytes[PIECE * 8];
    double align;
} buffer;

static const ph__scalar none = {0};

static int64_t smaller_of(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void convert_half(const job *j, size_t column, void *to, const void *from, int64_t n)
{
    j->cores[PH__CORE_HALF][column](to, from, NULL, NULL, n, none, none);
}

/* ---- any strides ---- */
static void find_index(int64_t index[PH_MAX_RANK], const job *j, int64_t position)
{
    for (size_t d = j->rank; d-- > 0;) {
        index[d] = position % j->dim[d];
        position /= j->dim[d];
    }
}

/* Moves n elements from position on between their places in s and an array. */
static void move_piece(const job *j, const side *s, char *array, int64_t position, int64_t n,
                       bool into_array)
{
    int64_t index[PH_MAX_RANK];
    const size_t last = j->rank - 1;
    find_index(index, j, position);
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
static void repeat_element(const job *j, const side *s, buffer *to, int64_t n)
{
    buffer raw;
    ph__move_run((char *)(s->half ? raw.bytes : to->bytes), 1, s->at, 0, s->size, n);
    if (s->half)
        convert_half(j, s->half - 1, to->bytes, raw.bytes, n);
}

/* Whether n elements from position on lie side by side; then *at is where. */
static bool find_contiguous_run(const char **at, const job *j, const side *s, int64_t position,
                                int64_t n)
{
    const size_t last = j->rank - 1;
    int64_t index[PH_MAX_RANK] = {0}, offset = 0;
    if (s->stride[last] != 1 || position % j->dim[last] + n > j->dim[last])
        return false;
    find_index(index, j, position);
    for (size_t d = 0; d <= last; d++)
        offset += index[d] * s->stride[d];
    *at = s->at + offset * (int64_t)s->size;
    return true;
}

/* Whether n elements from position on are one element of a line of those; then *at is where. */
static bool find_repeated_run(const char **at, const job *j, const side *s, int64_t position,
                              int64_t n)
{
    const size_t last = j->rank - 1;
    int64_t index[PH_MAX_RANK] = {0}, offset = 0;
    if (s->dense || s->stride[last] != 0 || position % j->dim[last] + n > j->dim[last])
        return false;
    find_index(index, j, position);
    for (size_t d = 0; d < last; d++)
        offset += index[d] * s->stride[d];
    *at = s->at + offset * (int64_t)s->size;
    return true;
}

/* The element that a buffer is full of, so many times. */
typedef struct repeated {
    const char *at;
    int64_t n;
} repeated;

/* Where the core finds n elements from position on; in `space` if they must be brought together. */
static const void *fetch_operand(const job *j, const side *s, buffer *space, repeated *one,
                                 int64_t position, int64_t n)
{
    buffer raw;
    const char *element;
    if (s->uniform)
        return space->bytes;
    if (find_repeated_run(&element, j, s, position, n)) {
        side same = *s;
        same.at = (char *)(uintptr_t)element;
        if (one->at != element || one->n < n)
            repeat_element(j, &same, space, n);
        *one = (repeated){element, one->at == element && one->n > n ? one->n : n};
        return space->bytes;
    }
    one->at = NULL;
    const char *from = s->at + position * (int64_t)s->size;
    if (!s->dense && !find_contiguous_run(&from, j, s, position, n)) {
        char *to = (char *)(s->half ? raw.bytes : space->bytes);
        move_piece(j, s, to, position, n, true);
        from = to;
    }
    if (!s->half)
        return from;
    convert_half(j, s->half - 1, space->bytes, from, n);
    return space->bytes;
}

static void deliver_result(const job *j, const buffer *result, int64_t position, int64_t n)
{
    const side *s = &j->sides[OUT];
    buffer single, narrow;
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
        move_piece(j, s, (char *)(uintptr_t)from, position, n, false);
}

static void run_pieces(const job *j, int64_t begin, int64_t end)
{
    const ph__elementwise_info *info = j->info;
    ph__core core = j->cores[info->core][info->type];
    buffer space[MOST];
    repeated ones[MOST] = {{NULL, 0}};
    const side *out = &j->sides[OUT];
    const bool direct = out->dense && !out->half;
    for (size_t o = 1; o <= info->arity; o++)
        if (j->sides[o].uniform)
            repeat_element(j, &j->sides[o], &space[o], end - begin < PIECE ? end - begin : PIECE);
    for (int64_t at = begin; at < end; at += PIECE) {
        int64_t n = end - at < PIECE ? end - at : PIECE;
        const void *in[MOST] = {0};
        for (size_t o = 1; o <= info->arity; o++)
            in[o] = fetch_operand(j, &j->sides[o], &space[o], &ones[o], at, n);
        void *to = direct ? (void *)(out->at + at * (int64_t)out->size) : (void *)space[OUT].bytes;
        core(to, in[1], in[2], in[3], n, j->a, j->b);
        if (!direct)
            deliver_result(j, &space[OUT], at, n);
    }
}

/* ---- copies ---- */
/* As move_piece into an array, of a side whose dimension before the last has stride 1: whole
 * rows are turned together. */
static void turn_piece(const job *j, const side *s, char *array, int64_t begin, int64_t end)
{
    const size_t last = j->rank - 1;
    const int64_t columns = j->dim[last];
    while (begin < end) {
        int64_t index[PH_MAX_RANK], offset = 0,
                                    n = smaller_of(columns - begin % columns, end - begin);
        find_index(index, j, begin);
        if (n < columns) {
            move_piece(j, s, array, begin, n, true);
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
static bool run_move(const job *j, int64_t begin, int64_t end)
{
    const side *to = &j->sides[OUT], *from = &j->sides[1];
    const size_t last = j->rank - 1;
    if (j->info->core != PH__CORE_COPY || from->uniform || !(to->dense || from->dense))
        return false;
    char *array = (to->dense ? to : from)->at + begin * (int64_t)to->size;
    if (to->dense && from->dense)
        memcpy(array, from->at + begin * (int64_t)from->size, (size_t)(end - begin) * to->size);
    else if (to->dense && j->rank > 1 && from->stride[last - 1] == 1 && from->stride[last] > 1)
        turn_piece(j, from, array, begin, end);
    else
        move_piece(j, to->dense ? from : to, array, begin, end - begin, to->dense);
    return true;
}

static void run_range(const job *j, int64_t begin, int64_t end)
{
    const ph__elementwise_info *info = j->info;
    bool plain = true;
    if (begin >= end || run_move(j, begin, end))
        return;
    for (size_t o = 0; o <= info->arity; o++)
        plain = plain && j->sides[o].dense && !j->sides[o].half;
    if (!plain) {
        run_pieces(j, begin, end);
        return;
    }
    const void *at[MOST] = {0};
    for (size_t o = 0; o <= info->arity; o++)
        at[o] = j->sides[o].at + begin * (int64_t)j->sides[o].size;
    j->cores[info->core][info->type]((void *)(uintptr_t)at[OUT], at[1], at[2], at[3], end - begin,
                                     j->a, j->b);
}

/* ---- entries ---- */
static void set_up_elementwise_job(job *j, const ph__elementwise_info *info, const void *args)
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
        at[OUT], arity > 0 ? at[1] : NULL, arity > 1 ? at[2] : NULL, arity > 2 ? at[3] : NULL,
        smaller_of((int64_t)range->end * PH__ELEMENTWISE_ITEMS, flat->n), flat->a, flat->b);
    return true;
}

void ph__elementwise_host_flat(const ph_block_range *range, const void *args,
                               const ph__elementwise_info *info)
{
    const ph__elementwise_flat *flat = (const void *)((char *const *)args + info->arity + 1);
    if (run_direct(range, args, flat, info))
        return;
    job j = {.a = flat->a, .b = flat->b};
    set_up_elementwise_job(&j, info, args);
    for (size_t o = 0; o <= info->arity; o++) {
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
    job j = {.a = s->a, .b = s->b, .rank = s->rank};
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
