/* SPDX-License-Identifier: MIT */
/* bench/cuda_malloc.c: what a cached ph_malloc and ph_free pair costs on the GPU: one size,
 * eight sizes, in a capture; beside the driver's own stream-ordered pair. */
#include "cuda/bench.h"

enum {
    PAIRS = 800
};
static const double limit_ns = 100;

static void one_size(void *user)
{
    const bench *b = user;
    void *p;
    for (int i = 0; i < PAIRS; i++) {
        OK(ph_malloc(&p, 1, 1024, b->stream));
        ph_free(p, b->stream);
    }
}

static void eight_sizes(void *user)
{
    static const size_t sizes[8] = {512, 2000, 4096, 60000, 262144, 1u << 20, 3u << 20, 9u << 20};
    const bench *b = user;
    void *p[8];
    for (int i = 0; i < PAIRS / 8; i++) {
        for (int k = 0; k < 8; k++)
            OK(ph_malloc(&p[k], 1, sizes[k], b->stream));
        for (int k = 0; k < 8; k++)
            ph_free(p[k], b->stream);
    }
}

static void driver_pairs(void *user)
{
    const bench *b = user;
    uint64_t p;
    for (int i = 0; i < PAIRS; i++) {
        RAW_OK(raw.alloc_async(&p, 1024, b->native));
        RAW_OK(raw.free_async(p, b->native));
    }
}

static void wait(void *user)
{
    bench_wait(user);
}

static ph_status in_capture(ph_stream *stream, void *user)
{
    bench *b = user;
    bench_side side = {.name = "ph_malloc + ph_free", .run = one_size, .user = b};
    PH_TRY(ph_memset(b->cells[0], 0, BENCH_ITEMS, stream)); /* a capture of nothing is warned of */
    bench_compare(b, "a pair, in a capture", 0, &side, 1, PAIRS);
    return PH_OK;
}

int main(int argc, char **argv)
{
    bench b;
    uint64_t kept;
    ph_graph *graph;
    bench_open(&b, "cuda_malloc", 501, argc, argv);
    /* Kept, so that the driver's pool does not give its memory back at each wait. */
    RAW_OK(raw.alloc_async(&kept, 1024, b.native));
    bench_side one[] = {
        {.name = "ph_malloc + ph_free",
         .run = one_size,
         .after = wait,
         .user = &b,
         .limit = limit_ns},
        {.name = "cuMemAllocAsync + Free", .run = driver_pairs, .after = wait, .user = &b},
    };
    bench_compare(&b, "a pair of 1 KiB", 0, one, 2, PAIRS);
    bench_side eight = {.name = "ph_malloc + ph_free",
                        .run = eight_sizes,
                        .after = wait,
                        .user = &b,
                        .limit = limit_ns};
    bench_compare(&b, "a pair, 512 B to 9 MiB", 0, &eight, 1, PAIRS);
    OK(ph_graph_create(&graph, NULL));
    OK(ph_graph_capture(graph, b.stream, NULL, in_capture, &b));
    ph_graph_destroy(graph);
    RAW_OK(raw.free_async(kept, b.native));
    return bench_close(&b);
}
