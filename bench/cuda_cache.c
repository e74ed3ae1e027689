/* SPDX-License-Identifier: MIT */
/* bench/cuda_cache.c: a cache of graphs. Hits beside cuGraphLaunch of the same executable, on a
 * stream of the library's own and on one that was lent out; a hit that sets 20 of 1,000 pointers;
 * and a client as an inference engine is one: 203 kernels of its own a call, of which 20 write
 * views that move, in widths that change, and the result is waited for. The client runs as it is,
 * is captured and updated at each call by the driver's own calls, or goes through the cache. */
#include "clock.h"
#include "cuda/bench.h"
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum {
    KERNELS = 203,
    MOVING = 20,
    POINTERS = 1000,
    ENTRIES = 1000,
    KEY = 64,
    WIDTHS = 4,
    STEPS = 512,        /* views before they begin again */
    LARGE = 1 << 20,    /* items of a kernel of the large layers, for a width of 8 */
    SMALL = BENCH_ITEMS /* and of the small ones */
};

typedef struct client {
    bench *b;
    raw_stream stream;
    int32_t *cells[2], *views;
    size_t items, view_items;
    bool widths, moves;
    const void *pointers[POINTERS];
    uint64_t random;
    int width, step;
    /* one of these */
    ph_graph_cache *cache;
    bool updates;
    raw_exec exec[WIDTHS];
} client;

/* ---- the client ---- */
static void launch_one(const client *c, const int32_t *x, int32_t *y, size_t items)
{
    uint32_t n = (uint32_t)items;
    void *params[] = {&x, &y, &n};
    RAW_OK(raw.launch(c->b->function, (n + BENCH_THREADS - 1) / BENCH_THREADS, 1, 1, BENCH_THREADS,
                      1, 1, 0, c->stream, params, NULL));
}

static int32_t *view(const client *c, int i)
{
    return c->views + ((size_t)c->step * MOVING + (size_t)i) * c->view_items;
}

static ph_status submit(ph_stream *stream, void *user)
{
    const client *c = user;
    size_t items = c->widths ? c->items / 8 * (size_t)c->width : c->items;
    (void)stream;
    for (int i = 0; i < KERNELS; i++) {
        bool moves = i % 10 == 9 && i / 10 < MOVING;
        launch_one(c, c->cells[i % 2], moves ? view(c, i / 10) : c->cells[(i + 1) % 2],
                   moves ? c->view_items : items);
    }
    return PH_OK;
}

static void next_call(client *c)
{
    static const int widths[WIDTHS] = {1, 5, 2, 8};
    c->random ^= c->random << 13, c->random ^= c->random >> 7, c->random ^= c->random << 17;
    c->width = c->widths ? widths[c->random % WIDTHS] : 8;
    c->step = c->moves ? (c->step + 1) % STEPS : 0;
    for (int i = 0; i < MOVING; i++)
        c->pointers[2 + i] = view(c, i);
}

static void run_eagerly(void *user)
{
    client *c = user;
    next_call(c);
    OK(submit(NULL, c));
    RAW_OK(raw.stream_synchronize(c->stream));
}

static void run_updated(void *user)
{
    client *c = user;
    raw_graph graph;
    raw_update_result result;
    next_call(c);
    raw_exec *exec = &c->exec[c->width == 1 ? 0 : c->width == 5 ? 1 : c->width == 2 ? 2 : 3];
    RAW_OK(raw.capture_begin(c->stream, RAW_CAPTURE_GLOBAL));
    OK(submit(NULL, c));
    RAW_OK(raw.capture_end(c->stream, &graph));
    if (*exec)
        RAW_OK(raw.exec_update(*exec, graph, &result));
    else
        RAW_OK(raw.instantiate(exec, graph, RAW_INSTANTIATE_FLAGS));
    RAW_OK(raw.graph_launch(*exec, c->stream));
    RAW_OK(raw.graph_destroy(graph));
    RAW_OK(raw.stream_synchronize(c->stream));
}

static void run_cached(void *user)
{
    client *c = user;
    next_call(c);
    const ph_graph_cache_call call = {.key = &c->width,
                                      .key_bytes = sizeof c->width,
                                      .body = submit,
                                      .user = c,
                                      .pointers = c->pointers,
                                      .pointer_count = POINTERS};
    OK(ph_graph_cache_run(c->cache, c->b->stream, &call, NULL));
    RAW_OK(raw.stream_synchronize(c->stream));
}

