/* SPDX-License-Identifier: MIT */
/* bench/growth.c: how costs grow: each case at several sizes, on the host device, and the
 * exponent of its cost by least squares. An exponent above the limit may be the caches' doing:
 * then valgrind, where it is there, counts the instructions of the same work.
 *
 *     bench_growth [ROUNDS [CASE...]]    times
 *     bench_growth --count [CASE...]     instructions alone: other work does not change them
 *
 * PH_BENCH_DEVICE names another device. "cuda" with LD_LIBRARY_PATH=BUILD/tests/fake is the CUDA
 * driver over the tests' software libcuda: the instructions of src/driver/cuda, without a GPU.
 */
#include "growth/growth.h"
#include "clock.h"
#include "fake/fake_cuda.h"
#include <math.h>
#include <string.h>
#include <unistd.h>

enum {
    MOST_ROUNDS = 101,
    MOST_SIZES = 8,
    COUNTED_UP_TO = 10000 /* valgrind takes fifty times as long */
};
static const double limit = 1.1;

static void add_rows(const ph_block_range *range, const void *args)
{
    (void)range;
    (void)args;
}

typedef struct add_args {
    const float *x;
    float *y;
} add_args;

static const char *device_name(void)
{
    const char *name = getenv("PH_BENCH_DEVICE");
    return name ? name : "host:threads=1,memory=1024g";
}

ph_kernel *growth_kernel(ph_device *device, const ph_kernel_source *source)
{
    ph_kernel *kernel;
    fake_cuda_register(source);
    OK(ph_kernel_create(&kernel, device, source));
    return kernel;
}

ph_status growth_launch(growth_world *w, ph_stream *stream, size_t i)
{
    const add_args args = {w->x[i % 64], w->x[(i * 7 + 1) % 64]};
    return ph_launch(stream, w->kernel, NULL, &args, sizeof args);
}

static void hold(void *user)
{
    const growth_world *w = user;
    while (!w->opened)
        usleep(1000);
}

void growth_shut(growth_world *w)
{
    w->opened = 0;
    OK(ph_launch_host(w->other, hold, w));
}

void growth_open(growth_world *w)
{
    w->opened = 1;
}

size_t growth_shuffled(size_t i, size_t n)
{
    size_t step = 7919; /* a prime that no n of these cases has as a factor */
    return i * step % n;
}

static void open_world(growth_world *w, size_t n)
{
    static const ph_param params[] = {
        {.name = "x", .kind = PH_PARAM_ADDRESS, .offset = 0, .size = 8},
        {.name = "y", .kind = PH_PARAM_ADDRESS, .offset = 8, .size = 8}};
    const ph_kernel_source source = {.name = "add",
                                     .host = add_rows,
                                     .cuda = "struct add_args { const float *x; float *y; };"
                                             "extern \"C\" __global__ void add(add_args a)"
                                             "{ a.y[threadIdx.x] += a.x[threadIdx.x]; }",
                                     .args_size = sizeof(add_args),
                                     .params = params,
                                     .param_count = 2};
    *w = (growth_world){.n = n, .things = calloc(n, sizeof *w->things)};
    if (!w->things)
        exit(1);
    OK(ph_device_open(&w->device, device_name(), NULL));
    OK(ph_stream_create(&w->stream, w->device, NULL));
    OK(ph_stream_create(&w->other, w->device, NULL));
    w->kernel = growth_kernel(w->device, &source);
    for (size_t i = 0; i < 64; i++)
        OK(PH_NEW(&w->x[i], 64, w->stream));
}

static void close_world(growth_world *w)
{
    for (size_t i = 0; i < 64; i++)
        ph_free(w->x[i], w->stream);
    ph_kernel_release(w->kernel);
    ph_stream_destroy(w->other);
    ph_stream_destroy(w->stream);
    ph_device_release(w->device);
    free(w->things);
}

/* A function of its own: valgrind counts what happens inside it. */
__attribute__((noinline)) void growth_measured(const growth_case *c, growth_world *w);
__attribute__((noinline)) void growth_measured(const growth_case *c, growth_world *w)
{
    c->work(w);
}

/* Nanoseconds. */
static double run(const growth_case *c, size_t n)
{
    growth_world w;
    open_world(&w, n);
    if (c->prepare)
        c->prepare(&w);
    double start = clock_now();
    growth_measured(c, &w);
    double taken = clock_now() - start;
    if (c->finish)
        c->finish(&w);
    close_world(&w);
    return taken;
}

