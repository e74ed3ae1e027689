/* SPDX-License-Identifier: MIT */
/* bench/cuda_demotion.c: what replays of an executable take after its nodes were changed: addresses
 * before and behind its first upload, and grids, by nodes and by update. The driver's own calls;
 * the last rows are the library's, whose graphs are uploaded before a change, and whose cache makes
 * executables anew. Times are the GPU's, between two events. */
#include "clock.h"
#include "cuda/bench.h"
#include <stdlib.h>

enum {
    ROWS = 10,
    GRID = BENCH_BLOCKS,
    OTHER_GRID = BENCH_BLOCKS + 1,
    MOST_NODES = 1000,
    WARM_UP = 20,
    MOST_CALLS = 1000
};

typedef struct row {
    const char *name;
    raw_exec exec;
    ph_graph *graph;       /* instead of exec */
    ph_graph_cache *cache; /* whose graph it is; NULL: the row's */
    double *us;
} row;

typedef struct demotion {
    bench *b;
    raw_event before, behind;
    raw_graph chain, other_addresses, other_grids;
    int nodes;
} demotion;

/* ---- graphs ---- */
static raw_graph capture(const bench *b, int nodes, int first, unsigned grid)
{
    raw_graph graph;
    RAW_OK(raw.capture_begin(b->native, RAW_CAPTURE_GLOBAL));
    for (int i = 0; i < nodes; i++) {
        bench_args args = bench_link(b, i + first);
        void *params[] = {&args.x, &args.y, &args.n};
        RAW_OK(
            raw.launch(b->function, grid, 1, 1, BENCH_THREADS, 1, 1, 0, b->native, params, NULL));
    }
    RAW_OK(raw.capture_end(b->native, &graph));
    return graph;
}

static void upload(const bench *b, raw_exec exec)
{
    RAW_OK(raw.upload(exec, b->native));
    RAW_OK(raw.stream_synchronize(b->native));
}

static raw_exec make(raw_graph graph)
{
    raw_exec exec;
    RAW_OK(raw.instantiate(&exec, graph, RAW_INSTANTIATE_FLAGS));
    return exec;
}

/* Uploaded and launched once. */
static raw_exec make_ready(const demotion *d, raw_graph graph)
{
    raw_exec exec = make(graph);
    upload(d->b, exec);
    RAW_OK(raw.graph_launch(exec, d->b->native));
    RAW_OK(raw.stream_synchronize(d->b->native));
    return exec;
}

static void set_all(const demotion *d, raw_exec exec, int first, unsigned grid)
{
    static raw_node nodes[MOST_NODES];
    size_t count = MOST_NODES;
    RAW_OK(raw.graph_nodes(d->chain, nodes, &count));
    for (size_t i = 0; i < count; i++) {
        bench_args args = bench_link(d->b, (int)i + first);
        void *params[] = {&args.x, &args.y, &args.n};
        raw_kernel_params node = {.function = d->b->function,
                                  .grid = {grid, 1, 1},
                                  .block = {BENCH_THREADS, 1, 1},
                                  .params = params};
        RAW_OK(raw.exec_set_kernel(exec, nodes[i], &node));
    }
}

static raw_exec updated(const demotion *d, raw_graph from)
{
    raw_update_result result;
    raw_exec exec = make_ready(d, d->chain);
    RAW_OK(raw.exec_update(exec, from, &result));
    return exec;
}

/* Each node is set before anybody has uploaded it. */
static ph_graph *changed_by_the_library(const demotion *d)
{
    const ph_graph_options options = {.defer_upload = true};
    bench *b = d->b;
    ph_graph *graph;
    OK(ph_graph_create(&graph, &options));
    OK(ph_graph_capture_begin(graph, b->stream, NULL));
    OK(ph_graph_capture_end(graph, bench_chain(b, d->nodes)));
    for (int i = 0; i < d->nodes; i++) {
        bench_args args = bench_link(b, i + 1);
        OK(ph_graph_node_set_launch(graph, (size_t)i, &b->config, &args, sizeof args));
    }
    return graph;
}

/* ---- a cache ---- each call has a value of its own, which no parameter has: all are captured. */
typedef struct cached_chain {
    const demotion *d;
    unsigned grid;
} cached_chain;

static ph_status launch_chain(ph_stream *stream, void *user)
{
    const cached_chain *c = user;
    bench b = *c->d->b;
    (void)stream; /* the bench's */
    b.config.grid[0] = c->grid;
    return bench_chain(&b, c->d->nodes);
}

static ph_graph *run_cache(const demotion *d, ph_graph_cache *cache, unsigned grid)
{
    static int64_t call;
    cached_chain c = {d, grid};
    ph_graph_cache_result result;
    call++;
    OK(ph_graph_cache_run(
        cache, d->b->stream,
        &(ph_graph_cache_call){.key = "chain",
                               .key_bytes = 5,
                               .body = launch_chain,
                               .user = &c,
                               .values = &(ph_graph_cache_value){&call, sizeof call},
                               .value_count = 1},
        &result));
    bench_wait(d->b);
    return result.graph;
}

