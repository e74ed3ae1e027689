/* SPDX-License-Identifier: MIT */
/* pools: 35 graphs, one for each batch size that a server accepts, captured into one pool:
 * together they need no more than the largest. */
#include <phonograph/phonograph.h>
#include <stdio.h>

enum {
    GRAPHS = 35,
    ROW = 1024, /* floats in a row of a batch */
    LARGEST = 4 * GRAPHS
};

struct twice_args {
    const float *x;
    float *y;
};

/* A block a row: on a GPU its threads go through it side by side. */
static const char twice_cuda[] =
    "extern \"C\" __global__ void twice(const float *x, float *y)\n"
    "{\n"
    "    for (unsigned i = threadIdx.x; i < 1024; i += blockDim.x)\n"
    "        y[blockIdx.x * 1024 + i] = 2 * x[blockIdx.x * 1024 + i];\n"
    "}\n";
_Static_assert(ROW == 1024, "the text names it again");

static void twice(const ph_block_range *range, const void *args)
{
    const struct twice_args *t = args;
    for (uint64_t i = range->begin * ROW; i < range->end * ROW; i++)
        t->y[i] = 2 * t->x[i];
}

struct server {
    ph_device *device;
    ph_stream *stream;
    ph_kernel *twice;
    ph_pool *pool;
    float *in, *out; /* smaller batches use the first rows */
    struct bucket {
        struct server *server;
        ph_graph *graph;
        size_t rows;
    } buckets[GRAPHS];
};

static ph_status submit(const struct bucket *b, ph_stream *stream, float *first, float *second)
{
    const struct server *s = b->server;
    const struct twice_args args[] = {{s->in, first}, {first, second}, {second, s->out}};
    ph_launch_config config = {.grid = {(uint32_t)b->rows}, .block = {256}};
    for (size_t i = 0; i < 3; i++)
        PH_TRY(ph_launch(stream, s->twice, &config, &args[i], sizeof args[i]));
    return PH_OK;
}

/* out = 8 in, through two temporaries. The capture takes them from the pool and gives them back;
 * the next one takes them again. */
static ph_status forward(ph_stream *stream, void *user)
{
    const struct bucket *b = user;
    float *first = NULL, *second = NULL;
    ph_status st = PH_NEW(&first, b->rows * ROW, stream);
    if (st == PH_OK)
        st = PH_NEW(&second, b->rows * ROW, stream);
    if (st == PH_OK)
        st = submit(b, stream, first, second);
    ph_free(second, stream);
    ph_free(first, stream);
    return st;
}

/* Largest first: the smaller ones then fit into what the pool has already. Not all are needed at
 * once: the first replay of each uploads it. */
static ph_status capture_all(struct server *s)
{
    ph_memory_stats stats;
    PH_TRY(ph_pool_create(&s->pool, s->device, NULL));
    for (size_t i = GRAPHS; i-- > 0;) {
        struct bucket *b = &s->buckets[i];
        *b = (struct bucket){.server = s, .rows = LARGEST * (i + 1) / GRAPHS};
        PH_TRY(ph_graph_create(&b->graph, &(ph_graph_options){.defer_upload = true}));
        PH_TRY(ph_graph_capture(b->graph, s->stream, &(ph_capture_options){.pool = s->pool},
                                forward, b));
        PH_TRY(ph_pool_stats(&stats, s->pool));
        if (i == 0 || i == GRAPHS - 1)
            printf("%2zu graph%s: %zu bytes reserved in %zu segment%s, at most %zu in use\n",
                   GRAPHS - i, i == GRAPHS - 1 ? "" : "s", stats.reserved, stats.segments,
                   stats.segments == 1 ? "" : "s", stats.allocated_peak);
    }
    return PH_OK;
}

static ph_status run(struct server *s, const char *device)
{
    ph_kernel_source source = {
        .name = "twice", .cuda = twice_cuda, .host = twice, .args_size = sizeof(struct twice_args)};
    PH_TRY(ph_device_open(&s->device, device, NULL));
    PH_TRY(ph_stream_create(&s->stream, s->device, NULL));
    PH_TRY(ph_kernel_create(&s->twice, s->device, &source));
    PH_TRY(PH_NEW(&s->in, LARGEST * ROW, s->stream));
    PH_TRY(PH_NEW(&s->out, LARGEST * ROW, s->stream));
    PH_TRY(ph_memset_u32(s->in, 0x3f800000, LARGEST * ROW, s->stream)); /* 1.0f */
    PH_TRY(capture_all(s));
    float last;
    for (size_t rows = 1; rows <= LARGEST; rows++) {
        /* that holds the batch */
        const struct bucket *smallest = &s->buckets[(rows - 1) * GRAPHS / LARGEST];
        PH_TRY(ph_graph_replay(smallest->graph, s->stream));
        PH_TRY(ph_memcpy(&last, s->out + rows * ROW - 1, sizeof last, s->stream));
        PH_TRY(ph_stream_synchronize(s->stream));
        if (last != 8.0f)
            return ph_fail(PH_ERROR_CALLER, "%zu rows: the last number is %g, expected 8", rows,
                           (double)last);
    }
    printf("every batch from 1 to %d rows was served\n", LARGEST);
    return PH_OK;
}

int main(int argc, char **argv)
{
    struct server s = {0};
    ph_status st = run(&s, argc > 1 ? argv[1] : "auto");
    for (size_t i = 0; i < GRAPHS; i++)
        ph_graph_destroy(s.buckets[i].graph);
    ph_pool_release(s.pool);
    ph_free(s.in, NULL);
    ph_free(s.out, NULL);
    ph_kernel_release(s.twice);
    ph_stream_destroy(s.stream);
    ph_device_release(s.device);
    if (st != PH_OK)
        fprintf(stderr, "pools: %s\n", ph_error_last()->message);
    return st != PH_OK;
}
