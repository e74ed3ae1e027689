/* SPDX-License-Identifier: MIT */
/* gpt/run.h: a whole training: steps, learning rate, validation, samples on the way, progress. */
#ifndef GPT_RUN_H
#define GPT_RUN_H
#include "log.h"
#include "options.h"
#include "sample.h"

enum {
    SAMPLES = 5 /* through the training, the last one at its end */
};

typedef struct run {
    const options *options;
    trainer trainer;
    sampler sampler;
    training_log log;
    ph_training *training; /* the saved states; NULL: none are asked for */
    int64_t made;          /* steps */
    int64_t begun_at;      /* steps that were made before, where it goes on */
    int64_t parameters;
    int64_t sample_steps[SAMPLES]; /* made when the sample was written */
    char *samples[SAMPLES];        /* NULL: none */
    double begun;                  /* seconds, of the monotonic clock */
    double first, last;            /* losses */
} run;

/* From the step that the run is at to its last one. */
ph_status run_training(run *r);
double now_seconds(void);

/* The report of a run that is over, as a page; the file is replaced, whole or not at all. */
ph_status report_write(const run *r, const corpus *text, const char *path);
#endif
