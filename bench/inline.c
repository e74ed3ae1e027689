/* SPDX-License-Identifier: MIT */
/* bench/inline.c: what small eager work costs on an idle stream of the host device, inline kernels
 * beside others; and what the cells of a graph add to its replay. */
#include "clock.h"
#include "host/timing.h"

enum {
    MOST_ROUNDS = 1000,
    REPEATS = 20000,
    FLOATS = 64
};

static int rounds = 31;

/* ---- the work: y += x, over 64 floats ---- */
typedef struct args {
    float *y;
    const float *x;
    uint32_t n;
} args;

static void add(const ph_block_range *range, const void *user)
{
    const args *a = user;
    (void)range;
    for (uint32_t i = 0; i < a->n; i++)
        a->y[i] += a->x[i];
}

static const ph_block_range one_block = {{1, 1, 1}, {1, 1, 1}, 0, 1, NULL};

typedef struct bench {
    ph_device *device;
    ph_stream *stream;
    ph_kernel *inlined, *queued;
    ph_graph *plain, *handed, *with_cells, *constant;
    args args;
    uint64_t step;
} bench;

static void call(bench *b)
{
    ph_host_kernel_fn volatile fn = add;
    fn(&one_block, &b->args);
}

static void launch_inline(bench *b)
{
    OK(ph_launch(b->stream, b->inlined, NULL, &b->args, sizeof b->args));
}

static void launch_queued(bench *b)
{
    OK(ph_launch(b->stream, b->queued, NULL, &b->args, sizeof b->args));
}

static void launch_queued_and_wait(bench *b)
{
    OK(ph_launch(b->stream, b->queued, NULL, &b->args, sizeof b->args));
    OK(ph_stream_synchronize(b->stream));
}

static void launch_inline_and_wait(bench *b)
{
    OK(ph_launch(b->stream, b->inlined, NULL, &b->args, sizeof b->args));
    OK(ph_stream_synchronize(b->stream));
}

static void fill(bench *b)
{
    OK(ph_memset(b->args.y, 0, FLOATS * sizeof(float), b->stream));
}

static void copy(bench *b)
{
    OK(ph_memcpy(b->args.y, b->args.x, FLOATS * sizeof(float), b->stream));
}

static void replay_plain(bench *b)
{
    OK(ph_graph_replay(b->plain, b->stream));
}

static void replay_plain_and_wait(bench *b)
{
    OK(ph_graph_replay(b->plain, b->stream));
    OK(ph_stream_synchronize(b->stream));
}

static void replay_handed(bench *b)
{
    OK(ph_graph_replay(b->handed, b->stream));
}

static void replay_handed_and_wait(bench *b)
{
    OK(ph_graph_replay(b->handed, b->stream));
    OK(ph_stream_synchronize(b->stream));
}

static void replay_with_cells(bench *b)
{
    OK(ph_graph_replay(b->with_cells, b->stream));
}

static void replay_constant(bench *b)
{
    OK(ph_graph_replay(b->constant, b->stream));
}

/* ---- graphs ---- */
static ph_status next_step(uint64_t *values, void *user)
{
    values[0] = 1234;
    values[1] = *(uint64_t *)user;
    return PH_OK;
}

static void advance(void *user, bool launched)
{
    *(uint64_t *)user += launched;
}

static ph_status body_plain(ph_stream *stream, void *user)
{
    const bench *b = user;
    for (int i = 0; i < 10; i++)
        PH_TRY(ph_launch(stream, b->inlined, NULL, &b->args, sizeof b->args));
    return PH_OK;
}

static ph_status body_handed(ph_stream *stream, void *user)
{
    const bench *b = user;
    for (int i = 0; i < 10; i++)
        PH_TRY(ph_launch(stream, b->queued, NULL, &b->args, sizeof b->args));
    return PH_OK;
}

static ph_status body_cells(ph_stream *stream, void *user)
{
    bench *b = user;
    uint64_t *cells[2];
    const ph_cells_source source = {
        .count = 2, .values = next_step, .launched = advance, .user = &b->step};
    PH_TRY(ph_cells_create(cells, stream, &source));
    return body_plain(stream, user);
}

static ph_status body_constant(ph_stream *stream, void *user)
{
    bench *b = user;
    uint64_t *cells[2];
    const ph_cells_source source = {.count = 2, .values = next_step, .user = &b->step};
    PH_TRY(ph_cells_create(cells, stream, &source));
    return body_plain(stream, user);
}