static void open_client(client *c, bench *b, bool large, bool widths, bool moves)
{
    memset(c, 0, sizeof *c);
    c->b = b;
    c->items = large ? LARGE : SMALL;
    c->view_items = SMALL;
    c->widths = widths;
    c->moves = moves;
    c->random = 88172645463325252u;
    OK(ph_stream_cuda(&c->stream, b->stream));
    for (int i = 0; i < 2; i++)
        OK(PH_NEW(&c->cells[i], c->items, b->stream));
    OK(PH_NEW(&c->views, (size_t)STEPS * MOVING * c->view_items, b->stream));
    for (int i = 0; i < POINTERS; i++)
        c->pointers[i] = c->cells[i % 2];
}

static void close_client(client *c)
{
    ph_graph_cache_destroy(c->cache);
    for (int i = 0; i < WIDTHS; i++)
        if (c->exec[i])
            RAW_OK(raw.exec_destroy(c->exec[i]));
    for (int i = 0; i < 2; i++)
        ph_free(c->cells[i], NULL);
    ph_free(c->views, NULL);
}

static void measure_client(bench *b, const char *what, bool large, bool widths, bool moves)
{
    client sides_of[3];
    for (int i = 0; i < 3; i++)
        open_client(&sides_of[i], b, large, widths, moves);
    OK(ph_graph_cache_create(&sides_of[0].cache, b->device, NULL));
    bench_side sides[] = {
        {.name = "ph_graph_cache_run", .run = run_cached, .user = &sides_of[0]},
        {.name = "as it is", .run = run_eagerly, .user = &sides_of[1], .limit = 1 / 1.05},
        {.name = "captured and updated", .run = run_updated, .user = &sides_of[2]},
    };
    for (int i = 0; i < 100; i++) /* until every width is captured, and its views are learned */
        for (int s = 0; s < 3; s++)
            sides[s].run(sides[s].user);
    bench_compare(b, what, KERNELS, sides, 3, 1);
    for (int i = 0; i < 3; i++)
        close_client(&sides_of[i]);
}

/* ---- hits ---- */
typedef struct hits {
    bench *b;
    ph_graph_cache *cache;
    raw_stream stream;
    int count; /* replays in a sample */
    int entries, step, at;
    char keys[ENTRIES][KEY];
    raw_exec execs[ENTRIES];
} hits;

static ph_status one_kernel(ph_stream *stream, void *user)
{
    const hits *h = user;
    (void)stream;
    return bench_chain(h->b, 1);
}

static ph_graph *run_hit(const hits *h, int key)
{
    ph_graph_cache_result result;
    const ph_graph_cache_call call = {
        .key = h->keys[key], .key_bytes = KEY, .body = one_kernel, .user = (void *)(uintptr_t)h};
    OK(ph_graph_cache_run(h->cache, h->b->stream, &call, &result));
    return result.graph;
}

static int next_key(hits *h)
{
    h->at += h->step;
    h->at -= h->at >= h->entries ? h->entries : 0;
    return h->at;
}

static void replay_hits(void *user)
{
    hits *h = user;
    for (int i = 0; i < h->count; i++)
        (void)run_hit(h, next_key(h));
}

static void launch_same(void *user)
{
    hits *h = user;
    for (int i = 0; i < h->count; i++)
        RAW_OK(raw.graph_launch(h->execs[next_key(h)], h->stream));
}

static void wait_hits(void *user)
{
    const hits *h = user;
    bench_wait(h->b);
}

/* step: from one call's key to the next one's. lent: the program has the stream's handle, as an
 * engine has; the library asks the driver each time then whether it is capturing. */
static void measure_hits(bench *b, bool lent, const char *what, int entries, int step)
{
    char name[96];
    static hits h;
    memset(&h, 0, sizeof h);
    h.b = b;
    h.count = 20;
    h.entries = entries;
    h.step = step;
    h.at = entries - 1;
    h.stream = b->native;
    if (lent)
        OK(ph_stream_cuda(&h.stream, b->stream));
    OK(ph_graph_cache_create(&h.cache, b->device,
                             &(ph_graph_cache_options){.after = PH_ZERO, .max_graphs = ENTRIES}));
    for (int i = 0; i < entries; i++) {
        (void)snprintf(h.keys[i], KEY, "key %d", i);
        OK(ph_graph_exec_cuda(&h.execs[i], run_hit(&h, i)));
    }
    bench_side sides[] = {
        {.name = "ph_graph_cache_run", .run = replay_hits, .after = wait_hits, .user = &h},
        {.name = "cuGraphLaunch, the same", .run = launch_same, .after = wait_hits, .user = &h},
    };
    (void)snprintf(name, sizeof name, "hit, %s, %s stream", what, lent ? "lent" : "own");
    bench_compare(b, name, 1, sides, 2, h.count);
    ph_graph_cache_destroy(h.cache);
}

