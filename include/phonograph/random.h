/* SPDX-License-Identifier: MIT */
/* phonograph/random.h: random numbers: Philox 4x32-10 generators, distributions, dropout, rrelu;
 * the same words on every device.
 *
 * Philox: "Parallel random numbers: as easy as 1, 2, 3" (Salmon et al., 2011). Of a draw of n
 * elements, element i belongs to group i / 4; its w-th word is word i % 4 of the block with the
 * seed as its key and (offset / 4 + w, i / 4) as its counter. So every element's words are the
 * same on every device, however the work is split. A draw moves the offset by 4 for each word
 * that an element takes, however many elements there are: f64 (of ph_bernoulli and
 * ph_tensor_bernoulli_of: probabilities of f64), randint, ph_tensor_random and randperm take two
 * words, poisson 128, all else one, as do ph_tensor_bernoulli and dropout of any dtype; a draw
 * of no elements takes none.
 *
 * In a capture: a draw takes seed and offset from two cells of the graph (cells.h), which every
 * replay sets together with its launch from the generator as it is then; the replay moves the
 * generator's offset by what the capture drew. So a replay gives the numbers that the same calls
 * would have given eagerly at that moment. Capturing itself does not move the generator. */
#ifndef PHONOGRAPH_RANDOM_H
#define PHONOGRAPH_RANDOM_H
#include <phonograph/tape.h>

PH_BEGIN_DECLS

/* ---- generators ---- any number a device. Retained by tapes, and their state by graphs. All
 * calls are thread-safe. The state is an object that generators can share. */
typedef struct ph_generator_state ph_generator_state;
PH_CALL ph_generator_create(ph_generator **out, ph_device *device, uint64_t seed);
/* The device's default one, seed 0 at first; the same for every call while anything of this
 * library lives on the device. Release it. */
PH_CALL ph_generator_default(ph_generator **out, ph_device *device);
PH_API ph_generator *ph_generator_retain(ph_generator *generator);
PH_API void ph_generator_release(ph_generator *generator);
/* A generator of the same device with a state of its own, equal to this one's now. */
PH_CALL ph_generator_clone(ph_generator **out, ph_generator *generator);

/* Seed, and offset 0. While a capture that is open has drawn from the state: only the seed that
 * it has (nothing happens then); STATE otherwise. */
PH_CALL ph_generator_seed(ph_generator *generator, uint64_t seed);
PH_API uint64_t ph_generator_get_seed(const ph_generator *generator);
/* In draws' units of words; multiples of 4 (ARGUMENT). Both: STATE while a capture that is open
 * has drawn from the state. */
PH_CALL ph_generator_set_offset(ph_generator *generator, uint64_t offset);
PH_CALL ph_generator_get_offset(uint64_t *out, const ph_generator *generator);
/* Seed and offset as 16 bytes, little-endian; set also takes 8 (the seed; offset 0). Same rules
 * as set_offset. */
PH_CALL ph_generator_get_state(void *bytes16, const ph_generator *generator);
PH_CALL ph_generator_set_state(ph_generator *generator, const void *bytes, size_t size);
/* The state object itself: retained for the caller; a generator that is given it shares it from
 * then on. Legal in a capture. */
PH_API ph_generator_state *ph_generator_share_state(ph_generator *generator);
PH_CALL ph_generator_use_state(ph_generator *generator, ph_generator_state *state);
PH_API void ph_generator_state_release(ph_generator_state *state); /* takes NULL */

/* ---- distributions ---- from the tape's generator; floats unless said otherwise; no gradient.
 * Uniforms are equal to the bit on all devices (f32: 24 bits, f64: 53, f16: 11, bf16: 8), and so
 * are randint, ph_tensor_random, randperm, poisson, bernoulli, dropout masks and rrelu, but for
 * the bits of NaNs; of the others the standard ones (mean and deviation are applied in the
 * dtype) are within 4 ulp (f32) of the exact function of their words, which
 * docs/reference/random.md gives. uniform: never high itself, where low < high. randint: each
 * number's probability is within 2^-64 of the others'. randperm: up to 1024 numbers by sorting
 * random keys; more by a network of 16 rounds, which gives each element without the others. All are
 * legal in a capture. Errors: ARGUMENT for dtypes, shapes and numbers that cannot be; what tensors
 * hold is not looked at. */
