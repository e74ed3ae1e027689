/* SPDX-License-Identifier: MIT */
/* record/record.h: the record as the graph layer builds and reads it. The public part is
 * phonograph/inspect/record.h. */
#ifndef PH_RECORD_RECORD_H
#define PH_RECORD_RECORD_H
#include "base/demangle.h"
#include "base/map.h"
#include "base/text.h"
#include "device/annotate/marks.h"
#include "device/annotate/pairs.h"
#include "device/handles/kernel.h"
#include "memory/memory.h"

typedef struct ph__record_node {
    /* its pointers lead into the record, but args of a sparse node: the driver's */
    ph_node_info info;
    ph__drv_node *handle; /* in the template that the record was read from */
    ph_kernel *kernel;    /* kernels that this library loaded; borrowed, NULL for others */
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
    const char *form;      /* ph__drv_node_info.form; static, or NULL */
    const void *host_user; /* host functions: what they are called with */
} ph__record_node;

/* One allocation, bodies apart. */
struct ph_record {
    uint64_t id; /* unique in the process */
    size_t node_count, edge_count;
    size_t bytes;    /* of the allocation */
    unsigned depth;  /* of the bodies in it; of made records alone, as is: */
    uint64_t nested; /* bytes of the bodies, each counted for every node that it is in */
    bool made;       /* by ph_record_create: the bodies are somebody else's */
    ph__record_node *nodes;
    /* the blocks that its capture received; the graph's. NULL: not known */
    const ph__layout *layout;
    /* memory of other code's that words address; NULL: nobody has asked for it */
    struct ph__record_foreign *foreign;
    ph__annotation **annotations; /* all that nodes have, retained; some may be NULL */
    size_t annotation_count;
};

/* Memory of other code's, as the driver described it. Of a record and its bodies together. */
typedef struct ph__foreign_memory {
    uint64_t id; /* the driver's: tells it from later memory there */
    bool pinned;
} ph__foreign_memory;
typedef struct ph__record_foreign {
    const ph_record *owner;
    ph__ranges ranges; /* values are 1 + the index */
    PH__VEC(ph__foreign_memory) list;
    bool complete;
} ph__record_foreign;

/* Memory that the memory nodes of a record give, and those of the one that it is nested in. */
typedef struct ph__given_span {
    uintptr_t base;
    size_t size;
} ph__given_span;
typedef struct ph__given {
    const struct ph__given *outer;
    PH__VEC(ph__given_span) spans;
} ph__given;

/* Allocations that were met last: words of one capture address few of them. */
typedef struct ph__lookups {
    ph__hulls hulls; /* nothing that the library knows lies outside, but what memory nodes give */
    unsigned next, count;
    ph_allocation at[4];
    ph_pool_id pool[4];
} ph__lookups;

/* Memory that is a graph's own, so that words which address it are internal. Any member may be
 * NULL. */
typedef struct ph__own_memory {
    const ph__ranges *capture; /* blocks that the capture received from its pool */
    /* in bodies: that, and what the captures of nested graphs were given */
    const ph__ranges *nested;
    const ph__given *nodes; /* while a record is built */
    ph__lookups *seen;      /* likewise */
} ph__own_memory;

/* Reads the driver's graph. Borrows of it the node handles, and the parameters of kernels that
 * this library did not load: so no word is read when the graph has gone. free takes NULL. */
ph_status ph__record_build(ph_record **out, ph_device *device, ph__drv_graph *graph,
                           const ph__own_memory *own, const char *call);
/* Gives the nodes the annotations that the marks of their capture say (NULL: none), and outer
 * (NULL: none) to all; to those of bodies what the node has that runs them, and of the capture
 * that they come from. Linear in the number of nodes and marks. */
ph_status ph__record_annotate(ph_record *record, const ph__marks *marks, ph__annotation *outer,
                              const char *call);
/* Of nodes that both have, by the driver's own handles, bodies included; what is new has none. */
ph_status ph__record_inherit(ph_record *to, const ph_record *from, const ph__driver *driver,
                             const char *call);
/* Not those of bodies. */
void ph__record_drop_annotations(ph_record *record);
size_t ph__record_annotation_bytes(const ph_record *record);
/* The arguments of a kernel's node and its words, anew: for a node that is launched with others
 * than the template has, of a kernel that this library loaded. node may be SIZE_MAX. */
void ph__record_put_args(ph_record *record, size_t node, const ph_device *device,
                         const ph__own_memory *own, const void *args);
void ph__record_free(ph_record *record);
uint64_t ph__record_next_id(void);
size_t ph__record_bytes(const ph_record *record); /* bodies included */
/* SIZE_MAX for NULL and for a node that is not in the record. */
size_t ph__record_index_of(const ph_record *record, const ph__drv_node *handle);

/* ---- words ---- walks the words of a launch's arguments: of a typed kernel each parameter, cut
 * into pieces of 8 bytes, at its own offset; what no parameter covers, and all of an untyped
 * kernel, by aligned words of 8 bytes. */
