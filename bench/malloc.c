/* SPDX-License-Identifier: MIT */
/* bench/malloc.c: what a cached ph_malloc and ph_free pair costs: one size, eight sizes, in a
 * capture, with a second thread. */
#include "clock.h"
#include "host/timing.h"
#include <pthread.h>
#include <stdatomic.h>

enum {
    MOST_ROUNDS = 1000,
    PAIRS = 200000,
    CAPTURE_PAIRS = 20000
};

static int rounds = 31;

/* ---- what is timed: nanoseconds a pair ---- */

static double one_size(ph_stream *stream, int pairs)
{
    void *p;
    double start = clock_now();
    for (int i = 0; i < pairs; i++) {
        OK(ph_malloc(&p, 1, 1024, stream));
        ph_free(p, stream);
    }
    return (clock_now() - start) / pairs;
}

static double eight_sizes(ph_stream *stream, int pairs)
{
    static const size_t sizes[8] = {512, 2000, 4096, 60000, 262144, 1u << 20, 3u << 20, 9u << 20};
    void *p[8];
    double start = clock_now();
    for (int i = 0; i < pairs / 8; i++) {
        for (int k = 0; k < 8; k++)
            OK(ph_malloc(&p[k], 1, sizes[k], stream));
        for (int k = 0; k < 8; k++)
            ph_free(p[k], stream);
    }
    return (clock_now() - start) / (pairs / 8 * 8);
}

static timing_spread repeat(double (*timed)(ph_stream *, int), ph_stream *stream)
{
    double values[MOST_ROUNDS];
    (void)timed(stream, PAIRS / 10);
    for (int i = 0; i < rounds; i++)
        values[i] = timed(stream, PAIRS);
    return timing_spread_of(values, rounds);
}

static ph_status capture_body(ph_stream *stream, void *user)
{
    double *values = user;
    void *p;
    PH_TRY(ph_malloc(&p, 1, 1024, stream));
    PH_TRY(ph_memset(p, 0, 1024, stream)); /* a capture of nothing is warned of */
    ph_free(p, stream);
    (void)one_size(stream, 100);
    for (int i = 0; i < rounds; i++)
        values[i] = one_size(stream, CAPTURE_PAIRS);
    return PH_OK;
}

static timing_spread in_capture(ph_stream *stream)
{
    double values[MOST_ROUNDS];
    ph_graph *graph;
    OK(ph_graph_create(&graph, NULL));
    OK(ph_graph_capture(graph, stream, NULL, capture_body, values));
    ph_graph_destroy(graph);
    return timing_spread_of(values, rounds);
}

typedef struct other {
    ph_stream *stream;
    atomic_bool stop;
    double values[MOST_ROUNDS];
    bool busy; /* allocates until stop, instead of timing */
} other;

static void *other_thread(void *user)
{
    other *o = user;
    for (int i = 0; i < rounds && !o->busy; i++)
        o->values[i] = one_size(o->stream, PAIRS);
    while (o->busy && !atomic_load(&o->stop))
        (void)one_size(o->stream, 1000);
    return NULL;
}

static timing_spread from_second_thread(ph_stream *stream)
{
    static other o;
    pthread_t thread;
    o.stream = stream;
    if (pthread_create(&thread, NULL, other_thread, &o) != 0)
        timing_die("pthread_create");
    (void)pthread_join(thread, NULL);
    return timing_spread_of(o.values, rounds);
}

static timing_spread beside_second_thread(ph_device *device, ph_stream *stream)
{
    static other o;
    pthread_t thread;
    o.busy = true;
    OK(ph_stream_create(&o.stream, device, NULL));
    if (pthread_create(&thread, NULL, other_thread, &o) != 0)
        timing_die("pthread_create");
    timing_spread r = repeat(one_size, stream);
    atomic_store(&o.stop, true);
    (void)pthread_join(thread, NULL);
    ph_stream_destroy(o.stream);
    return r;
}

static void print(const char *what, timing_spread r)
{
    printf("%-42s %8.1f %8.1f %8.1f\n", what, r.median, r.low, r.high);
}

int main(int argc, char **argv)
{
    rounds = timing_rounds("malloc", rounds, MOST_ROUNDS, argc, argv);
    ph_device *device;
    ph_stream *stream;
    OK(ph_device_open(&device, "host", NULL));
    OK(ph_stream_create(&stream, device, NULL));
    timing_print_machine(device);
    printf("%-42s %8s %8s %8s\n", "cached ph_malloc + ph_free, ns a pair", "median", "lowest",
           "highest");
    print("one size", repeat(one_size, stream));
    print("eight sizes, 512 B to 9 MiB", repeat(eight_sizes, stream));
    print("from a second thread", from_second_thread(stream));
    print("while a second thread does the same", beside_second_thread(device, stream));
    print("inside a capture", in_capture(stream));
    ph_stream_destroy(stream);
    ph_device_release(device);
    return 0;
}
