/* SPDX-License-Identifier: MIT */
/* tests/mpi/training_net.h: a small network of several ranks, and what its ranks compare. */
#ifndef PH_TESTS_MPI_TRAINING_NET_H
#define PH_TESTS_MPI_TRAINING_NET_H
#include "support/ranks.h"
#include "support/test.h"
#include <math.h>
#include <phonograph/nn.h>
#include <string.h>

enum {
    IN = 6,
    HIDDEN = 16,
    OUT = 3,
    BATCH = 8, /* rows, over all ranks */
    STEPS = 12,
    MOST = 4096 /* values of all parameters */
};
static t_team team;
static ph_tape *tape;

static inline int open_team(void **state __attribute__((unused)))
{
    t_team_open(&team, 20000);
    assert_ok(ph_tape_create(&tape, team.stream, NULL));
    return 0;
}

static inline int close_team(void **state __attribute__((unused)))
{
    ph_tape_destroy(tape);
    t_team_close(&team);
    return 0;
}

/* Of another seed on each rank. */
static inline ph_module *new_net(uint64_t seed)
{
    ph_generator *generator;
    ph_module *layers[3], *net;
    assert_ok(ph_generator_create(&generator, team.device, seed));
    const ph_layer_options options = {.generator = generator};
    assert_ok(ph_linear_create_with(&layers[0], team.device, IN, HIDDEN, &options));
    assert_ok(ph_activation_create(&layers[1], team.device, "relu", ph_relu));
    assert_ok(ph_linear_create_with(&layers[2], team.device, HIDDEN, OUT, &options));
    assert_ok(ph_sequential_create(&net, layers, 3));
    for (size_t i = 0; i < 3; i++)
        ph_module_release(layers[i]);
    ph_generator_release(generator);
    return net;
}

/* ---- values ---- */
typedef struct values {
    float at[MOST];
    size_t count;
    bool gradients;
} values;

static inline bool read_one(const char *name, ph_tensor *parameter, void *user)
{
    values *v = user;
    (void)name;
    ph_tensor *x = v->gradients ? ph_tensor_grad(parameter) : parameter;
    assert_non_null(x);
    assert_ok(ph_tensor_read(tape, x, v->at + v->count, ph_tensor_bytes(x)));
    v->count += (size_t)ph_tensor_count(x);
    return true;
}

static inline void read_values(values *v, ph_module *net, bool gradients)
{
    *v = (values){.gradients = gradients};
    ph_module_parameters(net, read_one, v);
}

/* On every rank. */
static inline void expect_same_on_all(const values *v)
{
    static values all[4];
    size_t bytes = sizeof *v;
    unsigned char *memory;
    assert_ok(ph_malloc((void **)&memory, team.size, bytes, team.stream));
    assert_ok(ph_memcpy(memory + team.rank * bytes, v, bytes, team.stream));
    assert_ok(ph_all_gather(team.comm, memory, memory + team.rank * bytes, bytes, PH_DTYPE_U8,
                            team.stream));
    t_read(all, memory, team.size * bytes, team.stream);
    for (unsigned rank = 0; rank < team.size; rank++)
        assert_memory_equal(&all[rank], v, bytes);
    ph_free(memory, team.stream);
}

static inline void expect_near(const values *a, const values *b, float most)
{
    assert_int_equal(a->count, b->count);
    for (size_t i = 0; i < a->count; i++)
        assert_true(fabsf(a->at[i] - b->at[i]) <= most);
}

#endif
