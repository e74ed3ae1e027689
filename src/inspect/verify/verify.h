/* SPDX-License-Identifier: MIT */
/* inspect/verify/verify.h: ph_graph_verify as its files share it: verify.c is the call,
 * verify_memory.c keeps, poisons and compares, verify_run.c runs body and replays, all or in
 * parts, verify_find.c looks for the node, verify_race.c for nodes that share memory without an
 * order, verify_blocks.c tells which block an address is in, verify_written.c what is written
 * and was not compared, verify_say.c has the words, verify_change.c those of parameters. */
#ifndef PH_INSPECT_VERIFY_VERIFY_H
#define PH_INSPECT_VERIFY_VERIFY_H
#include "graph/object/graph.h"
#include <phonograph/inspect/diff.h>
#include <phonograph/inspect/locate.h>

/* Bytes of memory that are kept: disjoint. */
typedef struct ph__kept {
    uintptr_t base;
    size_t bytes;
    size_t at;     /* in the images */
    bool own;      /* the capture was given them: they have no contents before they are written */
    bool poisoned; /* device memory of those */
    bool compared;
    /* of a pool that the graph holds beside its own: compared where eager writes it */
    bool held;
    bool swapped; /* as ph__verify_swap_held */
    bool foreign; /* memory of other code's */
    bool lost;    /* likewise, and the driver does not read it: left as it is, and never compared */
} ph__kept;

/* The contents of all that is kept, at one moment. */
typedef struct ph__image {
    unsigned char *bytes;
} ph__image;

typedef enum ph__poison_pattern {
    PH__POISON_NONE,
    PH__POISON_NAN,   /* not a number in all types of floating point */
    PH__POISON_NUMBER /* small numbers in all of them */
} ph__poison_pattern;

typedef struct ph__difference {
    size_t different, compared;
    uintptr_t address;              /* of the first */
    const ph__kept *kept;           /* the kept memory that has it; NULL: none */
    const ph_verify_output *output; /* and in this; NULL: bytes were compared */
    size_t size; /* of both: of the number of an output that it is in, or up to 4 bytes around it */
    unsigned char a[8], b[8];
} ph__difference;

/* Nodes of an executable that are switched on and off. */
typedef struct ph__switches {
    ph_graph *graph;
    bool *on, *now; /* as it was; as it is. By node */
    size_t count;
    bool hosts;   /* the functions of its host nodes are known, and can be taken out */
    bool touched; /* something may be off */
} ph__switches;

/* Of the blocks of a layout, which may lie over one another: disjoint parts by ascending
 * address, each up to the next. */
typedef struct ph__block_index {
    uintptr_t *from;
    const ph__placing **block; /* the last one there; NULL: none is */
    size_t count;
} ph__block_index;

typedef struct ph__verify {
    ph_graph *graph, *second; /* second: the capture of body that was made now */
    ph_stream *stream;
    ph_capture_fn body;
    void *user;
    const ph_verify_options *options;
    ph_verify_result *out;
    const char *call;
    const ph__driver *driver;
    PH__VEC(ph__kept) kept;
    ph__ranges places; /* of them, by address -> index + 1 */
    /* whole allocations of other code's that the nodes address, kept or left out */
    ph__ranges foreign;
    size_t total, kept_so_far; /* bytes; of `kept`: those whose contents are in `start` */
    ph__block_index blocks;    /* of the layout */
    ph__image start, eager, replay, other;
    unsigned char *chunk; /* for poison on its way */
    ph_pool *pool;        /* of the second capture, and of what body allocates beyond the layout */
    ph__script *script;
    ph__switches switches, second_switches;
    size_t missed, missed_bytes; /* of the eager run: as ph__script_missed */
    uint64_t epoch;
    uint64_t *lasts; /* of the graph's pools */
    bool prepared;   /* each run of the graph starts from the same state */
    bool skip_held;  /* as ph__script_rewind */
    bool steady;     /* further eager runs gave what the first gave */
    bool swapped;    /* `start` and `replay` have each other's contents of some blocks */
} ph__verify;

/* The blocks of the capture whose parameters the executable has. */
static inline const ph__layout *ph__verify_layout(const ph_graph *graph)
{
    return graph->updated_pool ? &graph->updated_layout : &graph->layout;
}

/* ---- verify_memory.c ---- collect: what a graph addresses and was given; not_compared: neither
 * side of it is to be the same. keep: reads what was collected since the last time into `start`. */
ph_status ph__verify_collect(ph__verify *verify, ph_graph *graph, bool compared);
ph_status ph__verify_keep(ph__verify *verify);
ph_status ph__verify_make_images(ph__verify *verify); /* for all that was collected */
ph_status ph__verify_read(ph__verify *verify, ph__image *to);
/* `start`, with poison over what is poisoned; waits. */
ph_status ph__verify_write(ph__verify *verify, ph__poison_pattern poison);
/* After the first eager run: what it changed of pools that the graph holds is no scratch. */
void ph__verify_compare_held(ph__verify *verify);
/* After the first replay: of the rest, what that left otherwise may be written by an eager run too,
 * with the same bytes as before. One that begins with what the replay left there tells: *found, and
 * it is compared from then on. Changes `other`. */
ph_status ph__verify_inspect_held(ph__verify *verify, bool *found);
/* Swaps in the contents that the run begins with; false: `start` is again as it was, whatever
 * became of the run. */
void ph__verify_swap_held(ph__verify *verify, bool swapped);
/* Of the rest of those pools, the blocks that the replay left otherwise than the eager run. */
size_t ph__verify_held_bytes(const ph__verify *verify);
/* NULL also where the contents could not be kept. */
const ph__kept *ph__verify_find_kept(const ph__verify *verify, uintptr_t address);

