/* SPDX-License-Identifier: MIT */
/* nn/optimizer/cell.h: the learning rates in captures: cells of each graph, which every replay
 * sets anew. */
#ifndef PH_NN_OPTIMIZER_CELL_H
#define PH_NN_OPTIMIZER_CELL_H
#include <phonograph/optimizer.h>

typedef struct ph__lr_cell ph__lr_cell;

/* The cell with the learning rate of a group, of the capture that stream is in; made by the first
 * call in it. Keeps the optimizer for as long as the graph has the capture. */
ph_status ph__optimizer_cell(uint64_t **out, ph_optimizer *optimizer, size_t group,
                             ph_stream *stream, uint64_t capture);

static inline double ph__double_of(uint64_t bits)
{
    union {
        uint64_t bits;
        double value;
    } both = {bits};
    return both.value;
}
static inline uint64_t ph__bits_of(double value)
{
    union {
        double value;
        uint64_t bits;
    } both = {value};
    return both.bits;
}
#endif
