/* SPDX-License-Identifier: MIT */
/* driver/host/plan/workers.h: the threads that help to run kernels and plans. They spin briefly
 * between jobs, then sleep. */
#ifndef PH_DRIVER_HOST_PLAN_WORKERS_H
#define PH_DRIVER_HOST_PLAN_WORKERS_H
#include <stdbool.h>

typedef struct ph__workers ph__workers;

/* threads counts the caller: threads - 1 are started, lazily, at the first job. NULL when out of
 * memory. */
ph__workers *ph__workers_create(unsigned threads);
void ph__workers_destroy(ph__workers *workers); /* takes NULL; no job may be running */
/* threads, the caller included; 1 for NULL */
unsigned ph__workers_count(const ph__workers *workers);

/* Runs job(context, lane) for lane 0 on the caller and lanes 1 .. lanes - 1 on workers, at the
 * same time, and returns when all have returned. lanes <= ph__workers_count. False, and nothing
 * was run: the workers have a job already (of another thread), or a thread could not be started;
 * the caller then does the work alone. Allocates nothing. Waking sleeping workers costs tens of
 * microseconds: ph__workers_awake tells whether those of so many lanes spin. */
bool ph__workers_run(ph__workers *workers, unsigned lanes,
                     void (*job)(void *context, unsigned lane), void *context);
bool ph__workers_awake(const ph__workers *workers, unsigned lanes);
#endif
