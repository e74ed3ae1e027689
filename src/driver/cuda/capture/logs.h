/* SPDX-License-Identifier: MIT */
/* driver/cuda/capture/logs.h: what the two ways of hearing about failed driver calls share: its log
 * callback, and CUPTI. */
#ifndef PH_CUDA_LOGS_H
#define PH_CUDA_LOGS_H
#include <stdbool.h>
#include <stddef.h>

/* A line of the driver's log that reports the end of a call: "Returning 900 (NAME) from
 * cuMemAlloc_v2". */
typedef struct ph__cuda_log_line {
    int result;
    char call[64]; /* without the version and the variant: "cuMemAlloc" */
} ph__cuda_log_line;
/* length bytes, a NUL among them or not; what stands before the report is skipped. false: no
 * such report. Allocates nothing. */
bool ph__cuda_log_parse(ph__cuda_log_line *out, const char *text, size_t length);

/* The function's name as this library has it; cut when it is very long. */
void ph__cuda_call_name(char out[64], const char *name, size_t length);

/* True for failures that may have killed a capture. */
bool ph__cuda_may_kill(const char *call, int result);

/* The driver's own reports of failing calls, for ph__suspect_note; counted by open captures.
 * Nothing where the driver has no log callback and CUPTI was not asked for. */
void ph__cuda_logs_begin(void);
void ph__cuda_logs_end(void);
#endif
