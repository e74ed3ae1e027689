/* SPDX-License-Identifier: MIT */
/* graph/change/changes.c: counts changes of an executable, and the nodes whose grid or block
 * changed. What an update brings is compared where its parameters are known, and else when somebody
 * asks. */
#include "graph/change/changes.h"
#include "base/alloc.h"
#include "graph/inputs/brought.h"
#include <phonograph/inspect/changes.h>
#include <string.h>

/* Grid and block of one node. */
typedef struct shape {
    uint32_t grid[3], block[3];
} shape;
typedef struct node_change {
    shape was;    /* last known; where !known it is the template's */
    bool known;   /* `was` was read */
    bool due;     /* the last update was not compared with it yet */
    bool demoted; /* the grid or block has changed */
    bool untold;  /* an update came and went that was not compared */
} node_change;
struct ph__changes {
    uint64_t updates, sets;
    uint64_t moved;   /* how many updates there were when a grid or block was last seen to change */
    unsigned waiting; /* the last updates, not noted at the nodes yet: 2 stands for more */
    size_t count;
    node_change at[]; /* by order of creation */
};

static size_t list_nodes(ph__drv_node *const **nodes, const ph_graph *graph, ph__drv_graph *of)
{
    size_t count = 0;
    return graph->device->driver->graph_nodes(nodes, &count, of) == PH__R_OK ? count : 0;
}

bool ph__changes_reserve(ph_graph *graph)
{
    if (graph->changes)
        return true;
    size_t count = 0;
    if (graph->device->driver->graph_count(&count, graph->template) != PH__R_OK)
        count = 0;
    graph->changes = ph__calloc(1, sizeof *graph->changes + count * sizeof(node_change));
    if (graph->changes)
        graph->changes->count = count;
    return graph->changes != NULL;
}

void ph__changes_drop(ph_graph *graph)
{
    ph__free(graph->changes);
    graph->changes = NULL;
}

/* ---- one node ---- */
static shape shape_of(const ph__drv_launch *launch)
{
    shape s;
    memcpy(s.grid, launch->grid, sizeof s.grid);
    memcpy(s.block, launch->block, sizeof s.block);
    return s;
}

static void put_launch(ph__changes *changes, node_change *change, const ph__drv_launch *launch)
{
    bool same = change->known &&
                memcmp(change->was.grid, launch->grid, sizeof change->was.grid) == 0 &&
                memcmp(change->was.block, launch->block, sizeof change->was.block) == 0;
    change->due = false;
    if (same)
        return;
    if (change->known) {
        change->demoted = true;
        changes->moved = changes->updates;
    }
    change->was = shape_of(launch);
    change->known = true;
}

/* Without asking the driver. */
static void read_known(node_change *change, const ph__driver *driver, const ph__drv_node *mine)
{
    ph__drv_launch launch;
    if (change->known || !driver->node_launch(&launch, mine))
        return;
    change->was = shape_of(&launch);
    change->known = true;
}

/* ---- changes ---- */
/* Updates of which nothing was known when they came are noted at each node before anything else. */
static void mark_waiting_nodes(ph__changes *changes)
{
    if (changes->waiting == 0)
        return;
    for (size_t i = 0; i < changes->count; i++) {
        node_change *change = &changes->at[i];
        change->untold = change->untold || change->due || changes->waiting > 1;
        change->due = true;
    }
    changes->waiting = 0;
}

void ph__changes_updated(ph_graph *graph, const ph_graph *from)
{
    const ph__driver *driver = graph->device->driver;
    ph__changes *changes = graph->changes;
    ph__drv_node *const *mine, *const *theirs;
    changes->updates++;
    if (graph != from && !driver->graph_has_launches(from->template)) {
        changes->waiting += changes->waiting < 2;
        return;
    }
    mark_waiting_nodes(changes);
    size_t own = list_nodes(&mine, graph, graph->template),
           others = list_nodes(&theirs, graph, from->template);
    for (size_t i = 0; i < changes->count && i < own && i < others; i++) {
        node_change *change = &changes->at[i];
        ph__drv_launch launch;
        change->untold = change->untold || change->due;
        read_known(change, driver, mine[i]);
        if (change->known && driver->node_launch(&launch, theirs[i]))
            put_launch(changes, change, &launch);
        else
            change->due = graph != from || change->known;
    }
}