/* ---- timing ---- */
typedef struct row {
    const char *what;
    void (*fn)(bench *b);
    double values[MOST_ROUNDS];
} row;

static void time_row(bench *b, row *r, int round)
{
    double start = clock_now();
    for (int i = 0; i < REPEATS; i++)
        r->fn(b);
    OK(ph_stream_synchronize(b->stream));
    r->values[round] = (clock_now() - start) / REPEATS;
}

static void set_up(bench *b)
{
    ph_kernel_source source = {
        .name = "add", .host = add, .args_size = sizeof(args), .host_inline = true};
    OK(ph_device_open(&b->device, "host", NULL));
    OK(ph_stream_create(&b->stream, b->device, NULL));
    OK(ph_kernel_create(&b->inlined, b->device, &source));
    source.host_inline = false;
    OK(ph_kernel_create(&b->queued, b->device, &source));
    void *x, *y;
    OK(ph_malloc(&x, FLOATS, sizeof(float), b->stream));
    OK(ph_malloc(&y, FLOATS, sizeof(float), b->stream));
    OK(ph_memset(x, 0, FLOATS * sizeof(float), b->stream));
    OK(ph_memset(y, 0, FLOATS * sizeof(float), b->stream));
    b->args = (args){y, x, FLOATS};
    ph_graph **graphs[] = {&b->plain, &b->handed, &b->with_cells, &b->constant};
    ph_capture_fn bodies[] = {body_plain, body_handed, body_cells, body_constant};
    for (size_t i = 0; i < sizeof bodies / sizeof bodies[0]; i++) {
        OK(ph_graph_create(graphs[i], NULL));
        OK(ph_graph_capture(*graphs[i], b->stream, NULL, bodies[i], b));
    }
}

static void tear_down(bench *b)
{
    ph_graph_destroy(b->plain);
    ph_graph_destroy(b->handed);
    ph_graph_destroy(b->with_cells);
    ph_graph_destroy(b->constant);
    ph_free((void *)(uintptr_t)b->args.x, b->stream);
    ph_free(b->args.y, b->stream);
    ph_kernel_release(b->inlined);
    ph_kernel_release(b->queued);
    ph_stream_destroy(b->stream);
    ph_device_release(b->device);
}

int main(int argc, char **argv)
{
    static bench b;
    static row rows[] = {
        {.what = "the kernel, called", .fn = call},
        {.what = "ph_launch, host_inline", .fn = launch_inline},
        {.what = "ph_launch, queued", .fn = launch_queued},
        {.what = "ph_launch, host_inline, and synchronize", .fn = launch_inline_and_wait},
        {.what = "ph_launch, queued, and synchronize", .fn = launch_queued_and_wait},
        {.what = "ph_memset, 256 bytes", .fn = fill},
        {.what = "ph_memcpy, 256 bytes", .fn = copy},
        {.what = "ph_graph_replay, 10 queued nodes", .fn = replay_handed},
        {.what = "the same, and synchronize", .fn = replay_handed_and_wait},
        {.what = "ph_graph_replay, 10 inline nodes, synchronize", .fn = replay_plain_and_wait},
        {.what = "ph_graph_replay, 10 inline nodes", .fn = replay_plain},
        {.what = "the same with 2 cells, one changing", .fn = replay_with_cells},
        {.what = "the same with 2 cells that stay", .fn = replay_constant},
    };
    enum {
        ROWS = sizeof rows / sizeof rows[0]
    };
    rounds = timing_rounds("inline", rounds, MOST_ROUNDS, argc, argv);
    set_up(&b);
    timing_print_machine(b.device);
    for (int round = 0; round < rounds; round++)
        for (size_t i = 0; i < ROWS; i++)
            time_row(&b, &rows[i], round);
    printf("%-42s %8s %8s %8s\n", "y += x over 64 floats, ns each", "median", "lowest", "highest");
    for (size_t i = 0; i < ROWS; i++) {
        timing_spread ns = timing_spread_of(rows[i].values, rounds);
        printf("%-42s %8.1f %8.1f %8.1f\n", rows[i].what, ns.median, ns.low, ns.high);
    }
    tear_down(&b);
    return 0;
}
