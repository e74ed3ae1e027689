/* SPDX-License-Identifier: MIT */
/* phonograph/graphed.h: graphed callables: a module whose forward and backward passes are one graph
 * replay each. It takes the place of the module (docs/reference/graphed-callables.md). */
#ifndef PHONOGRAPH_GRAPHED_H
#define PHONOGRAPH_GRAPHED_H
#include <phonograph/graph.h>
#include <phonograph/module.h>

PH_BEGIN_DECLS

/* ---- structures ---- Inputs and outputs are flat arrays of tensors. A structure beside the array
 * describes their nesting: lists, and dicts with keys. It is static data of the caller; objects
 * that keep a structure copy it. */
typedef enum ph_structure_kind {
    PH_STRUCTURE_TENSOR = 0, /* the next entry of the array */
    PH_STRUCTURE_LIST = 1,
    PH_STRUCTURE_DICT = 2 /* in the order of its keys as given */
} ph_structure_kind;
typedef struct ph_structure {
    ph_structure_kind kind;
    size_t count;                        /* entries of a list or dict */
    const char *const *keys;             /* dict: count keys */
    const struct ph_structure *children; /* count entries; NULL: all are tensors */
} ph_structure;
/* Counts the tensors of the structure; NULL: 0. SIZE_MAX: it is malformed (a NULL key, a repeated
 * key, an unknown kind, a depth above 16). */
PH_API size_t ph_structure_count(const ph_structure *structure);
/* Writes the path of entry `index` of the flat array, as "state.hidden[1]"; NULL structure:
 * "[index]". The text always ends with NUL. Returns the length as snprintf does. */
PH_API size_t ph_structure_path(char *out, size_t size, const ph_structure *structure,
                                size_t index);
/* Whether kinds, counts and keys are equal, in the same order. NULL equals a flat list of tensors
 * with the count of the other. where (may be NULL, size 0) gets the first place that differs, in
 * words. */
PH_API bool ph_structure_equal(const ph_structure *a, const ph_structure *b, char *where,
                               size_t size);

/* ---- making ---- */
typedef struct ph_sample {
    /* arguments of the module; only the warm-up reads the values, and nothing changes them */
    ph_tensor *const *tensors;
    size_t count;                      /* inputs of the module; 0, with tensors NULL: it has none */
    const ph_structure *structure;     /* NULL: a flat list */
    const ph_structure *out_structure; /* of the module's outputs; NULL: a flat list */
} ph_sample;

/* How the gradients of parameters and inputs leave the backward graph. With COPY and ACCUMULATE, no
 * gradient shares memory that a later replay writes. */
typedef enum ph_graphed_gradients {
    /* each call's gradients are new tensors, which the last node of the graph writes */
    PH_GRAPHED_COPY = 0,
    /* ph_backward: the last node of the graph adds to the grad of the leaf, or makes it. As COPY:
     * ph_grad, tensors that are not leaves, leaves with hooks, and all but one of the leaves whose
     * grads overlap. */
    PH_GRAPHED_ACCUMULATE = 1,
    /* The graph's own buffers. A read after a later backward of the callable is an error
     * (OVERWRITTEN), also one by the backward of another callable. A leaf without grad gets the
     * buffer itself as grad. */
    PH_GRAPHED_BORROW = 2
} ph_graphed_gradients;

/* How inputs, and gradients of the outputs, come into the graphs. */
typedef enum ph_graphed_inputs {
    PH_GRAPHED_AUTO = 0, /* rebound where that is proved, otherwise copied */
    /* copied by the first node of the graph into a buffer of the graph */
    PH_GRAPHED_COPY_INPUTS = 1,
    /* UNSUPPORTED when an input cannot be rebound; the message says why */
    PH_GRAPHED_REBIND = 2
} ph_graphed_inputs;

