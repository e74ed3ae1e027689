/* SPDX-License-Identifier: MIT */
/* inspect/profile/trace.c: the median replay as a Chrome trace: a thread for each stream that
 * annotations name, and for each lane of the other nodes; above it one with the annotations of
 * its nodes, which contain each other as the scopes did. */
#include "base/json.h"
#include "base/line.h"
#include "base/status.h"
#include "base/text.h"
#include "base/text_file.h"
#include "device/annotate/pairs.h"
#include "inspect/profile/profile.h"
#include <string.h>

enum {
    PROCESS = 1,
    /* pairs of an annotation that get a row; deeper ones are in the arguments of the nodes alone */
    MOST_DEPTH = 64
};

static void put_string(ph__json *json, const char *key, const char *value)
{
    ph__json_key(json, key);
    ph__json_string(json, value);
}

static void put_u64(ph__json *json, const char *key, uint64_t value)
{
    ph__json_key(json, key);
    ph__json_u64(json, value);
}

static void put_us(ph__json *json, const char *key, uint64_t ns)
{
    ph__json_key(json, key);
    ph__json_us(json, ns);
}

typedef struct slice {
    const ph_annotation_pair *pair;
    uint64_t start_ns;
} slice;

/* Nodes that do not overlap, with one value of "stream" in their annotations or without. */
typedef struct row {
    bool marked;
    int64_t stream;
    unsigned which; /* of the rows of that stream, or of the others */
    bool annotated;
    uint64_t end_ns;        /* of its last node so far */
    slice open[MOST_DEPTH]; /* of its annotations, the outermost first */
    size_t depth;
} row;

typedef struct rows {
    PH__VEC(row) list;
    size_t *of; /* by node */
} rows;

/* ---- rows ---- Threads are numbered so that the annotations of a row stand above it. */

static uint64_t annotation_thread(size_t at)
{
    return 2 * (uint64_t)at + 1;
}

static uint64_t node_thread(size_t at)
{
    return 2 * (uint64_t)at + 2;
}

/* As a mark with `lane` gives it (annotation.h). */
static bool find_stream(int64_t *out, const ph_profile_scope *scope)
{
    for (size_t i = 0; i < scope->pair_count; i++)
        if (scope->pairs[i].type == PH_ANNOTATION_INTEGER &&
            strcmp(scope->pairs[i].key, "stream") == 0) {
            *out = scope->pairs[i].integer;
            return true;
        }
    return false;
}

/* The first row of its kind in which nothing runs any more; false: no host memory. */
static bool put_into_row(rows *r, const ph_profile *profile, size_t n)
{
    const ph__profile_node *node = &profile->nodes[n];
    const ph_profile_scope *scope = &profile->scopes.at[node->scope].info;
    row fresh = {0};
    size_t at = 0;
    fresh.marked = find_stream(&fresh.stream, scope);
    for (; at < r->list.count; at++) {
        const row *one = &r->list.at[at];
        if (one->marked != fresh.marked || one->stream != fresh.stream)
            continue;
        if (one->end_ns <= node->info.start_ns)
            break;
        fresh.which++;
    }
    if (at == r->list.count && !ph__vec_push(&r->list, fresh))
        return false;
    r->list.at[at].end_ns = node->info.start_ns + node->run_ns;
    r->list.at[at].annotated = r->list.at[at].annotated || scope->pair_count > 0;
    r->of[n] = at;
    return true;
}

static bool make_rows(rows *r, const ph_profile *profile)
{
    r->of = ph__calloc(profile->count + 1, sizeof *r->of);
    bool ok = r->of != NULL;
    for (size_t i = 0; ok && i < profile->measured_count; i++)
        ok = put_into_row(r, profile, profile->by_start[i]);
    return ok;
}

static void free_rows(rows *r)
{
    ph__vec_free(&r->list);
    ph__free(r->of);
}

static void row_name(char *out, size_t size, const row *one)
{
    if (!one->marked)
        ph__line_format(out, size, "lane %u", one->which);
    else if (one->which == 0)
        ph__line_format(out, size, "stream %lld", (long long)one->stream);
    else
        ph__line_format(out, size, "stream %lld, beside it %u", (long long)one->stream, one->which);
}

static void begin_event(ph__json *json, const char *phase, const char *name, uint64_t thread)
{
    ph__json_open(json, '{');
    put_string(json, "ph", phase);
    put_string(json, "name", name);
    put_u64(json, "pid", PROCESS);
    put_u64(json, "tid", thread);
}

/* A metadata event with one argument, which is a text, or a number where there is none. */
static void put_metadata(ph__json *json, const char *what, uint64_t thread, const char *key,
                         const char *text, uint64_t number)
{
    begin_event(json, "M", what, thread);
    ph__json_key(json, "args");
    ph__json_open(json, '{');
    if (text)
        put_string(json, key, text);
    else
        put_u64(json, key, number);
    ph__json_close(json, '}');
    ph__json_close(json, '}');
}

static void put_row(ph__json *json, uint64_t thread, const char *name)
{
    put_metadata(json, "thread_name", thread, "name", name, 0);
    put_metadata(json, "thread_sort_index", thread, "sort_index", NULL, thread);
}

static void put_rows(ph__json *json, const rows *r)
{
    char name[64], above[96];
    put_metadata(json, "process_name", 0, "name", "phonograph: one replay", 0);
    for (size_t at = 0; at < r->list.count; at++) {
        row_name(name, sizeof name, &r->list.at[at]);
        ph__line_format(above, sizeof above, "annotations of %s", name);
        if (r->list.at[at].annotated)
            put_row(json, annotation_thread(at), above);
        put_row(json, node_thread(at), name);
    }
}

