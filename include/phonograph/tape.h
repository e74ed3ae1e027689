/* SPDX-License-Identifier: MIT */
/* phonograph/tape.h: the tape: where operators run, what they remember for the backward pass,
 * and the first error among them. */
#ifndef PHONOGRAPH_TAPE_H
#define PHONOGRAPH_TAPE_H
#include <phonograph/tensor.h>

PH_BEGIN_DECLS

typedef struct ph_generator ph_generator; /* random.h */

/* Mixed precision: see "autocast" below. */
typedef struct ph_autocast {
    ph_dtype dtype; /* PH_DTYPE_F16 or PH_DTYPE_BF16; 0: off */
    bool no_cache;  /* a weight is cast at each use */
} ph_autocast;

/* An operator takes a tape and gives a tensor that the tape owns, or NULL when the tape has
 * failed. The first failure sticks: later operators do nothing and give NULL, so that a whole
 * step can be written without a check and ph_tape_clear answers for all of it. A NULL where an
 * operand is required is itself a failure. The message has the operator's name and the dtypes
 * and shapes that it got, and the module that it was called in.
 *
 * In a capture of the tape's stream a failure has left work out, whether it came there or
 * before. Unless somebody has been told of it by the capture's end (by ph_tape_clear,
 * ph_tape_status, or another call that gave it back as its status), the end fails with it, also
 * where the tape is gone by then, and the graph is FAILED: end the body with `return
 * ph_tape_clear(tape)`.
 *
 * A tape is externally synchronised. Operators submit work to its stream and never wait for it;
 * they are legal in a capture of that stream, unless their comment says otherwise. */
typedef struct ph_tape_options {
    bool no_grad; /* nothing is remembered for a backward pass */
    /* of random operators; retained; NULL: the device's default one. WRONG_DEVICE: of another
     * device */
    ph_generator *generator;
    /* backward in a capture: STATE when a leaf that it accumulates into was first used on
     * another stream. By default the accumulation is recorded on the tape's stream, whatever
     * stream that was. */
    bool refuse_other_streams;
    /* Every call of a module opens a scope of annotation.h around it, whose name is the module's
     * in the network: "layers.3.attention", as in its state; of the outermost, and of one that
     * is not below the module that calls it, the kind. Names in scopes around it are replaced by
     * it; other keys stay. */
    bool mark_modules;
    ph_autocast autocast; /* from the beginning on */
    /* For debugging: so many handles of tensors of the device are kept after their last
     * reference went, and a call that gets one says what made it and who let go of it (STATE),
     * where it would touch memory that is gone: docs/reference/tensors.md. 0: as the variable
     * PH_QUARANTINE says, or none. */
    size_t quarantine;
    uint64_t reserved[3];
} ph_tape_options;

/* The stream must outlive the tape. Legal in a capture. A GPU's first one takes 2 MiB, for what
 * products of captures count in; they go with the last tape, tensor and module. Where they
 * cannot be had, the tape is made all the same. */
PH_CALL ph_tape_create(ph_tape **out, ph_stream *stream, const ph_tape_options *options);
/* Clears it; takes NULL. Not inside a hook, a module's forward, a custom operator (its release
 * included) or a checkpointed function of it: there the tape fails (STATE) and stays, to be
 * destroyed when they are done. */
PH_API void ph_tape_destroy(ph_tape *tape);
PH_API ph_stream *ph_tape_stream(const ph_tape *tape); /* borrowed */
PH_API ph_device *ph_tape_device(const ph_tape *tape); /* borrowed */

/* The first error, with its message in this thread's record; PH_OK when there is none. Changes
 * nothing. */
PH_CALL ph_tape_status(const ph_tape *tape);
/* Releases what the tape owns, drops its history, and returns the first error (with its
 * message), after which the tape is as new; only the gradient mode, the generator and autocast
 * stay. STATE, and nothing happens, inside a hook, a module's forward, a custom operator or a
 * checkpointed function of it. */
