/* SPDX-License-Identifier: MIT */
/* phonograph/graphed.h: graphed callables: a module whose forward and backward passes are each
 * one replay of a graph, in the place of the module itself. docs/reference/graphed-callables.md
 * tells how. */
#ifndef PHONOGRAPH_GRAPHED_H
#define PHONOGRAPH_GRAPHED_H
#include <phonograph/graph.h>
#include <phonograph/module.h>

PH_BEGIN_DECLS

/* ---- structures ---- inputs and outputs are flat arrays of tensors; a structure beside the
 * array says how they nest: lists, and dicts with keys. Static data of the caller's; what keeps
 * one copies it. */
typedef enum ph_structure_kind {
    PH_STRUCTURE_TENSOR = 0, /* the next entry of the array */
    PH_STRUCTURE_LIST = 1,
    PH_STRUCTURE_DICT = 2 /* in the order of its keys as given */
} ph_structure_kind;
typedef struct ph_structure {
    ph_structure_kind kind;
    size_t count;                        /* list, dict: entries */
    const char *const *keys;             /* dict: count of them */
    const struct ph_structure *children; /* count of them; NULL: all are tensors */
} ph_structure;
/* Tensors in it; NULL: 0. SIZE_MAX: it is malformed (a NULL key, a key that is there twice, an
 * unknown kind, deeper than 16). */
PH_API size_t ph_structure_count(const ph_structure *structure);
/* "state.hidden[1]": where in the structure entry `index` of the flat array is; always
 * terminated. NULL structure: "[index]". Gives the length as snprintf does. */
PH_API size_t ph_structure_path(char *out, size_t size, const ph_structure *structure,
                                size_t index);
/* Same kinds, counts and keys, in the same order. NULL equals a list of tensors alone of the
 * count of the other. where (may be NULL, size 0): the first place that differs, in words. */
PH_API bool ph_structure_equal(const ph_structure *a, const ph_structure *b, char *where,
                               size_t size);

/* ---- making ---- */
typedef struct ph_sample {
    /* what the module is called with; values are read by the warm-up alone, and are not changed */
    ph_tensor *const *tensors;
    size_t count;                      /* its inputs; 0, and tensors NULL: it takes none */
    const ph_structure *structure;     /* NULL: a flat list */
    const ph_structure *out_structure; /* of the module's outputs; NULL: a flat list */
} ph_sample;

/* How the gradients of the parameters and inputs leave the backward graph. None of the first two
 * ever aliases what a later replay writes. */
typedef enum ph_graphed_gradients {
    /* each call's gradients are new tensors, which the graph's last node writes */
    PH_GRAPHED_COPY = 0,
    /* ph_backward: the graph's last node adds to the leaf's grad, or makes it, itself; leaves
     * with hooks, those whose grads overlap, but for one of them, other tensors than leaves, and
     * ph_grad: as COPY */
    PH_GRAPHED_ACCUMULATE = 1,
    /* the graph's own buffers: reading one after a later backward of the callable is an error
     * (OVERWRITTEN); a leaf without grad takes it as it is */
    PH_GRAPHED_BORROW = 2
} ph_graphed_gradients;

/* How inputs (and, backwards, incoming gradients) come into the graphs. */
typedef enum ph_graphed_inputs {
    PH_GRAPHED_AUTO = 0,        /* rebound where that is proved, else copied */
    PH_GRAPHED_COPY_INPUTS = 1, /* by the graph's first node into a buffer of its own */
    PH_GRAPHED_REBIND = 2       /* UNSUPPORTED when one cannot be rebound; the message says why */
} ph_graphed_inputs;

typedef struct ph_graphed_options {
    size_t warmup_iterations; /* calls before the capture; 0: 3; PH_ZERO: none */
    /* an input or parameter that requires a gradient and takes no part has none; else ARGUMENT */
    bool allow_unused_input;
    /* the nodes of both graphs get the pairs of the scopes that they were captured in; those of
     * backward: of forward's (annotation.h, docs/reference/autograd.md) */
    bool enable_annotations;
    bool mark_modules; /* as of ph_tape_options, for the captures */
    /* as of ph_capture_options, for all graphs: a call, or a backward, whose graph addresses
     * memory that was freed is refused (STALE_INPUT); for memory of other code's, which the
     * callable cannot hold where nobody made a tensor of it */
    bool check_input_liveness;
    /* as of ph_capture_options; ARGUMENT without check_input_liveness, unless 0 */
    uint32_t check_foreign_every;
    /* of all captures; NULL: one for this call. What a graph of the caller's own that captures
     * into it overwrites is not noticed */
    ph_pool *pool;
    /* of warm-up and captures (tape.h), with no_cache: else ARGUMENT, as in PyTorch. A module
     * whose forward switches it on itself needs none here, and may keep its casts */
    ph_autocast autocast;
    ph_capture_mode mode;
    ph_graphed_gradients gradients;
    ph_graphed_inputs inputs;
    /* of the random operators, at each replay; NULL: the device's default one */
    ph_generator *generator;
    /* warm-up and captures run on it, and it must outlive the graphed modules; NULL: one that
     * all callables of the pool share */
    ph_stream *stream;
    /* Backward graphs that a callable may have: that of all its outputs, and one for each other
     * set of them that a loss uses, captured at its first backward. 0: 8. 1: no other; a loss
     * that would need one is refused (STATE). */
    size_t max_backwards;
    uint64_t reserved[3];
} ph_graphed_options;

