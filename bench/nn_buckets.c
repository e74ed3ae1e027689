/* SPDX-License-Identifier: MIT */
/* bench/nn_buckets.c: 35 inference graphs of one network, for batches of 1 to 256, in one pool:
 * the time of making them, and the memory that they take. 16 x Linear(2048) in f16 on a GPU, 16
 * x Linear(64) in f32 on the host. bench/torch_graphed.py has PyTorch's side of the GPU's. */
#include "clock.h"
#include "nn/raw_buckets.h"
#include "nn/timing.h"
#include <phonograph/graphed.h>

enum {
    LAYERS = 16,
    MAKINGS = 15,
    BUCKETS = 35, /* 1, 2, 4, then 8, 16, 24, ... 256 */
    LARGEST = 256
};

static timing_result middle(double *times, int count)
{
    clock_sort(times, count);
    return (timing_result){times[count / 2], times[count / 2]};
}

/* ---- the network, once for each size ---- the largest first. */
typedef struct server {
    timing *t;
    ph_module *net;
    ph_tensor *in;
    ph_pool *pool;
    struct bucket {
        struct server *server;
        ph_module *entry, *graphed; /* entry: a module of its own that calls the network */
        ph_graph *graph;
        ph_tensor *x;
    } bucket[BUCKETS];
} server;

static bool freeze(const char *name, ph_tensor *parameter, void *user)
{
    (void)name;
    (void)user;
    OK(ph_tensor_set_requires_grad(parameter, false));
    return true;
}

static void enter(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    const struct bucket *bucket = self;
    out[0] = ph_call(tape, bucket->server->net, in[0]);
}

static int width_of(const timing *t)
{
    return t->gpu ? 2048 : 64;
}

static int rows_of(int bucket)
{
    int size = BUCKETS - 1 - bucket;
    return size < 3 ? 1 << size : 8 * (size - 2);
}

static void create_net(server *s)
{
    const ph_layer_options options = {.dtype = s->t->gpu ? PH_DTYPE_F16 : PH_DTYPE_F32};
    const int64_t width = width_of(s->t);
    ph_module *layer[LAYERS];
    for (int i = 0; i < LAYERS; i++)
        OK(ph_linear_create_with(&layer[i], s->t->device, width, width, &options));
    OK(ph_sequential_create(&s->net, layer, LAYERS));
    for (int i = 0; i < LAYERS; i++)
        ph_module_release(layer[i]);
    ph_module_parameters(s->net, freeze, NULL);
    s->in = ph_tensor_retain(ph_randn(s->t->tape, options.dtype, PH_SHAPE(LARGEST, width)));
    OK(ph_tape_clear(s->t->tape));
}

static void create_server(server *s, timing *t)
{
    *s = (server){.t = t};
    create_net(s);
    for (int i = 0; i < BUCKETS; i++) {
        struct bucket *b = &s->bucket[i];
        ph_child child = {"net", s->net};
        ph_module_desc desc = {
            .name = "bucket", .forward = enter, .self = b, .children = &child, .child_count = 1};
        b->server = s;
        b->x = ph_tensor_retain(ph_slice(t->tape, s->in, 0, 0, rows_of(i)));
        OK(ph_tape_clear(t->tape));
        OK(ph_module_create(&b->entry, t->device, &desc));
    }
}

static void destroy_server(server *s)
{
    for (int i = 0; i < BUCKETS; i++) {
        ph_module_release(s->bucket[i].entry);
        ph_tensor_release(s->bucket[i].x);
    }
    ph_module_release(s->net);
    ph_tensor_release(s->in);
}

static ph_status bucket_forward(ph_stream *stream, void *user)
{
    const struct bucket *b = user;
    (void)stream;
    (void)ph_call(b->server->t->tape, b->server->net, b->x);
    return ph_tape_clear(b->server->t->tape);
}

/* One call for all. */
static void make_with(server *s, size_t warm_ups, bool defer_upload)
{
    ph_module *modules[BUCKETS], *graphed[BUCKETS];
    ph_sample samples[BUCKETS];
    for (int i = 0; i < BUCKETS; i++) {
        modules[i] = s->bucket[i].entry;
        samples[i] = (ph_sample){.tensors = &s->bucket[i].x, .count = 1};
    }
    OK(ph_make_graphed_callables(graphed, modules, samples, BUCKETS,
                                 &(ph_graphed_options){.pool = s->pool,
                                                       .warmup_iterations = warm_ups,
                                                       .defer_upload = defer_upload}));
    for (int i = 0; i < BUCKETS; i++)
        s->bucket[i].graphed = graphed[i];
}

static void make_callables(server *s)
{
    make_with(s, 0, false);
}

static void make_callables_at_once(server *s)
{
    make_with(s, PH_ZERO, false);
}

static void make_callables_without_upload(server *s)
{
    make_with(s, PH_ZERO, true);
}

/* By hand: each size is captured, and runs once before where that is asked; outputs are let go,
 * so that the graphs share all of the pool. */
static void make_each(server *s, bool warm_up, bool defer_upload)
{
    const ph_graph_options options = {.defer_upload = defer_upload};
    for (int i = 0; i < BUCKETS; i++) {
        struct bucket *b = &s->bucket[i];
        if (warm_up)
            OK(bucket_forward(s->t->stream, b));
        OK(ph_graph_create(&b->graph, &options));
        OK(ph_graph_capture(b->graph, s->t->stream, &(ph_capture_options){.pool = s->pool},
                            bucket_forward, b));
    }
}

