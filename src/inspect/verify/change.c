/* SPDX-License-Identifier: MIT */
/* inspect/verify/change.c: the nodes and parameters that a capture made now would have else than
 * the graph, and these in words. */
#include "inspect/verify/change.h"
#include "base/demangle.h"
#include "graph/locate/probes.h"
#include "graph/memory/cells.h"
#include "graph/object/graph.h"
#include "graph/slots/slots.h"
#include "inspect/verify/blocks.h"
#include "inspect/verify/compare.h"
#include "inspect/verify/say.h"
#include "record/foreign.h"
#include "record/sparse.h"
#include <string.h>

/* ---- which ---- */
static bool same_form(const ph_node_info *a, const ph_node_info *b)
{
    return memcmp(a->grid, b->grid, sizeof a->grid) == 0 &&
           memcmp(a->block, b->block, sizeof a->block) == 0 && a->bytes == b->bytes &&
           a->value == b->value;
}

bool ph__verify_is_changed(const ph__verify *verify, size_t node)
{
    const ph__record_node *a = &verify->graph->record->nodes[node],
                          *b = &verify->second->record->nodes[node];
    ph_word rooms[2];
    if (!verify->switches.on[node] || verify->graph->changed || verify->graph->slots)
        return true;
    for (size_t i = 0; i < a->info.word_count && i < b->info.word_count; i++)
        if (ph__record_word(&rooms[0], a, i)->value != ph__record_word(&rooms[1], b, i)->value)
            return true;
    return !same_form(&a->info, &b->info);
}

static bool same_node(const ph__record_node *a, const ph__record_node *b)
{
    size_t count = a->info.dependency_count;
    return a->info.kind == b->info.kind && strcmp(a->info.name, b->info.name) == 0 &&
           count == b->info.dependency_count &&
           (count == 0 ||
            memcmp(a->dependencies, b->dependencies, count * sizeof *a->dependencies) == 0);
}

size_t ph__verify_first_change(bool *same, const ph__verify *verify)
{
    const ph_record *a = verify->graph->record, *b = verify->second->record;
    size_t count = a->node_count < b->node_count ? a->node_count : b->node_count;
    *same = a->node_count == b->node_count;
    for (size_t i = 0; i < count; i++)
        if (!same_node(&a->nodes[i], &b->nodes[i]))
            return i;
    return *same || count == a->node_count ? SIZE_MAX : count;
}

/* ---- in words ---- */
#define add ph__verify_add

/* ---- one parameter ---- */
/* As a number of floating point too, where it looks like one. */
static void add_scalar(const ph__verify *verify, uint64_t value, unsigned first, unsigned bytes)
{
    uint64_t shown = bytes == 8 ? value : value >> 8 * first & UINT32_MAX;
    double number =
        ph__number_value((const char *)&value + first, bytes == 8 ? PH_NUMBER_F64 : PH_NUMBER_F32);
    double magnitude = number < 0 ? -number : number;
    add(verify, "0x%llx", (unsigned long long)shown);
    if (magnitude > 1e-12 && magnitude < 1e12)
        add(verify, " (%g)", number);
}

static void add_address(const ph__verify *verify, uint64_t value)
{
    ph_allocation block;
    add(verify, "0x%llx", (unsigned long long)value);
    if (ph__verify_find_block(&block, verify, (uintptr_t)value))
        add(verify, " (byte %zu of %zu)", (size_t)(value - (uintptr_t)block.base), block.requested);
}

/* How many bytes of the word are one number, from which on: of typed kernels known, of others
 * guessed by what changed. */
static void find_number(unsigned *first, unsigned *bytes, const ph__record_node *node,
                        const ph_word *a, const ph_word *b)
{
    uint64_t changed = a->value ^ b->value;
    bool low = (changed & UINT32_MAX) != 0, high = changed >> 32 != 0,
         only_high = ((a->value | b->value) & UINT32_MAX) == 0;
    *first = low || only_high ? 0 : 4;
    *bytes = (low && high) || only_high ? 8 : 4;
    for (size_t i = 0; node->kernel && i < node->kernel->param_count; i++)
        if (node->kernel->params[i].offset == a->offset) {
            *first = 0;
            *bytes = node->kernel->params[i].size < 8 ? 4 : 8;
        }
}

static void add_values(const ph__verify *verify, const ph__record_node *node, const ph_word *a,
                       const ph_word *b, const char *between)
{
    unsigned first, bytes;
    find_number(&first, &bytes, node, a, b);
    if (a->kind == PH_WORD_VALUE && b->kind == PH_WORD_VALUE) {
        add_scalar(verify, a->value, first, bytes);
        add(verify, "%s", between);
        add_scalar(verify, b->value, first, bytes);
    } else {
        add_address(verify, a->value);
        add(verify, "%s", between);
        add_address(verify, b->value);
    }
}

static void add_word_change(const ph__verify *verify, const ph__record_node *node, const ph_word *a,
                            const ph_word *b)
{
    add(verify, "; parameter %s is ", a->name);
    add_values(verify, node, a, b, " in the graph and ");
    add(verify, " in the new capture");
}