/* [0, 1) */
PH_API ph_tensor *ph_rand(ph_tape *tape, ph_dtype dtype, ph_shape shape);
/* [low, high) */
PH_API ph_tensor *ph_uniform(ph_tape *tape, ph_dtype dtype, ph_shape shape, double low,
                             double high);
/* by Box and Muller */
PH_API ph_tensor *ph_randn(ph_tape *tape, ph_dtype dtype, ph_shape shape);
PH_API ph_tensor *ph_normal(ph_tape *tape, ph_dtype dtype, ph_shape shape, double mean,
                            double deviation);
/* mean[i] + deviation[i] * a standard normal, of one dtype; their shapes broadcast. deviation
 * NULL: 1; a negative one mirrors, NaN gives NaN. */
PH_API ph_tensor *ph_normal_of(ph_tape *tape, ph_tensor *mean, ph_tensor *deviation);
PH_API ph_tensor *ph_exponential(ph_tape *tape, ph_dtype dtype, ph_shape shape, double rate);
/* Of rate rates[i]: whole numbers in the rates' dtype, rounded to it where it has not all of
 * them. 0 gives 0, negative and NaN NaN, infinity itself. */
PH_API ph_tensor *ph_poisson(ph_tape *tape, ph_tensor *rates);
/* 1 with probability p[i], else 0; p's dtype */
PH_API ph_tensor *ph_bernoulli(ph_tape *tape, ph_tensor *p);
/* [low, high), i32, i64 or u8 */
PH_API ph_tensor *ph_randint(ph_tape *tape, ph_dtype dtype, ph_shape shape, int64_t low,
                             int64_t high);
/* i64 */
PH_API ph_tensor *ph_randperm(ph_tape *tape, int64_t count);
/* In place, as ph_tensor_fill is. */
PH_API void ph_tensor_uniform(ph_tape *tape, ph_tensor *dst, double low, double high);
PH_API void ph_tensor_normal(ph_tape *tape, ph_tensor *dst, double mean, double deviation);
PH_API void ph_tensor_exponential(ph_tape *tape, ph_tensor *dst, double rate);
/* exp of a normal */
PH_API void ph_tensor_log_normal(ph_tape *tape, ph_tensor *dst, double mean, double deviation);
PH_API void ph_tensor_cauchy(ph_tape *tape, ph_tensor *dst, double median, double scale);
/* trials until the first success: 1 or more */
PH_API void ph_tensor_geometric(ph_tape *tape, ph_tensor *dst, double p);
/* Whole numbers of [low, high), any dtype; all of them must be numbers of it, and of f32 within
 * 2^24 of 0 (f64: 2^53, f16: 2^11, bf16: 2^8). ARGUMENT else. */
PH_API void ph_tensor_random(ph_tape *tape, ph_tensor *dst, int64_t low, int64_t high);
PH_API void ph_tensor_bernoulli(ph_tape *tape, ph_tensor *dst, double p); /* any dtype */
/* p of floats, broadcasts to dst, of any dtype; as ph_bernoulli */
PH_API void ph_tensor_bernoulli_of(ph_tape *tape, ph_tensor *dst, ph_tensor *p);

/* Zero with probability p, else x / (1 - p); with a gradient. p 0: x itself. 0 <= p <= 1. */
PH_API ph_tensor *ph_dropout(ph_tape *tape, ph_tensor *x, double p);
/* x where it is above 0, else x times a slope of its own, uniform in [lower, upper)
 * (ph_uniform's numbers of x's dtype; both ends alike: that slope); with a gradient, for which
 * the history keeps the slopes: as many bytes as x. For training; without it: ph_leaky_relu with
 * (lower + upper) / 2. */
PH_API ph_tensor *ph_rrelu(ph_tape *tape, ph_tensor *x, double lower, double upper);

PH_END_DECLS
#endif
