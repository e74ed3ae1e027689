/* SPDX-License-Identifier: MIT */
/* graph/inputs/freed.c: memory of this library that was freed before a graph was imported. A graph
 * that this library captures keeps what was allocated during the capture; of a graph that was
 * built elsewhere nothing is known before the import, and memory that was freed by then is
 * anybody's. */
#include "graph/inputs/freed.h"
#include "base/line.h"
#include "base/log.h"
#include "memory/observe/hold.h"
#include "memory/observe/lookup.h"
#include "record/record.h"
#include "record/sparse.h"

typedef struct freed_search {
    const ph_graph *graph;
    const char *call;
    size_t count;
    const ph__record_node *first; /* with such a word, and that word */
    char word[64];
    uint64_t address;
} freed_search;

static ph_status fail_freed(const freed_search *s)
{
    return ph_fail(PH_ERROR_STATE,
                   "%s: the capture is strict, and node %zu (%s) addresses %p (%s), which was "
                   "freed before the import; free it after the graph's end, or keep it until the "
                   "import and call ph_graph_hold_memory",
                   s->call, s->first->info.index, s->first->info.name,
                   (void *)(uintptr_t)s->address, s->word);
}

/* The end of memory that the node addresses: kernels take it to compare with. The byte there is
 * none that they use. */
static bool is_end_of_used(const freed_search *s, const ph__record_node *node, uintptr_t address)
{
    ph_allocation before;
    if (!ph__memory_find(&before, s->graph->device, (const void *)(address - 1)))
        return false;
    for (size_t w = 0; w < node->info.word_count; w++) {
        ph_word room;
        if (ph__record_word(&room, node, w)->generation == before.generation)
            return true;
    }
    return false;
}

static ph_status inspect_word(freed_search *s, const ph__record_node *node, size_t w)
{
    ph_word room;
    const ph_word *word = ph__record_word(&room, node, w);
    if (word->base || !ph__memory_is_free(s->graph->device, (uintptr_t)word->value))
        return PH_OK;
    if (is_end_of_used(s, node, (uintptr_t)word->value))
        return PH_OK;
    bool refused = s->graph->strict && word->kind == PH_WORD_PROVED;
    if (s->count++ == 0 || refused) {
        s->first = node;
        s->address = word->value;
        ph__line_format(s->word, sizeof s->word, "%s", word->name);
    }
    return refused ? fail_freed(s) : PH_OK;
}

static ph_status inspect_freed(freed_search *s, const ph_record *record)
{
    for (size_t n = 0; n < record->node_count; n++) {
        const ph__record_node *node = &record->nodes[n];
        for (size_t w = 0; w < node->info.word_count; w++)
            PH_TRY(inspect_word(s, node, w));
        if (node->info.body)
            PH_TRY(inspect_freed(s, node->info.body));
    }
    return PH_OK;
}

ph_status ph__graph_report_freed(ph_graph *graph, const char *call)
{
    freed_search s = {.graph = graph, .call = call};
    PH_TRY(inspect_freed(&s, graph->record));
    if (s.count)
        ph__log(PH_LOG_WARNING,
                "%s: node %zu (%s) addresses %p (%s), which was freed before the import (%zu such "
                "word%s in all); every replay uses whatever lies there then: keep the memory until "
                "the import and call ph_graph_hold_memory, or free it after the graph's end",
                call, s.first->info.index, s.first->info.name, (void *)(uintptr_t)s.address, s.word,
                s.count, s.count == 1 ? "" : "s");
    return PH_OK;
}
