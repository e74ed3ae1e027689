/* SPDX-License-Identifier: MIT */
/* phonograph/module.h: modules: a forward function with named parameters, buffers and children;
 * the usual layers. */
#ifndef PHONOGRAPH_MODULE_H
#define PHONOGRAPH_MODULE_H
#include <phonograph/operators.h>
#include <phonograph/random.h>

PH_BEGIN_DECLS

typedef struct ph_module ph_module;

/* A user's own module is a struct and a function. forward: out[0..out_count) is NULL on entry;
 * the counts are those of the description. Called inside a scope of the tape: what is not in out
 * and not saved for backward is released after it. */
typedef void (*ph_forward_fn)(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self);
/* tensor: where self keeps it, which must be there as long as the module: the tensor is retained
 * by the module (it may be NULL at creation: then there is no such parameter). To change one,
 * copy into it: the module has for good the tensor that was there at creation. Where another is
 * there, or none, optimizers are not made, graphed callables neither made nor replayed, and
 * files neither read nor written (STATE). A buffer that there was none of may be made later, by
 * the first forward, say: it stays unknown to the module; a graphed callable is not replayed
 * once it is another than it captured. */
typedef struct ph_parameter {
    const char *name;
    ph_tensor **tensor;
} ph_parameter;
typedef struct ph_child {
    const char *name;
    ph_module *module;
} ph_child;
typedef struct ph_module_desc {
    const char *name; /* the kind: "linear"; copied, as are all names */
    ph_forward_fn forward;
    void *self;
    void (*destroy)(void *self); /* may be NULL: called once the module is gone */
    size_t in_count;  /* 0 is 1; PH_MODULE_NO_INPUTS: it takes none, and in[] may be NULL */
    size_t out_count; /* 0 is 1; there is at least one */
    const ph_parameter *parameters; /* floating leaves; set to require a gradient */
    size_t parameter_count;
    const ph_parameter *buffers; /* saved with the state, not trained */
    size_t buffer_count;
    const ph_child *children; /* retained */
    size_t child_count;
    uint64_t reserved[4];
} ph_module_desc;
#define PH_MODULE_NO_INPUTS SIZE_MAX

/* Names: not empty, without a dot, unique in the module (ARGUMENT). Reference counts are
 * thread-safe, the rest is externally synchronised. */
PH_CALL ph_module_create(ph_module **out, ph_device *device, const ph_module_desc *desc);
PH_API ph_module *ph_module_retain(ph_module *module);
PH_API void ph_module_release(ph_module *module); /* takes NULL */
PH_API const char *ph_module_name(const ph_module *module);
PH_API void *ph_module_self(const ph_module *module); /* of a graphed one: the original's */
PH_API ph_device *ph_module_device(const ph_module *module);

/* Calls it: hooks, a scope, forward. call: of one input and one output. The tape fails when the
 * counts are not the module's. call_n with an in_count of 0, and in NULL, is for modules without
 * inputs. */
PH_API ph_tensor *ph_call(ph_tape *tape, ph_module *module, ph_tensor *x);
PH_API void ph_call_n(ph_tape *tape, ph_module *module, ph_tensor **out, size_t out_count,
                      ph_tensor *const *in, size_t in_count);

/* Training or evaluation, of it and all below it; training at first. */
PH_API void ph_module_train(ph_module *module, bool training);
PH_API bool ph_module_is_training(const ph_module *module);

/* ---- what is in it ---- depth first, parameters before children, in the order of the
 * description, each tensor or module once. name: "block.0.weight", the root's own ones "weight";
 * valid during the call. visit gives false to stop. */
typedef bool (*ph_tensor_visit_fn)(const char *name, ph_tensor *tensor, void *user);
typedef bool (*ph_module_visit_fn)(const char *name, ph_module *module, void *user);
PH_API void ph_module_parameters(const ph_module *module, ph_tensor_visit_fn visit, void *user);
PH_API void ph_module_buffers(const ph_module *module, ph_tensor_visit_fn visit, void *user);
/* itself first, "" */
PH_API void ph_module_modules(ph_module *module, ph_module_visit_fn visit, void *user);
PH_API size_t ph_module_parameter_count(const ph_module *module); /* tensors, each once */
/* borrowed; a buffer too; NULL: none of that name */
PH_API ph_tensor *ph_module_parameter(const ph_module *module, const char *name);
/* borrowed; dotted names too */
PH_API ph_module *ph_module_child(const ph_module *module, const char *name);
/* Releases the gradients of all parameters. */
PH_API void ph_module_zero_grad(ph_module *module);

/* ---- hooks ---- in order of adding. forward_pre: before forward, may change in[]; forward:
 * after, may change out[]; backward: with the gradients of the outputs, once they are complete,
 * may look at them. */
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
/* takes NULL; also after the module is gone */
PH_API void ph_module_hook_remove(ph_module_hook *hook);
PH_API bool ph_module_has_hooks(const ph_module *module); /* of its own or below */

/* ---- state ---- parameters and buffers by name, as safetensors. load: every name, dtype and
 * shape must match (MISMATCH: the message lists what is missing, unexpected or different);
 * nothing is changed then, nor where the file cannot be read or memory is lacking: all of it is
 * read before the first tensor changes. Both wait for the device. strict false: what is missing
 * or unexpected is left alone. */
PH_CALL ph_module_save(ph_module *module, const char *path);
PH_CALL ph_module_load(ph_module *module, const char *path, bool strict);

/* ---- layers ---- f32, initialised as PyTorch does, from the device's default generator on the
 * device's default stream; create waits for it, which only relaxed captures allow (else CAPTURE,
 * 900). options NULL: defaults. */
typedef struct ph_layer_options {
    ph_dtype dtype; /* 0: f32 */
    bool no_bias;
    double eps;              /* norms; 0: 1e-5; PH_ZERO: none */
    ph_generator *generator; /* of the initial values; NULL: the device's default one */
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
/* Children "0", "1", ...: retained. */
PH_CALL ph_sequential_create(ph_module **out, ph_module *const *children, size_t count);
/* x + attention(norm(x)), then x + mlp(norm(x)), of x [batch, time, width], as in GPT-2: causal
 * self-attention, gelu_tanh, 4 * width in the mlp. */
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
