/* SPDX-License-Identifier: MIT */
/* inspect/races/flat.c: makes one graph of a record and its bodies. */
#include "inspect/races/flat.h"
#include "base/alloc.h"

/* Nodes of one record, whose dependencies are numbers in it. */
typedef struct level {
    ph__flat *flat;
    const ph_record *record;
    uint32_t outer, parent; /* outer UINT32_MAX: each node is its own */
    uint32_t *end;          /* by node: its place in the list, or that of the second of two */
} level;

static bool add_node(ph__flat *flat, ph__flat_node node)
{
    node.first = (uint32_t)flat->edges.count;
    return flat->nodes.count < UINT32_MAX - 1 && ph__vec_push(&flat->nodes, node);
}

static bool add_edge(ph__flat *flat, uint32_t on)
{
    if (flat->edges.count >= UINT32_MAX - 1 || !ph__vec_push(&flat->edges, on))
        return false;
    flat->nodes.at[flat->nodes.count - 1].count++;
    return true;
}

static bool add_dependencies(const level *in, const ph__record_node *node)
{
    for (size_t i = 0; i < node->info.dependency_count; i++)
        if (!add_edge(in->flat, in->end[node->dependencies[i]]))
            return false;
    return node->info.dependency_count || in->parent == UINT32_MAX ||
           add_edge(in->flat, in->parent);
}

static bool add_level(ph__flat *flat, const ph_record *record, uint32_t outer, uint32_t parent,
                      uint32_t **ends);

/* The nodes of a body, and one behind the last of them. */
static bool add_body(const level *in, const ph_record *body, uint32_t outer)
{
    ph__flat *flat = in->flat;
    uint32_t *ends = NULL, before = (uint32_t)flat->nodes.count - 1;
    bool added =
        add_level(flat, body, outer, before, &ends) &&
        add_node(flat,
                 (ph__flat_node){.record = in->record, .outer = outer, .parent = in->parent}) &&
        add_edge(flat, before);
    for (size_t n = 0; added && n < body->node_count; n++)
        if (body->nodes[n].info.dependent_count == 0)
            added = add_edge(flat, ends[n]);
    ph__free(ends);
    return added;
}

static bool add_level(ph__flat *flat, const ph_record *record, uint32_t outer, uint32_t parent,
                      uint32_t **ends)
{
    level in = {flat, record, outer, parent, ph__calloc(record->node_count + 1, sizeof(uint32_t))};
    *ends = in.end;
    bool added = in.end != NULL && record->node_count < UINT32_MAX - 1;
    for (size_t n = 0; added && n < record->node_count; n++) {
        const ph__record_node *node = &record->nodes[n];
        uint32_t own = outer == UINT32_MAX ? (uint32_t)n : outer;
        ph__flat_node made = {.record = record, .at = node, .outer = own, .parent = parent};
        added = add_node(flat, made) && add_dependencies(&in, node) &&
                (node->info.body == NULL || add_body(&in, node->info.body, own));
        in.end[n] = (uint32_t)flat->nodes.count - 1;
    }
    return added;
}

/* ---- orders beside the edges ---- */
static ph_node_kind kind_of(const ph__flat_node *node)
{
    return node->at ? node->at->info.kind : PH_NODE_EMPTY;
}

static bool may_wait(ph_node_kind kind)
{
    return kind == PH_NODE_HOST || kind == PH_NODE_EVENT_WAIT || kind == PH_NODE_SEMAPHORE_WAIT ||
           kind == PH_NODE_BATCH_MEM_OP || kind == PH_NODE_CONDITIONAL;
}

static bool may_signal(ph_node_kind kind)
{
    return kind == PH_NODE_HOST || kind == PH_NODE_EVENT_RECORD ||
           kind == PH_NODE_SEMAPHORE_SIGNAL || kind == PH_NODE_BATCH_MEM_OP ||
           kind == PH_NODE_CONDITIONAL;
}

static void mark_beside(ph__flat *flat)
{
    ph__flat_node *nodes = flat->nodes.at;
    for (size_t n = 0; n < flat->nodes.count; n++) {
        nodes[n].waits = may_wait(kind_of(&nodes[n]));
        for (uint32_t i = 0; i < nodes[n].count; i++)
            nodes[n].waits = nodes[n].waits || nodes[flat->edges.at[nodes[n].first + i]].waits;
    }
    for (size_t n = flat->nodes.count; n-- > 0;) {
        nodes[n].signals = nodes[n].signals || may_signal(kind_of(&nodes[n]));
        for (uint32_t i = 0; nodes[n].signals && i < nodes[n].count; i++)
            nodes[flat->edges.at[nodes[n].first + i]].signals = true;
    }
}

bool ph__flat_make(ph__flat *out, const ph_record *record)
{
    uint32_t *ends = NULL;
    *out = (ph__flat){0};
    bool made = add_level(out, record, UINT32_MAX, UINT32_MAX, &ends);
    ph__free(ends);
    if (made)
        mark_beside(out);
    return made;
}

void ph__flat_free(ph__flat *flat)
{
    ph__vec_free(&flat->nodes);
    ph__vec_free(&flat->edges);
}
