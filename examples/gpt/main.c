/* SPDX-License-Identifier: MIT */
/* gpt/main.c: a small GPT-2-shaped model learns to write what it reads, a character at a time;
 * the whole training step is one graph. */
#include "train.h"
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum {
    EXIT_USAGE = 2,
    WARM_UP = 3, /* eager steps before the capture */
    BAR = 28
};

typedef struct options {
    const char *device, *path, *save, *record;
    int64_t steps, batch, time, width, heads, layers, sample;
    double rate, dropout, temperature;
    uint64_t seed;
    bool eager, bf16, quiet;
} options;

static void usage(FILE *out)
{
    (void)fputs(
        "usage: gpt [OPTIONS] [FILE or FOLDER]\n\n"
        "Trains a small GPT-2-shaped network on the text, a character at a time, with the whole "
        "training "
        "step\n"
        "captured in one graph, and writes a sample of what it has learnt. Of a folder, all .c, .h "
        "and .md "
        "files\n"
        "below it are read; without an argument, this project's own.\n\n"
        "  --device NAME     such as cuda or host:threads=2 (auto: a GPU where there is one)\n"
        "  --steps N         training steps (host 1200, GPU 3000)\n"
        "  --batch N         sequences a step (host 16, GPU 64)\n"
        "  --time N          characters a sequence (host 64, GPU 256)\n"
        "  --width N         of the network (host 64, GPU 384)\n"
        "  --heads N         of attention; divides width (host 4, GPU 6)\n"
        "  --layers N        blocks (host 2, GPU 6)\n"
        "  --rate X          the learning rate at its highest (0.001; it rises, then falls as a "
        "cosine)\n"
        "  --dropout X       (0)\n"
        "  --sample N        characters to write at the end (600)\n"
        "  --temperature X   of the sample (0.8)\n"
        "  --seed N          (1)\n"
        "  --save FILE       the trained weights, as safetensors\n"
        "  --record FILE     the step's graph with its annotations and times, for `phonograph view "
        "FILE`\n"
        "  --bf16            products and attention in bf16 (autocast), which is faster on a GPU; "
        "weights "
        "stay "
        "f32\n"
        "  --eager           no graph: every step submits its kernels one by one\n"
        "  --quiet           no progress bar\n"
        "  --help            this text\n\n"
        "Exit status: 0 its loss has fallen by 0.5, 1 it has not, or failed, 2 bad options.\n",
        out);
}

/* ---- options ---- */
static bool whole(int64_t *out, const char *name, const char *value, int64_t most)
{
    char *end = NULL;
    errno = 0;
    long long number = strtoll(value, &end, 10);
    if (errno != 0 || end == value || *end != '\0' || number < 0 || number > most) {
        (void)fprintf(stderr, "gpt: --%s wants a whole number from 0 to %lld, not '%s'\n", name,
                      (long long)most, value);
        return false;
    }
    *out = number;
    return true;
}

static bool real(double *out, const char *name, const char *value)
{
    char *end = NULL;
    errno = 0;
    *out = strtod(value, &end);
    if (errno != 0 || end == value || *end != '\0' || !(*out >= 0) || isinf(*out)) {
        (void)fprintf(stderr, "gpt: --%s wants a number of at least 0, not '%s'\n", name, value);
        return false;
    }
    return true;
}

static bool set_option(options *o, int which, const char *name, const char *value)
{
    int64_t seed = 0;
    switch (which) {
    case 'd':
        o->device = value;
        return true;
    case 'n':
        return whole(&o->steps, name, value, 100000000);
    case 'b':
        return whole(&o->batch, name, value, 65536);
    case 't':
        return whole(&o->time, name, value, 65536);
    case 'w':
        return whole(&o->width, name, value, 65536);
    case 'h':
        return whole(&o->heads, name, value, 1024);
    case 'l':
        return whole(&o->layers, name, value, 48);
    case 'm':
        return whole(&o->sample, name, value, 1000000);
    case 'r':
        return real(&o->rate, name, value);
    case 'p':
        return real(&o->dropout, name, value);
    case 'k':
        return real(&o->temperature, name, value);
    case 's':
        if (!whole(&seed, name, value, INT64_MAX))
            return false;
        o->seed = (uint64_t)seed;
        return true;
    case 'o':
        o->save = value;
        return true;
    case 'g':
        o->record = value;
        return true;
    case 'e':
        o->eager = true;
        return true;
    case 'f':
        o->bf16 = true;
        return true;
    case 'q':
        o->quiet = true;
        return true;
    default:
        return false;
    }
}