/* ---- verify_written.c ---- what the graph's nodes may write, as far as their parameters tell:
 * whole allocations for kernels, destinations for copies and fills. */
typedef struct ph__written {
    size_t compared, bytes; /* bytes of such memory that are compared; all of them */
    ph__ranges left;        /* the others */
    /* the node that addresses the first of them; SIZE_MAX: ph_stream_declare_use named it */
    size_t node;
    uint64_t address;
    char node_name[64], word[48];
    /* nodes that write what no parameter tells, the first; host functions */
    size_t unseen, first_unseen, hosts;
} ph__written;
ph_status ph__verify_written(ph__written *out, ph__verify *verify);
/* Not all of it was compared. */
bool ph__written_is_missed(const ph__written *written);
void ph__written_free(ph__written *written);

/* ---- verify_blocks.c ---- the last block there that the capture was given, or what is
 * allocated there. */
bool ph__verify_find_block(ph_allocation *out, const ph__verify *verify, uintptr_t address);
/* find: the last block of the layout that the address is in, or NULL. false: no host memory. The
 * layout stays as it is meanwhile. */
bool ph__block_index_make(ph__block_index *out, const ph__layout *layout);
const ph__placing *ph__block_index_find(const ph__block_index *index, uintptr_t address);
void ph__block_index_free(ph__block_index *index);

/* ---- verify_compare.c ---- bytes: all of them, whatever the outputs. poisons: a began with
 * PH__POISON_NAN, b with PH__POISON_NUMBER: bytes that still have them are alike. */
enum {
    PH__COMPARE_BYTES = 1,
    PH__COMPARE_POISONS = 2
};
bool ph__verify_compare(ph__difference *out, const ph__verify *verify, const ph__image *a,
                        const ph__image *b, unsigned how);
/* The first output of the options that the address is in, or NULL. */
const ph_verify_output *ph__verify_output_at(const ph__verify *verify, uintptr_t address);
/* The poison of memory at an address. */
void ph__poison_fill(unsigned char *to, uintptr_t address, size_t bytes, ph__poison_pattern poison);
size_t ph__number_size(ph_number_type type);
double ph__number_value(const void *bytes, ph_number_type type);

/* ---- verify_run.c ---- each from `start` and that poison. */
ph_status ph__verify_capture(ph__verify *verify);
ph_status ph__verify_eager(ph__verify *verify, ph__image *to);
ph_status ph__verify_replay(ph__verify *verify, ph__image *to, ph__poison_pattern poison);
/* The first `count` nodes at once; then, where then_rest, the others one after another. */
ph_status ph__verify_part(ph__verify *verify, ph__switches *switches, size_t count, bool then_rest,
                          ph__poison_pattern poison, ph__image *to);
/* All of them, one after another, in that order. */
ph_status ph__verify_in_order(ph__verify *verify, ph__switches *switches, const size_t *order,
                              ph__image *to);
ph_status ph__switches_make(ph__switches *switches, ph_graph *graph, const char *call);
/* As it was. Tries all of them. */
ph_status ph__switches_restore(ph__switches *switches, const char *call);
void ph__switches_free(ph__switches *switches);

/* ---- verify_find.c ---- fills in *out. */
ph_status ph__verify_judge(ph__verify *verify);
/* The first node that has no counterpart of its kind, name and dependencies in the second
 * capture; SIZE_MAX: all have. same: there are as many. */
size_t ph__verify_first_change(bool *same, const ph__verify *verify);
/* Whether that node's parameters are others than in the second capture, or may be. */
bool ph__verify_is_changed(const ph__verify *verify, size_t node);

/* ---- verify_race.c ---- two nodes without a path between them that address one allocation,
 * which at least one of them writes as far as can be seen. */
typedef struct ph__race {
    size_t one, two;            /* one < two; SIZE_MAX: none was found */
    const char *first, *second; /* the name of the word of each */
    ph_allocation block;
    bool proved; /* the other order of the two gives another result */
} ph__race;
/* Bounded work. seen: such a pair at that address is preferred. Runs parts: `replay` and `other`
 * are changed. */
ph_status ph__verify_find_race(ph__race *out, ph__verify *verify, uintptr_t seen);

/* ---- verify_change.c ---- */
/* How the node differs from the second capture's. */
void ph__verify_add_change(const ph__verify *verify, size_t node);
/* The parameters of all nodes but that one that the second capture has else. SIZE_MAX: of all;
 * then the results are the same. */
void ph__verify_add_changes(const ph__verify *verify, size_t but);

/* ---- verify_say.c ---- add: to the message. */
void ph__verify_add(const ph__verify *verify, const char *format, ...) PH_PRINTF(2, 3);
void ph__verify_say_equal(const ph__verify *verify, const ph__difference *difference,
                          const ph__written *written);
/* node SIZE_MAX: none; lead: what is so, as "is the first whose result differs". one, two: what
 * the values are of. */
typedef struct ph__verify_words {
    const char *lead, *one, *two;
} ph__verify_words;
void ph__verify_say(const ph__verify *verify, ph_verify_verdict verdict, size_t node,
                    const ph__difference *difference, const ph__verify_words *words);
/* Runs that should be alike differ, and race, which may have none, is what was found of why.
 * lead: which are not the same. */
void ph__verify_say_unsteady(const ph__verify *verify, const ph__race *race,
                             const ph__difference *difference, const ph__verify_words *words);
void ph__verify_add_race(const ph__verify *verify, const ph__race *race);
void ph__verify_add_hints(const ph__verify *verify);
void ph__verify_say_capture(const ph__verify *verify, size_t node,
                            const ph__difference *difference);
#endif
