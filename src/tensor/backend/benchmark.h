/* SPDX-License-Identifier: MIT */
/* tensor/backend/benchmark.h: which of a library's proposals for the same work is the fastest. */
#ifndef PH_TENSOR_BACKEND_BENCHMARK_H
#define PH_TENSOR_BACKEND_BENCHMARK_H
#include <phonograph/phonograph.h>

enum {
    PH__BENCHMARK_LIMIT = 10,   /* proposals of one search */
    PH__BENCHMARK_MOST = 2 * 10 /* of all searches */
};

/* Whether work that is new to its device is to be timed now: ph_set_benchmark says so, and no
 * capture is open that stream is in, that the calling thread began, or that forbids it to wait. */
bool ph__benchmark_wanted(ph_stream *stream);

/* Submits proposal i to the benchmark's stream. False: it cannot be done, and does not compete. */
typedef bool (*ph__benchmark_submit)(void *user, int i);
/* The number of the proposal that took the least time; the first unless another was clearly faster.
 * Each is submitted several times, in turn, and none is running when it returns. -1: nothing could
 * be timed. count is at most PH__BENCHMARK_MOST. The record stays as it was. */
int ph__benchmark_fastest(ph_stream *stream, int count, ph__benchmark_submit submit, void *user);

/* Memory in the order of stream, of zeros, for as long as proposals are timed. NULL: there is none,
 * and the record stays as it was. release takes NULL. */
void *ph__benchmark_memory(ph_stream *stream, size_t bytes);
void ph__benchmark_release(void *memory, ph_stream *stream);
#endif
