/* SPDX-License-Identifier: MIT */
/* tensor/random/random_kernels.c: the kernels that fill tensors with random numbers: their forms
 * for the host, and their definitions. */
#include "tensor/random/random_kernels.h"
#include "base/half.h"
#include "tensor/backend/kernels.h"
#include "tensor/backend/texts.h"

#define SAME(x)      (x)
#define COUNT(array) (sizeof(array) / sizeof *(array))

#define DRAW_PARAMS(type)                                                                          \
    PH_PARAM(type, seed_cell, PH_PARAM_ADDRESS), PH_PARAM(type, offset_cell, PH_PARAM_ADDRESS)
static const ph_param fill_params[] = {PH_PARAM(ph__fill_args, out, PH_PARAM_ADDRESS),
                                       DRAW_PARAMS(ph__fill_args)};
static const ph_param events_params[] = {PH_PARAM(ph__events_args, out, PH_PARAM_ADDRESS),
                                         DRAW_PARAMS(ph__events_args)};
static const ph_param bernoulli_params[] = {PH_PARAM(ph__bernoulli_args, out, PH_PARAM_ADDRESS),
                                            PH_PARAM(ph__bernoulli_args, p, PH_PARAM_ADDRESS),
                                            DRAW_PARAMS(ph__bernoulli_args)};
static const ph_param normal_of_params[] = {
    PH_PARAM(ph__normal_of_args, out, PH_PARAM_ADDRESS),
    PH_PARAM(ph__normal_of_args, mean, PH_PARAM_ADDRESS),
    PH_PARAM(ph__normal_of_args, deviation, PH_PARAM_ADDRESS), DRAW_PARAMS(ph__normal_of_args)};
static const ph_param poisson_params[] = {PH_PARAM(ph__poisson_args, out, PH_PARAM_ADDRESS),
                                          PH_PARAM(ph__poisson_args, rates, PH_PARAM_ADDRESS),
                                          DRAW_PARAMS(ph__poisson_args)};
static const ph_param integers_params[] = {PH_PARAM(ph__integers_args, out, PH_PARAM_ADDRESS),
                                           DRAW_PARAMS(ph__integers_args)};

#define DEFINE(NAME, DEFINES, ARGS, PARAMS)                                                        \
    static const char *const text_##NAME[] = {"#define KERNEL ph_random_" #NAME "\n" DEFINES,      \
                                              ph__text_draws, ph__text_random, NULL};              \
    static ph__kernel_def def_##NAME = {.name = "ph_random_" #NAME,                                \
                                        .cuda = text_##NAME,                                       \
                                        .host = NAME,                                              \
                                        .args_size = sizeof(ARGS),                                 \
                                        .params = PARAMS,                                          \
                                        .param_count = COUNT(PARAMS),                              \
                                        .cuda_options = "--fmad=false"};

/* ---- distributions of floats ---- a pair of elements at a time; what is drawn for elements
 * behind the last goes nowhere. DRAW: which function of cuda/draws.cu; words: how many of 32
 * bits for an element. */
#define FILL(NAME, DRAW, T, STORE, F, W, put, words)                                               \
    PH__HOST_KERNEL(NAME)                                                                          \
    {                                                                                              \
        const ph__fill_args *p = args;                                                             \
        const u64 seed = PH__DRAW_SEED(p), from = PH__DRAW_BLOCK(p);                               \
        const F a = (F)p->a, b = (F)p->b;                                                          \
        W word[PH__DRAW_ELEMENTS];                                                                 \
        F value[PH__DRAW_ELEMENTS];                                                                \
        u64 first;                                                                                 \
        for (u64 block = range->begin; block < range->end; block++) {                              \
            size_t n = ph__draw_part(&first, block, p->count), groups = (n + 3) / 4;               \
            STORE *out = (STORE *)p->out + first;                                                  \
            ph__words_##W(word, seed, from, first / 4, groups);                                    \
            for (size_t i = 0; i < 2 * groups; i++)                                                \
                ph_##DRAW(&value[2 * i], &value[2 * i + 1], word[2 * i], word[2 * i + 1], a, b);   \
            for (size_t i = 0; i < n; i++)                                                         \
                out[i] = put(value[i]);                                                            \
        }                                                                                          \
    }                                                                                              \
    DEFINE(NAME,                                                                                   \
           "#define FILL ph_" #DRAW "\n#define T " #T "\n#define F " #F "\n#define WORDS " #words  \
           "\n",                                                                                   \
           ph__fill_args, fill_params)

