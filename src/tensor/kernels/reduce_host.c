/* SPDX-License-Identifier: MIT */
/* tensor/kernels/reduce_host.c: the host forms of the reductions: walks the dimensions, brings
 * what is not contiguous or of 16 bits into arrays, and runs the cores' loops over them. */
#include "tensor/kernels/reduce_host.h"
#include "tensor/kernels/elementwise_cores.h"
#include "tensor/kernels/reduce.h"
#include "tensor/kernels/reduce_cores.h"
#include <string.h>

enum {
    PIECE = 512,      /* elements that are brought together at a time */
    ACCUMULATOR = 16, /* bytes, at most */
    COLUMNS = 128,    /* outputs whose accumulators are joined as one */
    FAR = 16 << 20,   /* bytes */
    LONG_ROW = 512,   /* elements: of shorter ones each begin and end counts */
    /* outputs of the blocks side by side that are gone through as one, so that longer lines are
     * read: at least two blocks */
    TOGETHER = 2 * PH__REDUCE_THREADS * PH__REDUCE_COLUMNS
};

typedef struct job {
    const ph__reduce_args *args;
    const ph__reduce_cores *cores;
    size_t size;   /* of an element of x */
    size_t result; /* of an output */
    ph__core half; /* to f32; NULL: computed in as it is */
    bool one_line; /* the elements of an output lie side by side, and are read as they are */
    bool far;      /* x is more than near caches hold */
} job;

typedef union buffer {
    /* of f32 made of 16 bits; and PIECE elements of any size */
    uint8_t bytes[TOGETHER * 4];
    double align;
} buffer;

static job set_up_reduce_job(const void *args, const ph__reduce_info *info)
{
    job j = {.args = args,
             .cores = ph__reduce_cores_of(info->core, info->type),
             .size = ph_dtype_size((ph_dtype)info->dtype),
             .result = ph_dtype_size((ph_dtype)info->result)};
    if (info->dtype == PH_DTYPE_F16 || info->dtype == PH_DTYPE_BF16)
        j.half = ph__cores()[PH__CORE_HALF][info->dtype == PH_DTYPE_F16 ? 0 : 2];
    j.one_line = j.args->gone_rank == 1 && j.args->gone_stride[0] == 1 && !j.half;
    j.far = (uint64_t)j.args->outputs * (uint64_t)j.args->length * j.size >= FAR;
    return j;
}

static const void *widen_half(const job *j, buffer *to, const void *from, int64_t n)
{
    if (!j->half)
        return from;
    j->half(to->bytes, from, NULL, NULL, n, (ph__scalar){0}, (ph__scalar){0});
    return to->bytes;
}

static int64_t offset_of(int64_t index, const int64_t *dim, const int64_t *stride, size_t rank)
{
    int64_t offset = 0;
    for (size_t d = rank; d-- > 0;) {
        offset += (d > 0 ? index % dim[d] : index) * stride[d];
        index = d > 0 ? index / dim[d] : 0;
    }
    return offset;
}

