/* SPDX-License-Identifier: MIT */
/* tests/support/graphed_nets.h: networks in equal copies, graphing one of them, and holding what
 * they give against each other to the bit. */
#ifndef PH_TESTS_GRAPHED_NETS_H
#define PH_TESTS_GRAPHED_NETS_H
#include "base/rng.h"
#include "support/nets.h"
#include <phonograph/graphed.h>

/* ---- tensors ---- f32, uniform in [-1, 1), the same for the same seed. random: the tape's.
 * sample: the caller's. */
ph_tensor *gn_random(const t_scene *s, ph_shape shape, uint64_t seed);
ph_tensor *gn_sample(const t_scene *s, ph_shape shape, bool requires_grad);

/* ---- networks ---- two of one kind and seed are equal. All take one tensor of gn_shape and
 * give one. */
typedef enum gn_kind {
    GN_MLP,     /* linear, relu, linear */
    GN_NORM,    /* linear, layer_norm, gelu, linear */
    GN_BLOCK,   /* a transformer block, with dropout */
    GN_DROPOUT, /* linear, dropout, linear, dropout */
    GN_KINDS
} gn_kind;
ph_module *gn_net(const t_scene *s, gn_kind kind, uint64_t seed);
ph_shape gn_shape(gn_kind kind);
const char *gn_name(gn_kind kind);
/* A function without parameters. */
ph_module *gn_function(const t_scene *s, const char *name, ph_forward_fn forward, void *self,
                       size_t in_count, size_t out_count);

/* ---- graphing ---- of one module; the caller keeps both. */
ph_module *gn_graph(ph_module *module, ph_tensor *const *in, size_t count,
                    const ph_graphed_options *options);
ph_module *gn_graph_one(ph_module *module, ph_tensor *x, const ph_graphed_options *options);
ph_graphed_info gn_info(const ph_module *graphed);
/* Of input (or gradient of an output) index. */
ph_graphed_input gn_input(const ph_module *graphed, size_t index, bool grad_outputs);

/* ---- comparing ---- what: for the message. */
void gn_expect_same(const t_scene *s, const ph_tensor *got, const ph_tensor *want,
                    const char *what);
/* Parameters and, where there are some, their gradients. */
void gn_expect_same_parameters(const t_scene *s, const ph_module *got, const ph_module *want,
                               const char *what);

/* A step of SGD on mean squared distance to what the seed gives, from an input that it gives
 * too: in a new tensor. */
void gn_train_step(const t_scene *s, ph_module *module, ph_optimizer *optimizer, ph_shape shape,
                   uint64_t seed);
ph_optimizer *gn_sgd(ph_module *module);

/* ---- custom modules whose operators hide something ---- y = 2 x, by a kernel of the tests that
 * gets half the address of x. Any number of elements; no gradient. Made once for a device. */
typedef struct gn_hidden {
    ph_kernel *kernel;
} gn_hidden;
void gn_hidden_open(gn_hidden *hidden, ph_device *device);
void gn_hidden_close(gn_hidden *hidden);
void gn_hidden_forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *hidden);
#endif
