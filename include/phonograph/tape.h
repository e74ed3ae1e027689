/* SPDX-License-Identifier: MIT */
/* phonograph/tape.h: the tape: the stream on which operators run, the history that the backward
 * pass needs, and the first error among them. */
#ifndef PHONOGRAPH_TAPE_H
#define PHONOGRAPH_TAPE_H
#include <phonograph/tensor.h>

PH_BEGIN_DECLS

typedef struct ph_generator ph_generator; /* random.h */

/* Mixed precision; see "autocast" below. */
typedef struct ph_autocast {
    ph_dtype dtype; /* PH_DTYPE_F16 or PH_DTYPE_BF16; 0: off */
    bool no_cache;  /* a weight is cast at each use */
} ph_autocast;

/* An operator takes a tape, and returns a tensor that the tape owns, or NULL once the tape has
 * failed.
 * - The first failure stays. Later operators do nothing and return NULL. So a step needs no check
 *   of its own; ph_tape_clear returns the status of all of it.
 * - A NULL where an operand is required is a failure.
 * - The message has the operator's name, the dtypes and shapes of its operands, and the module of
 *   the call.
 * - In a capture of the tape's stream, a failure leaves work out, whether it came in the capture
 *   or before. The end of the capture then fails too, and the graph is FAILED, also where the tape
 *   is gone by then.
 * - A report of the failure inside of the capture ends that effect: by ph_tape_clear,
 *   ph_tape_status, or another call that returned it. So end the body with
 *   `return ph_tape_clear(tape)`. A tape stays failed after a report, until ph_tape_clear.
 * - Threads: a tape is externally synchronised.
 * - Operators submit work to the tape's stream, and never wait for it. They are legal in a capture
 *   of that stream, unless their comment says otherwise. */
typedef struct ph_tape_options {
    bool no_grad; /* no history is kept for a backward pass */
    /* for random operators; retained; NULL: the device's default generator. WRONG_DEVICE: a
     * generator of another device */
    ph_generator *generator;
    /* A backward in a capture is refused (STATE) when a leaf that it accumulates into was first
     * used on another stream. By default the accumulation is recorded on the tape's stream in any
     * case. */
    bool refuse_other_streams;
    /* Every call of a module opens an annotation scope (annotation.h).
     * - Its name is the module's name in the network, "layers.3.attention", as in the saved state.
     *   For the outermost module, and for one that is not below its caller, the name is its kind.
     * - The name replaces those of the scopes around it. Other keys stay. */
    bool mark_modules;
    ph_autocast autocast; /* the initial mode */
    /* For debugging: this many tensor handles of the device are kept after their last release. A
     * call that gets such a handle, and would touch memory that is gone, reports who made the
     * tensor and who released it (STATE; docs/reference/tensors.md). 0: the value of the variable
     * PH_QUARANTINE, or none. */
    size_t quarantine;
    uint64_t reserved[3];
} ph_tape_options;

/* The stream must outlive the tape. Legal in a capture. The first tape of a GPU takes 2 MiB for
 * counters of captured products, freed with the last tape, tensor and module. A tape is made even
 * without that memory. */
PH_CALL ph_tape_create(ph_tape **out, ph_stream *stream, const ph_tape_options *options);
/* Clears the tape first. Takes NULL. Inside a hook, a module's forward, a custom operator (its
 * release included) or a checkpointed function of this tape, it is not destroyed: it fails (STATE),
 * and can be destroyed when they are done. */
PH_API void ph_tape_destroy(ph_tape *tape);
PH_API ph_stream *ph_tape_stream(const ph_tape *tape); /* borrowed */
PH_API ph_device *ph_tape_device(const ph_tape *tape); /* borrowed */

/* The first error, with its message in this thread's record; PH_OK when there is none. Changes
 * nothing. */
PH_CALL ph_tape_status(const ph_tape *tape);
/* Releases all that the tape owns, drops its history, and returns the first error with its message.
 * The tape is then as new, except for gradient mode, generator and autocast. STATE, and nothing
 * happens, inside a hook, a module's forward, a custom operator or a checkpointed function of this
 * tape. */
PH_CALL ph_tape_clear(ph_tape *tape);
/* Makes the tape fail, as an operator would; for modules and custom operators. The first failure
 * stays. status PH_OK does nothing. */
PH_API void ph_tape_fail(ph_tape *tape, ph_status status, const char *format, ...) PH_PRINTF(3, 4);
/* Makes the tape fail with the status of a call that has set this thread's record. PH_OK does
 * nothing. */
PH_API void ph_tape_check(ph_tape *tape, ph_status status);