static int64_t smaller_index(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

#define GATHER(type)                                                                               \
    do {                                                                                           \
        for (int64_t i = 0; i < n; i++)                                                            \
            ((type *)(void *)to)[i] = ((const type *)(const void *)from)[i * step];                \
    } while (0)

static void gather_strided(char *to, const char *from, int64_t step, size_t size, int64_t n)
{
    if (size == 4)
        GATHER(uint32_t);
    else if (size == 2)
        GATHER(uint16_t);
    else if (size == 8)
        GATHER(uint64_t);
    else
        GATHER(uint8_t);
}

/* Reduced elements [begin, end) of the output whose elements start at x, piece by piece of what
 * lies in one line. */
static void reduce_row(const job *j, void *accumulator, const char *x, int64_t begin, int64_t end)
{
    const ph__reduce_args *args = j->args;
    const size_t last = args->gone_rank - 1;
    const int64_t step = args->gone_stride[last];
    const bool direct = step == 1 && !j->half;
    buffer raw, wide;
    while (begin < end) {
        int64_t line = args->gone_dim[last] - (last > 0 ? begin % args->gone_dim[last] : begin);
        int64_t n = smaller_index(line, end - begin);
        n = direct ? n : smaller_index(n, PIECE);
        const char *from =
            x +
            offset_of(begin, args->gone_dim, args->gone_stride, args->gone_rank) * (int64_t)j->size;
        if (step != 1) {
            gather_strided((char *)raw.bytes, from, step, j->size, n);
            from = (const char *)raw.bytes;
        }
        j->cores->row(accumulator, widen_half(j, &wide, from, n), n, begin, args->a);
        begin += n;
    }
}

static void end_half(const job *j, const ph__reduce_info *info, char *to, const char *accumulator)
{
    float result;
    j->cores->end(&result, accumulator, j->args->a, j->args->b);
    ph__cores()[PH__CORE_HALF][info->result == PH_DTYPE_F16 ? 1 : 3](
        to, &result, NULL, NULL, 1, (ph__scalar){0}, (ph__scalar){0});
}

/* Where several blocks share an output: the accumulator that a block leaves of it. */
static char *part_of(const job *j, int64_t output, uint32_t split)
{
    return (char *)j->args->out +
           (size_t)(split * j->args->outputs + output) * j->cores->accumulator;
}

/* Of n outputs side by side. */
static void put_results(const job *j, const ph__reduce_info *info, int64_t output, int64_t n,
                        const char *accumulators)
{
    char *to = (char *)j->args->out + (size_t)output * j->result;
    const size_t size = j->cores->accumulator;
    const bool half = info->result == PH_DTYPE_F16 || info->result == PH_DTYPE_BF16;
    for (int64_t i = 0; i < n; i++)
        if (half)
            end_half(j, info, to + (size_t)i * j->result, accumulators + (size_t)i * size);
        else
            j->cores->end(to + (size_t)i * j->result, accumulators + (size_t)i * size, j->args->a,
                          j->args->b);
}

static const char *output_begin(const job *j, int64_t output)
{
    const ph__reduce_args *args = j->args;
    const char *x = args->x; /* NULL where there is nothing to reduce */
    if (x && args->kept_rank == 1)
        x += output * args->kept_stride[0] * (int64_t)j->size;
    else if (x)
        x += offset_of(output, args->kept_dim, args->kept_stride, args->kept_rank) *
             (int64_t)j->size;
    return x;
}

/* Reduced elements [begin, end) of one output. */
static void reduce_output(const job *j, void *accumulator, int64_t output, int64_t begin,
                          int64_t end)
{
    const char *x = output_begin(j, output);
    if (j->one_line && begin < end)
        j->cores->row(accumulator, x + begin * (int64_t)j->size, end - begin, begin, j->args->a);
    else
        reduce_row(j, accumulator, x, begin, end);
}

/* From memory that is far away several runs come faster than one: a processor fetches ahead of
 * each. So rows are taken in fours, one of each quarter of those at hand. */
static bool reads_rows4(const job *j)
{
    return j->cores->rows4 && j->one_line && j->far && j->args->length >= LONG_ROW &&
           j->args->kept_rank == 1;
}

/* 4 * quarter rows of n elements, `step` elements from one to the next. */
static void reduce_quarters(const job *j, char *accumulators, const char *x, int64_t n,
                            int64_t step, int64_t quarter)
{
    const size_t size = j->cores->accumulator;
    for (int64_t i = 0; i < quarter; i++) {
        _Alignas(16) char four[4 * ACCUMULATOR];
        j->cores->start(four, NULL, 4, 0, j->args->a);
        j->cores->rows4(four, x + i * step * (int64_t)j->size, n, quarter * step, j->args->a);
        for (int64_t r = 0; r < 4; r++)
            memcpy(accumulators + (size_t)(r * quarter + i) * size, four + (size_t)r * size, size);
    }
}

/* n outputs side by side, all of their elements. */
static void reduce_outputs(const job *j, char *accumulators, int64_t output, int64_t n)
{
    const ph__reduce_args *args = j->args;
    const size_t size = j->cores->accumulator;
    const int64_t quarter = reads_rows4(j) ? n / 4 : 0;
    if (quarter)
        reduce_quarters(j, accumulators, output_begin(j, output), args->length,
                        args->kept_stride[0], quarter);
    j->cores->start(accumulators + (size_t)(4 * quarter) * size, NULL, n - 4 * quarter, 0, args->a);
    for (int64_t i = 4 * quarter; i < n; i++)
        reduce_output(j, accumulators + (size_t)i * size, output + i, 0, args->length);
}

/* Of blocks from `block` on, which have a segment of the only output each, how many are done. */
static uint64_t reduce_whole_segments(const job *j, uint64_t block, uint64_t end)
{
    const ph__reduce_args *args = j->args;
    if (!reads_rows4(j) || args->outputs != 1)
        return 0;
    const int64_t whole = smaller_index((int64_t)end, args->length / args->segment),
                  quarter = (whole - (int64_t)block) / 4;
    if (quarter <= 0)
        return 0;
    reduce_quarters(j, part_of(j, 0, (uint32_t)block),
                    output_begin(j, 0) + (int64_t)block * args->segment * (int64_t)j->size,
                    args->segment, args->segment, quarter);
    return 4 * (uint64_t)quarter;
}

static void reduce_split_block(const job *j, uint64_t block)
{
    const ph__reduce_args *args = j->args;
    const uint32_t split = (uint32_t)(block % args->splits);
    const int64_t first = (int64_t)(block / args->splits) * args->width,
                  stop = smaller_index(first + args->width, args->outputs),
                  begin = split * args->segment,
                  end = smaller_index(begin + args->segment, args->length);
    for (int64_t o = first; o < stop; o++) {
        char *to = part_of(j, o, split);
        j->cores->start(to, NULL, 1, 0, args->a);
        reduce_output(j, to, o, begin, end);
    }
}

static void reduce_split_rows(const job *j, const ph_block_range *range)
{
    uint64_t block = range->begin + reduce_whole_segments(j, range->begin, range->end);
    for (; block < range->end; block++)
        reduce_split_block(j, block);
}

void ph__reduce_host_rows(const ph_block_range *range, const void *args_,
                          const ph__reduce_info *info)
{
    const ph__reduce_args *args = args_;
    const job j = set_up_reduce_job(args, info);
    _Alignas(16) char accumulators[COLUMNS * ACCUMULATOR];
    if (args->splits > 1) {
        reduce_split_rows(&j, range);
        return;
    }
    const int64_t first = (int64_t)range->begin * args->width,
                  stop = smaller_index((int64_t)range->end * args->width, args->outputs);
    for (int64_t o = first; o < stop; o += COLUMNS) {
        const int64_t n = smaller_index(COLUMNS, stop - o);
        reduce_outputs(&j, accumulators, o, n);
        put_results(&j, info, o, n, accumulators);
    }
}

/* Reduced elements of a segment, for n outputs side by side. */
static void reduce_columns(const job *j, void *accumulators, int64_t output, int64_t n,
                           uint32_t split)
{
    const ph__reduce_args *args = j->args;
    const int64_t begin = split * args->segment,
                  end = smaller_index(begin + args->segment, args->length);
    const char *x = args->x;
    buffer wide;
    if (x)
        x += offset_of(output, args->kept_dim, args->kept_stride, args->kept_rank) *
             (int64_t)j->size;
    j->cores->start(accumulators, NULL, n, 0, args->a);
    int64_t r = begin;
    if (args->gone_rank == 1 && !j->half) {
        const int64_t step = args->gone_stride[0], bytes = step * (int64_t)j->size;
        for (; j->cores->columns8 && r + 8 <= end; r += 8)
            j->cores->columns8(accumulators, x + r * bytes, n, step, args->a);
        for (; j->cores->columns4 && r + 4 <= end; r += 4)
            j->cores->columns4(accumulators, x + r * bytes, n, step, args->a);
    }
    for (; r < end; r++) {
        int64_t at =
            offset_of(r, args->gone_dim, args->gone_stride, args->gone_rank) * (int64_t)j->size;
        j->cores->columns(accumulators, widen_half(j, &wide, x + at, n), n, r, args->a);
    }
}

void ph__reduce_host_columns(const ph_block_range *range, const void *args_,
                             const ph__reduce_info *info)
{
    const ph__reduce_args *args = args_;
    const job j = set_up_reduce_job(args, info);
    const int64_t columns = args->kept_dim[args->kept_rank - 1],
                  width = (int64_t)args->width * PH__REDUCE_COLUMNS;
    const int64_t across = columns / width + (columns % width != 0),
                  places = args->outputs / columns * across;
    _Alignas(16) char accumulators[TOGETHER * ACCUMULATOR];
    for (int64_t block = (int64_t)range->begin; block < (int64_t)range->end;) {
        const uint32_t split = (uint32_t)(block / places);
        const int64_t place = block % places, first = place % across;
        const int64_t together = smaller_index(
            smaller_index(TOGETHER / width, (int64_t)range->end - block), across - first);
        const int64_t n = smaller_index(together * width, columns - first * width),
                      output = place / across * columns + first * width;
        char *to = args->splits > 1 ? part_of(&j, output, split) : accumulators;
        reduce_columns(&j, to, output, n, split);
        if (args->splits == 1)
            put_results(&j, info, output, n, accumulators);
        block += together;
    }
}

/* Of one output: as many parts side by side, then by halves. */
static void join_one_output(const job *j, char *accumulators)
{
    const ph__reduce_args *args = j->args;
    const size_t size = j->cores->accumulator;
    j->cores->start(accumulators, NULL, COLUMNS, 0, args->a);
    for (int64_t i = 0; i < args->length; i += COLUMNS)
        j->cores->join(accumulators, (const char *)args->x + (size_t)i * size,
                       smaller_index(COLUMNS, args->length - i), 0, args->a);
    for (int64_t half = COLUMNS / 2; half > 0; half /= 2)
        j->cores->join(accumulators, accumulators + (size_t)half * size, half, 0, args->a);
}

/* x: [length][outputs] accumulators. */
void ph__reduce_host_join(const ph_block_range *range, const void *args_,
                          const ph__reduce_info *info)
{
    const ph__reduce_args *args = args_;
    const job j = set_up_reduce_job(args, info);
    const size_t size = j.cores->accumulator;
    _Alignas(16) char accumulators[COLUMNS * ACCUMULATOR];
    const int64_t first = (int64_t)range->begin * args->width;
    const int64_t stop = smaller_index((int64_t)range->end * args->width, args->outputs);
    if (args->outputs == 1 && first < stop) {
        join_one_output(&j, accumulators);
        put_results(&j, info, 0, 1, accumulators);
        return;
    }
    for (int64_t o = first; o < stop; o += COLUMNS) {
        const int64_t n = smaller_index(COLUMNS, stop - o);
        j.cores->start(accumulators, NULL, n, 0, args->a);
        for (int64_t i = 0; i < args->length; i++)
            j.cores->join(accumulators,
                          (const char *)args->x + (size_t)(i * args->outputs + o) * size, n, 0,
                          args->a);
        put_results(&j, info, o, n, accumulators);
    }
}
