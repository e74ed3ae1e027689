/* SPDX-License-Identifier: MIT */
/* bench/nn/timing.c: medians of a body, eager and replayed. */
#include "nn/timing.h"
#include "clock.h"
#include <stdlib.h>

enum {
    NO_DEVICE = 77
};

void timing_check(ph_status status, const char *call)
{
    if (status == PH_OK)
        return;
    fprintf(stderr, "%s: %s: %s\n", call, ph_status_name(status), ph_error_last()->message);
    exit(1);
}

void timing_open(timing *t, const char *name, int rounds, int argc, char **argv)
{
    const char *device = getenv("PH_BENCH_DEVICE");
    ph_device_info info;
    *t = (timing){.name = name, .rounds = argc > 1 ? atoi(argv[1]) : rounds};
    if (argc > 3 || t->rounds < 1) {
        fprintf(stderr, "usage: %s [rounds] [file to append JSON lines to]\n", name);
        exit(2);
    }
    if (ph_device_open(&t->device, device ? device : "host", NULL) != PH_OK) {
        printf("%s: %s\n", name, ph_error_last()->message);
        exit(NO_DEVICE);
    }
    if (argc > 2 && !(t->json = fopen(argv[2], "a"))) {
        perror(argv[2]);
        exit(1);
    }
    OK(ph_device_get_info(&info, t->device));
    t->gpu = info.kind != PH_DEVICE_HOST;
    OK(ph_stream_create(&t->stream, t->device, NULL));
    OK(ph_tape_create(&t->tape, t->stream, NULL));
    printf("%s: %s; medians of %d rounds\n", name, info.description, t->rounds);
}

int timing_close(timing *t)
{
    if (t->json)
        fclose(t->json);
    ph_tape_destroy(t->tape);
    ph_stream_destroy(t->stream);
    ph_device_release(t->device);
    return 0;
}

/* What a shape took goes with the last tape and tensor. */
bool timing_benchmark(timing *t)
{
    if (!t->gpu)
        return false;
    ph_tape_destroy(t->tape);
    ph_set_benchmark(true);
    OK(ph_tape_create(&t->tape, t->stream, NULL));
    return true;
}

static double median(double *values, int count)
{
    clock_sort(values, count);
    return values[count / 2];
}

timing_result timing_run(timing *t, int warm_up, int rounds, double count,
                         ph_status (*body)(ph_stream *, void *), void *user)
{
    double *cpu = malloc((size_t)rounds * sizeof *cpu),
           *whole = malloc((size_t)rounds * sizeof *whole);
    if (!cpu || !whole)
        exit(1);
    for (int i = -warm_up; i < rounds; i++) {
        double start = clock_now();
        OK(body(t->stream, user));
        double submitted = clock_now();
        OK(ph_stream_synchronize(t->stream));
        if (i >= 0) {
            cpu[i] = submitted - start;
            whole[i] = clock_now() - start;
        }
    }
    timing_result result = {median(cpu, rounds) / count, median(whole, rounds) / count};
    free(cpu);
    free(whole);
    return result;
}

static ph_status replay(ph_stream *stream, void *graph)
{
    return ph_graph_replay(graph, stream);
}

timing_result timing_replays(timing *t, int rounds, double count,
                             ph_status (*body)(ph_stream *, void *), void *user)
{
    ph_graph *graph;
    (void)timing_run(t, 2, 1, 1, body, user);
    OK(ph_graph_create(&graph, NULL));
    OK(ph_graph_capture(graph, t->stream, NULL, body, user));
    timing_result result = timing_run(t, 5, rounds, count, replay, graph);
    ph_graph_destroy(graph);
    return result;
}

void timing_line(timing *t, const char *what, const char *side, timing_result result)
{
    if (!t->headed)
        printf("%-44s %-10s %12s %12s\n", "us", "side", "cpu", "whole");
    t->headed = true;
    printf("%-44s %-10s %12.2f %12.2f\n", what, side, result.cpu / 1e3, result.whole / 1e3);
    fflush(stdout);
    if (t->json)
        fprintf(t->json,
                "{\"bench\": \"%s\", \"what\": \"%s\", \"side\": \"%s\", \"cpu_ns\": %.1f, "
                "\"whole_ns\": "
                "%.1f, \"rounds\": %d}\n",
                t->name, what, side, result.cpu, result.whole, t->rounds);
}