/* Switches the history for backward on or off. Returns the mode before; restore it afterwards. */
PH_API bool ph_tape_set_grad_enabled(ph_tape *tape, bool enabled);
PH_API bool ph_tape_grad_enabled(const ph_tape *tape);
/* Sets the generator of later random operators (retained; NULL: the device's default generator). */
PH_API void ph_tape_set_generator(ph_tape *tape, ph_generator *generator);

/* ---- autocast ---- Mixed precision without casts in the code. While it is on, operators first
 * cast their operands of f16, bf16 and f32, after PyTorch's lists for CUDA. f64, integers and bool
 * stay as they are.
 *
 *   to its dtype    matmul, linear, attention
 *   to f32          exp, log, rsqrt, square, pow_scalar, softmax, log_softmax, mse, sum, norm,
 *                   layer_norm, rms_norm, cross_entropy (logits)
 *   to one dtype    add, sub, mul, div, maximum, minimum, eq, ne, lt, le, gt, ge, concat, stack,
 *                   where (a, b), scatter and scatter_add (x, src): their common dtype where
 *                   they have one, else f32 (tensors of rank 0 count as others do)
 *
 * Modes:
 * - All other operators use their operands' dtypes.
 * - Parameters in f32 have gradients in f32. That of an operand which a product casts is not
 *   rounded in between; other casts have a cast as their gradient.
 * - Backward passes run with autocast off, and so do the hooks and custom operators in them. The
 *   second run of a checkpointed function has the mode of the first.
 * - A mode that a module's forward, a custom operator, a checkpointed function or a hook sets ends
 *   when that call returns. The mode of a hook before a module's forward ends with the module's
 *   call.
 *
 * Cache of casts, unless no_cache:
 * - A leaf in f32 that requires a gradient (a weight, usually) is cast once for all its uses. In a
 *   checkpointed function each use is cast.
 * - A cast is kept, with its memory, until the tape is cleared, a backward pass begins, or autocast
 *   changes or ends. The destruction of its graph does not end it.
 * - A new cast is made once the leaf was changed in place, where a gradient is wanted and the cast
 *   was made in no-grad mode, and in each capture, as a graph reads its weights at each replay.
 * - A leaf that an optimizer or operator changed in a capture is cast at each use from then on, as
 *   replays may change it at any time.
 * - Not noticed: changes by a caller's own kernel, or by a graph whose addresses were set later
 *   (slots, node parameters). Switch autocast off and on after them, or clear the tape.
 * - Gradients of uses that share a cast are summed in f32, as without the cache. If a weight has
 *   other uses between them, the order of that sum may differ.
 *
 * set_autocast returns the mode before; restore it afterwards. An invalid dtype fails the tape
 * (ARGUMENT), and nothing changes. Legal in a capture. */
PH_API ph_autocast ph_tape_set_autocast(ph_tape *tape, ph_autocast autocast);
PH_API ph_autocast ph_tape_autocast(const ph_tape *tape);

/* ---- scopes ---- A scope releases its tensors at end, so that peak memory is the peak and not the
 * sum.
 * - end keeps tensors in `keep`, saved for backward, or retained. Tensors in `keep` were made in
 *   the scope, and move to the scope around it. NULL entries are skipped.
 * - begin returns a mark for end.
 * - Scopes nest. Every module call is one. */
PH_API size_t ph_tape_scope_begin(ph_tape *tape);
PH_API void ph_tape_scope_end(ph_tape *tape, size_t mark, ph_tensor *const *keep, size_t count);

/* Counts of the tape's objects, for tests and debugging. */
typedef struct ph_tape_info {
    size_t tensors; /* handles that the tape owns */
    size_t nodes;   /* operators in the history */
    size_t saved;   /* tensors that the history keeps */
    size_t depth;   /* open scopes */
    uint64_t reserved[4];
} ph_tape_info;
PH_CALL ph_tape_get_info(ph_tape_info *out, const ph_tape *tape);

/* ---- backward ---- Runs from a scalar (or an empty tensor) with gradient 1, or from any outputs
 * with their gradients. Accumulates into the grad of every leaf that requires one.
 * - Saved values are released during the pass. A second pass through them is an error (STATE),
 *   unless retain_graph is set.
 * - A saved value that was changed in place is an error (STATE), which names the operator. Changes
 *   count when an operator submits them. The replay of a graph that changes a parameter or a buffer
 *   (a captured optimizer's step) counts nothing: run backward before it.
 * - Gradients are sums: an existing grad is added to. The first grad of a leaf may be the very
 *   tensor that backward made. */
