/* SPDX-License-Identifier: MIT */
/* record/build.h: a record while a captured graph is read back: record.c reads and counts, order.c
 * puts the nodes in order, fill.c writes. */
#ifndef PH_RECORD_BUILD_H
#define PH_RECORD_BUILD_H
#include "base/map.h"
#include "record/sparse.h"
#include "record/words.h"

/* The contents of the block of memory; the first of two walks counts them, the second fills them
 * in. */
typedef struct ph__record_totals {
    size_t nodes, edges, words, args, names;
} ph__record_totals;

/* The words of a launch, which are those of the launch before it as long as the kernel is the
 * same. */
typedef struct ph__record_layout {
    bool known;
    const ph_kernel *kernel;
    size_t args_size, names; /* bytes of the names that do not last */
    PH__VEC(struct ph__word_place {
        ph__word_slot slot;
        const char *lasting; /* its name; NULL: it is written anew for each word */
    })
    slots;
} ph__record_layout;

typedef struct ph__builder {
    ph_device *device;
    ph__own_memory own;
    ph__node_memory given;
    const char *call;
    ph__drv_node *const *created; /* the driver's nodes in order of creation */
    ph__drv_node_info *infos;     /* of each of them, read once */
    /* of the sparse nodes, in the record's order; how many each has: */
    ph__found found;
    size_t *found_counts;
    ph_kernel **kernels;     /* of each node; NULL: foreign, or no kernel */
    ph__record_kernels held; /* becomes the record's */
    size_t count;
    ph__record_layout layout;
    ph__map position;      /* node handle -> 1 + its place in `created` */
    size_t *order, *index; /* order[i]: place in `created` of node i; index: the inverse */
    ph__record_totals all;
    ph_record *record;
    ph_word *words; /* where the next word, place, argument and name go */
    ph__place *places;
    const ph_word *sparse_words; /* of all sparse nodes */
    size_t *edges;
    ph_edge_kind *kinds; /* of dependencies alone */
    char *args, *names;
} ph__builder;

static inline size_t ph__args_room(size_t bytes)
{
    return (bytes + 15) / 16 * 16;
}
/* Room for the rows of both sides, where it has any. */
static inline size_t ph__rows_room(const ph__drv_node_info *info)
{
    bool moves = info->kind == PH_NODE_MEMCPY || info->kind == PH_NODE_MEMSET;
    return moves && info->strided ? ph__args_room(2 * sizeof(ph__drv_rows)) : 0;
}

/* A name that needs no copy: a kind's, static, or that of a kernel of ours, which the record
 * retains. NULL: none. */
const char *ph__build_lasting_name(const ph__builder *b, size_t at);
/* The words of such a launch, into b->layout. */
ph_status ph__build_lay_out(ph__builder *b, const ph_kernel *kernel, size_t args_size);
#endif
