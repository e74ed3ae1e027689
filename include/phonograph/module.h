/* SPDX-License-Identifier: MIT */
/* phonograph/module.h: modules: a forward function with named parameters, buffers and children. The
 * usual layers. */
#ifndef PHONOGRAPH_MODULE_H
#define PHONOGRAPH_MODULE_H
#include <phonograph/operators.h>
#include <phonograph/random.h>

PH_BEGIN_DECLS

typedef struct ph_module ph_module;
typedef struct ph_module_copier ph_module_copier; /* module_copy.h */

/* A user's own module is a struct and a function. forward gets out[0..out_count) as NULL; the
 * counts are those of the description. It runs inside a scope of the tape, which then releases all
 * tensors that are neither in out nor saved for backward. */
typedef void (*ph_forward_fn)(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self);
/* tensor points to the member of self that has the tensor. The member must live as long as the
 * module.
 * - The module retains the tensor that is there at creation. NULL at creation: there is no such
 *   parameter.
 * - To change a parameter, copy into its tensor. If the member has another tensor, or none, these
 *   calls are refused (STATE): creation of an optimizer, creation and replay of a graphed callable,
 *   save and load.
 * - A buffer that was NULL at creation may be made later, for example by the first forward. It
 *   stays unknown to the module. A graphed callable is not replayed once that buffer is another
 *   than the captured one. */
typedef struct ph_parameter {
    const char *name;
    ph_tensor **tensor;
} ph_parameter;
typedef struct ph_child {
    const char *name;
    ph_module *module;
} ph_child;
typedef struct ph_module_desc {
    const char *name; /* the kind, "linear"; copied, as all names are */
    ph_forward_fn forward;
    void *self;
    void (*destroy)(void *self); /* called once the module is gone; may be NULL */
    size_t in_count;             /* 0 is 1; PH_MODULE_NO_INPUTS: no inputs, and in[] may be NULL */
    size_t out_count;            /* 0 is 1; a module has at least one output */
    const ph_parameter *parameters; /* floating leaves; creation sets them to require a gradient */
    size_t parameter_count;
    const ph_parameter *buffers; /* saved with the state, not trained */
    size_t buffer_count;
    const ph_child *children; /* retained */
    size_t child_count;
    /* for ph_module_copy: a module as this one, of self; NULL: it cannot be copied */
    ph_status (*copy)(ph_module **out, ph_module_copier *copier, void *self);
    uint64_t reserved[3];
} ph_module_desc;
#define PH_MODULE_NO_INPUTS SIZE_MAX

/* Names are not empty, have no dot, and are unique in the module (ARGUMENT). Threads: reference
 * counts are thread-safe, all else is externally synchronised. */
PH_CALL ph_module_create(ph_module **out, ph_device *device, const ph_module_desc *desc);
PH_API ph_module *ph_module_retain(ph_module *module);
PH_API void ph_module_release(ph_module *module); /* takes NULL */
PH_API const char *ph_module_name(const ph_module *module);
PH_API void *ph_module_self(const ph_module *module); /* of a graphed module: the original's */
PH_API ph_device *ph_module_device(const ph_module *module);

/* Calls the module: hooks, a scope of the tape, forward. ph_call is for one input and one output.
 * The tape fails when the counts are not the module's. A module without inputs is called with an
 * in_count of 0, and in NULL. */
PH_API ph_tensor *ph_call(ph_tape *tape, ph_module *module, ph_tensor *x);
PH_API void ph_call_n(ph_tape *tape, ph_module *module, ph_tensor **out, size_t out_count,
                      ph_tensor *const *in, size_t in_count);

/* Sets training or evaluation for the module and all modules below it. The initial mode is
 * training. */
PH_API void ph_module_train(ph_module *module, bool training);
PH_API bool ph_module_is_training(const ph_module *module);

/* ---- contents ---- Visits depth first, parameters before children, in the order of the
 * description, each tensor or module once. name is "block.0.weight", or "weight" for the root's
 * own; valid during the call. visit returns false to stop. */