#define FILLS(DISTRIBUTION)                                                                        \
    FILL(DISTRIBUTION##_f32, DISTRIBUTION##_f32, f32, f32, f32, u32, SAME, 1)                      \
    FILL(DISTRIBUTION##_f64, DISTRIBUTION##_f64, f64, f64, f64, u64, SAME, 2)                      \
    FILL(DISTRIBUTION##_f16, DISTRIBUTION##_f32, f16, u16, f32, u32, ph__f16_put, 1)               \
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
#define EVENTS(NAME, T)                                                                            \
    PH__HOST_KERNEL(NAME)                                                                          \
    {                                                                                              \
        const ph__events_args *p = args;                                                           \
        const u64 seed = PH__DRAW_SEED(p), from = PH__DRAW_BLOCK(p);                               \
        u32 word[PH__DRAW_ELEMENTS];                                                               \
        u64 first;                                                                                 \
        for (u64 block = range->begin; block < range->end; block++) {                              \
            size_t n = ph__draw_part(&first, block, p->count);                                     \
            T *out = (T *)p->out + first;                                                          \
            ph__words_u32(word, seed, from, first / 4, (n + 3) / 4);                               \
            for (size_t i = 0; i < n; i++)                                                         \
                out[i] = word[i] < p->threshold ? (T)p->one : (T)0;                                \
        }                                                                                          \
    }                                                                                              \
    DEFINE(NAME, "#define EVENTS\n#define T " #T "\n#define WORDS 1\n", ph__events_args,           \
           events_params)
EVENTS(events_u8, u8)
EVENTS(events_u16, u16)
EVENTS(events_u32, u32)
EVENTS(events_u64, u64)

/* ---- events of a probability each ---- OUT: an unsigned integer of the size of what is
 * written. */
#define BERNOULLI(NAME, T, STORE, F, W, get, words, OUT)                                           \
    PH__HOST_KERNEL(NAME)                                                                          \
    {                                                                                              \
        const ph__bernoulli_args *p = args;                                                        \
        const u64 seed = PH__DRAW_SEED(p), from = PH__DRAW_BLOCK(p);                               \
        W word[PH__DRAW_ELEMENTS];                                                                 \
        u64 first;                                                                                 \
        for (u64 block = range->begin; block < range->end; block++) {                              \
            size_t n = ph__draw_part(&first, block, p->count);                                     \
            OUT *out = (OUT *)p->out + first;                                                      \
            const STORE *in = (const STORE *)p->p + first;                                         \
            ph__words_##W(word, seed, from, first / 4, (n + 3) / 4);                               \
            for (size_t i = 0; i < n; i++)                                                         \
                out[i] = ph_event_##F(word[i], get(in[i])) ? (OUT)p->one : (OUT)0;                 \
        }                                                                                          \
    }                                                                                              \
    DEFINE(NAME,                                                                                   \
           "#define BERNOULLI ph_event_" #F "\n#define T " #T "\n#define OUT " #OUT                \
           "\n#define WORDS " #words "\n",                                                         \
           ph__bernoulli_args, bernoulli_params)
#define BERNOULLIS(T, STORE, F, W, get, words)                                                     \
    BERNOULLI(bernoulli_##T##_u8, T, STORE, F, W, get, words, u8)                                  \
    BERNOULLI(bernoulli_##T##_u16, T, STORE, F, W, get, words, u16)                                \
    BERNOULLI(bernoulli_##T##_u32, T, STORE, F, W, get, words, u32)                                \
    BERNOULLI(bernoulli_##T##_u64, T, STORE, F, W, get, words, u64)
BERNOULLIS(f32, f32, f32, u32, SAME, 1)
BERNOULLIS(f64, f64, f64, u64, SAME, 2)
BERNOULLIS(f16, u16, f32, u32, ph__f16_get, 1)
BERNOULLIS(bf16, u16, f32, u32, ph__bf16_get, 1)

/* ---- integers ---- */
#define INTEGERS(NAME, T, STORE, F, put)                                                           \
    PH__HOST_KERNEL(NAME)                                                                          \
    {                                                                                              \
        const ph__integers_args *p = args;                                                         \
        const u64 seed = PH__DRAW_SEED(p), from = PH__DRAW_BLOCK(p);                               \
        u64 word[PH__DRAW_ELEMENTS], first;                                                        \
        for (u64 block = range->begin; block < range->end; block++) {                              \
            size_t n = ph__draw_part(&first, block, p->count);                                     \
            STORE *out = (STORE *)p->out + first;                                                  \
            ph__words_u64(word, seed, from, first / 4, (n + 3) / 4);                               \
            for (size_t i = 0; i < n; i++)                                                         \
                out[i] = put((F)(i64)ph_below(word[i], p->low, p->range));                         \
        }                                                                                          \
    }                                                                                              \
    DEFINE(NAME, "#define INTEGERS\n#define T " #T "\n#define F " #F "\n#define WORDS 2\n",        \
           ph__integers_args, integers_params)
INTEGERS(integers_i32, i32, i32, i32, SAME)
INTEGERS(integers_i64, i64, i64, i64, SAME)
INTEGERS(integers_u8, u8, u8, u8, SAME)
INTEGERS(integers_f32, f32, f32, f32, SAME)
INTEGERS(integers_f64, f64, f64, f64, SAME)
INTEGERS(integers_f16, f16, u16, f32, ph__f16_put)
INTEGERS(integers_bf16, bf16, u16, f32, ph__bf16_put)

/* ---- normals of a mean and a deviation each ---- */
#define NORMAL_OF(NAME, T, STORE, F, W, get, put, words)                                           \
    PH__HOST_KERNEL(NAME)                                                                          \
    {                                                                                              \
        const ph__normal_of_args *p = args;                                                        \
        const u64 seed = PH__DRAW_SEED(p), from = PH__DRAW_BLOCK(p);                               \
        W word[PH__DRAW_ELEMENTS];                                                                 \
        F value[PH__DRAW_ELEMENTS];                                                                \
        u64 first;                                                                                 \
        for (u64 block = range->begin; block < range->end; block++) {                              \
            size_t n = ph__draw_part(&first, block, p->count), groups = (n + 3) / 4;               \
            STORE *out = (STORE *)p->out + first;                                                  \
            const STORE *mean = (const STORE *)p->mean + first;                                    \
            const STORE *deviation = p->deviation ? (const STORE *)p->deviation + first : NULL;    \
            ph__words_##W(word, seed, from, first / 4, groups);                                    \
            for (size_t i = 0; i < 2 * groups; i++)                                                \
                ph_normal_##F(&value[2 * i], &value[2 * i + 1], word[2 * i], word[2 * i + 1], 0,   \
                              1);                                                                  \
            for (size_t i = 0; i < n; i++)                                                         \
                out[i] =                                                                           \
                    put(get(mean[i]) + (deviation ? get(deviation[i]) * value[i] : value[i]));     \
        }                                                                                          \
    }                                                                                              \
    DEFINE(NAME,                                                                                   \
           "#define NORMAL_OF ph_normal_" #F "\n#define T " #T "\n#define F " #F                   \
           "\n#define WORDS " #words "\n",                                                         \
           ph__normal_of_args, normal_of_params)
NORMAL_OF(normal_of_f32, f32, f32, f32, u32, SAME, SAME, 1)
NORMAL_OF(normal_of_f64, f64, f64, f64, u64, SAME, SAME, 2)
NORMAL_OF(normal_of_f16, f16, u16, f32, u32, ph__f16_get, ph__f16_put, 1)
NORMAL_OF(normal_of_bf16, bf16, u16, f32, u32, ph__bf16_get, ph__bf16_put, 1)

/* ---- Poisson ---- four at a time, as their attempts share words. */
#define POISSON(NAME, T, STORE, F, get, put)                                                       \
    PH__HOST_KERNEL(NAME)                                                                          \
    {                                                                                              \
        const ph__poisson_args *p = args;                                                          \
        const u64 seed = PH__DRAW_SEED(p), from = PH__DRAW_BLOCK(p);                               \
        u64 first;                                                                                 \
        for (u64 block = range->begin; block < range->end; block++) {                              \
            size_t n = ph__draw_part(&first, block, p->count);                                     \
            STORE *out = (STORE *)p->out + first;                                                  \
            const STORE *rates = (const STORE *)p->rates + first;                                  \
            for (size_t at = 0; at < n; at += 4) {                                                 \
                const size_t some = n - at < 4 ? n - at : 4;                                       \
                f64 rate[4] = {0}, drawn[4];                                                       \
                for (size_t i = 0; i < some; i++)                                                  \
                    rate[i] = (f64)get(rates[at + i]);                                             \
                poisson_four(drawn, rate, seed, from, (first + at) / 4);                           \
                for (size_t i = 0; i < some; i++)                                                  \
                    out[at + i] = put((F)drawn[i]);                                                \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
    DEFINE(NAME, "#define POISSON\n#define T " #T "\n#define F " #F "\n", ph__poisson_args,        \
           poisson_params)

/* Not worth a copy in every loop. */
static void poisson_four(f64 *drawn, const f64 *rate, u64 seed, u64 block, u64 group)
{
    ph_poisson_four(drawn, rate, seed, block, group);
}

POISSON(poisson_f32, f32, f32, f32, SAME, SAME)
POISSON(poisson_f64, f64, f64, f64, SAME, SAME)
POISSON(poisson_f16, f16, u16, f32, ph__f16_get, ph__f16_put)
POISSON(poisson_bf16, bf16, u16, f32, ph__bf16_get, ph__bf16_put)

/* ---- tables ---- */
#define FLOATS(NAME) &def_##NAME##_f32, &def_##NAME##_f64, &def_##NAME##_f16, &def_##NAME##_bf16
#define SIZES(NAME)  &def_##NAME##_u8, &def_##NAME##_u16, &def_##NAME##_u32, &def_##NAME##_u64
PH__KERNEL_FAMILY(random) = {FLOATS(uniform),       FLOATS(normal),       FLOATS(exponential),
                             FLOATS(cauchy),        FLOATS(geometric),    FLOATS(log_normal),
                             FLOATS(normal_of),     FLOATS(poisson),      SIZES(events),
                             SIZES(bernoulli_f32),  SIZES(bernoulli_f64), SIZES(bernoulli_f16),
                             SIZES(bernoulli_bf16), FLOATS(integers),     &def_integers_i32,
                             &def_integers_i64,     &def_integers_u8,     NULL};

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

ph__kernel_def *ph__normal_of_kernel(ph_dtype dtype)
{
    static ph__kernel_def *const defs[4] = {FLOATS(normal_of)};
    return ph_dtype_is_floating(dtype) ? defs[dtype - 1] : NULL;
}

ph__kernel_def *ph__poisson_kernel(ph_dtype dtype)
{
    static ph__kernel_def *const defs[4] = {FLOATS(poisson)};
    return ph_dtype_is_floating(dtype) ? defs[dtype - 1] : NULL;
}

/* The place of a size among SIZES. */
static size_t size_of(ph_dtype dtype)
{
    size_t place = 0;
    while (place < 3 && (size_t)1 << place < ph_dtype_size(dtype))
        place++;
    return place;
}

ph__kernel_def *ph__events_kernel(ph_dtype dtype)
{
    static ph__kernel_def *const defs[4] = {SIZES(events)};
    return defs[size_of(dtype)];
}

ph__kernel_def *ph__bernoulli_kernel(ph_dtype p, ph_dtype out)
{
    static ph__kernel_def *const defs[4][4] = {{SIZES(bernoulli_f32)},
                                               {SIZES(bernoulli_f64)},
                                               {SIZES(bernoulli_f16)},
                                               {SIZES(bernoulli_bf16)}};
    return ph_dtype_is_floating(p) ? defs[p - 1][size_of(out)] : NULL;
}

ph__kernel_def *ph__integers_kernel(ph_dtype dtype)
{
    static ph__kernel_def *const defs[4] = {FLOATS(integers)};
    switch (dtype) {
    case PH_DTYPE_I32:
        return &def_integers_i32;
    case PH_DTYPE_I64:
        return &def_integers_i64;
    case PH_DTYPE_U8:
    case PH_DTYPE_BOOL:
        return &def_integers_u8;
    default:
        return ph_dtype_is_floating(dtype) ? defs[dtype - 1] : NULL;
    }
}