typedef struct ph_graphed_options {
    size_t warmup_iterations; /* calls before the capture; 0: 3; PH_ZERO: none */
    /* an input or parameter that requires a gradient, but is not used, gets none; otherwise
     * ARGUMENT */
    bool allow_unused_input;
    /* nodes of both graphs get the pairs of their annotation scopes; backward nodes get those of
     * the forward pass (annotation.h, docs/reference/autograd.md) */
    bool enable_annotations;
    bool mark_modules; /* as in ph_tape_options, for the captures */
    /* As in ph_capture_options, for all graphs. A call or backward is refused (STALE_INPUT) if its
     * graph addresses memory that was freed. Useful for memory of other code, which the callable
     * cannot retain unless a tensor has it. */
    bool check_input_liveness;
    /* as in ph_capture_options; ARGUMENT if not 0 without check_input_liveness */
    uint32_t check_foreign_every;
    /* pool of all captures; NULL: a new pool for this call. Overwrites by a graph of the caller
     * that captures into the pool are not detected */
    ph_pool *pool;
    /* Autocast of warm-up and captures (tape.h), with no_cache (else ARGUMENT, as in PyTorch). A
     * module whose forward switches autocast on needs none here, and may keep its casts. */
    ph_autocast autocast;
    ph_capture_mode mode;
    ph_graphed_gradients gradients;
    ph_graphed_inputs inputs;
    /* for the random operators, at each replay; NULL: the device's default generator */
    ph_generator *generator;
    /* for warm-up and captures; it must outlive the graphed modules. NULL: one that all callables
     * of the pool share */
    ph_stream *stream;
    /* The most backward graphs of a callable. One is for all outputs. Each other set of outputs
     * that a loss uses needs one more, captured at its first backward. 0: 8. 1: only the first; a
     * loss that needs another is refused (STATE). */
    size_t max_backwards;
    /* The memory of all captures of this call is planned, as that of a capture with
     * ph_capture_options.plan (docs/reference/memory-plan.md): what the captures that prove are
     * given is noted, and the real ones get their blocks at planned offsets, in one block of the
     * pool.
     * - Backward is captured twice where all inputs are copied, too.
     * - A forward may write over gradients of the last step that are borrowed (OVERWRITTEN).
     * - After another order than noted all are captured again, without a plan, with a warning.
     * - ph_graph_get_memory of ph_graphed_callable_graphs has the plan, or why there is none: the
     *   same for all of one call. */
    bool plan;
    /* Not 0: as in ph_graph_options. The first call of each callable uploads its graph, and waits
     * for that where an input is rebound; the first backward uploads the other one. Many callables
     * are ready sooner. ph_graph_upload_all uploads them when there is time: the graphs of
     * ph_graphed_callable_graphs, without a backward that is NULL. */
    size_t defer_upload;
    uint64_t reserved[1];
} ph_graphed_options;

/* Makes out[i] from modules[i] for all i, or nothing.
 * - A graphed module is called as its original, with inputs of the sample's shapes and dtypes. It
 *   has the name, parameters, buffers and children of the original.
 * - One call is one launch, and one node of the tape, whose backward is one launch.
 * - Forwards are captured in the given order and backwards in reverse, in one pool. Call them in
 *   that order within a step.
 *
 * Differences from the original:
 * - In the other mode than at capture (ph_module_train), and in a capture of the tape's stream, it
 *   calls the original.
 * - Outputs are memory of the graph until a later replay writes it. A read is then an error
 *   (OVERWRITTEN) that names both calls, and so is a backward through a call whose saved values are
 *   gone. Clone tensors that must live longer.
 * - A second derivative is refused (STATE).
 * - A forward with breaks (breaks.h) calls their functions once in each call. All inputs are
 *   copied then, and a break in backward is refused (STATE).
 * - In such a function, a call or backward of a callable that shares the pool is refused (STATE).
 * - Arguments have the count, shapes, dtypes and device of the sample. An input may require a
 *   gradient only where the sample's did, unless nothing of the callable is differentiable. The
 *   message has expected and actual values.
 * - Parameters are the tensors of the capture, with the same addresses and requires_grad. None was
 *   added, removed or replaced in the module's struct (ph_parameter), nor a buffer (STATE).
 * - Autocast is off, or has the dtype of the capture (STATE).
 *
 * Backward from some of the outputs is captured at its first use, and kept. As in the module, the
 * other outputs give no gradient, and a tensor that only they depend on gets none. This graph
 * copies the gradients of the outputs, and the inputs that it reads. A failure changes nothing.
 * Refused:
 * - more than max_backwards graphs (STATE);
 * - this thread has a capture open on the device, on any stream (CAPTURE);
 * - another thread captures a backward into the same pool (POOL_BUSY);
 * - a function under ph_checkpoint would run again where the module's modes or hooks, or what its
 *   parameters require, are not those of the making (STATE);
 * - the backward reads memory that the one of all outputs does not (UNSUPPORTED).
 *
 * Memory:
 * - Memory that forward or backward use, and that is no input, parameter or buffer, is held while
 *   the module lives. A forward that replaces such memory from call to call is refused (STATE).
 * - An input that overlaps memory which they write outside of the graphs is cloned first.
 * - An input is rebound where further captures proved all its places (ph_graph_slot_prove;
 *   docs/reference/graphed-callables.md has the limits of the proof): one more, or many where code
 *   outside of the library asks for an address.
 * - A rebound input is cloned first if it is not contiguous, not aligned to 256 bytes, overlaps
 *   memory that the graph writes, or lies in memory that no slot accepts (ph_graph_slot_takes). The
 *   clone is in no pool that the graphs write.
 * - An input that the module writes is copied: the caller's tensor stays as it is.
 * - An input that backward reads again is kept until then, and must not be changed in place before
 *   (STATE).
 *
 * Refused when making, each with its own message:
 * - hooks of the module, of a module below, or of its parameters (ARGUMENT). Later hooks act on the
 *   graphed module's own calls.
 * - a parameter that was added, or a parameter or buffer that was removed or replaced, since the
 *   module was made (STATE);
 * - a buffer that requires a gradient; a tensor that requires one and is neither input nor
 *   parameter; an unused input (see allow_unused_input);
 * - a sample with another count than the module's inputs, with a NULL entry or an entry of another
 *   device, or with a structure that is malformed or of another count;
 * - `out` and `modules` that share a place: the caller's handle would be lost;
 * - two equal entries of `modules`; autocast with its cache; everything that a capture refuses.
 *
 * Threads and capture: waits for the device. Not legal in a capture (CAPTURE, 900). Externally
 * synchronised, as the modules are. One thread at a time makes callables of a device, unless mode
 * is THREAD_LOCAL, as captures of two threads disturb each other. */