/* Instructions, or 0 where they cannot be counted. */
static double count(const growth_case *c, size_t n)
{
    char self[512], command[900], line[256];
    double counted = 0;
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    self[length > 0 ? length : 0] = '\0';
    (void)snprintf(command, sizeof command,
                   "valgrind --tool=callgrind --callgrind-out-file=/dev/null "
                   "--toggle-collect=growth_measured '%s' --one %s %zu 2>&1",
                   self, c->name, n);
    FILE *output = popen(command, "r");
    while (output && fgets(line, sizeof line, output)) {
        const char *found = strstr(line, "Collected : ");
        if (found)
            counted = strtod(found + 12, NULL);
    }
    if (output)
        (void)pclose(output);
    return counted;
}

/* The slope of log cost over log n. */
static double exponent(const double sizes[], const double costs[], int points)
{
    double sx = 0, sy = 0, sxx = 0, sxy = 0;
    for (int i = 0; i < points; i++) {
        double x = log(sizes[i]), y = log(costs[i]);
        sx += x;
        sy += y;
        sxx += x * x;
        sxy += x * y;
    }
    return (points * sxy - sx * sy) / (points * sxx - sx * sx);
}

/* 0: they cannot be counted. show: a column for each size. */
static double counted_exponent(const growth_case *c, bool show)
{
    double sizes[MOST_SIZES], counts[MOST_SIZES];
    int points = 0;
    for (double n = (double)c->first; n < COUNTED_UP_TO + 1.0 && n < (double)c->last + 1;
         n *= sqrt(10)) {
        sizes[points] = round(n);
        counts[points] = count(c, (size_t)round(n));
        if (counts[points] <= 0)
            return 0;
        if (show)
            printf(" %.0f |", counts[points] / sizes[points]);
        (void)fflush(stdout);
        points++;
    }
    return exponent(sizes, counts, points);
}

static bool draw_counts(const growth_case *c)
{
    printf("| %s |", c->name);
    double slope = counted_exponent(c, true);
    bool ok = slope > 0 && slope <= limit;
    printf(" %.2f | %s |\n", slope, ok ? "yes" : "**no**");
    return ok;
}

static bool draw(const growth_case *c, int rounds)
{
    double sizes[MOST_SIZES], costs[MOST_SIZES], times[MOST_ROUNDS];
    int points = 0;
    printf("| %s |", c->name);
    for (double n = (double)c->first; n < (double)c->last + 1; n *= sqrt(10), points++) {
        for (int i = 0; i < rounds; i++)
            times[i] = run(c, (size_t)round(n));
        sizes[points] = round(n);
        costs[points] = timing_median(times, rounds);
        printf(" %.3g |", costs[points] / sizes[points]);
        (void)fflush(stdout);
    }
    for (int i = points; i < MOST_SIZES - 1; i++)
        printf(" |");
    double slope = exponent(sizes, costs, points),
           counted = slope > limit ? counted_exponent(c, false) : 0;
    bool ok = slope <= limit || (counted > 0 && counted <= limit);
    printf(" %.2f |", slope);
    if (counted > 0)
        printf(" %.2f |", counted);
    else
        printf(" |");
    printf(" %s |\n", ok ? "yes" : "**no**");
    return ok;
}

static const growth_case *find(const char *name)
{
    const growth_case *const all[] = {growth_nodes, growth_graphs, growth_blocks};
    for (size_t i = 0; i < 3; i++)
        for (const growth_case *c = all[i]; c->name; c++)
            if (strcmp(c->name, name) == 0)
                return c;
    (void)fprintf(stderr, "bench_growth: no case %s\n", name);
    exit(2);
}

static void print_head(bool counts)
{
    ph_device *device;
    OK(ph_device_open(&device, device_name(), NULL));
    timing_print_machine(device);
    ph_device_release(device);
    printf("| case |");
    for (double n = 1000; n < (counts ? COUNTED_UP_TO : 1000000) + 1.0; n *= sqrt(10))
        printf(" %.0f |", n);
    printf(counts ? " exponent |" : " exponent | of instructions |");
    printf(" at most %.1f |\n|---|---|---|---|---|---|---|%s\n", limit,
           counts ? "" : "---|---|---|---|");
}

int main(int argc, char **argv)
{
    const growth_case *const all[] = {growth_nodes, growth_graphs, growth_blocks};
    const bool counts = argc > 1 && strcmp(argv[1], "--count") == 0;
    bool ok = true;
    if (argc == 4 && strcmp(argv[1], "--one") == 0) {
        (void)run(find(argv[2]), strtoul(argv[3], NULL, 10));
        return 0;
    }
    int rounds = counts ? 0 : timing_rounds("bench_growth", 3, MOST_ROUNDS, argc > 1 ? 2 : 1, argv);
    print_head(counts);
    for (int i = 2; i < argc; i++)
        ok = (counts ? draw_counts(find(argv[i])) : draw(find(argv[i]), rounds)) && ok;
    for (size_t i = 0; argc <= 2 && i < 3; i++)
        for (const growth_case *c = all[i]; c->name; c++)
            ok = (counts ? draw_counts(c) : draw(c, rounds)) && ok;
    return ok ? 0 : 1;
}
