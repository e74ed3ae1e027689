/* SPDX-License-Identifier: MIT */
/* serve/serve.c: requests come and go; each step gives all that are there one token. */
#include "serve.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct batch {
    request *rows[MOST_ROWS];
    int32_t positions[MOST_ROWS];
    int32_t tokens[MOST_ROWS];
    size_t count, next; /* next: of the requests */
    uint32_t random;
    float *spare; /* the cache of rows that are padding */
} batch;

static uint32_t draw(uint32_t *random)
{
    *random ^= *random << 13, *random ^= *random >> 17, *random ^= *random << 5;
    return *random;
}

static double now(void)
{
    struct timespec time;
    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

ph_status make_requests(request **out, size_t count)
{
    uint32_t random = 2463534242u;
    *out = calloc(count, sizeof **out);
    if (!*out)
        return ph_fail(PH_ERROR_HOST_MEMORY, "serve: no memory for the requests");
    for (size_t i = 0; i < count; i++) {
        (*out)[i].first = (int32_t)(draw(&random) % TOKENS);
        (*out)[i].length = 4 + (int32_t)(draw(&random) % (MOST_STEPS - 4));
    }
    return PH_OK;
}

size_t most_steps_of(const request *requests, size_t count)
{
    size_t steps = 0;
    for (size_t i = 0; i < count; i++)
        steps += (size_t)requests[i].length + 2;
    return steps;
}

/* One more row at most steps, until the batch is full. */
static ph_status admit_request(serving *s, batch *b)
{
    bool wanted = b->count == 0 || draw(&b->random) % 4 != 0;
    if (b->next == s->count || b->count == MOST_ROWS || !wanted)
        return PH_OK;
    request *r = &s->requests[b->next];
    PH_TRY(PH_NEW(&r->cache, decoder_cache_floats(), s->decoder->stream));
    b->next++;
    b->rows[b->count] = r;
    b->positions[b->count] = 0;
    b->tokens[b->count++] = r->first;
    return PH_OK;
}

/* Takes the step's tokens; rows that have all of theirs make room. */
static void take_tokens(const serving *s, batch *b)
{
    size_t kept = 0;
    for (size_t i = 0; i < b->count; i++) {
        request *r = b->rows[i];
        r->tokens[b->positions[i]] = b->tokens[i];
        if (b->positions[i] + 1 == r->length) {
            ph_free(r->cache, s->decoder->stream);
            r->cache = NULL;
            continue;
        }
        b->rows[kept] = r;
        b->tokens[kept] = b->tokens[i];
        b->positions[kept++] = b->positions[i] + 1;
    }
    b->count = kept;
}

static ph_status submit_step(serving *s, decoder_step *step, step_note *note)
{
    const void *pointers[MOST_ROWS];
    ph_graph_cache_value values[MOST_ROWS];
    ph_graph_cache_result result;
    if (!s->cache) {
        note->path = PH_CACHE_EAGER;
        return decoder_submit(s->decoder->stream, step);
    }
    for (size_t i = 0; i < step->bucket; i++) {
        pointers[i] = step->rows[i].cache;
        values[i] = (ph_graph_cache_value){&step->rows[i].position, sizeof(int32_t)};
    }
    PH_TRY(ph_graph_cache_run(s->cache, s->decoder->stream,
                              &(ph_graph_cache_call){.key = &step->bucket,
                                                     .key_bytes = sizeof step->bucket,
                                                     .body = decoder_submit,
                                                     .user = step,
                                                     .pointers = pointers,
                                                     .pointer_count = step->bucket,
                                                     .values = values,
                                                     .value_count = step->bucket},
                              &result));
    note->path = result.path;
    return PH_OK;
}

static ph_status run_step(serving *s, batch *b)
{
    decoder *d = s->decoder;
    step_note *note = &s->notes[s->steps];
    decoder_step step = {.of = d, .bucket = b->count};
    double began = now();
    if (s->cache)
        PH_TRY(ph_graph_cache_bucket(&step.bucket, s->cache, b->count));
    for (size_t i = 0; i < step.bucket; i++)
        step.rows[i] = i < b->count ? (decoder_row){b->rows[i]->cache, b->positions[i]}
                                    : (decoder_row){b->spare, 0};
    *note = (step_note){.rows = b->count, .bucket = step.bucket};
    PH_TRY(ph_memcpy(d->tokens, b->tokens, b->count * sizeof *b->tokens, d->stream));
    PH_TRY(submit_step(s, &step, note));
    PH_TRY(ph_memcpy(b->tokens, d->tokens, b->count * sizeof *b->tokens, d->stream));
    PH_TRY(ph_stream_synchronize(d->stream));
    note->us = (now() - began) * 1e6;
    if (s->cache) {
        ph_graph_cache_stats stats;
        PH_TRY(ph_graph_cache_get_stats(&stats, s->cache));
        note->bytes = stats.executable_bytes + stats.pool_bytes;
    }
    s->steps++;
    take_tokens(s, b);
    return PH_OK;
}

ph_status serve_requests(serving *s)
{
    batch b = {.random = 88675123u};
    double began = now();
    PH_TRY(PH_NEW(&b.spare, decoder_cache_floats(), s->decoder->stream));
    ph_status status = PH_OK;
    while (status == PH_OK && (b.next < s->count || b.count > 0)) {
        status = admit_request(s, &b);
        if (status == PH_OK)
            status = run_step(s, &b);
    }
    for (size_t i = 0; i < b.count; i++)
        ph_free(b.rows[i]->cache, s->decoder->stream);
    ph_free(b.spare, s->decoder->stream);
    s->seconds = now() - began;
    return status;
}
