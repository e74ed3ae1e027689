/* SPDX-License-Identifier: MIT */
/* gpt/log.h: what a training has done so far: for its CSV file and its report. */
#ifndef GPT_LOG_H
#define GPT_LOG_H
#include <phonograph/phonograph.h>
#include <stdio.h>

typedef struct log_row {
    int64_t step; /* steps made */
    uint64_t epoch;
    double loss, validation; /* validation: NAN where it was not measured */
    double rate;             /* the step's learning rate */
    double scale;            /* the gradient scaler's behind the step; 1: there is none */
    uint64_t skipped;        /* steps, of all so far */
    /* of the steps since the row before, eager ones and the capture left out; NAN */
    double step_ms;
} log_row;

typedef struct training_log {
    log_row *rows;
    size_t count, capacity;
    FILE *csv; /* NULL: none */
    const char *path;
} training_log;

/* Zero is an empty log. open: path NULL: rows are kept alone; else the file has those that are
 * there already, and each other one as soon as it is added. Its numbers depend on the training
 * alone, so that two equal runs, or one that was stopped and went on, have the same file. */
ph_status log_open(training_log *log, const char *path);
ph_status log_add(training_log *log, const log_row *row);
/* IO: the file could not be written whole. */
ph_status log_close(training_log *log);
#endif
