/* SPDX-License-Identifier: MIT */
/* tests/tensor/elementwise_math.c: the functions of tensor/kernels/math.h against the C library's
 * doubles: every 509th float in the short tier, every 31st in the long one. */
#include "base/half.h"
#include "support/support.h"
#include "support/test.h"
#include "tensor/kernels/math.h"
#include <math.h>

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

/* Units in the last place of the float nearest to want, subnormal ones included. */
static double ulps(float got, double want)
{
    if (isnan(want))
        return isnan(got) ? 0 : 1e9;
    if (fabs(want) > 0x1.ffffffp127) /* rounds to an infinity */
        return (double)got == copysign((double)INFINITY, want) ? 0
               : fabs((double)got) >= 0x1.fffffcp127           ? 1
                                                               : 1e9;
    if (isinf(got))
        return fabs(want) > 0x1.fffffcp127 ? 1 : 1e9;
    int exponent;
    (void)frexp(want, &exponent);
    double unit = ldexp(1, (exponent > -125 ? exponent : -125) - 24);
    return fabs((double)got - want) / unit;
}

static void check(const char *name, float (*fn)(float), double (*ref)(double), double bound)
{
    double worst = 0;
    float at = 0;
    const uint32_t step = t_nightly() ? 31 : 509;
    for (uint64_t bits = 0; bits <= UINT32_MAX; bits += step) {
        float x = ph__float_of_bits((uint32_t)bits);
        double u = ulps(fn(x), ref((double)x));
        if (u > worst) {
            worst = u;
            at = x;
        }
    }
    print_message("%s: at most %.2f ulp, at %.9g\n", name, worst, (double)at);
    if (worst > bound)
        fail_msg("%s of %.9g (%a) is %.9g: %.3g ulp off, more than %.3g", name, (double)at,
                 (double)at, (double)fn(at), worst, bound);
}

/* Both forms; the fused one where the processor has the instructions. */
#if defined(__x86_64__)
#define FUSED      __attribute__((target("fma")))
#define HAVE_FUSED __builtin_cpu_supports("fma")
#else
#define FUSED
#define HAVE_FUSED true
#endif
#define CHECK(name, ref, bound)                                                                    \
    static float plain_##name(float x)                                                             \
    {                                                                                              \
        return ph__##name(x);                                                                      \
    }                                                                                              \
    FUSED static float fused_##name(float x)                                                       \
    {                                                                                              \
        return ph__fma_##name(x);                                                                  \
    }                                                                                              \
    TEST(name##_is_within_its_bound)                                                               \
    {                                                                                              \
        check(#name, plain_##name, ref, bound);                                                    \
        if (HAVE_FUSED)                                                                            \
            check(#name ", fused", fused_##name, ref, bound);                                      \
    }
CHECK(expf, exp, 1)
CHECK(logf, log, 1)
CHECK(tanhf, tanh, 1.5)
CHECK(sigmoidf, sigmoid, 2.5)

/* What the distribution function of normal numbers is made of where nothing is fused. */
static float plain_erff(float x)
{
    return ph__erff(x);
}
TEST(erff_is_within_its_bound)
{
    check("erff", plain_erff, erf, 3);
}

/* Not off by more than 2^-23; 0 and 1 are reached and not left. */
static void check_normal_cdf(const char *name, float (*fn)(float))
{
    double worst = 0;
    float at = 0;
    const uint32_t step = t_nightly() ? 31 : 509;
    for (uint32_t bits = 0; bits < 0x7f800000u; bits += step) {
        for (uint32_t sign = 0; sign < 2; sign++) {
            float x = ph__float_of_bits(bits | sign << 31), y = fn(x);
            double off = fabs((double)y - 0.5 * erfc(-(double)x * 0.70710678118654752440));
            if (off > worst) {
                worst = off;
                at = x;
            }
            if (!(y >= 0 && y <= 1))
                fail_msg("%s of %.9g is %.9g", name, (double)x, (double)y);
        }
    }
    print_message("%s: at most %.3g off, at %.9g\n", name, worst, (double)at);
    if (worst > 0x1p-23)
        fail_msg("%s of %.9g is %.9g: %.3g off", name, (double)at, (double)fn(at), worst);
    assert_true(fn(-6) == 0 && fn(6) == 1 && fn(0) == 0.5F);
    assert_true(fn(-INFINITY) == 0 && fn(INFINITY) == 1);
}
static float plain_normal_cdff(float x)
{
    return ph__normal_cdff(x);
}
FUSED static float fused_normal_cdff(float x)
{
    return ph__fma_normal_cdff(x);
}
TEST(the_normal_distribution_is_within_its_bound)
{
    check_normal_cdf("normal_cdff", plain_normal_cdff);
    if (HAVE_FUSED)
        check_normal_cdf("normal_cdff, fused", fused_normal_cdff);
}

/* Rounding in two steps, by way of the odd one, gives what one step gives: around every tie of
 * bf16 and f16. */
TEST(rounding_by_way_of_odd)
{
    static const double parts[] = {-0x1p-40, 0, 0x1p-40, 0x1p-30, -0x1p-30};
    for (uint32_t h = 0; h < 0x7f80; h++) {
        double low = (double)ph__bf16_get((uint16_t)h),
               high = (double)ph__bf16_get((uint16_t)(h + 1));
        if (isinf(high))
            high = 0x1p128;
        for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
            double x = low + (high - low) * (0.5 + parts[i]);
            uint32_t up = parts[i] > 0 || (parts[i] == 0 && (h & 1));
            assert_int_equal(ph__bf16_put(ph__to_odd(x)), h + up);
            assert_int_equal(ph__bf16_put(ph__to_odd(-x)), (h + up) | 0x8000u);
        }
    }
    for (uint32_t h = 0; h < 0x7c00; h++) {
        double low = (double)ph__f16_get((uint16_t)h),
               high = (double)ph__f16_get((uint16_t)(h + 1));
        if (isinf(high))
            high = 65536;
        for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
            double x = low + (high - low) * (0.5 + parts[i]);
            uint32_t up = parts[i] > 0 || (parts[i] == 0 && (h & 1));
            assert_int_equal(ph__f16_put(ph__to_odd(x)), h + up);
        }
    }
    assert_true(isnan(ph__to_odd((double)NAN)));
    assert_true(isinf(ph__to_odd((double)INFINITY)) && isinf(ph__to_odd(-1e300)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(expf_is_within_its_bound),
        cmocka_unit_test(logf_is_within_its_bound),
        cmocka_unit_test(tanhf_is_within_its_bound),
        cmocka_unit_test(erff_is_within_its_bound),
        cmocka_unit_test(the_normal_distribution_is_within_its_bound),
        cmocka_unit_test(sigmoidf_is_within_its_bound),
        cmocka_unit_test(rounding_by_way_of_odd),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