typedef enum ph__word_class {
    PH__CLASS_VALUE,
    PH__CLASS_ADDRESS,
    PH__CLASS_UNTYPED
} ph__word_class;
typedef struct ph__word_slot {
    ph__word_class class;
    size_t offset, size;
    const char *param; /* NULL where no parameter covers it */
    size_t piece;      /* bytes into the parameter */
} ph__word_slot;
typedef struct ph__words {
    const ph_kernel *kernel; /* NULL: a foreign one */
    size_t args_size, at, param;
} ph__words;
bool ph__words_next(ph__words *words, ph__word_slot *out);
/* As snprintf, for which it is on the path of captures: the slot's name, "x", "x+8" or "+16". */
size_t ph__word_name(char *out, size_t size, const ph__word_slot *slot);
/* A name that needs no copy: the parameter's, which lives as long as the kernel, or that of an
 * offset that kernels can have; NULL: there is none. */
const char *ph__word_lasting_name(const ph__word_slot *slot);
enum {
    PH__NAMED_OFFSETS = 4096 /* all that are smaller, and whole words, have a name that lasts */
};
/* Whether memory nodes give any: it may lie where the library knows of nothing. */
bool ph__own_has_given(const ph__own_memory *own);
bool ph__own_has(const ph__own_memory *own, uintptr_t address);
void ph__word_lies_in(ph_word *word, const ph_allocation *allocation); /* but for its pool */
/* Classifies into a word of zeros; out->name is left NULL. */
void ph__word_read(ph_word *out, const ph_device *device, const ph__own_memory *own,
                   const ph__word_slot *slot, const void *args);
/* A word that is an address for certain: a field of a memcpy or memset. name: static storage. */
void ph__word_address(ph_word *out, const ph_device *device, const ph__own_memory *own,
                      const char *name, size_t offset, const void *address);

/* ---- the words of a node ---- Kernels of vendor libraries have some hundred words each, of
 * which few are addresses, and those of few values. So of a kernel that this library did not
 * load the record keeps those words alone that may be one (kind is not PH_WORD_VALUE); the
 * others are made of the parameters when they are asked for. */
typedef struct ph__place {
    uint32_t offset, word; /* which of the kept words stands there, but for its offset and name */
} ph__place;
/* Word w of the node, w < info.word_count; word i of those that are kept, i < kept_count: for
 * who looks for addresses. In *room where none is kept as it is; borrowed for as long as both. */
const ph_word *ph__record_word(ph_word *room, const ph__record_node *node, size_t w);
const ph_word *ph__record_kept(ph_word *room, const ph__record_node *node, size_t i);
/* Its value alone, of a kernel that this library did not load. */
uint64_t ph__record_untyped_value(const ph__record_node *node, size_t w);

/* ---- foreign.c ---- find: asks the driver, once, what memory of other code's the words
 * address. A driver that does not answer (a lost device) is no failure: then the rest is not
 * known. look: as ph__record_word, with such memory. drop: not of bodies. */
ph_status ph__record_find_foreign(ph_record *record, ph_device *device, const char *call);
const ph_word *ph__record_look_up_foreign(ph_word *room, const ph_record *record,
                                          const ph__record_node *node, size_t w);
void ph__record_drop_foreign(ph_record *record);

/* ---- sparse nodes, while a record is built ---- */
enum {
    PH__RECENT = 16
};
typedef struct ph__found {
    PH__VEC(ph__place) places; /* of all nodes, one after another */
    PH__VEC(ph_word) words;
    bool numbers; /* some of the words turned out to be no addresses */
    /* The last values that may be addresses, and which words they are. */
    uint64_t recent[PH__RECENT];
    uint32_t recent_word[PH__RECENT];
    size_t next;
} ph__found;
/* Whether a kernel with so many bytes of parameters is sparse: loaded tells whether this library
 * loaded it. */
bool ph__words_are_sparse(bool loaded, size_t args_size);
size_t ph__words_of_sparse(size_t args_size);
/* Adds what may be addresses among the words of a sparse kernel; own->seen must be there. False:
 * no memory. */
bool ph__words_find(ph__found *found, const ph__own_memory *own, const void *args,
                    size_t args_size);
/* When all have been added: what memory they address. Those that address none stay
 * PH_WORD_VALUE. */
void ph__words_look_up(ph__found *found, const ph_device *device, const ph__own_memory *own);
/* Leaves out of `count` places those of such words; how many stay. */
size_t ph__places_keep(ph__place *places, size_t count, const ph__found *found);

/* A node's name as its author wrote it. Not in records that were made of descriptions: their
 * names are somebody else's, and a few bytes of a mangled name can say more than memory holds. */
static inline const char *ph__record_readable(char room[PH__READABLE], const ph_record *record,
                                              const char *name)
{
    return record->made ? name : ph__readable_name(room, name);
}

/* ---- readers ---- into a text whose failure the caller checks. */
void ph__record_to_json(ph__json *json, const ph_record *record);
/* The same with more fields: on top before `nodes`, and at the end of each node; not in bodies. */
typedef struct ph__record_more {
    void (*top)(ph__json *json, void *user);
    void (*node)(ph__json *json, size_t index, void *user);
    void *user;
} ph__record_more;
void ph__record_to_json_with(ph__json *json, const ph_record *record, const ph__record_more *more);
void ph__record_to_dot(ph__text *text, const ph_record *record, bool verbose);
const char *ph__word_kind_name(ph_word_kind kind);
const char *ph__edge_kind_name(ph_edge_kind kind);
#endif