/* The graph that the cache updates after a change of grids, made anew or not. */
static row row_of_cache(const demotion *d, const char *name, size_t renew_after)
{
    const ph_graph_cache_options options = {
        .after = PH_ZERO, .fallback = PH_CACHE_FALLBACK_UPDATE, .renew_after = renew_after};
    row made = {.name = name};
    ph_graph_cache_stats stats;
    OK(ph_graph_cache_create(&made.cache, d->b->device, &options));
    for (int i = 0; i < 4; i++)
        made.graph = run_cache(d, made.cache, GRID);
    int calls = 0;
    do {
        made.graph = run_cache(d, made.cache, OTHER_GRID);
        OK(ph_graph_cache_get_stats(&stats, made.cache));
    } while (renew_after != PH_ZERO && stats.renewed == 0 && ++calls < MOST_CALLS);
    if (calls == MOST_CALLS) {
        (void)fprintf(stderr, "%s: no executable was made anew\n", d->b->name);
        exit(1);
    }
    return made;
}

static void make_rows(row rows[ROWS], const demotion *d)
{
    raw_exec early = make(d->chain), late = make_ready(d, d->chain), grid = make_ready(d, d->chain);
    set_all(d, early, 1, GRID);
    upload(d->b, early);
    set_all(d, late, 1, GRID);
    set_all(d, grid, 0, OTHER_GRID);
    const row made[ROWS] = {
        {.name = "fresh", .exec = make_ready(d, d->chain)},
        {.name = "address set before the first upload", .exec = early},
        {.name = "address set after it", .exec = late},
        {.name = "address by update", .exec = updated(d, d->other_addresses)},
        {.name = "fresh, another grid", .exec = make_ready(d, d->other_grids)},
        {.name = "grid set after the upload", .exec = grid},
        {.name = "grid by update", .exec = updated(d, d->other_grids)},
        {.name = "phonograph, defer_upload, address set", .graph = changed_by_the_library(d)},
        row_of_cache(d, "phonograph, cache, grid by update", PH_ZERO),
        row_of_cache(d, "phonograph, cache, made anew", 3),
    };
    for (int i = 0; i < ROWS; i++) {
        rows[i] = made[i];
        rows[i].us = malloc((size_t)d->b->rounds * sizeof *rows[i].us);
        if (!rows[i].us) {
            perror(d->b->name);
            exit(1);
        }
    }
}

/* ---- times ---- */
static double once(const demotion *d, const row *r)
{
    float ms;
    raw_stream stream = d->b->native;
    if (r->graph)
        OK(ph_stream_cuda(&stream, d->b->stream));
    RAW_OK(raw.event_record(d->before, stream));
    if (r->graph)
        OK(ph_graph_replay(r->graph, d->b->stream));
    else
        RAW_OK(raw.graph_launch(r->exec, stream));
    RAW_OK(raw.event_record(d->behind, stream));
    RAW_OK(raw.event_synchronize(d->behind));
    RAW_OK(raw.event_elapsed(&ms, d->before, d->behind));
    return (double)ms * 1000;
}

static void print_row(const demotion *d, const row *r, double first)
{
    double median = r->us[d->b->rounds / 2];
    printf("%6d  %-40s %10.2f us %8.3f of the first %8.3f us a node\n", d->nodes, r->name, median,
           median / first, median / d->nodes);
    if (d->b->json)
        (void)fprintf(d->b->json,
                      "{\"bench\":\"%s\",\"what\":\"replay\",\"nodes\":%d,\"side\":\"%s\","
                      "\"ns\":%.1f,\"p10\":%.1f,\"p90\":%.1f,\"rounds\":%d,\"ratio\":%.4f}\n",
                      d->b->name, d->nodes, r->name, median * 1000, r->us[d->b->rounds / 10] * 1000,
                      r->us[d->b->rounds - 1 - d->b->rounds / 10] * 1000, d->b->rounds,
                      median / first);
}

static void measure(bench *b, int nodes)
{
    row rows[ROWS];
    demotion d = {.b = b, .nodes = nodes};
    RAW_OK(raw.event_create(&d.before, 0));
    RAW_OK(raw.event_create(&d.behind, 0));
    d.chain = capture(b, nodes, 0, GRID);
    d.other_addresses = capture(b, nodes, 1, GRID);
    d.other_grids = capture(b, nodes, 0, OTHER_GRID);
    make_rows(rows, &d);
    for (int round = -WARM_UP; round < b->rounds; round++)
        for (int i = 0; i < ROWS; i++) {
            double us = once(&d, &rows[i]);
            if (round >= 0)
                rows[i].us[round] = us;
        }
    for (int i = 0; i < ROWS; i++)
        clock_sort(rows[i].us, b->rounds);
    for (int i = 0; i < ROWS; i++)
        print_row(&d, &rows[i], rows[0].us[b->rounds / 2]);
    for (int i = 0; i < ROWS; i++) {
        if (rows[i].exec)
            RAW_OK(raw.exec_destroy(rows[i].exec));
        if (!rows[i].cache)
            ph_graph_destroy(rows[i].graph);
        ph_graph_cache_destroy(rows[i].cache);
        free(rows[i].us);
    }
    RAW_OK(raw.graph_destroy(d.chain));
    RAW_OK(raw.graph_destroy(d.other_addresses));
    RAW_OK(raw.graph_destroy(d.other_grids));
    RAW_OK(raw.event_destroy(d.before));
    RAW_OK(raw.event_destroy(d.behind));
}

int main(int argc, char **argv)
{
    static const int sizes[] = {100, 400, 1000};
    bench b;
    bench_open(&b, "cuda_demotion", 201, argc, argv);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        measure(&b, sizes[i]);
    return bench_close(&b);
}