/* An exit status, or -1 to go on. */
static int parse_options(options *o, int argc, char **argv)
{
    static const struct option known[] = {{"device", required_argument, NULL, 'd'},
                                          {"steps", required_argument, NULL, 'n'},
                                          {"batch", required_argument, NULL, 'b'},
                                          {"time", required_argument, NULL, 't'},
                                          {"width", required_argument, NULL, 'w'},
                                          {"heads", required_argument, NULL, 'h'},
                                          {"layers", required_argument, NULL, 'l'},
                                          {"sample", required_argument, NULL, 'm'},
                                          {"rate", required_argument, NULL, 'r'},
                                          {"dropout", required_argument, NULL, 'p'},
                                          {"temperature", required_argument, NULL, 'k'},
                                          {"seed", required_argument, NULL, 's'},
                                          {"save", required_argument, NULL, 'o'},
                                          {"record", required_argument, NULL, 'g'},
                                          {"bf16", no_argument, NULL, 'f'},
                                          {"eager", no_argument, NULL, 'e'},
                                          {"quiet", no_argument, NULL, 'q'},
                                          {"help", no_argument, NULL, '?' + 256},
                                          {NULL, 0, NULL, 0}};
    int which, at = 0;
    while ((which = getopt_long(argc, argv, "", known, &at)) != -1) {
        if (which == '?' + 256) {
            usage(stdout);
            return 0;
        }
        if (which == '?' || !set_option(o, which, known[at].name, optarg)) {
            (void)fputs("gpt --help tells the options\n", stderr);
            return EXIT_USAGE;
        }
    }
    if (argc - optind > 1) {
        (void)fputs("gpt: one file or folder, please; gpt --help tells the options\n", stderr);
        return EXIT_USAGE;
    }
    if (o->record && o->eager) {
        (void)fputs(
            "gpt: without a graph there is nothing to --record; gpt --help tells the options\n",
            stderr);
        return EXIT_USAGE;
    }
    if (optind < argc)
        o->path = argv[optind];
    return -1;
}

