/* SPDX-License-Identifier: MIT */
/* record/record.h: the record as the graph layer builds and reads it. The public part is
 * phonograph/inspect/record.h. */
#ifndef PH_RECORD_RECORD_H
#define PH_RECORD_RECORD_H
#include "base/demangle.h"
#include "device/annotate/annotation.h"
#include "memory/state/allocation.h"
#include "record/words.h"
#include <time.h>

typedef struct ph__record_node {
    /* its pointers lead into the record, but args of a sparse node: the driver's */
    ph_node_info info;
    ph__drv_node *handle; /* in the template that the record was read from */
    ph_kernel *kernel;    /* kernels that this library loaded; held below, NULL for others */
    size_t count;         /* memset: elements */
    const size_t *dependencies, *dependents;
    const ph_edge_kind *dependency_kinds; /* one for each dependency */
    /* Words by ascending offset. places NULL: all of them, in kept. Else a sparse node's
     * (below), which may be addresses: kept has their values, each as often as it has to be. */
    const ph_word *kept;
    const struct ph__place *places;
    size_t kept_count; /* of words */
    size_t created;    /* its place in the order in which the nodes were created */
    /* of the scopes that it was captured in; the record's. NULL: none */
    const ph__annotation *annotation;
    const char *made_for;     /* why a library added it by itself; the record's. NULL: not told */
    const char *form;         /* ph__drv_node_info.form; static, or NULL */
    const ph__drv_rows *rows; /* copies and fills of rows, planes or an array: to, from */
    const void *host_user;    /* host functions: what they are called with */
} ph__record_node;

/* Where and when it was made. device NULL: it is not told of. */
typedef struct ph__record_origin {
    const ph_device *device;
    uint64_t graph; /* its number, as in messages */
    time_t date;
} ph__record_origin;

typedef PH__VEC(ph_kernel *) ph__record_kernels; /* each retained */

/* One allocation, bodies and the list of kernels apart. */
struct ph_record {
    uint64_t id; /* unique in the process */
    size_t node_count, edge_count;
    size_t bytes;    /* of the allocation */
    unsigned depth;  /* of the bodies in it; of made records alone, as is: */
    uint64_t nested; /* bytes of the bodies, each counted for every node that it is in */
    bool made;       /* by ph_record_create: the bodies are somebody else's */
    ph__record_origin origin;
    ph__record_node *nodes;
    ph__record_kernels held; /* kernels of the nodes, one for each run of one kernel */
    /* the blocks that its capture received; the graph's. NULL: not known */
    const ph__layout *layout;
    /* memory of other code's that words address; NULL: nobody has asked for it */
    struct ph__record_foreign *foreign;
    /* all that nodes have, and where made_for is from, retained; some may be NULL */
    ph__annotation **annotations;
    size_t annotation_count;
};

/* Reads the driver's graph. Borrows of it the node handles, and the parameters of kernels that
 * this library did not load: so no word is read when the graph has gone. free takes NULL. */
ph_status ph__record_build(ph_record **out, ph_device *device, ph__drv_graph *graph,
                           const ph__own_memory *own, const char *call);
/* The arguments of a kernel's node and its words, anew: for a node that is launched with others
 * than the template has, of a kernel that this library loaded. node may be SIZE_MAX. */
void ph__record_put_args(ph_record *record, size_t node, const ph_device *device,
                         const ph__own_memory *own, const void *args);
void ph__record_free(ph_record *record);
uint64_t ph__record_next_id(void);
size_t ph__record_bytes(const ph_record *record); /* bodies included */
/* SIZE_MAX for NULL and for a node that is not in the record. */
size_t ph__record_index_of(const ph_record *record, const ph__drv_node *handle);

/* A node's name as its author wrote it. Not in records that were made of descriptions: their
 * names are somebody else's, and a few bytes of a mangled name can say more than memory holds. */
static inline const char *ph__record_readable(char room[PH__READABLE], const ph_record *record,
                                              const char *name)
{
    return record->made ? name : ph__readable_name(room, name);
}

#endif
