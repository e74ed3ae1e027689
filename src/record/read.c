/* SPDX-License-Identifier: MIT */
/* record/read.c: the public questions to a record. */
#include "record/read.h"
#include "record/annotations.h"
#include "record/foreign.h"
#include "record/record.h"
#include <stdio.h>
#include <string.h>

const char *ph_node_kind_name(ph_node_kind kind)
{
    static const char *const names[] = {"kernel",         "memcpy",       "memset",
                                        "host",           "graph",        "empty",
                                        "event_wait",     "event_record", "semaphore_signal",
                                        "semaphore_wait", "mem_alloc",    "mem_free",
                                        "batch_mem_op",   "conditional"};
    return (unsigned)kind < sizeof names / sizeof names[0] ? names[kind] : "unknown";
}

size_t ph_record_node_count(const ph_record *record)
{
    return record ? record->node_count : 0;
}

size_t ph_record_edge_count(const ph_record *record)
{
    return record ? record->edge_count : 0;
}

static ph_status find_node(const ph__record_node **out, const ph_record *record, size_t node,
                           const char *call)
{
    if (record == NULL)
        return ph__fail_null(call, "record");
    if (node >= record->node_count)
        return ph_fail(PH_ERROR_NOT_FOUND,
                       "%s: node %zu does not exist; the record has %zu node%s, numbered from 0",
                       call, node, record->node_count, record->node_count == 1 ? "" : "s");
    *out = &record->nodes[node];
    return PH_OK;
}

ph_status ph_record_node(ph_node_info *out, const ph_record *record, size_t node)
{
    const ph__record_node *found = NULL;
    if (out == NULL)
        return ph__fail_null("ph_record_node", "out");
    memset(out, 0, sizeof *out);
    PH_TRY(find_node(&found, record, node, "ph_record_node"));
    *out = found->info;
    return PH_OK;
}

ph_status ph_record_readable_name(char *out, size_t size, const ph_record *record, size_t node)
{
    static const char call[] = "ph_record_readable_name";
    char room[PH__READABLE];
    const ph__record_node *found = NULL;
    if (out == NULL)
        return ph__fail_null(call, "out");
    if (size == 0)
        return ph_fail(PH_ERROR_ARGUMENT, "%s: size is 0; %d bytes hold every readable name", call,
                       PH__READABLE);
    *out = '\0';
    PH_TRY(find_node(&found, record, node, call));
    (void)snprintf(out, size, "%s", ph__record_readable(room, record, found->info.name));
    return PH_OK;
}

const char *ph_record_made_for(const ph_record *record, size_t node)
{
    return record && node < record->node_count ? ph__record_made_for(&record->nodes[node]) : NULL;
}

const size_t *ph_record_dependencies(const ph_record *record, size_t node)
{
    return record && node < record->node_count ? record->nodes[node].dependencies : NULL;
}

const size_t *ph_record_dependents(const ph_record *record, size_t node)
{
    return record && node < record->node_count ? record->nodes[node].dependents : NULL;
}

ph_status ph_record_edge(ph_edge_kind *out, const ph_record *record, size_t node, size_t dependency)
{
    static const char call[] = "ph_record_edge";
    const ph__record_node *found = NULL;
    if (out == NULL)
        return ph__fail_null(call, "out");
    *out = PH_EDGE_FULL;
    PH_TRY(find_node(&found, record, node, call));
    if (dependency >= found->info.dependency_count)
        return ph_fail(PH_ERROR_NOT_FOUND,
                       "%s: node %zu (%s) has no dependency %zu; it has %zu, numbered from 0 as in "
                       "ph_record_dependencies",
                       call, node, found->info.name, dependency, found->info.dependency_count);
    *out = found->dependency_kinds[dependency];
    return PH_OK;
}

const char *ph__edge_kind_name(ph_edge_kind kind)
{
    return kind == PH_EDGE_PROGRAMMATIC ? "programmatic" : "full";
}

ph_status ph_record_word(ph_word *out, const ph_record *record, size_t node, size_t word)
{
    const ph__record_node *found = NULL;
    if (out == NULL)
        return ph__fail_null("ph_record_word", "out");
    memset(out, 0, sizeof *out);
    PH_TRY(find_node(&found, record, node, "ph_record_word"));
    if (word >= found->info.word_count)
        return ph_fail(PH_ERROR_NOT_FOUND,
                       "ph_record_word: node %zu (%s) has no word %zu; it has %zu, numbered from 0",
                       node, found->info.name, word, found->info.word_count);
    *out = *ph__record_look_up_foreign(out, record, found, word);
    return PH_OK;
}

ph_status ph_record_next_address(ph_word *out, size_t *word, const ph_record *record, size_t node)
{
    static const char call[] = "ph_record_next_address";
    const ph__record_node *found = NULL;
    if (out == NULL)
        return ph__fail_null(call, "out");
    ph_status status =
        word == NULL ? ph__fail_null(call, "word") : find_node(&found, record, node, call);
    if (status != PH_OK) {
        memset(out, 0, sizeof *out);
        return status;
    }
    const ph_word *next = ph__record_next_address(out, record, found, word);
    if (next && next != out)
        *out = *next;
    if (!next) {
        memset(out, 0, sizeof *out);
        *word = found->info.word_count;
    }
    return PH_OK;
}