/* ---- hits that set ---- */
typedef struct moved {
    bench *b;
    ph_graph_cache *cache;
    raw_graph graph;
    raw_exec exec;
    raw_node nodes[MOVING];
    int32_t *rooms[MOVING]; /* two places each, at distances of their own */
    const void *pointers[POINTERS];
    bool other;
} moved;

static int32_t *moved_place(const moved *m, int i)
{
    return m->rooms[i] + (m->other ? (i + 1) * BENCH_ITEMS : 0);
}

static ph_status moved_kernels(ph_stream *stream, void *user)
{
    const moved *m = user;
    for (int i = 0; i < MOVING; i++) {
        bench_args args = {m->b->cells[0], moved_place(m, i), BENCH_ITEMS};
        PH_TRY(ph_launch(stream, m->b->kernel, &m->b->config, &args, sizeof args));
    }
    return PH_OK;
}

static void run_moved(void *user)
{
    moved *m = user;
    m->other = !m->other;
    for (int i = 0; i < MOVING; i++)
        m->pointers[i * (POINTERS / MOVING)] = moved_place(m, i);
    const ph_graph_cache_call call = {.key = "moved",
                                      .key_bytes = 5,
                                      .body = moved_kernels,
                                      .user = m,
                                      .pointers = m->pointers,
                                      .pointer_count = POINTERS};
    OK(ph_graph_cache_run(m->cache, m->b->stream, &call, NULL));
}

static void set_moved(void *user)
{
    moved *m = user;
    m->other = !m->other;
    for (int i = 0; i < MOVING; i++) {
        const int32_t *x = m->b->cells[0];
        int32_t *y = moved_place(m, i);
        uint32_t n = BENCH_ITEMS;
        void *params[] = {&x, &y, &n};
        raw_kernel_params node = {.function = m->b->function,
                                  .grid = {BENCH_BLOCKS, 1, 1},
                                  .block = {BENCH_THREADS, 1, 1},
                                  .params = params};
        RAW_OK(raw.exec_set_kernel(m->exec, m->nodes[i], &node));
    }
    RAW_OK(raw.graph_launch(m->exec, m->b->native));
}

static void wait_moved(void *user)
{
    const moved *m = user;
    bench_wait(m->b);
}

static void measure_moved(bench *b)
{
    moved ours = {.b = b}, theirs;
    size_t count = MOVING;
    for (int i = 0; i < POINTERS; i++)
        ours.pointers[i] = b->cells[1];
    for (int i = 0; i < MOVING; i++)
        OK(PH_NEW(&ours.rooms[i], (MOVING + 1) * BENCH_ITEMS, b->stream));
    OK(ph_graph_cache_create(&ours.cache, b->device, NULL));
    theirs = ours;
    bench_raw_chain(b, MOVING, &theirs.graph, &theirs.exec);
    RAW_OK(raw.graph_nodes(theirs.graph, theirs.nodes, &count));
    for (int i = 0; i < 8; i++)
        run_moved(&ours);
    bench_side sides[] = {
        {.name = "ph_graph_cache_run", .run = run_moved, .after = wait_moved, .user = &ours},
        {.name = "the driver: 20 sets, launch",
         .run = set_moved,
         .after = wait_moved,
         .user = &theirs},
    };
    bench_compare(b, "hit, 20 of 1000 moved", MOVING, sides, 2, 1);
    RAW_OK(raw.exec_destroy(theirs.exec));
    RAW_OK(raw.graph_destroy(theirs.graph));
    ph_graph_cache_destroy(ours.cache);
    for (int i = 0; i < MOVING; i++)
        ph_free(ours.rooms[i], NULL);
}

int main(int argc, char **argv)
{
    bench b;
    bench_open(&b, "cuda_cache", 501, argc, argv);
    for (int lent = 0; lent < 2; lent++) { /* once lent, for ever */
        measure_hits(&b, lent, "1 entry", 1, 0);
        measure_hits(&b, lent, "1000 entries", ENTRIES, 0);
        measure_hits(&b, lent, "1000 entries in turn", ENTRIES, 7);
    }
    measure_moved(&b);
    measure_client(&b, "fixed addresses", true, false, false);
    measure_client(&b, "widths", true, true, false);
    measure_client(&b, "views move", true, false, true);
    measure_client(&b, "views move, small", false, false, true);
    measure_client(&b, "widths and views", true, true, true);
    return bench_close(&b);
}
