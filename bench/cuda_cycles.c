/* SPDX-License-Identifier: MIT */
/* bench/cuda_cycles.c: captures, instantiates, replays and resets again and again, and looks at
 * what the process holds after a tenth of the cycles and at their end: nothing may have grown.
 * The same through the driver alone stands beside, as drivers keep things too. */
#include "base/alloc.h"
#include "clock.h"
#include "cuda/bench.h"
#include <dirent.h>
#include <malloc.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    LAUNCHES = 10
};

/* What is looked at, with what it may grow by: far less than what 10,000 cycles would leave
 * behind if each left anything. */
typedef enum holding {
    DEVICE_BYTES,
    RESIDENT_BYTES,
    HEAP_BYTES,
    ALLOCATIONS, /* of the library */
    FILES,
    THREADS,
    HOLDINGS
} holding;
static const struct {
    const char *name;
    int64_t slack;
} holdings[HOLDINGS] = {
    {"device memory, bytes", 2 << 20},
    {"resident memory, bytes", 1 << 20},
    {"heap in use, bytes", 256 << 10},
    {"library's allocations", 256},
    {"open files", 0},
    {"threads", 0},
};

typedef struct picture {
    int64_t held[HOLDINGS];
} picture;

static int64_t entries(const char *folder)
{
    int64_t count = 0;
    DIR *directory = opendir(folder);
    if (!directory) {
        perror(folder);
        exit(1);
    }
    while (readdir(directory))
        count++;
    (void)closedir(directory);
    return count;
}

static int64_t resident_bytes(void)
{
    long long size, pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%lld %lld", &size, &pages) != 2) {
        perror("/proc/self/statm");
        exit(1);
    }
    (void)fclose(file);
    return pages * sysconf(_SC_PAGESIZE);
}

/* At rest: replays that ran behind hold their pools until somebody looks. */
static picture look(const bench *b)
{
    picture p;
    size_t available, total;
    OK(ph_device_synchronize(b->device));
    OK(ph_memory_trim(b->device));
    (void)malloc_trim(0);
    RAW_OK(raw.memory_info(&available, &total));
    p.held[DEVICE_BYTES] = (int64_t)(total - available);
    p.held[RESIDENT_BYTES] = resident_bytes();
    p.held[HEAP_BYTES] = (int64_t)mallinfo2().uordblks;
    p.held[ALLOCATIONS] = ph__alloc_live();
    p.held[FILES] = entries("/proc/self/fd");
    p.held[THREADS] = entries("/proc/self/task");
    return p;
}

/* ---- a cycle ---- */
static ph_status body(ph_stream *stream, void *user)
{
    const bench *b = user;
    int32_t *block;
    PH_TRY(PH_NEW(&block, BENCH_ITEMS, stream));
    ph_status status = ph_memset(block, 0, 256, stream);
    if (status == PH_OK)
        status = bench_chain(b, LAUNCHES);
    if (status == PH_OK)
        status = ph_memcpy(block, b->cells[0], BENCH_ITEMS * sizeof(int32_t), stream);
    ph_free(block, stream);
    return status;
}

static void cycle(const bench *b, ph_graph *graph)
{
    OK(ph_graph_capture(graph, b->stream, NULL, body, (void *)(uintptr_t)b));
    OK(ph_graph_replay(graph, b->stream));
    OK(ph_graph_reset(graph));
}

static void raw_cycle(const bench *b, ph_graph *unused)
{
    raw_graph graph;
    raw_exec exec;
    (void)unused;
    bench_raw_chain(b, LAUNCHES, &graph, &exec);
    RAW_OK(raw.graph_launch(exec, b->native));
    RAW_OK(raw.exec_destroy(exec));
    RAW_OK(raw.graph_destroy(graph));
}

/* Prints, and says whether all of it stayed. */
static bool compare(const bench *b, const char *side, int early_cycles, const picture *early,
                    const picture *late)
{
    bool flat = true;
    for (int i = 0; i < HOLDINGS; i++) {
        int64_t growth = late->held[i] - early->held[i];
        bool fine = growth <= holdings[i].slack;
        printf("%-12s %-24s %16lld %16lld %12lld %s\n", i == 0 ? side : "", holdings[i].name,
               (long long)early->held[i], (long long)late->held[i], (long long)growth,
               fine ? "flat" : "GROWS");
        if (b->json)
            (void)fprintf(b->json,
                          "{\"bench\":\"%s\",\"side\":\"%s\",\"what\":\"%s\",\"cycles\":[%d,%d],"
                          "\"held\":[%lld,%lld],\"slack\":%lld,\"pass\":%s}\n",
                          b->name, side, holdings[i].name, early_cycles, b->rounds,
                          (long long)early->held[i], (long long)late->held[i],
                          (long long)holdings[i].slack, fine ? "true" : "false");
        flat = flat && fine;
    }
    return flat;
}

static bool run(const bench *b, const char *side, void (*one)(const bench *b, ph_graph *graph))
{
    int early_cycles = b->rounds / 10;
    picture early = {{0}};
    ph_graph *graph;
    OK(ph_graph_create(&graph, NULL));
    double start = clock_now();
    for (int i = 0; i < b->rounds; i++) {
        if (i == early_cycles)
            early = look(b);
        one(b, graph);
    }
    picture late = look(b);
    double us = (clock_now() - start) / b->rounds / 1e3;
    bool flat = compare(b, side, early_cycles, &early, &late);
    printf("%-12s %.1f us a cycle\n", "", us);
    ph_graph_destroy(graph);
    return flat;
}

int main(int argc, char **argv)
{
    bench b;
    char early[24], late[24];
    bench_open(&b, "cuda_cycles", 10000, argc, argv);
    (void)snprintf(early, sizeof early, "after %d", b.rounds / 10);
    (void)snprintf(late, sizeof late, "after %d", b.rounds);
    printf("%-12s %-24s %16s %16s %12s\n", "", "held by the process", early, late, "growth");
    (void)run(&b, "the driver", raw_cycle);
    bool flat = run(&b, "phonograph", cycle);
    return bench_close(&b) != 0 || !flat;
}
