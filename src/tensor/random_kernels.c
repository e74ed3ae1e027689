/* SPDX-License-Identifier: MIT */
/* tensor/random_kernels.c: the kernels that fill tensors with random numbers: their forms for the host, and their definitions. */
#include "tensor/random_kernels.h"

#define SAME(x)      (x)
#define COUNT(array) (sizeof(array) / sizeof *(array))

#define DRAW_PARAMS(type)                                                                                    \
    PH_PARAM(type, seed_cell, PH_PARAM_ADDRESS), PH_PARAM(type, offset_cell, PH_PARAM_ADDRESS)
static const ph_param fill_params[] = {PH_PARAM(ph__fill_args, out, PH_PARAM_ADDRESS),
                                       DRAW_PARAMS(ph__fill_args)};
static const ph_param events_params[] = {PH_PARAM(ph__events_args, out, PH_PARAM_ADDRESS),
                                         DRAW_PARAMS(ph__events_args)};
static const ph_param bernoulli_params[] = {PH_PARAM(ph__bernoulli_args, out, PH_PARAM_ADDRESS),
                                            PH_PARAM(ph__bernoulli_args, p, PH_PARAM_ADDRESS),
                                            DRAW_PARAMS(ph__bernoulli_args)};
static const ph_param integers_params[] = {PH_PARAM(ph__integers_args, out, PH_PARAM_ADDRESS),
                                           DRAW_PARAMS(ph__integers_args)};

#define DEFINE(NAME, DEFINES, ARGS, PARAMS)                                                                  \
    static const char *const text_##NAME[] = {"#define KERNEL ph_random_" #NAME "\n" DEFINES,                \
                                              ph__text_draws, ph__text_random, NULL};                        \
    static ph__kernel_def def_##NAME = {.name = "ph_random_" #NAME,                                          \
                                        .cuda = text_##NAME,                                                 \
                                        .host = NAME,                                                        \
                                        .args_size = sizeof(ARGS),                                           \
                                        .params = PARAMS,                                                    \
                                        .param_count = COUNT(PARAMS),                                        \
                                        .cuda_options = "--fmad=false"};

/* ---- distributions of floats ---- a pair of elements at a time; what is drawn for elements behind the last goes nowhere. DRAW: which function of
 * cuda/draws.cu; words: how many of 32 bits for an element. */
#define FILL(NAME, DRAW, T, STORE, F, W, put, words)                                                         \
    PH__HOST_KERNEL(NAME)                                                                                    \
    {                                                                                                        \
        const ph__fill_args *p = args;                                                                       \
        const u64 seed = PH__DRAW_SEED(p), from = PH__DRAW_BLOCK(p);                                         \
        const F a = (F)p->a, b = (F)p->b;                                                                    \
        W word[PH__DRAW_ELEMENTS];                                                                           \
        F value[PH__DRAW_ELEMENTS];                                                                          \
        u64 first;                                                                                           \
        for (u64 block = range->begin; block < range->end; block++) {                                        \
            size_t n = ph__draw_part(&first, block, p->count), groups = (n + 3) / 4;                         \
            STORE *out = (STORE *)p->out + first;                                                            \
            ph__words_##W(word, seed, from, first / 4, groups);                                              \
            for (size_t i = 0; i < 2 * groups; i++)                                                          \
                ph_##DRAW(&value[2 * i], &value[2 * i + 1], word[2 * i], word[2 * i + 1], a, b);             \
            for (size_t i = 0; i < n; i++)                                                                   \
                out[i] = put(value[i]);                                                                      \
        }                                                                                                    \
    }                                                                                                        \
    DEFINE(NAME,                                                                                             \
           "#define FILL ph_" #DRAW "\n#define T " #T "\n#define F " #F "\n#define WORDS " #words "\n",      \
           ph__fill_args, fill_params)