/* What was not said, for the size of the machine. */
static void set_sizes(options *o, bool gpu)
{
    struct {
        int64_t *at, host, gpu;
    } sizes[] = {{&o->steps, 1200, 3000}, {&o->batch, 16, 64}, {&o->time, 64, 256},
                 {&o->width, 64, 384},    {&o->heads, 4, 6},   {&o->layers, 2, 6}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        if (*sizes[i].at == 0)
            *sizes[i].at = gpu ? sizes[i].gpu : sizes[i].host;
}

/* ---- training ---- */
static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Rises over the first twentieth, then falls to a tenth as half a cosine. */
static double rate_at(const options *o, int64_t step)
{
    double rise = (double)o->steps / 20, at = (double)step;
    if (at < rise)
        return o->rate * (at + 1) / (rise + 1);
    double gone = (at - rise) / ((double)o->steps - rise);
    return o->rate * (0.1 + 0.9 * 0.5 * (1 + cos(3.14159265358979 * gone)));
}

static void show(const options *o, const trainer *t, int64_t step, double loss, double since,
                 int64_t steps)
{
    char bar[BAR + 1];
    int full = (int)(BAR * step / o->steps);
    for (int i = 0; i < BAR; i++)
        bar[i] = i < full ? '#' : '.';
    bar[BAR] = '\0';
    double tokens = (double)(steps * t->batch * t->shape.time) / (seconds() - since);
    (void)fprintf(stderr, "\r[%s] %lld/%lld  loss %.3f  %.0f tokens/s ", bar, (long long)step,
                  (long long)o->steps, loss, tokens);
    (void)fflush(stderr);
}

/* Eager steps first, since what is done once (compiling kernels, choosing products, making the
 * optimizer's state) has no place in a graph. */
static ph_status train(trainer *t, const options *o, double *first, double *last)
{
    double since = seconds();
    ph_capture_options how = {.enable_annotations = o->record != NULL};
    int64_t shown = o->steps / 100 > 0 ? o->steps / 100 : 1;
    for (int64_t step = 0; step < o->steps; step++) {
        PH_TRY(ph_optimizer_set_lr(t->optimizer, rate_at(o, step)));
        if (step < WARM_UP || o->eager) {
            PH_TRY(train_step(t->stream, t));
        } else {
            if (step == WARM_UP)
                PH_TRY(ph_graph_capture(t->graph, t->stream, &how, train_step, t));
            PH_TRY(ph_graph_replay(t->graph, t->stream));
        }
        if (step == 0)
            PH_TRY(ph_tensor_item(first, t->tape, t->loss));
        if (step == WARM_UP)
            since = seconds();
        if ((step + 1) % shown == 0 || step + 1 == o->steps) {
            PH_TRY(ph_tensor_item(last, t->tape, t->loss));
            if (!o->quiet && step > WARM_UP)
                show(o, t, step + 1, *last, since, step - WARM_UP);
        }
    }
    if (!o->quiet)
        (void)fputc('\n', stderr);
    return PH_OK;
}

/* Where the time of a step goes. Measuring takes some more steps. */
static ph_status write_record(trainer *t, const options *o)
{
    ph_profile *profile;
    if (o->steps <= WARM_UP)
        return ph_fail(PH_ERROR_STATE, "--record: the graph is captured in step %d", WARM_UP + 1);
    PH_TRY(ph_graph_profile(&profile, t->graph, t->stream, NULL));
    ph_status status = ph_profile_dump_record(profile, t->graph, o->record);
    ph_profile_destroy(profile);
    return status;
}

static void put_byte(int byte)
{
    (void)putchar(byte);
    (void)fflush(stdout);
}

static bool count_parameter(const char *name, ph_tensor *x, void *user)
{
    (void)name;
    *(int64_t *)user += ph_tensor_count(x);
    return true;
}

static ph_status run(const options *o, ph_device *device, const corpus *text, bool *learnt)
{
    model_shape shape = {text->vocabulary, o->time, o->width, o->heads, o->layers, o->dropout};
    trainer t;
    double first = 0, last = 0;
    int64_t parameters = 0;
    ph_autocast autocast = {.dtype = o->bf16 ? PH_DTYPE_BF16 : (ph_dtype)0};
    ph_status status = trainer_create(&t, device, text, &shape, o->batch, o->seed, autocast);
    if (status == PH_OK) {
        ph_module_parameters(t.model, count_parameter, &parameters);
        (void)fprintf(stderr, "%lld parameters, %lld characters of %d kinds in %lld files\n",
                      (long long)parameters, (long long)text->count, (int)text->vocabulary,
                      (long long)text->files);
        status = train(&t, o, &first, &last);
    }
    if (status == PH_OK && o->record)
        status = write_record(&t, o);
    if (status == PH_OK) {
        (void)fprintf(stderr, "loss %.3f at first, %.3f now\n\n", first, last);
        status = write_sample(&t, text, o->sample, o->temperature > 0 ? o->temperature : 1e-3,
                              o->seed, put_byte);
        (void)putchar('\n');
    }
    if (status == PH_OK && o->save)
        status = ph_module_save(t.model, o->save);
    *learnt = last < first - 0.5;
    trainer_destroy(&t);
    return status;
}

int main(int argc, char **argv)
{
    options o = {.device = "auto",
                 .path = GPT_TEXT,
                 .sample = 600,
                 .rate = 1e-3,
                 .temperature = 0.8,
                 .seed = 1};
    int over = parse_options(&o, argc, argv);
    if (over >= 0)
        return over;
    ph_device *device = NULL;
    ph_device_info info;
    corpus text;
    bool learnt = false;
    ph_status status = text_load(&text, o.path);
    if (status == PH_OK)
        status = ph_device_open(&device, o.device, NULL);
    if (status == PH_OK)
        status = ph_device_get_info(&info, device);
    if (status == PH_OK) {
        set_sizes(&o, info.kind != PH_DEVICE_HOST);
        (void)fprintf(stderr, "on %s%s\n", info.description, o.bf16 ? ", in bf16" : "");
        status = text.count > 2 * o.time
                     ? run(&o, device, &text, &learnt)
                     : ph_fail(PH_ERROR_ARGUMENT, "%s has %lld characters, which is too few",
                               o.path, (long long)text.count);
    }
    if (status != PH_OK)
        (void)fprintf(stderr, "gpt: %s: %s\n", ph_status_name(status), ph_error_last()->message);
    else if (!learnt)
        (void)fputs("gpt: its loss has not fallen by 0.5: it has learnt too little\n", stderr);
    ph_device_release(device);
    text_free(&text);
    return status == PH_OK && learnt ? 0 : 1;
}
