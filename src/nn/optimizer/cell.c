/* SPDX-License-Identifier: MIT */
/* nn/optimizer/cell.c: the cells of captures that took a step. */
#include "nn/optimizer/cell.h"
#include "base/alloc.h"
#include "base/status.h"
#include "nn/optimizer/optimizer.h"
#include <phonograph/cells.h>

/* One for each capture and as many groups as one source of cells has. The graph has a reference,
 * and the call that makes it another until it is listed. */
struct ph__lr_cell {
    ph__lr_cell *next;
    int references;          /* under the optimizer's lock */
    ph_optimizer *optimizer; /* retained: the graph addresses its state */
    uint64_t capture;
    size_t first, count; /* groups */
    uint64_t *at[PH_CELLS_MAX];
    bool over; /* the capture has ended, or gone */
};

static void drop_cell(ph__lr_cell *cell)
{
    ph_optimizer *optimizer = cell->optimizer;
    ph__spin_lock(&optimizer->lock);
    bool last = --cell->references == 0;
    ph__spin_unlock(&optimizer->lock);
    if (!last)
        return;
    ph__free(cell);
    ph_optimizer_destroy(optimizer);
}

static ph_status replay_values(uint64_t *values, void *user)
{
    const ph__lr_cell *cell = user;
    const ph_optimizer *optimizer = cell->optimizer;
    for (size_t i = 0; i < cell->count; i++)
        values[i] =
            atomic_load_explicit(&optimizer->groups[cell->first + i].lr, memory_order_relaxed);
    return PH_OK;
}

static void capture_ended(void *user)
{
    ph__lr_cell *cell = user;
    ph__spin_lock(&cell->optimizer->lock);
    ph__lr_cell **link = &cell->optimizer->cells;
    while (*link && *link != cell)
        link = &(*link)->next;
    if (*link)
        *link = cell->next;
    cell->over = true;
    ph__spin_unlock(&cell->optimizer->lock);
}

static void graph_released(void *user)
{
    capture_ended(user);
    drop_cell(user);
}

static uint64_t *find_cell(ph_optimizer *optimizer, size_t group, uint64_t capture)
{
    ph__spin_lock(&optimizer->lock);
    const ph__lr_cell *cell = optimizer->cells;
    while (cell && (cell->capture != capture || cell->first != group - group % PH_CELLS_MAX))
        cell = cell->next;
    uint64_t *at = cell ? cell->at[group - cell->first] : NULL;
    ph__spin_unlock(&optimizer->lock);
    return at;
}

static ph_status make_cell(uint64_t **out, ph_optimizer *optimizer, size_t group, ph_stream *stream,
                           uint64_t capture)
{
    ph__lr_cell *cell = ph__calloc(1, sizeof *cell);
    if (!cell)
        return ph__fail_host_memory("ph_optimizer_step", "the note of a capture");
    cell->references = 2;
    cell->optimizer = ph__optimizer_retain(optimizer);
    cell->capture = capture;
    cell->first = group - group % PH_CELLS_MAX;
    cell->count = optimizer->group_count - cell->first;
    cell->count = cell->count < PH_CELLS_MAX ? cell->count : PH_CELLS_MAX;
    const ph_cells_source source = {.count = cell->count,
                                    .values = replay_values,
                                    .captured = capture_ended,
                                    .release = graph_released,
                                    .user = cell};
    ph_status status = ph_cells_create(cell->at, stream, &source);
    if (status != PH_OK) {
        cell->references = 1;
        drop_cell(cell);
        return status;
    }
    *out = cell->at[group - cell->first];
    ph__spin_lock(&optimizer->lock);
    if (!cell->over) {
        cell->next = optimizer->cells;
        optimizer->cells = cell;
    }
    ph__spin_unlock(&optimizer->lock);
    drop_cell(cell);
    return PH_OK;
}

ph_status ph__optimizer_cell(uint64_t **out, ph_optimizer *optimizer, size_t group,
                             ph_stream *stream, uint64_t capture)
{
    *out = find_cell(optimizer, group, capture);
    return *out ? ph_cells_require(stream) : make_cell(out, optimizer, group, stream, capture);
}