#define FILLS(DISTRIBUTION)                                                                                  \
    FILL(DISTRIBUTION##_f32, DISTRIBUTION##_f32, f32, f32, f32, u32, SAME, 1)                                \
    FILL(DISTRIBUTION##_f64, DISTRIBUTION##_f64, f64, f64, f64, u64, SAME, 2)                                \
    FILL(DISTRIBUTION##_f16, DISTRIBUTION##_f32, f16, u16, f32, u32, ph__f16_put, 1)                         \
    FILL(DISTRIBUTION##_bf16, DISTRIBUTION##_f32, bf16, u16, f32, u32, ph__bf16_put, 1)
FILL(uniform_f32, uniform_f32, f32, f32, f32, u32, SAME, 1)
FILL(uniform_f64, uniform_f64, f64, f64, f64, u64, SAME, 2)
FILL(uniform_f16, uniform_f16, f16, u16, f32, u32, ph__f16_put, 1)
FILL(uniform_bf16, uniform_bf16, bf16, u16, f32, u32, ph__bf16_put, 1)
FILLS(normal)
FILLS(exponential)
FILLS(cauchy)
FILLS(geometric)
FILLS(log_normal)

/* ---- events of one probability ---- by the size of an element. */
#define EVENTS(NAME, T)                                                                                      \
    PH__HOST_KERNEL(NAME)                                                                                    \
    {                                                                                                        \
        const ph__events_args *p = args;                                                                     \
        const u64 seed = PH__DRAW_SEED(p), from = PH__DRAW_BLOCK(p);                                         \
        u32 word[PH__DRAW_ELEMENTS];                                                                         \
        u64 first;                                                                                           \
        for (u64 block = range->begin; block < range->end; block++) {                                        \
            size_t n = ph__draw_part(&first, block, p->count);                                               \
            T *out = (T *)p->out + first;                                                                    \
            ph__words_u32(word, seed, from, first / 4, (n + 3) / 4);                                         \
            for (size_t i = 0; i < n; i++)                                                                   \
                out[i] = word[i] < p->threshold ? (T)p->one : (T)0;                                          \
        }                                                                                                    \
    }                                                                                                        \
    DEFINE(NAME, "#define EVENTS\n#define T " #T "\n#define WORDS 1\n", ph__events_args, events_params)
EVENTS(events_u8, u8)
EVENTS(events_u16, u16)
EVENTS(events_u32, u32)
EVENTS(events_u64, u64)

/* ---- events of a probability each ---- */
#define BERNOULLI(NAME, T, STORE, F, W, get, put, words)                                                     \
    PH__HOST_KERNEL(NAME)                                                                                    \
    {                                                                                                        \
        const ph__bernoulli_args *p = args;                                                                  \
        const u64 seed = PH__DRAW_SEED(p), from = PH__DRAW_BLOCK(p);                                         \
        const STORE one = put((F)1);                                                                         \
        W word[PH__DRAW_ELEMENTS];                                                                           \
        u64 first;                                                                                           \
        for (u64 block = range->begin; block < range->end; block++) {                                        \
            size_t n = ph__draw_part(&first, block, p->count);                                               \
            STORE *out = (STORE *)p->out + first;                                                            \
            const STORE *in = (const STORE *)p->p + first;                                                   \
            ph__words_##W(word, seed, from, first / 4, (n + 3) / 4);                                         \
            for (size_t i = 0; i < n; i++)                                                                   \
                out[i] = ph_event_##F(word[i], get(in[i])) ? one : (STORE)0;                                 \
        }                                                                                                    \
    }                                                                                                        \
    DEFINE(NAME,                                                                                             \
           "#define BERNOULLI ph_event_" #F "\n#define T " #T "\n#define F " #F "\n#define WORDS " #words    \
           "\n",                                                                                             \
           ph__bernoulli_args, bernoulli_params)
BERNOULLI(bernoulli_f32, f32, f32, f32, u32, SAME, SAME, 1)
BERNOULLI(bernoulli_f64, f64, f64, f64, u64, SAME, SAME, 2)
BERNOULLI(bernoulli_f16, f16, u16, f32, u32, ph__f16_get, ph__f16_put, 1)
BERNOULLI(bernoulli_bf16, bf16, u16, f32, u32, ph__bf16_get, ph__bf16_put, 1)

/* ---- integers ---- */
#define INTEGERS(NAME, T, STORE)                                                                             \
    PH__HOST_KERNEL(NAME)                                                                                    \
    {                                                                                                        \
        const ph__integers_args *p = args;                                                                   \
        const u64 seed = PH__DRAW_SEED(p), from = PH__DRAW_BLOCK(p);                                         \
        u64 word[PH__DRAW_ELEMENTS], first;                                                                  \
        for (u64 block = range->begin; block < range->end; block++) {                                        \
            size_t n = ph__draw_part(&first, block, p->count);                                               \
            STORE *out = (STORE *)p->out + first;                                                            \
            ph__words_u64(word, seed, from, first / 4, (n + 3) / 4);                                         \
            for (size_t i = 0; i < n; i++)                                                                   \
                out[i] = (STORE)ph_below(word[i], p->low, p->range);                                         \
        }                                                                                                    \
    }                                                                                                        \
    DEFINE(NAME, "#define INTEGERS\n#define T " #T "\n#define WORDS 2\n", ph__integers_args, integers_params)
INTEGERS(integers_i32, i32, u32)
INTEGERS(integers_i64, i64, u64)
INTEGERS(integers_u8, u8, u8)

/* ---- tables ---- */
#define FLOATS(NAME) &def_##NAME##_f32, &def_##NAME##_f64, &def_##NAME##_f16, &def_##NAME##_bf16
ph__kernel_def *const ph__random_kernels[] = {
    FLOATS(uniform),    FLOATS(normal),    FLOATS(exponential), FLOATS(cauchy),   FLOATS(geometric),
    FLOATS(log_normal), FLOATS(bernoulli), &def_events_u8,      &def_events_u16,  &def_events_u32,
    &def_events_u64,    &def_integers_i32, &def_integers_i64,   &def_integers_u8, NULL};

/* The dtypes of floats are numbered from 1 to 4, in the order of FLOATS. */
_Static_assert(PH_DTYPE_F32 == 1 && PH_DTYPE_F64 == 2 && PH_DTYPE_F16 == 3 && PH_DTYPE_BF16 == 4,
               "order of FLOATS");

ph__kernel_def *ph__fill_kernel(ph__distribution distribution, ph_dtype dtype)
{
    static ph__kernel_def *const defs[PH__DISTRIBUTIONS][4] = {
        [PH__UNIFORM] = {FLOATS(uniform)},         [PH__NORMAL] = {FLOATS(normal)},
        [PH__EXPONENTIAL] = {FLOATS(exponential)}, [PH__CAUCHY] = {FLOATS(cauchy)},
        [PH__GEOMETRIC] = {FLOATS(geometric)},     [PH__LOG_NORMAL] = {FLOATS(log_normal)}};
    return ph_dtype_is_floating(dtype) ? defs[distribution][dtype - 1] : NULL;
}

ph__kernel_def *ph__bernoulli_kernel(ph_dtype dtype)
{
    static ph__kernel_def *const defs[4] = {FLOATS(bernoulli)};
    return ph_dtype_is_floating(dtype) ? defs[dtype - 1] : NULL;
}

ph__kernel_def *ph__events_kernel(ph_dtype dtype)
{
    switch (ph_dtype_size(dtype)) {
    case 1:
        return &def_events_u8;
    case 2:
        return &def_events_u16;
    case 4:
        return &def_events_u32;
    default:
        return &def_events_u64;
    }
}

ph__kernel_def *ph__integers_kernel(ph_dtype dtype)
{
    switch (dtype) {
    case PH_DTYPE_I32:
        return &def_integers_i32;
    case PH_DTYPE_I64:
        return &def_integers_i64;
    case PH_DTYPE_U8:
        return &def_integers_u8;
    default:
        return NULL;
    }
}
