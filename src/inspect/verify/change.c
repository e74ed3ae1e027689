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

bool ph__verify_is_structural(ph_change_kind kind)
{
    return kind <= PH_CHANGE_KERNEL || kind == PH_CHANGE_EDGE;
}

/* Nodes in another order are no change: the diff pairs them. An update keeps the number of nodes,
 * and may bring other kernels than the record has. */
bool ph__verify_has_other_nodes(const ph__verify *verify)
{
    bool same, found = false;
    size_t changed = ph__verify_first_change(&same, verify);
    if (!same || changed == SIZE_MAX || verify->graph->changed)
        return !same;
    ph_diff *diff = NULL;
    ph_change change;
    ph_error saved;
    ph__error_save(&saved);
    bool known = ph_record_diff(&diff, verify->graph->record, verify->second->record) == PH_OK;
    for (size_t i = 0; known && !found && i < ph_diff_count(diff); i++)
        found = ph_diff_at(&change, diff, i) == PH_OK && ph__verify_is_structural(change.kind);
    ph_diff_destroy(diff);
    ph__error_restore(&saved);
    return found || !known;
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
    add(verify, "0x%llx", (unsigned long long)shown);
    if (ph__number_is_plausible(number))
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
    add(verify, " in the new capture: make it a %s, or capture again",
        a->kind == PH_WORD_VALUE && b->kind == PH_WORD_VALUE
            ? "cell or a slot, set it (ph_graph_node_set_launch)"
            : "slot (ph_graph_slot_find)");
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
        add(verify, "; it is switched off (ph_graph_node_set_enabled): switch it on");
        return;
    }
    if (verify->graph->changed || verify->graph->slots) {
        add(verify, "; the graph's nodes may have other parameters than were captured "
                    "(ph_graph_node_set_*, "
                    "ph_graph_update, slots): set them to those of now, or capture again");
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
    if (add_form_change(verify, &a->info, &b->info)) {
        add(verify, ": set the node (ph_graph_node_set_*), or capture again");
        return;
    }
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

/* Of a capture that has them while the graph gives what an eager run gives. */
static const char *result_of_second(const ph__verify *verify)
{
    return verify->second_gives == PH__SECOND_SAME ? ", with the same result from these contents"
                                                   : ", and the result of that capture was not "
                                                     "compared";
}

static void say_other(const ph__verify *verify, size_t node, const ph_word *a, const ph_word *b,
                      bool alone)
{
    const ph__record_node *at = &verify->graph->record->nodes[node];
    char room[PH__READABLE];
    add(verify, "; node %zu (%.60s) %s differs%s (", node, ph__readable_name(room, at->info.name),
        a->name, alone ? " in a capture made now" : ", too");
    add_values(verify, at, a, b, " in the graph, ");
    add(verify, alone ? " now)%s" : " in the new capture)", alone ? result_of_second(verify) : "");
}

static void say_other_form(const ph__verify *verify, size_t node, bool alone)
{
    const ph_node_info *a = &verify->graph->record->nodes[node].info,
                       *b = &verify->second->record->nodes[node].info;
    char room[PH__READABLE];
    add(verify, "; node %zu (%.60s) differs%s%s", node, ph__readable_name(room, a->name),
        alone ? " in a capture made now" : ", too", alone ? result_of_second(verify) : "");
    (void)add_form_change(verify, a, b);
}

/* Adds the changes of one node to the `found` before it, and says the first of them; none where
 * silent. */
static size_t visit_node(const ph__verify *verify, size_t n, size_t found, bool alone, bool silent)
{
    const ph_graph *graph = verify->graph;
    const ph__record_node *a = &graph->record->nodes[n], *b = &verify->second->record->nodes[n];
    bool slots = graph->slots && graph->slots->nodes[n];
    for (size_t i = 0; i < a->info.word_count && i < b->info.word_count; i++) {
        ph_word rooms[2];
        const ph_word *mine = ph__record_look_up_foreign(&rooms[0], graph->record, a, i),
                      *theirs = ph__record_look_up_foreign(&rooms[1], verify->second->record, b, i);
        if (is_other(verify, mine, theirs) && !has_other_parameters(graph, n, mine->offset) &&
            found++ < SAID && !silent)
            say_other(verify, n, mine, theirs, alone);
    }
    if (!slots && !same_form(&a->info, &b->info) && found++ < SAID && !silent)
        say_other_form(verify, n, alone);
    return found;
}

/* Executables that were changed have other parameters than the record. */
static size_t visit_changes(const ph__verify *verify, size_t but, bool silent)
{
    const ph_graph *graph = verify->graph;
    size_t found = 0;
    bool same;
    if (graph->changed || ph__verify_first_change(&same, verify) != SIZE_MAX || !same)
        return 0;
    for (size_t n = 0; n < graph->record->node_count; n++)
        if (n != but)
            found = visit_node(verify, n, found, but == SIZE_MAX, silent);
    return found;
}

bool ph__verify_has_other_parameters(const ph__verify *verify)
{
    return visit_changes(verify, SIZE_MAX, true) > 0;
}

void ph__verify_add_changes(const ph__verify *verify, size_t but)
{
    size_t found = visit_changes(verify, but, false);
    if (found > SAID)
        add(verify, "; and %zu more such parameter%s", found - SAID, found == SAID + 1 ? "" : "s");
}