static bool add_form_change(const ph__verify *verify, const ph_node_info *a, const ph_node_info *b)
{
    if (memcmp(a->grid, b->grid, sizeof a->grid) != 0)
        add(verify, "; its grid is %ux%ux%u in the graph and %ux%ux%u in the new capture",
            a->grid[0], a->grid[1], a->grid[2], b->grid[0], b->grid[1], b->grid[2]);
    else if (memcmp(a->block, b->block, sizeof a->block) != 0)
        add(verify, "; its blocks are %ux%ux%u in the graph and %ux%ux%u in the new capture",
            a->block[0], a->block[1], a->block[2], b->block[0], b->block[1], b->block[2]);
    else if (a->bytes != b->bytes)
        add(verify, "; it writes %zu bytes in the graph and %zu in the new capture", a->bytes,
            b->bytes);
    else if (a->value != b->value)
        add(verify, "; its value is 0x%x in the graph and 0x%x in the new capture", a->value,
            b->value);
    else
        return false;
    return true;
}

/* ---- one node ---- */
void ph__verify_add_change(const ph__verify *verify, size_t node)
{
    const ph__record_node *a = &verify->graph->record->nodes[node],
                          *b = &verify->second->record->nodes[node];
    if (!verify->switches.on[node]) {
        add(verify, "; it is switched off (ph_graph_node_set_enabled)");
        return;
    }
    if (verify->graph->changed || verify->graph->slots) {
        add(verify, "; the graph's nodes may have other parameters than were captured "
                    "(ph_graph_node_set_*, "
                    "ph_graph_update, slots)");
        return;
    }
    for (size_t i = 0; i < a->info.word_count && i < b->info.word_count; i++) {
        ph_word rooms[2];
        const ph_word *mine = ph__record_look_up_foreign(&rooms[0], verify->graph->record, a, i),
                      *theirs = ph__record_look_up_foreign(&rooms[1], verify->second->record, b, i);
        if (mine->value != theirs->value) {
            add_word_change(verify, a, mine, theirs);
            return;
        }
    }
    if (add_form_change(verify, &a->info, &b->info))
        return;
    add(verify, "; its parameters are the same in both: it is not deterministic, or reads what no "
                "parameter shows");
}

/* ---- all nodes ---- */
enum {
    SAID = 3 /* parameters that are named; the others are counted */
};

/* Two addresses in the memory of either capture are the same work. */
static bool is_other(const ph__verify *verify, const ph_word *a, const ph_word *b)
{
    ph_allocation one, two;
    if (a->value == b->value || (a->internal && b->internal))
        return false;
    if (a->kind != PH_WORD_SUSPECTED || b->kind != PH_WORD_SUSPECTED)
        return true;
    return ph__verify_find_block(&one, verify, (uintptr_t)a->value) &&
           ph__verify_find_block(&two, verify, (uintptr_t)b->value) && one.base != two.base;
}

/* Nodes of the library's own have tables of the graph; a slot's places are what it was set to. */
static bool has_other_parameters(const ph_graph *graph, size_t node, size_t offset)
{
    const ph__slot_node *slots = graph->slots ? graph->slots->nodes[node] : NULL;
    return ph__cells_are_written_by(graph, node) || ph__locate_call_of(graph, node) ||
           ph__slot_find_place(slots, offset, sizeof(uint64_t));
}

static void say_other(const ph__verify *verify, size_t node, const ph_word *a, const ph_word *b,
                      bool alone)
{
    const ph__record_node *at = &verify->graph->record->nodes[node];
    char room[PH__READABLE];
    add(verify, "; node %zu (%.60s) %s differs%s (", node, ph__readable_name(room, at->info.name),
        a->name, alone ? " in a capture made now" : ", too");
    add_values(verify, at, a, b, " in the graph, ");
    add(verify, alone ? " now), with the same result from these contents" : " in the new capture)");
}

/* Executables that were changed have other parameters than the record. */
void ph__verify_add_changes(const ph__verify *verify, size_t but)
{
    const ph_graph *graph = verify->graph;
    size_t found = 0;
    bool same;
    if (graph->changed || ph__verify_first_change(&same, verify) != SIZE_MAX || !same)
        return;
    for (size_t n = 0; n < graph->record->node_count; n++) {
        const ph__record_node *a = &graph->record->nodes[n], *b = &verify->second->record->nodes[n];
        for (size_t i = 0; n != but && i < a->info.word_count && i < b->info.word_count; i++) {
            ph_word rooms[2];
            const ph_word *mine =
                              ph__record_look_up_foreign(&rooms[0], verify->graph->record, a, i),
                          *theirs =
                              ph__record_look_up_foreign(&rooms[1], verify->second->record, b, i);
            if (is_other(verify, mine, theirs) && !has_other_parameters(graph, n, mine->offset) &&
                found++ < SAID)
                say_other(verify, n, mine, theirs, but == SIZE_MAX);
        }
    }
    if (found > SAID)
        add(verify, "; and %zu more such parameter%s", found - SAID, found == SAID + 1 ? "" : "s");
}