void ph__changes_launched(ph_graph *graph, size_t node, const ph__drv_launch *launch)
{
    ph__drv_node *const *nodes;
    ph__changes *changes = graph->changes;
    mark_waiting_nodes(changes);
    changes->sets++;
    if (node >= changes->count)
        return;
    node_change *change = &changes->at[node];
    if (!change->known && list_nodes(&nodes, graph, graph->template) > node)
        read_known(change, graph->device->driver, nodes[node]);
    change->untold = change->untold || change->due;
    put_launch(changes, change, launch);
}

uint64_t ph__changes_calm(const ph_graph *graph)
{
    return graph->changes ? graph->changes->updates - graph->changes->moved : 0;
}

size_t ph__changes_demoted(const ph_graph *graph)
{
    size_t demoted = 0;
    for (size_t i = 0; graph->changes && i < graph->changes->count; i++)
        demoted += graph->changes->at[i].demoted;
    return demoted;
}

/* ---- the question ---- */
static ph_status read_launch(ph__drv_launch *out, const ph_graph *graph, ph__drv_node *node,
                             size_t index, const char *call)
{
    ph__drv_node_info info;
    int result = graph->device->driver->node_info(&info, node);
    if (ph__result_is_host_memory(result))
        return ph__fail_host_memory(call, "the nodes of the graph");
    if (result != PH__R_OK)
        return ph__driver_fail(result, PH__NAME_GRAPH_KERNEL_NODE_GET_PARAMS,
                               "%s: node %zu in order of creation could not be read back", call,
                               index);
    *out = info.launch;
    return PH_OK;
}

static bool is_kernel(const ph_graph *graph, ph__drv_node *node)
{
    ph_node_kind kind;
    return graph->device->driver->node_kind(&kind, node) == PH__R_OK && kind == PH_NODE_KERNEL;
}

static ph_status compare_due(const ph_graph *graph, const char *call)
{
    ph__changes *changes = graph->changes;
    ph__drv_node *const *mine, *const *now;
    ph__drv_launch launch;
    mark_waiting_nodes(changes);
    size_t own = list_nodes(&mine, graph, graph->template),
           others = list_nodes(&now, graph,
                               graph->brought ? graph->brought->deferred_record->template
                                              : graph->template);
    for (size_t i = 0; i < changes->count && i < own && i < others; i++) {
        node_change *change = &changes->at[i];
        if (!change->due || !is_kernel(graph, mine[i])) {
            change->due = false;
            continue;
        }
        if (!change->known) {
            PH_TRY(read_launch(&launch, graph, mine[i], i, call));
            change->was = shape_of(&launch);
            change->known = true;
        }
        PH_TRY(read_launch(&launch, graph, now[i], i, call));
        put_launch(changes, change, &launch);
    }
    return PH_OK;
}

ph_status ph_graph_get_changes(ph_graph_changes *out, ph_graph *graph)
{
    static const char call[] = "ph_graph_get_changes";
    ph__drv_node *const *nodes;
    if (out == NULL)
        return ph__fail_null(call, "out");
    memset(out, 0, sizeof *out);
    PH_TRY(ph__graph_check(graph, PH__CALL_GET_CHANGES));
    ph_graph_changes sum = {0};
    if (graph->exec)
        sum.uploads = graph->device->driver->exec_uploads(graph->exec);
    if (graph->changes) {
        const ph__changes *changes = graph->changes;
        PH_TRY(compare_due(graph, call));
        sum.updates = changes->updates;
        sum.sets = changes->sets;
        size_t count = list_nodes(&nodes, graph, graph->template);
        for (size_t i = 0; i < changes->count && i < count; i++) {
            sum.demoted += changes->at[i].demoted;
            sum.untold +=
                !changes->at[i].demoted && changes->at[i].untold && is_kernel(graph, nodes[i]);
        }
    }
    *out = sum;
    return PH_OK;
}
