/* SPDX-License-Identifier: MIT */
/* gpt/options.h: what the command line asks for. */
#ifndef GPT_OPTIONS_H
#define GPT_OPTIONS_H
#include <stdbool.h>
#include <stdint.h>

enum {
    EXIT_USAGE = 2
};

typedef struct options {
    const char *device, *path, *save, *record, *log, *report, *state;
    int64_t steps, batch, time, width, heads, layers, sample;
    double rate, scale, dropout, temperature; /* scale 0: the default */
    uint64_t seed;
    bool eager, bf16, f16, quiet, resume;
} options;

/* Over the defaults that are in o. An exit status, or -1 to go on. */
int parse_options(options *o, int argc, char **argv);
/* Sizes that were not said, for the machine. */
void set_sizes(options *o, bool gpu);
#endif
