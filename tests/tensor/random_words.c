/* SPDX-License-Identifier: MIT */
/* tests/tensor/random_words.c: which words are drawn and what becomes of them: published
 * vectors, an independent computation, and a table of results that every device must give to the
 * bit. */
#include "support/draws.h"
#include "support/test.h"
#include "tensor/core/tensor.h"
#include "tensor/generator/generator.h"
#include "tensor/random/philox.h"
#include "tensor/tape/tape.h"
#include <inttypes.h>
#include <stdio.h>

/* ---- words ---- */
/* The known answers of Random123, the authors' own implementation. */
TEST(test_philox_known_answers)
{
    static const struct {
        u64 seed, block, group;
        u32 want[4];
    } known[] = {
        {0, 0, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {UINT64_MAX, UINT64_MAX, UINT64_MAX, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {UINT64_C(0x299f31d0a4093822),
         UINT64_C(0x85a308d3243f6a88),
         UINT64_C(0x0370734413198a2e),
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        ph_words words = ph_philox(known[i].seed, known[i].block, known[i].group);
        assert_memory_equal(words.w, known[i].want, sizeof words.w);
    }
}

/* Many at a time are the same words, from any group on, past 2^32 too. */
TEST(test_words_of_groups)
{
    enum {
        GROUPS = 37
    };
    static const u64 firsts[] = {
        0, 1, 6, UINT64_C(0xfffffff0), UINT64_C(0xffffffff), UINT64_C(0x1234567890)};
    static const u64 seed = UINT64_C(0xfedcba9876543210), block = UINT64_C(0xfffffffffe);
    for (size_t f = 0; f < sizeof firsts / sizeof *firsts; f++)
        for (size_t groups = 0; groups <= GROUPS; groups++) {
            u32 narrow[4 * GROUPS + 1] = {0};
            u64 wide[4 * GROUPS + 1] = {0};
            narrow[4 * groups] = 77;
            wide[4 * groups] = 78;
            ph__words_u32(narrow, seed, block, firsts[f], groups);
            ph__words_u64(wide, seed, block, firsts[f], groups);
            assert_true(narrow[4 * groups] == 77 && wide[4 * groups] == 78);
            for (size_t i = 0; i < 4 * groups; i++) {
                u32 low = ph_philox(seed, block, firsts[f] + i / 4).w[i % 4];
                u32 high = ph_philox(seed, block + 1, firsts[f] + i / 4).w[i % 4];
                assert_int_equal(narrow[i], low);
                assert_true(wide[i] == ((u64)high << 32 | low));
            }
        }
}

TEST(test_upper_half_of_products)
{
    static const u64 numbers[] = {0,
                                  1,
                                  3,
                                  0x7fffffff,
                                  0xffffffff,
                                  UINT64_C(0x100000000),
                                  UINT64_C(0xfffffffeffffffff),
                                  UINT64_C(0x8000000000000000),
                                  UINT64_C(0x9e3779b97f4a7c15),
                                  UINT64_MAX};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        for (size_t j = 0; j < sizeof numbers / sizeof *numbers; j++) {
            __extension__ unsigned __int128 product = (unsigned __int128)numbers[i] * numbers[j];
            assert_true(ph_upper(numbers[i], numbers[j]) == (u64)(product >> 64));
        }
}

/* ---- by hand ---- what random.h promises of each element, computed from its words. */
static u32 word_of(u64 seed, u64 offset, u64 element, unsigned which)
{
    return ph_philox(seed, offset / 4 + which, element / 4).w[element % 4];
}

static double ulp_f32(double want)
{
    int exponent;
    (void)frexp(want, &exponent);
    return ldexp(1, (exponent < -125 ? -125 : exponent) - 24);
}

/* -ln((v + 1/2) / 2^31). */
static double minus_log(u32 word)
{
    u32 v = word >> 1;
    return v < 0x40000000u ? -log(((double)v + 0.5) / 0x1p31)
                           : -log1p(-((double)(0x7fffffffu - v) + 0.5) / 0x1p31);
}

enum {
    N = 5003,
    SEED = 20240607,
    OFFSET = 28
};

typedef struct drawn {
    t_scene scene;
    ph_generator *generator;
} drawn;

static void open_drawn(drawn *d)
{
    t_scene_open(&d->scene);
    d->generator = t_generator(&d->scene, SEED);
    assert_ok(ph_generator_set_offset(d->generator, OFFSET));
}

static void close_drawn(drawn *d)
{
    ph_generator_release(d->generator);
    t_scene_close(&d->scene);
    assert_int_equal(ph__alloc_live(), 0);
}

TEST(test_uniforms_are_their_words)
{
    drawn d;
    open_drawn(&d);
    float *x = t_bytes(&d.scene, ph_rand(d.scene.tape, PH_DTYPE_F32, PH_SHAPE(N)));
    assert_int_equal(t_offset(d.generator), OFFSET + 4);
    for (u64 i = 0; i < N; i++)
        assert_true(x[i] == (float)(word_of(SEED, OFFSET, i, 0) >> 8) * 0x1p-24f);
    double *y = t_bytes(&d.scene, ph_rand(d.scene.tape, PH_DTYPE_F64, PH_SHAPE(N)));
    assert_int_equal(t_offset(d.generator), OFFSET + 12);
    for (u64 i = 0; i < N; i++) {
        u64 word = (u64)word_of(SEED, OFFSET + 4, i, 1) << 32 | word_of(SEED, OFFSET + 4, i, 0);
        assert_true(y[i] == (double)(word >> 11) * 0x1p-53);
    }
    free(x);
    free(y);
    close_drawn(&d);
}

TEST(test_normals_within_4_ulp)
{
    drawn d;
    open_drawn(&d);
    float *x = t_bytes(&d.scene, ph_randn(d.scene.tape, PH_DTYPE_F32, PH_SHAPE(N)));
    for (u64 i = 0; i < N; i++) {
        double radius = sqrt(2 * minus_log(word_of(SEED, OFFSET, i / 2 * 2, 0)));
        double turn = ((double)(word_of(SEED, OFFSET, i / 2 * 2 + 1, 0) >> 7) + 0.5) / 0x1p25;
        double want =
            radius * (i % 2 ? sin(6.283185307179586 * turn) : cos(6.283185307179586 * turn));
        /* The reference itself loses near the zeros of sine and cosine. */
        if (fabs((double)x[i] - want) > 4 * ulp_f32(want) + 1e-15)
            fail_msg("element %" PRIu64 " is %.9g, not %.9g", i, (double)x[i], want);
    }
    free(x);
    close_drawn(&d);
}

TEST(test_others_within_4_ulp)
{
    drawn d;
    open_drawn(&d);
    ph_tensor *t = ph_empty(d.scene.tape, PH_DTYPE_F32, PH_SHAPE(N));
    float *x = t_bytes(&d.scene, ph_exponential(d.scene.tape, PH_DTYPE_F32, PH_SHAPE(N), 2.5));
    for (u64 i = 0; i < N; i++) {
        double want = minus_log(word_of(SEED, OFFSET, i, 0)) / 2.5;
        assert_true(fabs((double)x[i] - want) <= 4 * ulp_f32(want));
    }
    free(x);
    ph_tensor_cauchy(d.scene.tape, t, 0, 1);
    x = t_bytes(&d.scene, t);
    for (u64 i = 0; i < N; i++) {
        double turn = ((double)(word_of(SEED, OFFSET + 4, i, 0) >> 8) + 0.5) / 0x1p25;
        double want = -cos(6.283185307179586 * turn) / sin(6.283185307179586 * turn);
        assert_true(fabs((double)x[i] - want) <= 4 * ulp_f32(want) + 1e-15);
    }
    free(x);
    close_drawn(&d);
}

TEST(test_log_normal_is_exp_of_normal)
{
    drawn d;
    open_drawn(&d);
    ph_tensor *t = ph_empty(d.scene.tape, PH_DTYPE_F32, PH_SHAPE(N));
    float *normal = t_bytes(&d.scene, ph_normal(d.scene.tape, PH_DTYPE_F32, PH_SHAPE(N), 1, 2));
    assert_ok(ph_generator_set_offset(d.generator, OFFSET));
    ph_tensor_log_normal(d.scene.tape, t, 1, 2);
    float *x = t_bytes(&d.scene, t);
    for (size_t i = 0; i < N; i++) {
        double want = exp((double)normal[i]);
        assert_true(fabs((double)x[i] - want) <= 4 * ulp_f32(want));
    }
    free(normal);
    free(x);
    close_drawn(&d);
}

/* ---- the table ---- */
static ph_tensor *in_place(ph_tape *tape, ph_dtype dtype,
                           void (*fn)(ph_tape *, ph_tensor *, double, double), double a, double b)
{
    ph_tensor *x = ph_empty(tape, dtype, PH_SHAPE(N));
    fn(tape, x, a, b);
    return x;
}

static void geometric(ph_tape *tape, ph_tensor *x, double p, double unused)
{
    (void)unused;
    ph_tensor_geometric(tape, x, p);
}

static void events(ph_tape *tape, ph_tensor *x, double p, double unused)
{
    (void)unused;
    ph_tensor_bernoulli(tape, x, p);
}

/* Rates from 0 to 100, and each 64th a thousand times as much. */
static ph_tensor *rates(ph_tape *tape, ph_dtype dtype)
{
    ph_tensor *x = ph_arange(tape, PH_DTYPE_F32, 0, 1.0 / 64, N);
    ph_tensor *large = ph_slice_step(tape, x, 0, 0, N, 64);
    ph_tensor_scale(tape, large, 1000);
    return ph_cast(tape, x, dtype);
}

static ph_tensor *normals_of(ph_tape *tape, ph_dtype dtype)
{
    ph_tensor *mean = ph_rand(tape, dtype, PH_SHAPE(N));
    return ph_normal_of(tape, mean, ph_rand(tape, dtype, PH_SHAPE(N)));
}

static ph_tensor *random_events(ph_tape *tape, ph_dtype dtype)
{
    ph_tensor *x = ph_empty(tape, dtype, PH_SHAPE(N));
    ph_tensor_bernoulli_of(
        tape, x, ph_rand(tape, dtype == PH_DTYPE_I64 ? PH_DTYPE_F64 : PH_DTYPE_F32, PH_SHAPE(N)));
    return x;
}

static ph_tensor *random_numbers(ph_tape *tape, ph_dtype dtype)
{
    ph_tensor *x = ph_empty(tape, dtype, PH_SHAPE(N));
    ph_tensor_random(tape, x, 0, dtype == PH_DTYPE_BOOL ? 2 : 203);
    return x;
}

typedef enum kind {
    UNIFORM,
    NORMAL,
    EXPONENTIAL,
    CAUCHY,
    GEOMETRIC,
    EVENTS,
    BERNOULLI,
    RANDINT,
    RANDOM,
    EVENTS_OF,
    NORMAL_OF,
    POISSON,
    RRELU,
    DROPOUT,
    RANDPERM
} kind;

static ph_tensor *draw(ph_tape *tape, kind what, ph_dtype dtype)
{
    switch (what) {
    case UNIFORM:
        return ph_uniform(tape, dtype, PH_SHAPE(N), -0.7, 1.3);
    case NORMAL:
        return ph_normal(tape, dtype, PH_SHAPE(N), 0.25, 1.5);
    case EXPONENTIAL:
        return ph_exponential(tape, dtype, PH_SHAPE(N), 0.75);
    case CAUCHY:
        return in_place(tape, dtype, ph_tensor_cauchy, 0.5, 2);
    case GEOMETRIC:
        return in_place(tape, dtype, geometric, 0.3, 0);
    case EVENTS:
        return in_place(tape, dtype, events, 0.3, 0);
    case BERNOULLI:
        return ph_bernoulli(tape, ph_rand(tape, dtype, PH_SHAPE(N)));
    case RANDINT:
        return ph_randint(tape, dtype, PH_SHAPE(N), 3, 203);
    case RANDOM:
        return random_numbers(tape, dtype);
    case EVENTS_OF:
        return random_events(tape, dtype);
    case NORMAL_OF:
        return normals_of(tape, dtype);
    case POISSON:
        return ph_poisson(tape, rates(tape, dtype));
    case RRELU:
        return ph_rrelu(tape, ph_uniform(tape, dtype, PH_SHAPE(N), -1, 1), 0.125, 0.375);
    case DROPOUT:
        return ph_dropout(tape, ph_full(tape, dtype, PH_SHAPE(N), 1.25), 0.1);
    case RANDPERM:
        return ph_randperm(tape, dtype == PH_DTYPE_I64 ? N : 1000);
    }
    return NULL;
}

/* FNV-1a. */
static uint64_t sum_of(const void *bytes, size_t size)
{
    uint64_t sum = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < size; i++)
        sum = (sum ^ ((const unsigned char *)bytes)[i]) * UINT64_C(0x100000001b3);
    return sum;
}

static const struct line {
    const char *name;
    kind what;
    ph_dtype dtype;
    uint64_t sum;
} table[] = {
    {"uniform", UNIFORM, PH_DTYPE_F32, UINT64_C(0xb02af572f13dabba)},
    {"uniform", UNIFORM, PH_DTYPE_F64, UINT64_C(0xd92c8de3c02c5ac0)},
    {"uniform", UNIFORM, PH_DTYPE_F16, UINT64_C(0xb217b697cd439337)},
    {"uniform", UNIFORM, PH_DTYPE_BF16, UINT64_C(0x1ad4e6a71aea3379)},
    {"normal", NORMAL, PH_DTYPE_F32, UINT64_C(0xe6016023a0a51728)},
    {"normal", NORMAL, PH_DTYPE_F64, UINT64_C(0x0f6ccb8d183001b3)},
    {"normal", NORMAL, PH_DTYPE_F16, UINT64_C(0x0780c778d3ff8a54)},
    {"normal", NORMAL, PH_DTYPE_BF16, UINT64_C(0xaecb26b5ba3c8881)},
    {"exponential", EXPONENTIAL, PH_DTYPE_F32, UINT64_C(0xea03a3a7d454caa0)},
    {"exponential", EXPONENTIAL, PH_DTYPE_F64, UINT64_C(0xf5dbf929aa851e0e)},
    {"exponential", EXPONENTIAL, PH_DTYPE_F16, UINT64_C(0x00b54865a4c203a3)},
    {"exponential", EXPONENTIAL, PH_DTYPE_BF16, UINT64_C(0xc1fe040a22f21857)},
    {"cauchy", CAUCHY, PH_DTYPE_F32, UINT64_C(0xa6df099a3c67a3d8)},
    {"cauchy", CAUCHY, PH_DTYPE_F64, UINT64_C(0xf5e33612465d278d)},
    {"cauchy", CAUCHY, PH_DTYPE_F16, UINT64_C(0x4c5d277cd771789f)},
    {"cauchy", CAUCHY, PH_DTYPE_BF16, UINT64_C(0xd5f7732dfe2a4f25)},
    {"geometric", GEOMETRIC, PH_DTYPE_F32, UINT64_C(0x8f6e72fa89a0f605)},
    {"geometric", GEOMETRIC, PH_DTYPE_F64, UINT64_C(0x0c7a145d968c83b8)},
    {"geometric", GEOMETRIC, PH_DTYPE_F16, UINT64_C(0x0af82f66714f1127)},
    {"geometric", GEOMETRIC, PH_DTYPE_BF16, UINT64_C(0x6898242e435f842d)},
    {"bernoulli", BERNOULLI, PH_DTYPE_F32, UINT64_C(0x2e2026096d744b78)},
    {"bernoulli", BERNOULLI, PH_DTYPE_F64, UINT64_C(0x4c99a9e642449785)},
    {"bernoulli", BERNOULLI, PH_DTYPE_F16, UINT64_C(0x7208d13a3c97ffa9)},
    {"bernoulli", BERNOULLI, PH_DTYPE_BF16, UINT64_C(0x95cd673349477ad0)},
    {"dropout", DROPOUT, PH_DTYPE_F32, UINT64_C(0xca1e694a00902445)},
    {"dropout", DROPOUT, PH_DTYPE_F64, UINT64_C(0xc8c1bad672856421)},
    {"dropout", DROPOUT, PH_DTYPE_F16, UINT64_C(0x5e763704980d68d9)},
    {"dropout", DROPOUT, PH_DTYPE_BF16, UINT64_C(0x0f98d1c8daac6b11)},
    {"events", EVENTS, PH_DTYPE_F32, UINT64_C(0xe0f4268897b08505)},
    {"events", EVENTS, PH_DTYPE_F64, UINT64_C(0xb8dd23f6e1e178e5)},
    {"events", EVENTS, PH_DTYPE_F16, UINT64_C(0x548b6eada64670cd)},
    {"events", EVENTS, PH_DTYPE_BF16, UINT64_C(0x8dbf8e8a3df6f615)},
    {"events", EVENTS, PH_DTYPE_I32, UINT64_C(0xcfbb08e2f22517c5)},
    {"events", EVENTS, PH_DTYPE_I64, UINT64_C(0xfd37e4687b489a65)},
    {"events", EVENTS, PH_DTYPE_U8, UINT64_C(0x0978991ae7866841)},
    {"events", EVENTS, PH_DTYPE_BOOL, UINT64_C(0x0978991ae7866841)},
    {"randint", RANDINT, PH_DTYPE_I32, UINT64_C(0xc0e24d06c0374edb)},
    {"randint", RANDINT, PH_DTYPE_I64, UINT64_C(0x10ce847e6f21ddeb)},
    {"randint", RANDINT, PH_DTYPE_U8, UINT64_C(0xf8f0bca7063df9ed)},
    {"random", RANDOM, PH_DTYPE_F32, UINT64_C(0x0db58dac54deb0c2)},
    {"random", RANDOM, PH_DTYPE_F64, UINT64_C(0x02edaa89df8bfc0a)},
    {"random", RANDOM, PH_DTYPE_F16, UINT64_C(0x7d351c67d2b13bd4)},
    {"random", RANDOM, PH_DTYPE_BF16, UINT64_C(0x29598d9a7dbd922a)},
    {"random", RANDOM, PH_DTYPE_I32, UINT64_C(0xb3bf322970c7d5d3)},
    {"random", RANDOM, PH_DTYPE_I64, UINT64_C(0x74986d126d18f6e3)},
    {"random", RANDOM, PH_DTYPE_U8, UINT64_C(0xcd0058b9a9c1e735)},
    {"random", RANDOM, PH_DTYPE_BOOL, UINT64_C(0xebbe4418840a69f9)},
    {"events_of", EVENTS_OF, PH_DTYPE_F32, UINT64_C(0x2e2026096d744b78)},
    {"events_of", EVENTS_OF, PH_DTYPE_F64, UINT64_C(0x0e5a99a9952d8078)},
    {"events_of", EVENTS_OF, PH_DTYPE_F16, UINT64_C(0x7208d13a3c97ffa9)},
    {"events_of", EVENTS_OF, PH_DTYPE_BF16, UINT64_C(0x579fdf82d4ca0950)},
    {"events_of", EVENTS_OF, PH_DTYPE_I32, UINT64_C(0xa85446ece0ca0684)},
    {"events_of", EVENTS_OF, PH_DTYPE_I64, UINT64_C(0x9378ca381e2dd785)},
    {"events_of", EVENTS_OF, PH_DTYPE_U8, UINT64_C(0x224a9208ed3af948)},
    {"events_of", EVENTS_OF, PH_DTYPE_BOOL, UINT64_C(0x224a9208ed3af948)},
    {"normal_of", NORMAL_OF, PH_DTYPE_F32, UINT64_C(0xdfde001af743b110)},
    {"normal_of", NORMAL_OF, PH_DTYPE_F64, UINT64_C(0x9d1602998ececa6a)},
    {"normal_of", NORMAL_OF, PH_DTYPE_F16, UINT64_C(0x5c53610084bd35cf)},
    {"normal_of", NORMAL_OF, PH_DTYPE_BF16, UINT64_C(0x5e78020a80cd3bc2)},
    {"poisson", POISSON, PH_DTYPE_F32, UINT64_C(0xeb347096e8553444)},
    {"poisson", POISSON, PH_DTYPE_F64, UINT64_C(0xedc3d9b810425347)},
    {"poisson", POISSON, PH_DTYPE_F16, UINT64_C(0x7a2c9f13f25a5f67)},
    {"poisson", POISSON, PH_DTYPE_BF16, UINT64_C(0xaaafc6e46a471047)},
    {"rrelu", RRELU, PH_DTYPE_F32, UINT64_C(0x8ab3a7da8f75a3a3)},
    {"rrelu", RRELU, PH_DTYPE_F64, UINT64_C(0x992b09a02ae6655e)},
    {"rrelu", RRELU, PH_DTYPE_F16, UINT64_C(0x790905b861ce64ab)},
    {"rrelu", RRELU, PH_DTYPE_BF16, UINT64_C(0xb1cc08eb3cd05646)},
    {"randperm", RANDPERM, PH_DTYPE_I64, UINT64_C(0x0e69b7a2c71395cf)},
    {"randperm", RANDPERM, PH_DTYPE_I32, UINT64_C(0x39fab35ceac0a965)},
};

TEST(test_the_same_bits_on_every_device)
{
    drawn d;
    open_drawn(&d);
    size_t wrong = 0;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        assert_ok(ph_generator_set_offset(d.generator, OFFSET));
        ph_tensor *x = draw(d.scene.tape, table[i].what, table[i].dtype);
        void *bytes = t_bytes(&d.scene, x);
        uint64_t sum = sum_of(bytes, ph_tensor_bytes(x));
        if (sum != table[i].sum) {
            print_error("%s %s: 0x%016" PRIx64 "\n", table[i].name, ph_dtype_name(table[i].dtype),
                        sum);
            wrong++;
        }
        free(bytes);
        assert_ok(ph_tape_clear(d.scene.tape));
    }
    assert_int_equal(wrong, 0);
    close_drawn(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_philox_known_answers),
        cmocka_unit_test(test_words_of_groups),
        cmocka_unit_test(test_upper_half_of_products),
        cmocka_unit_test(test_uniforms_are_their_words),
        cmocka_unit_test(test_normals_within_4_ulp),
        cmocka_unit_test(test_others_within_4_ulp),
        cmocka_unit_test(test_log_normal_is_exp_of_normal),
        cmocka_unit_test(test_the_same_bits_on_every_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
