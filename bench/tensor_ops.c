/* SPDX-License-Identifier: MIT */
/* bench/tensor_ops.c: element-wise operators and reductions on the host device: what one costs
 * on 64 floats, and the bytes a second of large ones beside memcpy, with 1 thread and 2. */
#include "clock.h"
#include "host/timing.h"
#include <phonograph/nn.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_ROUNDS = 100,
    SMALL = 64,
    REPEATS = 2000,
    LARGE = 16 << 20,
    ROWS = 4096
};

static int rounds = 11;

typedef struct bench {
    ph_device *device;
    ph_stream *stream;
    ph_tape *tape;
    ph_tensor *x, *y, *row, *half;
} bench;

static ph_tensor *add(bench *b)
{
    return ph_add(b->tape, b->x, b->y);
}
static ph_tensor *add_row(bench *b)
{
    return ph_add(b->tape, b->x, b->row);
}
static ph_tensor *add_half(bench *b)
{
    return ph_add(b->tape, b->half, b->half);
}
static ph_tensor *relu(bench *b)
{
    return ph_relu(b->tape, b->x);
}
static ph_tensor *gelu(bench *b)
{
    return ph_gelu(b->tape, b->x);
}
static ph_tensor *exponential(bench *b)
{
    return ph_exp(b->tape, b->x);
}
static ph_tensor *hyperbolic(bench *b)
{
    return ph_tanh(b->tape, b->x);
}
static ph_tensor *cast(bench *b)
{
    return ph_cast(b->tape, b->x, PH_DTYPE_BF16);
}
static ph_tensor *turn(bench *b)
{
    return ph_contiguous(b->tape, ph_transpose(b->tape, b->x, 0, 1));
}
static ph_tensor *copy(bench *b)
{
    return ph_clone(b->tape, b->x);
}
static ph_tensor *sum(bench *b)
{
    return ph_sum(b->tape, b->x);
}
static ph_tensor *sum_rows(bench *b)
{
    return ph_sum_over(b->tape, b->x, PH_AXES(1), false);
}
static ph_tensor *sum_columns(bench *b)
{
    return ph_sum_over(b->tape, b->x, PH_AXES(0), false);
}
static ph_tensor *largest(bench *b)
{
    return ph_max(b->tape, b->x);
}

static void open_bench(bench *b, const char *name, int64_t rows, int64_t columns)
{
    OK(ph_device_open(&b->device, name, NULL));
    OK(ph_stream_create(&b->stream, b->device, NULL));
    OK(ph_tape_create(&b->tape, b->stream, NULL));
    OK(ph_tensor_create(&b->x, b->device, PH_DTYPE_F32, PH_SHAPE(rows, columns)));
    OK(ph_tensor_create(&b->y, b->device, PH_DTYPE_F32, PH_SHAPE(rows, columns)));
    OK(ph_tensor_create(&b->row, b->device, PH_DTYPE_F32, PH_SHAPE(columns)));
    OK(ph_tensor_create(&b->half, b->device, PH_DTYPE_F16, PH_SHAPE(rows, columns)));
    ph_tensor_fill(b->tape, b->x, 0.5);
    ph_tensor_fill(b->tape, b->y, 0.25);
    ph_tensor_fill(b->tape, b->row, 1);
    ph_tensor_fill(b->tape, b->half, 1);
    OK(ph_stream_synchronize(b->stream));
}

static void close_bench(bench *b)
{
    ph_tensor_release(b->x);
    ph_tensor_release(b->y);
    ph_tensor_release(b->row);
    ph_tensor_release(b->half);
    ph_tape_destroy(b->tape);
    ph_stream_destroy(b->stream);
    ph_device_release(b->device);
}

/* Each call with the clear that lets its result go, as a step has one for many. */
static double time_op(bench *b, ph_tensor *(*fn)(bench *), int repeats)
{
    double values[MOST_ROUNDS];
    for (int round = -1; round < rounds; round++) {
        double start = clock_now();
        for (int i = 0; i < repeats; i++) {
            (void)fn(b);
            if (i % 16 == 15 || repeats == 1)
                OK(ph_tape_clear(b->tape));
        }
        OK(ph_stream_synchronize(b->stream));
        if (round >= 0)
            values[round] = (clock_now() - start) / repeats;
    }
    OK(ph_tape_clear(b->tape));
    return timing_median(values, rounds);
}

static void small_ones(void)
{
    static const struct {
        const char *name;
        ph_tensor *(*fn)(bench *);
    } ops[] = {{"add", add}, {"relu", relu},  {"gelu", gelu},
               {"sum", sum}, {"clone", copy}, {"add, f16", add_half}};
    bench b;
    open_bench(&b, "host:threads=1", 1, SMALL);
    printf("%-28s %10s\n", "64 elements", "ns a call");
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++)
        printf("%-28s %10.1f\n", ops[i].name, time_op(&b, ops[i].fn, REPEATS));
    close_bench(&b);
}

static double time_memcpy(void)
{
    double values[MOST_ROUNDS];
    char *from = malloc((size_t)LARGE * 4), *to = malloc((size_t)LARGE * 4);
    if (!from || !to)
        exit(1);
    memset(from, 1, (size_t)LARGE * 4);
    memset(to, 1, (size_t)LARGE * 4);
    for (int round = 0; round < rounds; round++) {
        double start = clock_now();
        memcpy(to, from, (size_t)LARGE * 4);
        values[round] = clock_now() - start;
        from[round] = to[round + 1];
    }
    free(from);
    free(to);
    return timing_median(values, rounds);
}

static void large_ones(void)
{
    static const struct {
        const char *name;
        ph_tensor *(*fn)(bench *);
        double bytes; /* read and written, of an element */
    } ops[] = {{"clone", copy, 8},
               {"add", add, 12},
               {"add a row", add_row, 8},
               {"add, f16", add_half, 4},
               {"relu", relu, 8},
               {"exp", exponential, 8},
               {"tanh", hyperbolic, 8},
               {"gelu", gelu, 8},
               {"cast to bf16", cast, 6},
               {"transposed copy", turn, 8},
               {"sum", sum, 4},
               {"sum along rows", sum_rows, 4},
               {"sum along columns", sum_columns, 4},
               {"max", largest, 4}};
    bench one, two;
    open_bench(&one, "host:threads=1", ROWS, LARGE / ROWS);
    open_bench(&two, "host:threads=2", ROWS, LARGE / ROWS);
    printf("\n%-28s %10s %10s %10s %10s\n", "16 Mi elements of f32", "ms, 1", "GB/s, 1", "ms, 2",
           "GB/s, 2");
    double ns = time_memcpy();
    printf("%-28s %10.2f %10.2f\n", "memcpy", ns / 1e6, LARGE * 8.0 / ns);
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        double a = time_op(&one, ops[i].fn, 1), b = time_op(&two, ops[i].fn, 1);
        printf("%-28s %10.2f %10.2f %10.2f %10.2f\n", ops[i].name, a / 1e6,
               ops[i].bytes * LARGE / a, b / 1e6, ops[i].bytes * LARGE / b);
    }
    close_bench(&one);
    close_bench(&two);
}

int main(int argc, char **argv)
{
    ph_device *device;
    rounds = timing_rounds("tensor_ops", rounds, MOST_ROUNDS, argc, argv);
    OK(ph_device_open(&device, "host", NULL));
    timing_print_machine(device);
    printf("medians of %d rounds\n", rounds);
    ph_device_release(device);
    small_ones();
    large_ones();
    return 0;
}