/* Makes out[i] from modules[i] for all i, or nothing. A graphed module is called like the one
 * that it is made from, with inputs of the sample's shapes and dtypes, and has its name,
 * parameters, buffers and children. One call is one launch, and one node of the tape, whose
 * backward is one launch. Forwards are captured in the order given and backwards in reverse, in
 * one pool; call them in that order within a step. What differs from calling the module itself:
 *
 * - In the other mode than at capture (ph_module_train), and in a capture of the tape's stream,
 *   the graphed module calls the original one.
 * - Outputs are the graph's own memory, until a later replay writes it: reading one then is an
 *   error (OVERWRITTEN) that names both calls; so is a backward through a call whose saved
 *   values are gone. Clone what must live longer.
 * - A second derivative is refused (STATE).
 * - Backward of a loss that uses some of the outputs is captured the first time, and kept: as in
 *   the module, nothing comes from the other outputs, and what only they depend on gets no
 *   gradient. Its graph copies the incoming gradients, and the inputs that it reads. Refused:
 *   beyond max_backwards (STATE); where this thread has a capture open on the device, whatever
 *   its stream (CAPTURE); while another thread captures one into the same pool (POOL_BUSY);
 *   where it reads what the backward of all outputs does not (UNSUPPORTED). A failure leaves all
 *   as it was.
 * - Argument count, shapes, dtypes and device must be the sample's, and an input may require a
 *   gradient only where the sample's did (unless nothing of the callable is differentiable): the
 *   message shows what was expected and what came. The parameters must be the tensors, at the
 *   addresses, and with the requires_grad, of the capture (STATE): none added, removed or
 *   replaced where the module's struct keeps them (ph_parameter), nor a buffer; and autocast to
 *   the same dtype as then, or off (STATE).
 *
 * Memory that forward or backward use and that is neither input, parameter nor buffer is held
 * while the module lives; an input that overlaps what they write outside of the graphs is cloned
 * first. Where forward replaces such memory from call to call, making is refused (STATE).
 *
 * An input is rebound where further captures proved all its uses (ph_graph_slot_prove;
 * docs/reference/graphed-callables.md says what they cannot prove); one that is not contiguous, not
 * aligned to 256 bytes, or overlaps what the graph writes, or lies in memory that no slot takes
 * (ph_graph_slot_takes), is cloned first; the clone is of no pool that the graphs write. An
 * input that the module writes is copied: the caller's tensor stays as it is. One that backward
 * reads again is kept until then, and must not be changed in place meanwhile (STATE).
 *
 * Refused, each with its own message: a module with hooks, of its own or below, or on its
 * parameters (ARGUMENT; hooks may be added later, they act on the graphed module's own calls); a
 * parameter that was added, or a parameter or buffer that was removed or replaced, since the
 * module was made (STATE); a buffer that requires a gradient; a sample that has another count
 * than the module's inputs, an entry that is NULL, or of another device, or a structure that is
 * malformed or of another count; two entries of `modules` that are the same; an unused input
 * (see allow_unused_input); a tensor that requires a gradient and is neither an input nor a
 * parameter; autocast with its cache; what a capture refuses. Waits for the device; not legal in
 * a capture (CAPTURE, 900). Externally synchronised, as are the modules. One thread at a time
 * makes callables of a device: a capture of one is in the other's way (unless mode is
 * THREAD_LOCAL). */
PH_CALL ph_make_graphed_callables(ph_module **out, ph_module *const *modules,
                                  const ph_sample *samples, size_t count,
                                  const ph_graphed_options *options);

/* As ph_call_n, for inputs and outputs that nest: the structures must be the sample's (ARGUMENT:
 * the first place that differs). out_structure: what the caller takes the outputs for; NULL: not
 * compared. Any module; one that is not graphed has no structures to compare with. */
PH_API void ph_call_structured(ph_tape *tape, ph_module *module, ph_tensor **out, size_t out_count,
                               ph_tensor *const *in, size_t in_count,
                               const ph_structure *in_structure, const ph_structure *out_structure);

/* ---- looking ---- */
PH_API bool ph_module_is_graphed(const ph_module *module);
typedef struct ph_graphed_input {
    bool rebound;        /* else copied */
    bool backward_reads; /* backward reads it again */
    size_t uses;         /* places in the forward graph, 0 when copied */
    const char *reason;  /* why it is copied; "" when it is not. Borrowed from the module */
    uint64_t reserved[4];
} ph_graphed_input;
typedef struct ph_graphed_info {
    size_t input_count, output_count, parameter_count;
    size_t saved_bytes;                     /* of memory that lives from forward to backward */
    size_t forward_nodes, backward_nodes;   /* backward of all outputs; 0: there is none */
    uint64_t forward_calls, backward_calls; /* replays */
    ph_graphed_gradients gradients;
    size_t backwards; /* graphs: that of all outputs, and those of sets that were used since */
    uint64_t reserved[3];
} ph_graphed_info;
/* STATE: not graphed. incoming: of gradient i of the outputs, instead of input i. */
PH_CALL ph_graphed_callable_info(ph_graphed_info *out, const ph_module *module);
PH_CALL ph_graphed_callable_input(ph_graphed_input *out, const ph_module *module, size_t index,
                                  bool incoming);
/* How they nest, as the sample said; borrowed from the module. NULL: it said nothing. Either may
 * be NULL. */
PH_CALL ph_graphed_callable_structures(const ph_structure **inputs, const ph_structure **outputs,
                                       const ph_module *module);
/* All of it as text, a line each; freed with ph_string_free. */
PH_CALL ph_graphed_callable_describe(char **out, const ph_module *module);
/* The graphs, borrowed, to look at (records, dumps, memory): do not replay or reset them.
 * *backward, that of all outputs, is NULL where there is none. */
PH_CALL ph_graphed_callable_graphs(ph_graph **forward, ph_graph **backward,
                                   const ph_module *module);

PH_END_DECLS
#endif
