/* SPDX-License-Identifier: MIT */
/* bench/cuda/bench.c: opens the GPU on both sides, times sides in turn, prints. */
#include "cuda/bench.h"
#include "clock.h"
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>

enum {
    MOST_ROUNDS = 100000,
    WARM_UP = 20
};

/* Written by hand, so that neither a toolkit nor NVRTC is needed. */
static const char kernel_text[] =
    ".version 7.0\n"
    ".target sm_70\n"
    ".address_size 64\n"
    ".visible .entry bench_add(.param .u64 x, .param .u64 y, .param .u32 n)\n"
    "{\n"
    "    .reg .pred %outside;\n"
    "    .reg .b32 %i, %block, %size, %n, %value;\n"
    "    .reg .b64 %x, %y, %offset;\n"
    "    mov.u32 %i, %tid.x;\n"
    "    mov.u32 %block, %ctaid.x;\n"
    "    mov.u32 %size, %ntid.x;\n"
    "    mad.lo.u32 %i, %block, %size, %i;\n"
    "    ld.param.u32 %n, [n];\n"
    "    setp.ge.u32 %outside, %i, %n;\n"
    "    @%outside bra end;\n"
    "    ld.param.u64 %x, [x];\n"
    "    ld.param.u64 %y, [y];\n"
    "    cvta.to.global.u64 %x, %x;\n"
    "    cvta.to.global.u64 %y, %y;\n"
    "    mul.wide.u32 %offset, %i, 4;\n"
    "    add.u64 %x, %x, %offset;\n"
    "    add.u64 %y, %y, %offset;\n"
    "    ld.global.u32 %value, [%x];\n"
    "    add.u32 %value, %value, 1;\n"
    "    st.global.u32 [%y], %value;\n"
    "end:\n"
    "    ret;\n"
    "}\n";

void bench_check(ph_status status, const char *call)
{
    if (status == PH_OK)
        return;
    (void)fprintf(stderr, "%s: %s\n", call, ph_error_last()->message);
    exit(1);
}

static double clock_cost(void)
{
    double samples[1001];
    for (size_t i = 0; i < 1001; i++) {
        double start = clock_now();
        samples[i] = clock_now() - start;
    }
    clock_sort(samples, 1001);
    return samples[500];
}

/* ---- opening ---- */
static void no_gpu(const char *name, const char *reason)
{
    printf("%s: needs a GPU: %s\n", name, reason);
    exit(BENCH_NO_GPU);
}

static void parse(bench *b, int rounds, int argc, char **argv)
{
    b->rounds = argc > 1 ? atoi(argv[1]) : rounds;
    if (argc <= 3 && b->rounds >= 1 && b->rounds <= MOST_ROUNDS) {
        if (argc < 3)
            return;
        b->json = fopen(argv[2], "a");
        if (b->json)
            return;
        perror(argv[2]);
    }
    (void)fprintf(stderr, "usage: %s [rounds, 1 to %d] [file to append JSON lines to]\n", b->name,
                  MOST_ROUNDS);
    exit(2);
}

static void open_raw(bench *b)
{
    int device;
    RAW_OK(raw.init(0));
    RAW_OK(raw.device_get(&device, 0));
    RAW_OK(raw.primary_retain(&b->context, device));
    RAW_OK(raw.set_current(b->context));
    RAW_OK(raw.module_load(&b->module, kernel_text));
    RAW_OK(raw.function(&b->function, b->module, "bench_add"));
    RAW_OK(raw.stream_create(&b->native, RAW_STREAM_NON_BLOCKING));
}

/* The driver's version, as the library tells it. */
static void driver_version(char version[48])
{
    ph_driver_info info;
    version[0] = '\0';
    for (size_t i = 0; ph_driver_get_info(&info, i) == PH_OK; i++)
        if (strcmp(info.name, "cuda") == 0)
            memcpy(version, info.version, sizeof info.version);
}

