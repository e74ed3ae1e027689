/* SPDX-License-Identifier: MIT */
/* phonograph/random.h: random numbers: Philox 4x32-10 generators, distributions, dropout, rrelu.
 * The random words are equal on every device.
 *
 * Philox is that of "Parallel random numbers: as easy as 1, 2, 3" (Salmon et al., 2011):
 * - In a draw of n elements, element i belongs to group i / 4. Its w-th word is word i % 4 of the
 *   block with the seed as key, and (offset / 4 + w, i / 4) as counter. So the words of an element
 *   do not depend on the device, or on the division of the work.
 * - A draw moves the offset by 4 for each word that an element takes, whatever the number of
 *   elements. A draw of no elements moves it by 0.
 * - Two words: f64 (for ph_bernoulli and ph_tensor_bernoulli_of: probabilities of f64), randint,
 *   ph_tensor_random, randperm. 128 words: poisson. One word: all others, and ph_tensor_bernoulli
 *   and dropout of any dtype.
 *
 * In a capture:
 * - A draw reads seed and offset from two cells of the graph (cells.h). Every replay sets them,
 *   with its launch, from the present state of the generator. The replay then moves the generator's
 *   offset by the draws of the capture.
 * - So a replay gives the numbers that the same eager calls would give at that moment.
 * - The capture itself does not move the generator. */
#ifndef PHONOGRAPH_RANDOM_H
#define PHONOGRAPH_RANDOM_H
#include <phonograph/tape.h>

PH_BEGIN_DECLS

/* ---- generators ---- A device has any number of them. Tapes retain them, and graphs retain their
 * state. The state is an object that generators can share. All calls are thread-safe. */
typedef struct ph_generator_state ph_generator_state;
PH_CALL ph_generator_create(ph_generator **out, ph_device *device, uint64_t seed);
/* The default generator of the device. Its initial seed is 0. Every call returns the same one while
 * any object of this library lives on the device. The caller releases it. */
PH_CALL ph_generator_default(ph_generator **out, ph_device *device);
PH_API ph_generator *ph_generator_retain(ph_generator *generator);
PH_API void ph_generator_release(ph_generator *generator);
/* A generator of the same device, with a state of its own, equal to the present state of this
 * one. */
PH_CALL ph_generator_clone(ph_generator **out, ph_generator *generator);

/* Sets the seed, and the offset to 0. While an open capture has drawn from the state, only its
 * present seed is accepted, which does nothing; others: STATE. */
PH_CALL ph_generator_seed(ph_generator *generator, uint64_t seed);
PH_API uint64_t ph_generator_get_seed(const ph_generator *generator);
/* The offset, in words of the draws, a multiple of 4 (ARGUMENT). STATE, for both calls: an open
 * capture has drawn from the state. */
PH_CALL ph_generator_set_offset(ph_generator *generator, uint64_t offset);
PH_CALL ph_generator_get_offset(uint64_t *out, const ph_generator *generator);
/* Seed and offset as 16 bytes, little-endian. set also takes 8 bytes: the seed, with offset 0.
 * Rules as for set_offset. */
PH_CALL ph_generator_get_state(void *bytes16, const ph_generator *generator);
PH_CALL ph_generator_set_state(ph_generator *generator, const void *bytes, size_t size);
/* The state object, retained for the caller. A generator that use_state gives it to shares it from
 * then on. Legal in a capture. */
PH_API ph_generator_state *ph_generator_share_state(ph_generator *generator);
PH_CALL ph_generator_use_state(ph_generator *generator, ph_generator_state *state);
PH_API void ph_generator_state_release(ph_generator_state *state); /* takes NULL */

/* ---- distributions ---- from the tape's generator. No gradient. Dtypes are floats, unless a
 * comment says otherwise. All are legal in a capture.
 * - Equal to the bit on all devices, except for the bits of NaNs: uniforms (f32: 24 bits, f64: 53,
 *   f16: 11, bf16: 8), randint, ph_tensor_random, randperm, poisson, bernoulli, dropout masks,
 *   rrelu.
 * - Other standard distributions are within 4 ulp (f32) of the exact function of their words
 *   (docs/reference/random.md). Mean and deviation are applied in the dtype.
 * - uniform: never gives high, if low < high. randint: the probability of each number is within
 *   2^-64 of the others.
 * - randperm: up to 1024 numbers by a sort of random keys. More by a network of 16 rounds, which
 *   computes each element on its own.
 * - ARGUMENT: impossible dtypes, shapes and numbers. Contents of tensors are not checked. */
/* [0, 1) */
PH_API ph_tensor *ph_rand(ph_tape *tape, ph_dtype dtype, ph_shape shape);
/* [low, high) */
PH_API ph_tensor *ph_uniform(ph_tape *tape, ph_dtype dtype, ph_shape shape, double low,
                             double high);
/* by the method of Box and Muller */
PH_API ph_tensor *ph_randn(ph_tape *tape, ph_dtype dtype, ph_shape shape);
PH_API ph_tensor *ph_normal(ph_tape *tape, ph_dtype dtype, ph_shape shape, double mean,
                            double deviation);
/* mean[i] + deviation[i] * a standard normal. Both have one dtype; their shapes broadcast.
 * deviation NULL: 1. A negative deviation mirrors, and NaN gives NaN. */
PH_API ph_tensor *ph_normal_of(ph_tape *tape, ph_tensor *mean, ph_tensor *deviation);
PH_API ph_tensor *ph_exponential(ph_tape *tape, ph_dtype dtype, ph_shape shape, double rate);
/* Whole numbers of rate rates[i], in the dtype of the rates, rounded where the dtype does not have
 * the number. Rate 0 gives 0, negative and NaN rates give NaN, infinity gives infinity. */
PH_API ph_tensor *ph_poisson(ph_tape *tape, ph_tensor *rates);
/* 1 with probability p[i], else 0; dtype of p */
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
/* number of trials until the first success, 1 or more */
PH_API void ph_tensor_geometric(ph_tape *tape, ph_tensor *dst, double p);
/* Whole numbers of [low, high), any dtype, which must have all of them. For f32, they are within
 * 2^24 of 0 (f64: 2^53, f16: 2^11, bf16: 2^8). Otherwise ARGUMENT. */
PH_API void ph_tensor_random(ph_tape *tape, ph_tensor *dst, int64_t low, int64_t high);
PH_API void ph_tensor_bernoulli(ph_tape *tape, ph_tensor *dst, double p); /* any dtype */
/* p of floats broadcasts to dst of any dtype; as ph_bernoulli */
PH_API void ph_tensor_bernoulli_of(ph_tape *tape, ph_tensor *dst, ph_tensor *p);

/* 0 with probability p, otherwise x / (1 - p). Has a gradient. p 0: x itself. 0 <= p <= 1. */
PH_API ph_tensor *ph_dropout(ph_tape *tape, ph_tensor *x, double p);
/* x where x > 0, otherwise x times a slope. For training; ph_leaky_relu with (lower + upper) / 2 is
 * the form without randomness.
 * - Each element has its own slope, uniform in [lower, upper): ph_uniform's numbers in the dtype of
 *   x. Equal bounds give that slope.
 * - Has a gradient. The history keeps the slopes: as many bytes as x. */
PH_API ph_tensor *ph_rrelu(ph_tape *tape, ph_tensor *x, double lower, double upper);

PH_END_DECLS
#endif
