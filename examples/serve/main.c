/* SPDX-License-Identifier: MIT */
/* serve: a decoder behind a cache of graphs: requests of random lengths come and go, and each step
 * gives all that are there one token. The batch is padded to a bucket, which is the key; the keys
 * and values of each row lie elsewhere, and its position grows: pointers and values that the cache
 * learns. Every token is the same as without graphs.
 *
 * usage: serve [--requests N] [--report FILE] [DEVICE] */
#include "serve.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct options {
    const char *device, *report;
    size_t requests;
} options;

static bool parse_options(options *o, int argc, char **argv)
{
    *o = (options){.device = "auto", .requests = 60};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--requests") == 0 && i + 1 < argc)
            o->requests = strtoul(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--report") == 0 && i + 1 < argc)
            o->report = argv[++i];
        else if (argv[i][0] != '-')
            o->device = argv[i];
        else
            return false;
    }
    return o->requests > 0 && o->requests <= 100000;
}

static ph_status serve_all(serving *s, decoder *d, size_t count, ph_graph_cache *cache)
{
    *s = (serving){.decoder = d, .cache = cache, .count = count};
    PH_TRY(make_requests(&s->requests, count));
    s->notes = calloc(most_steps_of(s->requests, count), sizeof *s->notes);
    if (!s->notes)
        return ph_fail(PH_ERROR_HOST_MEMORY, "serve: no memory for the steps");
    return serve_requests(s);
}

static ph_status compare_tokens(const serving *a, const serving *b)
{
    for (size_t i = 0; i < a->count; i++)
        if (memcmp(a->requests[i].tokens, b->requests[i].tokens, sizeof a->requests[i].tokens) != 0)
            return ph_fail(PH_ERROR_CALLER, "serve: request %zu has other tokens through the cache",
                           i);
    return PH_OK;
}

static ph_status print_summary(const serving *eager, const serving *cached)
{
    char *text;
    PH_TRY(ph_graph_cache_text(&text, cached->cache));
    printf("%zu requests in %zu steps: the same tokens eagerly and through the cache\n"
           "%.0f steps a second eagerly, %.0f through the cache\n%s",
           cached->count, cached->steps, (double)eager->steps / eager->seconds,
           (double)cached->steps / cached->seconds, text);
    ph_string_free(text);
    return PH_OK;
}

static ph_status run(const options *o, decoder *d, serving *eager, serving *cached,
                     ph_graph_cache **cache)
{
    static const size_t buckets[] = {1, 2, 4, 8};
    ph_device *device;
    PH_TRY(ph_device_open(&device, o->device, NULL));
    ph_status status = decoder_open(d, device);
    ph_device_release(device);
    PH_TRY(status);
    PH_TRY(ph_graph_cache_create(cache, d->device, NULL));
    PH_TRY(ph_graph_cache_set_buckets(*cache, buckets, sizeof buckets / sizeof buckets[0]));
    PH_TRY(serve_all(eager, d, o->requests, NULL));
    PH_TRY(serve_all(cached, d, o->requests, *cache));
    PH_TRY(compare_tokens(eager, cached));
    PH_TRY(print_summary(eager, cached));
    return o->report ? write_report(o->report, eager, cached) : PH_OK;
}

int main(int argc, char **argv)
{
    options o;
    decoder d = {0};
    serving eager = {0}, cached = {0};
    ph_graph_cache *cache = NULL;
    if (!parse_options(&o, argc, argv)) {
        (void)fprintf(stderr, "usage: serve [--requests N] [--report FILE] [DEVICE]\n");
        return 2;
    }
    ph_status status = run(&o, &d, &eager, &cached, &cache);
    if (status != PH_OK)
        (void)fprintf(stderr, "serve: %s\n", ph_error_last()->message);
    ph_graph_cache_destroy(cache);
    free(eager.requests);
    free(eager.notes);
    free(cached.requests);
    free(cached.notes);
    decoder_close(&d);
    return status == PH_OK ? 0 : 1;
}