static void print_machine(const bench *b)
{
    char date[32], version[48];
    struct utsname system;
    ph_device_info info;
    time_t now = time(NULL);
    (void)strftime(date, sizeof date, "%Y-%m-%d %H:%M UTC", gmtime(&now));
    (void)uname(&system);
    driver_version(version);
    OK(ph_device_get_info(&info, b->device));
    printf("%s: %s, driver %s, %s %s, %s; compiled by %s\n", b->name, info.description, version,
           system.sysname, system.release, date, __VERSION__);
    if (b->json)
        (void)fprintf(b->json,
                      "{\"bench\":\"%s\",\"machine\":\"%s\",\"driver\":\"%s\",\"date\":\"%s\","
                      "\"rounds\":%d,\"clock_ns\":%.1f}\n",
                      b->name, info.description, version, date, b->rounds, b->clock_ns);
}

void bench_open(bench *b, const char *name, int rounds, int argc, char **argv)
{
    memset(b, 0, sizeof *b);
    b->name = name;
    parse(b, rounds, argc, argv);
    if (ph_device_open(&b->device, "cuda", NULL) != PH_OK)
        no_gpu(name, ph_error_last()->message);
    const char *reason = raw_load();
    if (reason)
        no_gpu(name, reason);
    OK(ph_stream_create(&b->stream, b->device, NULL));
    open_raw(b);
    ph_kernel_source source = {.name = "bench_add",
                               .args_size = sizeof(bench_args),
                               .cuda_image = kernel_text,
                               .cuda_image_bytes = sizeof kernel_text};
    OK(ph_kernel_create(&b->kernel, b->device, &source));
    b->config = (ph_launch_config){.grid = {BENCH_BLOCKS}, .block = {BENCH_THREADS}};
    for (int i = 0; i < 2; i++) {
        OK(PH_NEW(&b->cells[i], BENCH_ITEMS, b->stream));
        OK(ph_memset(b->cells[i], 0, BENCH_ITEMS * sizeof(int32_t), b->stream));
    }
    bench_wait(b);
    b->clock_ns = clock_cost();
    print_machine(b);
}

int bench_close(bench *b)
{
    bench_wait(b);
    for (int i = 0; i < 2; i++)
        ph_free(b->cells[i], NULL);
    ph_kernel_release(b->kernel);
    ph_stream_destroy(b->stream);
    RAW_OK(raw.stream_destroy(b->native));
    RAW_OK(raw.module_unload(b->module));
    RAW_OK(raw.set_current(NULL));
    RAW_OK(raw.primary_release(0));
    ph_device_release(b->device);
    if (b->json && fclose(b->json) != 0) {
        perror(b->name);
        return 1;
    }
    return 0;
}

/* ---- chains ---- */
bench_args bench_link(const bench *b, int i)
{
    return (bench_args){b->cells[i % 2], b->cells[(i + 1) % 2], BENCH_ITEMS};
}

ph_status bench_chain(const bench *b, int nodes)
{
    for (int i = 0; i < nodes; i++) {
        bench_args args = bench_link(b, i);
        PH_TRY(ph_launch(b->stream, b->kernel, &b->config, &args, sizeof args));
    }
    return PH_OK;
}

void bench_raw_launch(const bench *b, const bench_args *args, raw_stream stream)
{
    bench_args copy = *args;
    void *params[] = {&copy.x, &copy.y, &copy.n};
    RAW_OK(
        raw.launch(b->function, BENCH_BLOCKS, 1, 1, BENCH_THREADS, 1, 1, 0, stream, params, NULL));
}

void bench_raw_chain(const bench *b, int nodes, raw_graph *graph, raw_exec *exec)
{
    RAW_OK(raw.capture_begin(b->native, RAW_CAPTURE_GLOBAL));
    for (int i = 0; i < nodes; i++) {
        bench_args args = bench_link(b, i);
        bench_raw_launch(b, &args, b->native);
    }
    RAW_OK(raw.capture_end(b->native, graph));
    RAW_OK(raw.instantiate(exec, *graph, RAW_INSTANTIATE_FLAGS));
    RAW_OK(raw.upload(*exec, b->native));
    bench_wait(b);
}