typedef bool (*ph_tensor_visit_fn)(const char *name, ph_tensor *tensor, void *user);
typedef bool (*ph_module_visit_fn)(const char *name, ph_module *module, void *user);
PH_API void ph_module_parameters(const ph_module *module, ph_tensor_visit_fn visit, void *user);
PH_API void ph_module_buffers(const ph_module *module, ph_tensor_visit_fn visit, void *user);
/* the module itself comes first, with the name "" */
PH_API void ph_module_modules(ph_module *module, ph_module_visit_fn visit, void *user);
PH_API size_t ph_module_parameter_count(const ph_module *module); /* tensors, each once */
/* borrowed; also finds buffers; NULL: no such name */
PH_API ph_tensor *ph_module_parameter(const ph_module *module, const char *name);
/* borrowed; dotted names too */
PH_API ph_module *ph_module_child(const ph_module *module, const char *name);
/* Releases the gradients of all parameters. */
PH_API void ph_module_zero_grad(ph_module *module);

/* ---- hooks ---- Hooks run in the order in which they were added.
 * - forward_pre: before forward; may change in[].
 * - forward: after forward; may change out[].
 * - backward: once the gradients of the outputs are complete; may read them. */
typedef enum ph_module_hook_point {
    PH_MODULE_HOOK_FORWARD_PRE = 1,
    PH_MODULE_HOOK_FORWARD = 2,
    PH_MODULE_HOOK_BACKWARD = 3
} ph_module_hook_point;
typedef void (*ph_module_hook_fn)(ph_tape *tape, ph_module *module, ph_tensor **tensors,
                                  size_t count, void *user);
typedef struct ph_module_hook ph_module_hook;
PH_CALL ph_module_hook_add(ph_module_hook **out, ph_module *module, ph_module_hook_point point,
                           ph_module_hook_fn fn, void *user);
/* Takes NULL. Legal after the module is gone. */
PH_API void ph_module_hook_remove(ph_module_hook *hook);
PH_API bool ph_module_has_hooks(const ph_module *module); /* of the module, or of one below it */

/* ---- layers ---- The dtype is f32. Initial values are distributed as in PyTorch, from the
 * device's default generator, on the device's default stream. create waits for that stream, which
 * only relaxed captures allow (else CAPTURE, 900). options NULL: defaults. */
typedef struct ph_layer_options {
    ph_dtype dtype; /* 0: f32 */
    bool no_bias;
    double eps;              /* norms; 0: 1e-5; PH_ZERO: none */
    ph_generator *generator; /* for the initial values; NULL: the device's default generator */
    uint64_t reserved[4];
} ph_layer_options;
PH_CALL ph_linear_create(ph_module **out, ph_device *device, int64_t in, int64_t n);
PH_CALL ph_linear_create_with(ph_module **out, ph_device *device, int64_t in, int64_t n,
                              const ph_layer_options *options);
PH_CALL ph_embedding_create(ph_module **out, ph_device *device, int64_t count, int64_t width,
                            const ph_layer_options *options);
PH_CALL ph_layer_norm_create(ph_module **out, ph_device *device, int64_t width,
                             const ph_layer_options *options);
PH_CALL ph_rms_norm_create(ph_module **out, ph_device *device, int64_t width,
                           const ph_layer_options *options);
PH_CALL ph_dropout_create(ph_module **out, ph_device *device, double p);
/* Any operator of one operand. */
typedef ph_tensor *(*ph_activation_fn)(ph_tape *tape, ph_tensor *x);
PH_CALL ph_activation_create(ph_module **out, ph_device *device, const char *name,
                             ph_activation_fn fn);
/* Children "0", "1", ... are retained. ARGUMENT: `out` is one of their places. */
PH_CALL ph_sequential_create(ph_module **out, ph_module *const *children, size_t count);
/* x + attention(norm(x)), then x + mlp(norm(x)), for x [batch, time, width], as in GPT-2: causal
 * self-attention, gelu_tanh, and a width of 4 * width in the mlp. */
typedef struct ph_block_options {
    double dropout;
    bool not_causal, no_bias;
    ph_generator *generator;
    uint64_t reserved[4];
} ph_block_options;
PH_CALL ph_transformer_block_create(ph_module **out, ph_device *device, int64_t width,
                                    int64_t heads, const ph_block_options *options);

PH_END_DECLS
#endif