PH_CALL ph_make_graphed_callables(ph_module **out, ph_module *const *modules,
                                  const ph_sample *samples, size_t count,
                                  const ph_graphed_options *options);

/* As ph_call_n, for nested inputs and outputs. The structures must be those of the sample
 * (ARGUMENT, with the first place that differs). out_structure: the structure that the caller
 * expects; NULL: not compared. Takes any module; a module that is not graphed has no structures to
 * compare with. */
PH_API void ph_call_structured(ph_tape *tape, ph_module *module, ph_tensor **out, size_t out_count,
                               ph_tensor *const *in, size_t in_count,
                               const ph_structure *in_structure, const ph_structure *out_structure);

/* ---- queries ---- */
PH_API bool ph_module_is_graphed(const ph_module *module);
typedef struct ph_graphed_input {
    bool rebound;        /* otherwise copied */
    bool backward_reads; /* backward reads it again */
    size_t uses;         /* places in the forward graph, 0 when copied */
    const char *reason;  /* the reason for a copy, borrowed from the module; "" when rebound */
    uint64_t reserved[4];
} ph_graphed_input;
typedef struct ph_graphed_info {
    size_t input_count, output_count, parameter_count;
    size_t saved_bytes;                     /* memory that lives from forward to backward */
    size_t forward_nodes, backward_nodes;   /* backward: of all outputs; 0: there is none */
    uint64_t forward_calls, backward_calls; /* replays */
    ph_graphed_gradients gradients;
    /* backward graphs: the one of all outputs, and those of other sets that were used since */
    size_t backwards;
    uint64_t reserved[3];
} ph_graphed_info;
/* STATE: not a graphed module, or (info, describe) one whose graph the program has reset. index
 * counts the inputs; with grad_outputs, the gradients of the outputs. */
PH_CALL ph_graphed_callable_info(ph_graphed_info *out, const ph_module *module);
PH_CALL ph_graphed_callable_input(ph_graphed_input *out, const ph_module *module, size_t index,
                                  bool grad_outputs);
/* The structures of the sample, borrowed from the module; NULL: the sample had none. Either output
 * may be NULL. */
PH_CALL ph_graphed_callable_structures(const ph_structure **inputs, const ph_structure **outputs,
                                       const ph_module *module);
/* Describes all of it in text, one line for each fact. Freed with ph_string_free. */
PH_CALL ph_graphed_callable_describe(char **out, const ph_module *module);
/* The graphs, borrowed, for inspection (records, dumps, memory) and uploads: do not replay, reset,
 * update or set them. Where one was reset or destroyed, calls fail (STATE).
 * *backward is the graph of all outputs, NULL where there is none. */
PH_CALL ph_graphed_callable_graphs(ph_graph **forward, ph_graph **backward,
                                   const ph_module *module);

PH_END_DECLS
#endif