static void make_graphs(server *s)
{
    make_each(s, true, false);
}

/* Nothing here needs a run before: what is made once is made before the first capture begins. */
static void make_graphs_at_once(server *s)
{
    make_each(s, false, false);
}

/* The first replay of each uploads it, or ph_graph_upload when there is time: neither is in the
 * time here. */
static void make_graphs_without_upload(server *s)
{
    make_each(s, false, true);
}

static size_t executable_bytes(const server *s)
{
    size_t sum = 0;
    for (int i = 0; i < BUCKETS; i++) {
        ph_graph *graph = s->bucket[i].graph, *backward;
        ph_graph_memory memory;
        if (!graph)
            OK(ph_graphed_callable_graphs(&graph, &backward, s->bucket[i].graphed));
        OK(ph_graph_get_memory(&memory, graph));
        sum += memory.executable;
    }
    return sum;
}

static int64_t free_bytes(const timing *t)
{
    ph_device_info info;
    OK(ph_device_synchronize(t->device));
    OK(ph_memory_trim(t->device));
    OK(ph_device_get_info(&info, t->device));
    return (int64_t)info.memory_free;
}

static void drop(server *s)
{
    for (int i = 0; i < BUCKETS; i++) {
        ph_module_release(s->bucket[i].graphed);
        ph_graph_destroy(s->bucket[i].graph);
        s->bucket[i].graphed = NULL;
        s->bucket[i].graph = NULL;
    }
    ph_pool_release(s->pool);
    s->pool = NULL;
}

static void memory_line(server *s, const char *side, int64_t before)
{
    ph_memory_stats stats;
    OK(ph_pool_stats(&stats, s->pool));
    size_t executables = executable_bytes(s);
    int64_t taken = before - free_bytes(s->t);
    printf("  the pool: %.2f MiB reserved, %.2f in use; executables %.2f MiB; taken from the "
           "device %.2f MiB\n",
           (double)stats.reserved / 0x1p20, (double)stats.allocated / 0x1p20,
           (double)executables / 0x1p20, (double)taken / 0x1p20);
    if (s->t->json)
        fprintf(s->t->json,
                "{\"bench\": \"%s\", \"what\": \"35 inference graphs, memory\", \"side\": \"%s\", "
                "\"pool_reserved\": %zu, "
                "\"pool_allocated\": %zu, \"executables\": %zu, \"device\": %lld}\n",
                s->t->name, side, stats.reserved, stats.allocated, executables, (long long)taken);
}

static void measure_server(server *s, const char *side, void (*make)(server *s))
{
    double times[MAKINGS];
    bool before = ph_tape_set_grad_enabled(s->t->tape, false);
    for (int i = 0; i < BUCKETS; i++) /* what is done once for each size, whoever does it */
        OK(bucket_forward(s->t->stream, &s->bucket[i]));
    for (int i = 0; i < MAKINGS; i++) {
        int64_t memory = free_bytes(s->t);
        OK(ph_pool_create(&s->pool, s->t->device, NULL));
        double start = clock_now();
        make(s);
        OK(ph_stream_synchronize(s->t->stream));
        times[i] = clock_now() - start;
        if (i == MAKINGS - 1) {
            timing_line(s->t, "35 inference graphs", side, middle(times, MAKINGS));
            memory_line(s, side, memory);
        }
        drop(s);
    }
    ph_tape_set_grad_enabled(s->t->tape, before);
}

/* What nobody who makes these graphs through cuBLASLt can be faster than. */
static void measure_raw(timing *t)
{
    int rows[BUCKETS];
    double times[MAKINGS];
    for (int i = 0; i < BUCKETS; i++)
        rows[i] = rows_of(i);
    raw_buckets *raw = raw_buckets_open(t->device, t->stream, LAYERS, width_of(t), rows, BUCKETS);
    for (int i = 0; i < MAKINGS; i++) {
        double start = clock_now();
        raw_buckets_make(raw);
        times[i] = clock_now() - start;
        raw_buckets_drop(raw);
    }
    timing_line(t, "35 inference graphs", "cuBLASLt and the driver alone", middle(times, MAKINGS));
    raw_buckets_close(raw);
}

/* Processors and GPUs that were idle begin slowly, for a second or two on some machines;
 * PyTorch's program has run for longer when it comes to this. */
static void warm_up(server *s)
{
    for (double end = clock_now() + 3e9; clock_now() < end;) {
        for (int i = 0; i < BUCKETS; i++)
            OK(bucket_forward(s->t->stream, &s->bucket[i]));
        OK(ph_stream_synchronize(s->t->stream));
    }
}

int main(int argc, char **argv)
{
    timing t;
    server s;
    timing_open(&t, "nn_buckets", 301, argc, argv);
    create_server(&s, &t);
    warm_up(&s);
    measure_server(&s, "graphed", make_callables);
    measure_server(&s, "graphed, no warm-up", make_callables_at_once);
    measure_server(&s, "graphed, no warm-up, upload deferred", make_callables_without_upload);
    measure_server(&s, "by hand", make_graphs);
    measure_server(&s, "by hand, no eager run", make_graphs_at_once);
    measure_server(&s, "by hand, no eager run, upload deferred", make_graphs_without_upload);
    if (t.gpu)
        measure_raw(&t);
    destroy_server(&s);
    return timing_close(&t);
}