void bench_wait(const bench *b)
{
    OK(ph_stream_synchronize(b->stream));
    RAW_OK(raw.stream_synchronize(b->native));
}

/* ---- sides ---- */
static double sample(const bench *b, const bench_side *side, int count)
{
    if (side->before)
        side->before(side->user);
    double start = clock_now();
    side->run(side->user);
    double ns = clock_now() - start - b->clock_ns;
    if (side->after)
        side->after(side->user);
    return ns / count;
}

static void summarise(bench_side *side, double *samples, int rounds)
{
    clock_sort(samples, rounds);
    side->low = samples[rounds / 10];
    side->median = samples[rounds / 2];
    side->high = samples[rounds - 1 - rounds / 10];
}

static void print_side(const bench *b, const char *what, int nodes, const bench_side *ours,
                       const bench_side *it)
{
    bool first = it == ours;
    double ratio = first ? it->median : ours->median / it->median;
    bool pass = ratio <= it->limit;
    char limit[32] = "";
    if (it->limit > 0)
        (void)snprintf(limit, sizeof limit, first ? "%9.0f ns" : "%9.2fx  ", it->limit);
    printf("%-22s %6d  %-26s %12.1f %12.1f %12.1f", first ? what : "", nodes, it->name, it->median,
           it->low, it->high);
    if (first)
        printf(" %10s", "");
    else
        printf(" %9.3fx", ratio);
    printf(" %12s %s\n", limit, it->limit > 0 ? (pass ? "PASS" : "over") : "");
    if (!b->json)
        return;
    (void)fprintf(
        b->json,
        "{\"bench\":\"%s\",\"what\":\"%s\",\"nodes\":%d,\"side\":\"%s\",\"ns\":%.1f,\"p10\":%.1f,"
        "\"p90\":%.1f,\"rounds\":%d",
        b->name, what, nodes, it->name, it->median, it->low, it->high, b->rounds);
    if (!first)
        (void)fprintf(b->json, ",\"ratio\":%.4f", ratio);
    if (it->limit > 0)
        (void)fprintf(b->json, ",\"limit\":%.3f,\"pass\":%s", it->limit, pass ? "true" : "false");
    (void)fprintf(b->json, "}\n");
}

static void print_head(const bench *b)
{
    printf("medians of %d rounds, all sides in turn, the GPU idle before each; %.0f ns for the "
           "clock taken off; "
           "the context is current\n",
           b->rounds, b->clock_ns);
    printf("%-22s %6s  %-26s %12s %12s %12s %10s %12s\n", "ns", "nodes", "side", "median", "10 %",
           "90 %", "first / it", "limit");
}

void bench_compare(bench *b, const char *what, int nodes, bench_side *sides, size_t side_count,
                   int count)
{
    double *samples[BENCH_MOST_SIDES] = {NULL};
    if (!b->headed)
        print_head(b);
    b->headed = true;
    for (size_t s = 0; s < side_count; s++) {
        samples[s] = malloc((size_t)b->rounds * sizeof(double));
        if (!samples[s]) {
            perror(b->name);
            exit(1);
        }
        for (int i = 0; i < WARM_UP; i++)
            (void)sample(b, &sides[s], count);
    }
    for (int round = 0; round < b->rounds; round++)
        for (size_t k = 0; k < side_count; k++) {
            size_t s = ((size_t)round + k) % side_count;
            samples[s][round] = sample(b, &sides[s], count);
        }
    for (size_t s = 0; s < side_count; s++) {
        summarise(&sides[s], samples[s], b->rounds);
        free(samples[s]);
    }
    for (size_t s = 0; s < side_count; s++)
        print_side(b, what, nodes, &sides[0], &sides[s]);
    (void)fflush(stdout);
}
