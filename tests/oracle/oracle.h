/* SPDX-License-Identifier: MIT */
/* oracle/oracle.h: what a case of the oracle is, and what runs and writes one. */
#ifndef ORACLE_H
#define ORACLE_H
#include "base/rng.h"
#include <phonograph/nn.h>

enum {
    ORACLE_INPUTS = 8
};

typedef ph_tensor *(*oracle_operator)(ph_tape *tape, ph_tensor *const *in);
typedef struct oracle_input {
    ph_shape shape;
    int64_t below;  /* not 0: i64 in [0, below) */
    bool unique;    /* of rank 3: each at most once along axis 1; below is no multiple of 7 */
    ph_dtype dtype; /* 0: the case's */
    double scale;   /* 0: 1 */
    double shift;
    /* multiples of a quarter, some of them a little more: many are equal, and many nearly */
    bool ties;
} oracle_input;
typedef struct oracle_case {
    const char *name;
    oracle_operator apply;
    oracle_input in[ORACLE_INPUTS]; /* up to the first of rank 0 */
    bool no_gradient;
    double weight; /* scale of what the output is weighed with; 0: 1 */
} oracle_case;

#define SHAPE(...)                                                                                 \
    {                                                                                              \
        sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t),                                        \
        {                                                                                          \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }
#define S(...)                                                                                     \
    {                                                                                              \
        .shape = SHAPE(__VA_ARGS__)                                                                \
    }
#define INDEX(n, ...)                                                                              \
    {                                                                                              \
        .shape = SHAPE(__VA_ARGS__), .below = (n)                                                  \
    }

/* do_NAME, of x, of a and b, of a, b and c. */
#define UNARY(name, expression)                                                                    \
    static ph_tensor *do_##name(ph_tape *t, ph_tensor *const *in)                                  \
    {                                                                                              \
        ph_tensor *x = in[0];                                                                      \
        return expression;                                                                         \
    }
#define BINARY(name, expression)                                                                   \
    static ph_tensor *do_##name(ph_tape *t, ph_tensor *const *in)                                  \
    {                                                                                              \
        ph_tensor *a = in[0], *b = in[1];                                                          \
        return expression;                                                                         \
    }
#define TERNARY(name, expression)                                                                  \
    static ph_tensor *do_##name(ph_tape *t, ph_tensor *const *in)                                  \
    {                                                                                              \
        ph_tensor *a = in[0], *b = in[1], *c = in[2];                                              \
        return expression;                                                                         \
    }

/* Writes NAME:DTYPE.in0.., .out0, .weight0 and .grad0.. . autocast: what the operator runs
 * under. */
void oracle_run(ph_tape *tape, const oracle_case *c, ph_dtype dtype, ph_autocast autocast);
/* That of a case of oracle.c. */
oracle_operator oracle_find(const char *name);
/* All cases of oracle_more.c, oracle_autocast.c, oracle_optimizers.c. Give how many. */
size_t oracle_run_more(ph_tape *tape, ph_dtype dtype);
size_t oracle_run_autocast(ph_tape *tape);
size_t oracle_run_optimizers(ph_tape *tape);
/* Ends the program where status is a failure. */
void oracle_check(ph_status status, const char *what);
/* A tensor of the kind that input describes. */
ph_tensor *oracle_values(ph_tape *tape, ph__rng *rng, ph_dtype dtype, const oracle_input *input);
/* Writes x as NAME:DTYPE.KINDindex once all has run. Gives x. */
ph_tensor *oracle_keep(const char *name, ph_dtype dtype, const char *kind, size_t index,
                       ph_tensor *x);
#endif
