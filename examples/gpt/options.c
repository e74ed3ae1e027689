/* SPDX-License-Identifier: MIT */
/* gpt/options.c: reading the command line. */
#include "options.h"
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

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
        "  --scale X         the gradient scaler's first scale, with --f16 (65536)\n"
        "  --dropout X       (0)\n"
        "  --sample N        characters to write at the end (600)\n"
        "  --temperature X   of the sample (0.8)\n"
        "  --seed N          (1)\n"
        "  --save FILE       the trained weights, as safetensors\n"
        "  --record FILE     the step's graph with its annotations and times, for `phonograph view "
        "FILE`\n"
        "  --log FILE        losses, learning rates, scales and skipped steps as CSV, a row each "
        "hundredth of the way\n"
        "  --report FILE     a page with the curves, samples through the training and the step's "
        "graph\n"
        "  --state FOLDER    the training's state is saved there, each tenth of the way\n"
        "  --resume          goes on with the newest state of that folder, where there is one\n"
        "  --bf16            products and attention in bf16 (autocast), which is faster on a GPU; "
        "weights "
        "stay "
        "f32\n"
        "  --f16             the same in f16, with a gradient scaler\n"
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
    case 'x':
        return real(&o->scale, name, value);
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
    case 'c':
        o->log = value;
        return true;
    case 'u':
        o->report = value;
        return true;
    case 'a':
        o->state = value;
        return true;
    case 'z':
        o->resume = true;
        return true;
    case 'e':
        o->eager = true;
        return true;
    case 'f':
        o->bf16 = true;
        return true;
    case 'i':
        o->f16 = true;
        return true;
    case 'q':
        o->quiet = true;
        return true;
    default:
        return false;
    }
}

/* Why the options do not go together; NULL: they do. */
static const char *clash_of(const options *o)
{
    if ((o->record || o->report) && o->eager)
        return "without a graph there is nothing to --record or --report";
    if (o->f16 && o->bf16)
        return "--f16 or --bf16, not both";
    if (o->scale > 0 && !o->f16)
        return "--scale wants --f16";
    if (o->resume && !o->state)
        return "--resume wants --state";
    return NULL;
}

int parse_options(options *o, int argc, char **argv)
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
                                          {"scale", required_argument, NULL, 'x'},
                                          {"dropout", required_argument, NULL, 'p'},
                                          {"temperature", required_argument, NULL, 'k'},
                                          {"seed", required_argument, NULL, 's'},
                                          {"save", required_argument, NULL, 'o'},
                                          {"record", required_argument, NULL, 'g'},
                                          {"log", required_argument, NULL, 'c'},
                                          {"report", required_argument, NULL, 'u'},
                                          {"state", required_argument, NULL, 'a'},
                                          {"resume", no_argument, NULL, 'z'},
                                          {"bf16", no_argument, NULL, 'f'},
                                          {"f16", no_argument, NULL, 'i'},
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
    const char *clash = argc - optind > 1 ? "one file or folder, please" : clash_of(o);
    if (clash) {
        (void)fprintf(stderr, "gpt: %s; gpt --help tells the options\n", clash);
        return EXIT_USAGE;
    }
    if (optind < argc)
        o->path = argv[optind];
    return -1;
}

void set_sizes(options *o, bool gpu)
{
    struct {
        int64_t *at, host, gpu;
    } sizes[] = {{&o->steps, 1200, 3000}, {&o->batch, 16, 64}, {&o->time, 64, 256},
                 {&o->width, 64, 384},    {&o->heads, 4, 6},   {&o->layers, 2, 6}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        if (*sizes[i].at == 0)
            *sizes[i].at = gpu ? sizes[i].gpu : sizes[i].host;
}
