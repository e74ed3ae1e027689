/* SPDX-License-Identifier: MIT */
/* graph/locate/where.c: how far the last replay with breadcrumbs came: read in the host's memory
 * alone. */
#include "base/line.h"
#include "graph/locate/locate.h"
#include "graph/locate/probes_exec.h"
#include "graph/object/graph.h"
#include <stdio.h>
#include <string.h>

enum {
    READS = 8 /* when replays begin all the time */
};

/* One read of the table. */
typedef struct table_read {
    ph__locate *locate;
    const uint64_t *table;
    uint64_t begun;      /* the root's tick: what is greater was written since */
    size_t passed, last; /* last: the breadcrumb; SIZE_MAX: none */
    size_t open;
} table_read;

/* 0: not passed in that replay, or there is no such breadcrumb. */
static uint64_t tick_of(const table_read *at, size_t breadcrumb)
{
    uint64_t tick = breadcrumb == SIZE_MAX ? 0 : ph__probe_tick(&at->table[1 + breadcrumb]);
    return tick > at->begun ? tick : 0;
}

static bool is_open(const table_read *at, const ph__located_scope *scope)
{
    return tick_of(at, scope->first) && !tick_of(at, scope->last);
}

/* The open scope that began last of those before `limit`. */
static size_t find_open(const table_read *at, uint64_t limit)
{
    size_t found = SIZE_MAX;
    uint64_t latest = 0;
    for (size_t i = 0; i < at->locate->scopes.count; i++) {
        const ph__located_scope *scope = &at->locate->scopes.at[i];
        uint64_t tick = is_open(at, scope) ? tick_of(at, scope->first) : 0;
        if (tick > latest && tick < limit) {
            latest = tick;
            found = i;
        }
    }
    return found;
}

static void read_open(table_read *at)
{
    ph__locate *locate = at->locate;
    uint64_t limit = UINT64_MAX;
    at->open = 0;
    if (at->passed == locate->breadcrumbs.nodes.count)
        return;
    for (size_t i; at->open < locate->scopes.count && (i = find_open(at, limit)) != SIZE_MAX;
         at->open++) {
        limit = tick_of(at, locate->scopes.at[i].first);
        if (limit == 0)
            return; /* another replay has begun */
        locate->shown.at[at->open] = locate->scopes.at[i].path;
    }
}

/* False where another replay began meanwhile. */
static bool read_table(table_read *at)
{
    const ph__probes *breadcrumbs = &at->locate->breadcrumbs;
    uint64_t latest = 0;
    at->begun = ph__probe_tick(at->table);
    at->passed = 0;
    at->last = SIZE_MAX;
    for (size_t i = 0; i < breadcrumbs->nodes.count; i++) {
        uint64_t tick = tick_of(at, i);
        at->passed += tick != 0;
        if (tick > latest) {
            latest = tick;
            at->last = i;
        }
    }
    read_open(at);
    return ph__probe_tick(at->table) == at->begun;
}

/* ---- in words ---- */
PH_PRINTF(3, 4)
static size_t append_text(char *out, size_t size, const char *format, ...)
{
    size_t length = strlen(out);
    va_list args;
    va_start(args, format);
    ph__line_vformat(out + length, size - length, format, args);
    va_end(args);
    return strlen(out);
}

/* A scope that is around another open one is in the path of that. */
static bool is_around(const table_read *at, size_t open)
{
    size_t length = strlen(at->locate->shown.at[open]);
    for (size_t i = 0; i < open; i++)
        if (strncmp(at->locate->shown.at[i], at->locate->shown.at[open], length) == 0 &&
            at->locate->shown.at[i][length] == '/')
            return true;
    return false;
}

static void report_open_scopes(char *out, size_t size, const table_read *at)
{
    enum {
        LISTED = 3,
        TAIL = 160 /* for what comes behind */
    };
    size_t listed = 0, left = 0;
    for (size_t i = 0; i < at->open; i++) {
        if (is_around(at, i))
            continue;
        if (listed == LISTED || strlen(out) + strlen(at->locate->shown.at[i]) + 8 > size - TAIL) {
            left++;
            continue;
        }
        append_text(out, size, "%s\"%s\"", listed ? ", " : "", at->locate->shown.at[i]);
        listed++;
    }
    if (left)
        append_text(out, size, "%s%zu %s", listed ? " and " : "", left,
                    listed      ? "more"
                    : left == 1 ? "scope"
                                : "scopes");
}

/* No breadcrumb watches the work behind the last one. */
static void report_complete(ph_progress *out, const ph__locate *locate)
{
    bool ended = true; /* each scope has a breadcrumb at its end */
    for (size_t i = 0; i < locate->scopes.count; i++)
        ended = ended && locate->scopes.at[i].last != SIZE_MAX;
    append_text(out->message, sizeof out->message, "the last replay with breadcrumbs has passed ");
    if (out->count == 1)
        append_text(out->message, sizeof out->message, "the only breadcrumb");
    else
        append_text(out->message, sizeof out->message, "all %zu breadcrumbs", out->count);
    append_text(out->message, sizeof out->message,
                "; if it still runs, what runs lies behind the last %s, or in no scope",
                ended ? "scope's end" : "breadcrumb");
}

static void report_progress(ph_progress *out, const table_read *at)
{
    size_t size = sizeof out->message;
    const ph__probes *breadcrumbs = &at->locate->breadcrumbs;
    if (out->complete) {
        report_complete(out, at->locate);
        return;
    }
    if (at->last == SIZE_MAX) {
        append_text(out->message, size,
                    "the last replay with breadcrumbs has begun and passed none of %zu "
                    "breadcrumb%s: it has not "
                    "come to "
                    "\"%s\"",
                    out->count, out->count == 1 ? "" : "s",
                    at->locate->scopes.at[breadcrumbs->nodes.at[0].scope].path);
        return;
    }
    bool ends = breadcrumbs->nodes.at[at->last].ends;
    if (at->open) {
        append_text(out->message, size, "the last replay has begun, and not ended, ");
        report_open_scopes(out->message, size, at);
    } else {
        append_text(out->message, size, "the last replay is between two scopes");
    }
    append_text(out->message, size,
                "; it has passed %zu of %zu breadcrumbs, as the last one the %s of \"%s\"",
                out->passed, out->count, ends ? "end" : "beginning", out->last);
}

ph_status ph_graph_where(ph_progress *out, ph_graph *graph)
{
    static const char call[] = "ph_graph_where";
    if (out == NULL)
        return ph__fail_null(call, "out");
    memset(out, 0, sizeof *out);
    PH_TRY(ph__graph_check(graph, PH__CALL_WHERE));
    PH_TRY(ph__locate_need_breadcrumbs(graph, call));
    ph__locate *locate = graph->locate;
    table_read at = {.locate = locate, .table = locate->breadcrumbs.table};
    if (at.table == NULL || ph__probe_tick(at.table) == 0)
        return ph_fail(PH_ERROR_STATE,
                       "%s: no replay has begun with breadcrumbs switched on; "
                       "ph_graph_breadcrumbs_enable does "
                       "that, for replays that come later",
                       call);
    for (int i = 0; i < READS && !read_table(&at); i++) {
    }
    out->count = locate->breadcrumbs.nodes.count;
    out->passed = at.passed;
    out->complete = at.passed == out->count;
    out->open = at.open ? locate->shown.at : NULL;
    out->open_count = at.open;
    out->last = at.last == SIZE_MAX
                    ? NULL
                    : locate->scopes.at[locate->breadcrumbs.nodes.at[at.last].scope].path;
    report_progress(out, &at);
    return PH_OK;
}
