/* SPDX-License-Identifier: MIT */
/* inspect/races/races.c: ph_graph_find_races: the search, and its list. */
#include "inspect/races/races.h"
#include "base/alloc.h"
#include "base/text.h"
#include "graph/object/graph.h"
#include "inspect/races/describe.h"
#include "record/foreign.h"

typedef struct finder {
    ph_races *races;
    ph__flat flat;
    ph__clocks clocks;
    ph__accesses accesses;
    ph__meetings meetings;
} finder;

static bool describe_all(finder *f)
{
    const ph__describer describer = {f->races, &f->flat, &f->accesses};
    f->races->certain = f->meetings.certain.count;
    f->races->found = f->meetings.found;
    f->races->steps = f->clocks.steps + f->meetings.steps;
    for (size_t i = 0; i < f->meetings.certain.count; i++)
        if (!ph__races_describe(&describer, &f->meetings.certain.at[i], true))
            return false;
    for (size_t i = 0; i < f->meetings.possible.count; i++)
        if (!ph__races_describe(&describer, &f->meetings.possible.at[i], false))
            return false;
    return true;
}

ph_status ph__races_find(ph_races **out, const ph_record *record, const char *call)
{
    finder f = {.races = ph__calloc(1, sizeof *f.races)};
    bool done = f.races && ph__flat_make(&f.flat, record) && ph__clocks_make(&f.clocks, &f.flat) &&
                ph__accesses_collect(&f.accesses, &f.flat, record) &&
                ph__races_sweep(&f.meetings, &f.accesses, &f.flat, &f.clocks) && describe_all(&f);
    ph__meetings_free(&f.meetings);
    ph__vec_free(&f.accesses);
    ph__clocks_free(&f.clocks);
    ph__flat_free(&f.flat);
    if (!done) {
        ph_races_destroy(f.races);
        return ph__fail_host_memory(call, "the races of the graph");
    }
    *out = f.races;
    return PH_OK;
}

ph_status ph_graph_find_races(ph_races **out, ph_graph *graph)
{
    static const char call[] = "ph_graph_find_races";
    if (out == NULL)
        return ph__fail_null(call, "out");
    *out = NULL;
    PH_TRY(ph__graph_check(graph, PH__CALL_FIND_RACES));
    PH_TRY(ph__record_find_foreign(graph->record, graph->device, call));
    return ph__races_find(out, graph->record, call);
}

void ph_races_destroy(ph_races *races)
{
    if (races == NULL)
        return;
    for (size_t i = 0; i < races->strings.count; i++)
        ph__free(races->strings.at[i]);
    ph__vec_free(&races->strings);
    ph__vec_free(&races->list);
    ph__free(races);
}

size_t ph_races_count(const ph_races *races, size_t *certain)
{
    if (certain)
        *certain = races ? races->certain : 0;
    return races ? races->list.count : 0;
}

size_t ph_races_found(const ph_races *races)
{
    return races ? races->found : 0;
}

ph_status ph_races_at(ph_race *out, const ph_races *races, size_t index)
{
    static const char call[] = "ph_races_at";
    if (out == NULL)
        return ph__fail_null(call, "out");
    if (races == NULL)
        return ph__fail_null(call, "races");
    if (index >= races->list.count)
        return ph_fail(PH_ERROR_NOT_FOUND, "%s: race %zu; there are %zu", call, index,
                       races->list.count);
    *out = races->list.at[index];
    return PH_OK;
}

ph_status ph_races_text(char **out, const ph_races *races)
{
    static const char call[] = "ph_races_text";
    ph__text text = {0};
    if (out == NULL)
        return ph__fail_null(call, "out");
    *out = NULL;
    if (races == NULL)
        return ph__fail_null(call, "races");
    for (size_t i = 0; i < races->list.count; i++) {
        ph__text_add(&text, races->list.at[i].text);
        ph__text_add(&text, "\n");
    }
    ph__text_format(&text, "%zu certain, %zu possible", races->certain,
                    races->list.count - races->certain);
    if (races->found > races->list.count)
        ph__text_format(&text, "; %zu more are not kept", races->found - races->list.count);
    ph__text_add(&text, "\n");
    *out = ph__text_detach(&text);
    return *out ? PH_OK : ph__fail_host_memory(call, "the text");
}
