/* SPDX-License-Identifier: MIT */
/* graph/slots/slots.h: the slots of a graph as their files share them: slots.c makes them, of what
 * slots_make.c and slots_prove.c say; slots_set.c gives them their values, slots_life.c follows
 * the graph's changes. */
#ifndef PH_GRAPH_SLOTS_SLOTS_H
#define PH_GRAPH_SLOTS_SLOTS_H
#include "graph/object/graph.h"
#include <string.h>

enum {
    PH__SLOT_ALIGNMENT = 256, /* the most that is read off a captured address */
    PH__SLOT_SCALAR = 256     /* bytes of a value */
};

/* Bytes [offset, offset + bytes) of a node's parameters, which are a slot's. */
typedef struct ph__slot_span {
    size_t offset, bytes, slot;
} ph__slot_span;

/* A node that has places, with the parameters that it is to have: what the executable was made
 * with, or updated to, but for the places of slots that were set. */
typedef struct ph__slot_node {
    size_t index; /* in the record */
    ph__drv_node *handle;
    ph_node_kind kind;
    bool due; /* the executable has others; in ph__slots.due */
    ph__drv_launch launch;
    ph__drv_memcpy copy;
    ph__drv_memset fill;
    PH__VEC(ph__slot_span) places; /* by ascending offset, disjoint */
    size_t args_size;
    unsigned char args[];
} ph__slot_node;

typedef struct ph__slot_use {
    ph__slot_node *node;
    size_t offset;
    uint64_t distance; /* address slots: of the place's address from the span's first byte */
} ph__slot_use;

/* Memory that a slot was set to: it is looked up once more when the count of frees has changed. */
typedef struct ph__slot_seen {
    uint64_t address, free_count;
    bool counted; /* its free changes the count */
    ph_allocation where;
} ph__slot_seen;

typedef struct ph__slot {
    char *name;
    bool address, set, staged; /* set: the user has given it a value */
    /* The caller answers for the addresses, as for those of a launch: they are looked at where a
     * copy has a place alone. Places may lie anywhere beside the first byte. */
    bool trusted;
    bool skip_lookup; /* as in ph_slot_options */
    /* address slots: a memcpy uses it, and what was captured is pinned memory */
    bool copied, from_pinned;
    size_t bytes, alignment;
    size_t room;            /* as in ph_slot_info */
    uint64_t current;       /* the address */
    unsigned char *value;   /* the scalar's bytes */
    ph_allocation where;    /* once set; base NULL: memory that the library did not allocate */
    bool tracked, reported; /* reported: that it is dead */
    uint64_t free_count;    /* the device's count when the allocation lived */
    ph__slot_seen seen[2];  /* by single values; one of them is `where` */
    unsigned oldest_seen;
    uint64_t named;    /* the call that named it last, as ph__slots.calls counts */
    uint64_t captured; /* address slots: the address in the capture */
    /* the first of the slots that are set by equal distances from there, this one among them;
     * NULL: it moves alone */
    struct ph__slot *lead;
    struct {
        uint64_t number; /* of the last check, as ph__slots.group_checks counts */
        size_t slot;     /* the one that was met first, and its distance */
        uint64_t by;
    } met; /* of the group's slots; in its first one */
    PH__VEC(ph__slot_use) uses;
} ph__slot;

/* A value that is checked, and is not in its slot yet. */
typedef struct ph__slot_staged {
    ph__slot *slot;
    size_t number;
    const void *value;
    ph_allocation where;
    uint64_t free_count;
} ph__slot_staged;

struct ph__slots {
    PH__VEC(ph__slot *) list;
    ph__slot_node **nodes;           /* by the record's index; NULL: no places */
    size_t node_count;               /* of the record */
    PH__VEC(ph__slot_node *) due;    /* room for all that have places */
    size_t used;                     /* nodes that have places */
    PH__VEC(ph__slot_staged) staged; /* room for all slots */
    uint64_t calls;                  /* calls that have named values */
    bool grouped;                    /* some of them move together */
    uint64_t group_checks;
};

/* A slot under construction: zero but for what is known of it. start: looks at the graph's
 * state, and that no executable has other parameters than its template. add: one more place;
 * checked. finish: numbers it; nothing can fail any more in commit, so that several can be made
 * or none. abandon takes one that was not committed. */
typedef struct ph__slot_draft {
    ph__slot *slot;
    PH__VEC(ph_slot_place) places;
} ph__slot_draft;
ph_status ph__slot_start(ph__slot_draft *out, ph_graph *graph, const char *name, const void *base,
                         size_t bytes, size_t alignment, const char *call);
ph_status ph__slot_add(ph__slot_draft *draft, ph_graph *graph, size_t node, size_t offset,
                       const char *call);
/* Makes room for all of them, among each other without overlap, and numbers them; on failure
 * they are as before. */
ph_status ph__slots_commit(ph_graph *graph, ph__slot_draft *drafts, size_t count, const char *call);
void ph__slot_abandon(ph__slot_draft *draft);
ph_status ph__slot_check_span(const void *base, size_t bytes, size_t alignment, const char *call);

/* The node as a record has it. */
void ph__slot_load(ph__slot_node *to, const ph__record_node *from);
/* The first place that has some of those bytes, or NULL; node may be NULL. */
const ph__slot_span *ph__slot_find_place(const ph__slot_node *node, size_t offset, size_t bytes);
/* The 8 bytes at an offset of a node's parameters. */
uint64_t ph__slot_field(const ph_node_info *info, size_t offset);
/* Where a node's parameters begin, as offsets count. */
static inline unsigned char *ph__slot_params(ph__slot_node *node)
{
    switch (node->kind) {
    case PH_NODE_KERNEL:
        return node->args;
    case PH_NODE_MEMCPY:
        return (unsigned char *)&node->copy;
    default:
        return (unsigned char *)&node->fill;
    }
}
/* The executable has what the slots have, and nothing is staged. */
static inline bool ph__slots_are_applied(const ph__slots *slots)
{
    return slots->due.count == 0 && slots->staged.count == 0;
}
void ph__slots_drop(ph_graph *graph);
void ph__slots_free(ph_graph *graph, ph__slots *slots); /* takes NULL */
#endif