PH_API void ph_backward(ph_tape *tape, ph_tensor *loss);
typedef struct ph_backward_options {
    bool retain_graph; /* saved values stay, for another backward */
    uint64_t reserved[4];
} ph_backward_options;
/* grads: one for each output, with its shape and dtype. NULL, or a NULL entry, is 1, for scalars
 * only. */
PH_API void ph_backward_from(ph_tape *tape, ph_tensor *const *outputs, ph_tensor *const *grads,
                             size_t count, const ph_backward_options *options);
/* Gradients of outputs with respect to inputs, which need not be leaves. Nothing is accumulated.
 * out gets input_count tensors of the tape. An input that the outputs do not depend on: ARGUMENT,
 * or, with allow_unused, NULL. */
typedef struct ph_grad_options {
    bool retain_graph, allow_unused;
    uint64_t reserved[4];
} ph_grad_options;
PH_API void ph_grad(ph_tape *tape, ph_tensor **out, ph_tensor *const *inputs, size_t input_count,
                    ph_tensor *const *outputs, ph_tensor *const *grads, size_t output_count,
                    const ph_grad_options *options);

/* A hook runs in backward once the gradient of x is complete, before the pass goes on. fn returns
 * the gradient to use, which may be the one that it received.
 * - For leaves, it runs before accumulation. It also runs where ph_grad asks for the gradient of x.
 * - fn runs with the tape in no-grad mode.
 * - A hook ends when its handle is removed, or with x for a leaf x, or with the history where an
 *   operator made x.
 * - STATE: x does not require a gradient. */
typedef ph_tensor *(*ph_tensor_hook_fn)(ph_tape *tape, ph_tensor *grad, void *user);
typedef struct ph_tensor_hook ph_tensor_hook;
PH_CALL ph_tensor_hook_add(ph_tensor_hook **out, ph_tensor *x, ph_tensor_hook_fn fn, void *user);
PH_API void ph_tensor_hook_remove(ph_tensor_hook *hook); /* Takes NULL. Legal after x is gone. */

/* The same tensor without history; memory is shared. */
PH_API ph_tensor *ph_detach(ph_tape *tape, ph_tensor *x);

/* ---- custom operators ---- An operator with the caller's own forward and backward.
 * - forward: makes out[0..out_count) from in, in no-grad mode. ph_custom_save keeps the tensors
 *   that backward needs; they may be in, out or others.
 * - backward: makes grad_in from grad_out. A NULL in grad_out is an output that had no part. A NULL
 *   left in grad_in is no gradient. Only entries with needed[i] are read.
 * - release: called exactly once for each ph_custom_call, when the history goes, also for a call
 *   that failed or has no history. May be NULL. user must live until then.
 * - In a capture with check_input_liveness, the graph needs every tensor that they receive
 *   (ph_stream_declare_use), whatever their kernels' parameters show. */
typedef struct ph_custom ph_custom;
typedef struct ph_custom_operator {
    const char *name; /* static, or outlives the tape's history */
    void (*forward)(ph_custom *custom, ph_tape *tape, ph_tensor **out, ph_tensor *const *in);
    void (*backward)(ph_custom *custom, ph_tape *tape, ph_tensor **grad_in,
                     ph_tensor *const *grad_out, const bool *needed);
    void (*release)(void *user);
    void *user;
    uint64_t reserved[4];
} ph_custom_operator;
PH_API void ph_custom_call(ph_tape *tape, const ph_custom_operator *op, ph_tensor **out,
                           size_t out_count, ph_tensor *const *in, size_t in_count);
PH_API void *ph_custom_user(const ph_custom *custom);
/* once, in forward */
PH_API void ph_custom_save(ph_custom *custom, ph_tensor *const *tensors, size_t count);
/* in backward: borrowed */
PH_API ph_tensor *ph_custom_saved(ph_custom *custom, size_t index);

/* ---- checkpointing ---- Runs fn with only its inputs in the history, and runs it again in
 * backward, with the generator's state of the first run.
 * - fn must do the same in both runs. user must live until the history goes.
 * - Tensors that fn uses from elsewhere (parameters) get their gradients too.
 * - STATE: an input, a value that fn saved, or a leaf that requires a gradient and that an operator
 *   of fn read, was changed in place between the runs. Other tensors from elsewhere are the
 *   caller's to keep as they are.
 * - Hooks that fn adds are added in each run, with a handle each. Of hooks on tensors that fn made
 *   or received, only the first run's is called. A hook on a tensor from elsewhere is called once
 *   for each run: add it outside fn. */
typedef void (*ph_checkpoint_fn)(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *user);
PH_API void ph_checkpoint(ph_tape *tape, ph_checkpoint_fn fn, void *user, ph_tensor **out,
                          size_t out_count, ph_tensor *const *in, size_t in_count);

PH_END_DECLS
#endif
