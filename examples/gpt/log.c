/* SPDX-License-Identifier: MIT */
/* gpt/log.c: rows of a training, in memory and as CSV. */
#include "log.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static ph_status io_failed(const training_log *log)
{
    return ph_fail(PH_ERROR_IO, "%s: cannot be written: %s", log->path, strerror(errno));
}

static ph_status write_row(const training_log *log, const log_row *row)
{
    char validation[32] = "";
    if (!isnan(row->validation))
        (void)snprintf(validation, sizeof validation, "%.9g", row->validation);
    if (fprintf(log->csv, "%lld,%llu,%.9g,%s,%.9g,%.9g,%llu\n", (long long)row->step,
                (unsigned long long)row->epoch, row->loss, validation, row->rate, row->scale,
                (unsigned long long)row->skipped) < 0 ||
        fflush(log->csv) != 0)
        return io_failed(log);
    return PH_OK;
}

ph_status log_open(training_log *log, const char *path)
{
    log->path = path;
    if (!path)
        return PH_OK;
    log->csv = fopen(path, "w");
    if (!log->csv || fputs("step,epoch,loss,validation,rate,scale,skipped\n", log->csv) < 0)
        return io_failed(log);
    for (size_t i = 0; i < log->count; i++)
        PH_TRY(write_row(log, &log->rows[i]));
    return PH_OK;
}

ph_status log_add(training_log *log, const log_row *row)
{
    if (log->count == log->capacity) {
        size_t capacity = log->capacity ? 2 * log->capacity : 128;
        log_row *rows = realloc(log->rows, capacity * sizeof *rows);
        if (!rows)
            return ph_fail(PH_ERROR_HOST_MEMORY, "no memory for %zu rows of the log", capacity);
        log->rows = rows;
        log->capacity = capacity;
    }
    log->rows[log->count++] = *row;
    return log->csv ? write_row(log, row) : PH_OK;
}

ph_status log_close(training_log *log)
{
    bool failed = log->csv && fclose(log->csv) != 0;
    ph_status status = failed ? io_failed(log) : PH_OK;
    free(log->rows);
    *log = (training_log){0};
    return status;
}