/* ---- nodes ---- */

static void put_node(ph__json *json, const ph_profile *profile, const rows *r, size_t n)
{
    const ph__profile_node *node = &profile->nodes[n];
    const ph_profile_scope *scope = &profile->scopes.at[node->scope].info;
    begin_event(json, "X", node->name, node_thread(r->of[n]));
    put_string(json, "cat", ph_node_kind_name(node->kind));
    put_us(json, "ts", node->info.start_ns);
    put_us(json, "dur", node->run_ns);
    ph__json_key(json, "args");
    ph__json_open(json, '{');
    put_u64(json, "node", n);
    put_u64(json, "lane", node->info.lane);
    put_us(json, "median_us", node->info.median_ns);
    put_us(json, "slack_us", node->info.slack_ns);
    ph__json_key(json, "critical");
    ph__json_bool(json, node->info.critical);
    if (scope->pair_count > 0)
        ph__pairs_to_json(json, scope->pairs, scope->pair_count);
    ph__json_close(json, '}');
    ph__json_close(json, '}');
}

/* ---- annotations ---- Neighbours in a row whose annotations begin with the same pairs lie in
 * one slice of each of these pairs. */

static void slice_name(char *out, size_t size, const ph_annotation_pair *pair)
{
    switch (pair->type) {
    case PH_ANNOTATION_TEXT:
        if (strcmp(pair->key, "name") == 0)
            ph__line_format(out, size, "%s", pair->text ? pair->text : "");
        else
            ph__line_format(out, size, "%s=%s", pair->key, pair->text ? pair->text : "");
        break;
    case PH_ANNOTATION_INTEGER:
        ph__line_format(out, size, "%s=%lld", pair->key, (long long)pair->integer);
        break;
    case PH_ANNOTATION_REAL:
        ph__line_format(out, size, "%s=%g", pair->key, pair->real);
        break;
    case PH_ANNOTATION_BOOL:
        ph__line_format(out, size, "%s=%s", pair->key, pair->boolean ? "true" : "false");
        break;
    }
}

/* Closes all but the `keep` outermost slices. */
static void close_slices(ph__json *json, row *one, size_t at, size_t keep)
{
    while (one->depth > keep) {
        const slice *last = &one->open[--one->depth];
        char name[256];
        slice_name(name, sizeof name, last->pair);
        begin_event(json, "X", name, annotation_thread(at));
        put_string(json, "cat", "annotation");
        put_us(json, "ts", last->start_ns);
        put_us(json, "dur", one->end_ns - last->start_ns);
        ph__json_key(json, "args");
        ph__json_open(json, '{');
        ph__pair_to_json(json, last->pair);
        ph__json_close(json, '}');
        ph__json_close(json, '}');
    }
}

static void put_slices(ph__json *json, const ph_profile *profile, rows *r, size_t n)
{
    const ph__profile_node *node = &profile->nodes[n];
    const ph_profile_scope *scope = &profile->scopes.at[node->scope].info;
    size_t depth = scope->pair_count < MOST_DEPTH ? scope->pair_count : MOST_DEPTH, same = 0;
    row *one = &r->list.at[r->of[n]];
    while (same < depth && same < one->depth &&
           ph__pair_same(one->open[same].pair, &scope->pairs[same]))
        same++;
    close_slices(json, one, r->of[n], same);
    for (; one->depth < depth; one->depth++)
        one->open[one->depth] = (slice){&scope->pairs[one->depth], node->info.start_ns};
    one->end_ns = node->info.start_ns + node->run_ns;
}

/* ---- the whole ---- */

static bool put_trace(ph__json *json, const ph_profile *profile)
{
    rows r = {0};
    bool ok = make_rows(&r, profile);
    if (ok) {
        ph__json_open(json, '{');
        put_string(json, "displayTimeUnit", "ns");
        ph__json_key(json, "traceEvents");
        ph__json_open(json, '[');
        put_rows(json, &r);
        for (size_t i = 0; i < profile->measured_count; i++) {
            put_slices(json, profile, &r, profile->by_start[i]);
            put_node(json, profile, &r, profile->by_start[i]);
        }
        for (size_t at = 0; at < r.list.count; at++)
            close_slices(json, &r.list.at[at], at, 0);
        ph__json_close(json, ']');
        ph__json_close(json, '}');
    }
    free_rows(&r);
    return ok;
}

ph_status ph_profile_trace(char **out, const ph_profile *profile)
{
    static const char call[] = "ph_profile_trace";
    ph__json json = {0};
    if (out == NULL)
        return ph__fail_null(call, "out");
    *out = NULL;
    if (profile == NULL)
        return ph__fail_null(call, "profile");
    if (put_trace(&json, profile))
        *out = ph__text_detach(&json.text);
    ph__text_free(&json.text);
    return *out ? PH_OK : ph__fail_host_memory(call, "the text");
}

ph_status ph_profile_dump_trace(const ph_profile *profile, const char *path)
{
    static const char call[] = "ph_profile_dump_trace";
    ph__json json = {0};
    if (profile == NULL)
        return ph__fail_null(call, "profile");
    if (path == NULL)
        return ph__fail_null(call, "path");
    ph_status status = put_trace(&json, profile) ? PH_OK : ph__fail_host_memory(call, "the text");
    ph__text_add(&json.text, "\n");
    if (status == PH_OK)
        status = ph__text_write_file(&json.text, path, call);
    ph__text_free(&json.text);
    return status;
}
