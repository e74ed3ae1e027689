/* SPDX-License-Identifier: MIT */
/* bench/cuda_fill.c: a chain of a hundred fills in a graph, beside the same as memset nodes: why
 * small fills are recorded as kernels (docs/guide/cuda.md). And a chain of kernels with small
 * memsets of other code between them, as many as a backward pass of GPT-2 has, with and without
 * keep_graph. */
#include "cuda/bench.h"
#include <phonograph/cuda.h>

enum {
    FILLS = 100
};

typedef struct state {
    bench *bench;
    ph_graph *graph;
    raw_exec exec;
} state;

static void replay(void *user)
{
    const state *s = user;
    OK(ph_graph_replay(s->graph, s->bench->stream));
}

static void launch(void *user)
{
    const state *s = user;
    RAW_OK(raw.graph_launch(s->exec, s->bench->native));
}

static void wait(void *user)
{
    const state *s = user;
    bench_wait(s->bench);
}

static void replay_and_wait(void *user)
{
    replay(user);
    wait(user);
}

static void launch_and_wait(void *user)
{
    launch(user);
    wait(user);
}

static ph_status fills(const bench *b, void *address, size_t bytes)
{
    for (int i = 0; i < FILLS; i++)
        PH_TRY(ph_memset(address, (uint8_t)i, bytes, b->stream));
    return PH_OK;
}

static void raw_fills(const bench *b, void *address, size_t bytes, raw_graph *graph, raw_exec *exec)
{
    RAW_OK(raw.capture_begin(b->native, RAW_CAPTURE_GLOBAL));
    for (int i = 0; i < FILLS; i++)
        RAW_OK(raw.fill((uint64_t)(uintptr_t)address, (unsigned char)i, bytes, b->native));
    RAW_OK(raw.capture_end(b->native, graph));
    RAW_OK(raw.instantiate(exec, *graph, RAW_INSTANTIATE_FLAGS));
    RAW_OK(raw.upload(*exec, b->native));
    bench_wait(b);
}

static void measure(bench *b, size_t bytes)
{
    state s = {.bench = b};
    raw_graph graph;
    void *address;
    char what[32];
    OK(ph_malloc(&address, 1, bytes, b->stream));
    OK(ph_graph_create(&s.graph, NULL));
    OK(ph_graph_capture_begin(s.graph, b->stream, NULL));
    OK(ph_graph_capture_end(s.graph, fills(b, address, bytes)));
    raw_fills(b, address, bytes, &graph, &s.exec);
    bench_side launches[] = {
        {.name = "ph_memset", .run = replay, .after = wait, .user = &s},
        {.name = "memset nodes", .run = launch, .after = wait, .user = &s},
    };
    (void)snprintf(what, sizeof what, "%zu B, launch", bytes);
    bench_compare(b, what, FILLS, launches, 2, 1);
    bench_side ends[] = {
        {.name = "ph_memset", .run = replay_and_wait, .user = &s},
        {.name = "memset nodes", .run = launch_and_wait, .user = &s},
    };
    (void)snprintf(what, sizeof what, "%zu B, and wait", bytes);
    bench_compare(b, what, FILLS, ends, 2, 1);
    RAW_OK(raw.exec_destroy(s.exec));
    RAW_OK(raw.graph_destroy(graph));
    ph_graph_destroy(s.graph);
    ph_free(address, NULL);
}

/* ---- memsets of other code ---- */

enum {
    KERNELS = 400,
    FOREIGN_BYTES = 1024
};

typedef struct mixed {
    bench *bench;
    void *address;
    int fills;
} mixed;

static ph_status kernels_and_fills(ph_stream *stream, void *user)
{
    const mixed *m = user;
    struct CUstream_st *native;
    PH_TRY(ph_stream_cuda(&native, stream));
    for (int i = 0; i < KERNELS; i++) {
        bench_args args = bench_link(m->bench, i);
        PH_TRY(ph_launch(stream, m->bench->kernel, &m->bench->config, &args, sizeof args));
        if (i * m->fills / KERNELS != (i + 1) * m->fills / KERNELS)
            RAW_OK(raw.fill((uint64_t)(uintptr_t)m->address, (unsigned char)i, FOREIGN_BYTES,
                            (raw_stream)native));
    }
    return PH_OK;
}

static void measure_foreign(bench *b, int fills)
{
    mixed m = {.bench = b, .fills = fills};
    state lowered = {.bench = b}, kept = {.bench = b};
    char what[48];
    OK(ph_malloc(&m.address, 1, FOREIGN_BYTES, b->stream));
    OK(ph_graph_create(&lowered.graph, NULL));
    OK(ph_graph_create(&kept.graph, &(ph_graph_options){.keep_graph = true}));
    OK(ph_graph_capture(lowered.graph, b->stream, NULL, kernels_and_fills, &m));
    OK(ph_graph_capture(kept.graph, b->stream, NULL, kernels_and_fills, &m));
    OK(ph_graph_instantiate(kept.graph));
    bench_side launches[] = {
        {.name = "as kernels", .run = replay, .after = wait, .user = &lowered},
        {.name = "keep_graph", .run = replay, .after = wait, .user = &kept},
    };
    (void)snprintf(what, sizeof what, "%d memsets of others, launch", fills);
    bench_compare(b, what, KERNELS + fills, launches, 2, 1);
    bench_side ends[] = {
        {.name = "as kernels", .run = replay_and_wait, .user = &lowered},
        {.name = "keep_graph", .run = replay_and_wait, .user = &kept},
    };
    (void)snprintf(what, sizeof what, "%d memsets of others, and wait", fills);
    bench_compare(b, what, KERNELS + fills, ends, 2, 1);
    ph_graph_destroy(lowered.graph);
    ph_graph_destroy(kept.graph);
    ph_free(m.address, NULL);
}

int main(int argc, char **argv)
{
    static const size_t sizes[] = {256, 4096, 65536};
    bench b;
    bench_open(&b, "cuda_fill", 501, argc, argv);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        measure(&b, sizes[i]);
    measure_foreign(&b, 27);
    measure_foreign(&b, 122);
    return bench_close(&b);
}