PH_CALL ph_tape_clear(ph_tape *tape);
/* Fails the tape, as an operator would; for modules and custom operators. The first failure
 * stays. status PH_OK does nothing. */
PH_API void ph_tape_fail(ph_tape *tape, ph_status status, const char *format, ...) PH_PRINTF(3, 4);
/* Fails it with the status of a call that has set this thread's record. PH_OK: nothing. */
PH_API void ph_tape_check(ph_tape *tape, ph_status status);

/* Whether operators remember what backward needs. Gives the mode before; put it back. */
PH_API bool ph_tape_set_grad_enabled(ph_tape *tape, bool enabled);
PH_API bool ph_tape_grad_enabled(const ph_tape *tape);
/* Another generator for the random operators that follow (retained; NULL: the device's default
 * one). */
PH_API void ph_tape_set_generator(ph_tape *tape, ph_generator *generator);

/* ---- autocast ---- mixed precision without casts in the code: while it is on, operators cast
 * their operands of f16, bf16 and f32 first (f64, integers and bool are left as they are), after
 * PyTorch's lists for CUDA:
 *
 *   to its dtype    matmul, linear, attention
 *   to f32          exp, log, rsqrt, square, pow_scalar, softmax, log_softmax, mse, sum, norm,
 *                   layer_norm, rms_norm, cross_entropy (logits)
 *   to one dtype    add, sub, mul, div, maximum, minimum, eq, ne, lt, le, gt, ge, concat, stack,
 *                   where (a, b), scatter and scatter_add (x, src): their own where they have
 *                   one in common, else f32 (tensors of rank 0 count as others do)
 *
 * All others take what they get. The gradient of a cast is a cast: parameters in f32 have
 * gradients in f32. Backward passes, and the hooks and custom operators' backwards in them, run
 * with it off; the second run of a checkpointed function, as the first was. A mode that a
 * module's forward, a custom operator, a checkpointed function or a hook leaves behind is over
 * when that call returns (of a hook before a module's forward: when the module's call does).
 *
 * A leaf in f32 that requires a gradient (a weight, usually) is cast once for all its uses,
 * unless no_cache: the cast is kept until the tape is cleared, a backward pass begins or
 * autocast changes (off, too), with the memory that it is in, be its graph destroyed meanwhile.
 * It is made anew once the leaf was changed in place, where a gradient is wanted and the cast
 * was made in no-grad mode, and in each capture: a graph reads its weights at each replay. What
 * an optimizer or an operator has changed in a capture is cast at each use from then on, as
 * replays may change it at any time; what a kernel of the caller's changes, or a graph that was
 * aimed at it later (slots, node parameters), is not noticed: switch autocast off and on behind
 * it, or clear the tape. Gradients of uses that share a cast are summed in f32, as without it;
 * where a weight has other uses between them, the order of that sum may be another. In a
 * checkpointed function each use is cast.
 *
 * Gives the mode before; put it back. A dtype that it cannot have fails the tape (ARGUMENT), and
 * nothing changes. Legal in a capture. */
PH_API ph_autocast ph_tape_set_autocast(ph_tape *tape, ph_autocast autocast);
PH_API ph_autocast ph_tape_autocast(const ph_tape *tape);

/* ---- scopes ---- what was made since begin and is neither in keep, nor saved for backward, nor
 * retained, is released at end, so that peak memory is the peak and not the sum. Scopes nest.
 * Every module call is one. keep: tensors made in the scope; they go over to the scope around
 * it. NULL entries are skipped. begin gives a mark for end. */
PH_API size_t ph_tape_scope_begin(ph_tape *tape);
PH_API void ph_tape_scope_end(ph_tape *tape, size_t mark, ph_tensor *const *keep, size_t count);

/* What a tape holds now: for tests and for the curious. */
typedef struct ph_tape_info {
    size_t tensors; /* owned handles */
    size_t nodes;   /* remembered operators */
    size_t saved;   /* tensors that those keep */
    size_t depth;   /* open scopes */
    uint64_t reserved[4];
} ph_tape_info;
PH_CALL ph_tape_get_info(ph_tape_info *out, const ph_tape *tape);

