/* SPDX-License-Identifier: MIT */
/* bench/malloc.c: what a cached ph_malloc and ph_free pair costs: one size, eight sizes, in a capture, with a
 * second thread. */
#include <phonograph/phonograph.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

enum {
    MOST_ROUNDS = 1000,
    PAIRS = 200000,
    CAPTURE_PAIRS = 20000
};

static int rounds = 31;

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void die(const char *what)
{
    (void)fprintf(stderr, "%s: %s\n", what, ph_error_last()->message);
    exit(1);
}
#define OK(call)                                                                                             \
    do {                                                                                                     \
        if ((call) != PH_OK)                                                                                 \
            die(#call);                                                                                      \
    } while (0)

static int compare(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

typedef struct result {
    double low, median, high;
} result;

static result summary(double values[])
{
    qsort(values, (size_t)rounds, sizeof values[0], compare);
    return (result){values[0], values[rounds / 2], values[rounds - 1]};
}

/* ---- what is timed: nanoseconds a pair ---- */

static double one_size(ph_stream *stream, int pairs)
{
    void *p;
    double start = now_ns();
    for (int i = 0; i < pairs; i++) {
        OK(ph_malloc(&p, 1, 1024, stream));
        ph_free(p, stream);
    }
    return (now_ns() - start) / pairs;
}

static double eight_sizes(ph_stream *stream, int pairs)
{
    static const size_t sizes[8] = {512, 2000, 4096, 60000, 262144, 1u << 20, 3u << 20, 9u << 20};
    void *p[8];
    double start = now_ns();
    for (int i = 0; i < pairs / 8; i++) {
        for (int k = 0; k < 8; k++)
            OK(ph_malloc(&p[k], 1, sizes[k], stream));
        for (int k = 0; k < 8; k++)
            ph_free(p[k], stream);
    }
    return (now_ns() - start) / (pairs / 8 * 8);
}

static result repeat(double (*timed)(ph_stream *, int), ph_stream *stream)
{
    double values[MOST_ROUNDS];
    (void)timed(stream, PAIRS / 10);
    for (int i = 0; i < rounds; i++)
        values[i] = timed(stream, PAIRS);
    return summary(values);
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

static result in_capture(ph_stream *stream)
{
    double values[MOST_ROUNDS];
    ph_graph *graph;
    OK(ph_graph_create(&graph, NULL));
    OK(ph_graph_capture(graph, stream, NULL, capture_body, values));
    ph_graph_destroy(graph);
    return summary(values);
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

static result from_second_thread(ph_stream *stream)
{
    static other o;
    pthread_t thread;
    o.stream = stream;
    if (pthread_create(&thread, NULL, other_thread, &o) != 0)
        die("pthread_create");
    (void)pthread_join(thread, NULL);
    return summary(o.values);
}

static result beside_second_thread(ph_device *device, ph_stream *stream)
{
    static other o;
    pthread_t thread;
    o.busy = true;
    OK(ph_stream_create(&o.stream, device, NULL));
    if (pthread_create(&thread, NULL, other_thread, &o) != 0)
        die("pthread_create");
    result r = repeat(one_size, stream);
    atomic_store(&o.stop, true);
    (void)pthread_join(thread, NULL);
    ph_stream_destroy(o.stream);
    return r;
}

static void print_machine(ph_device *device)
{
    struct utsname system;
    ph_device_info info;
    OK(ph_device_get_info(&info, device));
    (void)uname(&system);
    printf("%s, %ld processors; %s %s; compiled by %s\n", info.description, sysconf(_SC_NPROCESSORS_ONLN),
           system.sysname, system.release, __VERSION__);
}

static void print(const char *what, result r)
{
    printf("%-42s %8.1f %8.1f %8.1f\n", what, r.median, r.low, r.high);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        rounds = atoi(argv[1]);
    if (rounds < 1 || rounds > MOST_ROUNDS) {
        (void)fprintf(stderr, "usage: malloc [rounds, 1 to %d]\n", MOST_ROUNDS);
        return 2;
    }
    ph_device *device;
    ph_stream *stream;
    OK(ph_device_open(&device, "host", NULL));
    OK(ph_stream_create(&stream, device, NULL));
    print_machine(device);
    printf("%-42s %8s %8s %8s\n", "cached ph_malloc + ph_free, ns a pair", "median", "lowest", "highest");
    print("one size", repeat(one_size, stream));
    print("eight sizes, 512 B to 9 MiB", repeat(eight_sizes, stream));
    print("from a second thread", from_second_thread(stream));
    print("while a second thread does the same", beside_second_thread(device, stream));
    print("inside a capture", in_capture(stream));
    ph_stream_destroy(stream);
    ph_device_release(device);
    return 0;
}
