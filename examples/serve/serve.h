/* SPDX-License-Identifier: MIT */
/* serve/serve.h: requests, and what each step took. */
#ifndef SERVE_SERVE_H
#define SERVE_SERVE_H
#include "decoder.h"

/* Asks for `length` tokens behind its first one. */
typedef struct request {
    int32_t first, length;
    int32_t tokens[MOST_STEPS];
    float *cache; /* while it is in the batch */
} request;

typedef struct step_note {
    size_t rows, bucket;
    ph_graph_cache_path path;
    double us;
    size_t bytes; /* of executables and of the cache's pool */
} step_note;

typedef struct serving {
    decoder *decoder;
    ph_graph_cache *cache; /* NULL: every step runs as it is */
    request *requests;
    size_t count;
    step_note *notes; /* room for all steps */
    size_t steps;
    double seconds;
} serving;

/* Requests of chance, the same for the same number. */
ph_status make_requests(request **out, size_t count);
size_t most_steps_of(const request *requests, size_t count);
/* Serves all of them, up to MOST_ROWS at a time. */
ph_status serve_requests(serving *s);
/* Writes the report. IO: path names what failed. */
ph_status write_report(const char *path, const serving *eager, const serving *cached);
#endif