/* ---- backward ---- From a scalar (or an empty tensor) with gradient 1, or from any outputs
 * with their gradients: accumulates into the grad of every leaf that requires one. Saved values
 * are released as it goes; a second pass through them is an error (STATE) unless retain_graph. A
 * saved value that was changed in place since is an error (STATE), naming the operator.
 * Gradients are sums: a leaf that has one gets more. A leaf's first gradient may be the very
 * tensor that backward made. */
PH_API void ph_backward(ph_tape *tape, ph_tensor *loss);
typedef struct ph_backward_options {
    bool retain_graph; /* saved values stay: another backward may follow */
    uint64_t reserved[4];
} ph_backward_options;
/* grads: one each, of its output's shape and dtype; NULL (or an entry NULL): 1, for scalars
 * alone. */
PH_API void ph_backward_from(ph_tape *tape, ph_tensor *const *outputs, ph_tensor *const *grads,
                             size_t count, const ph_backward_options *options);
/* Gradients of outputs for inputs, which need not be leaves; nothing is accumulated. out:
 * input_count tensors of the tape. An input that the outputs do not depend on: ARGUMENT, or,
 * with allow_unused, NULL. */
typedef struct ph_grad_options {
    bool retain_graph, allow_unused;
    uint64_t reserved[4];
} ph_grad_options;
PH_API void ph_grad(ph_tape *tape, ph_tensor **out, ph_tensor *const *inputs, size_t input_count,
                    ph_tensor *const *outputs, ph_tensor *const *grads, size_t output_count,
                    const ph_grad_options *options);

/* Called in backward with the gradient of x once it is complete, before it goes on: gives the
 * gradient to use instead, or the one it got. For leaves: before accumulation, and for those
 * that ph_grad is asked for. fn runs with the tape in no-grad mode. Removed with the handle;
 * with x, where x is a leaf; with the history, where an operator made x. x must require a
 * gradient (STATE). */
typedef ph_tensor *(*ph_tensor_hook_fn)(ph_tape *tape, ph_tensor *grad, void *user);
typedef struct ph_tensor_hook ph_tensor_hook;
PH_CALL ph_tensor_hook_add(ph_tensor_hook **out, ph_tensor *x, ph_tensor_hook_fn fn, void *user);
PH_API void ph_tensor_hook_remove(ph_tensor_hook *hook); /* takes NULL; also after x is gone */

/* The same tensor without history; shares memory. */
PH_API ph_tensor *ph_detach(ph_tape *tape, ph_tensor *x);

/* ---- custom operators ---- forward: makes out[0..out_count) from in, in no-grad mode; what
 * backward needs it saves with ph_custom_save (any tensors, in, out or others). backward: from
 * grad_out (NULL entries: that output took no part) makes grad_in (NULL entries stay "no
 * gradient"; only those with needed[i] are read). release: when the history goes; may be NULL.
 * user must live until then: release is called exactly once for each ph_custom_call, also for
 * one that failed, or that nothing remembers. In a capture with check_input_liveness every
 * tensor that they get is needed by the graph (ph_stream_declare_use), whatever their kernels'
 * parameters show. */
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

/* ---- checkpointing ---- runs fn without remembering anything but its inputs, and runs it again
 * in backward, with the generator's state as it was then. fn must do the same both times, and
 * user must live until the history goes; tensors that fn takes from elsewhere (parameters) get
 * their gradients too. An input, or a value that fn saved, that was changed in place between the
 * two runs is an error (STATE). Hooks that fn adds are added at each run, with a handle each: of
 * those on a tensor that it made, or was given, the first run's alone is called; one on a tensor
 * from elsewhere (a parameter) is called once for each run, so such hooks are better added
 * outside. */
typedef void (*ph_checkpoint_fn)(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *user);
PH_API void ph_checkpoint(ph_tape *tape, ph_checkpoint_fn fn, void *user, ph_tensor **out,
                          size_t out_count, ph_tensor *const *in, size_t in_count);

PH_END_DECLS
#endif
