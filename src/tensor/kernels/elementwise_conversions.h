/* SPDX-License-Identifier: MIT */
/* tensor/kernels/elementwise_conversions.h: included by elementwise_level.h: the loops of casts,
 * conversions and copies. */
#define CONVERT(name, from_type, to_type, expression)                                              \
    PH__LEVEL_TARGET static void JOIN(convert, name, PH__LEVEL, loop)(                             \
        void *out, const void *px, const void *py, const void *pz, int64_t n, ph__scalar sa,       \
        ph__scalar sb)                                                                             \
    {                                                                                              \
        const from_type *xs = px;                                                                  \
        to_type *to = out;                                                                         \
        (void)py, (void)pz, (void)sa, (void)sb;                                                    \
        PH__VECTOR_LOOP for (int64_t i = 0; i < n; i++)                                            \
        {                                                                                          \
            const from_type x = xs[i];                                                             \
            to[i] = (to_type)(expression);                                                         \
        }                                                                                          \
    }
#define CONVERT_INT(from, from_type)                                                               \
    CONVERT(from##_f32, from_type, float, x)                                                       \
    CONVERT(from##_f64, from_type, double, x)                                                      \
    CONVERT(from##_i32, from_type, int32_t, x)                                                     \
    CONVERT(from##_i64, from_type, int64_t, x)                                                     \
    CONVERT(from##_u8, from_type, uint8_t, x)                                                      \
    CONVERT(from##_bool, from_type, uint8_t, x != 0)
#define CONVERT_FLOAT(from, from_type)                                                             \
    CONVERT(from##_f32, from_type, float, x)                                                       \
    CONVERT(from##_f64, from_type, double, x)                                                      \
    CONVERT(from##_i32, from_type, int32_t, to_i32((double)x))                                     \
    CONVERT(from##_i64, from_type, int64_t, to_i64((double)x))                                     \
    CONVERT(from##_u8, from_type, uint8_t, to_u8((double)x))                                       \
    CONVERT(from##_bool, from_type, uint8_t, x != 0)
CONVERT_FLOAT(f32, float)
CONVERT_FLOAT(f64, double)
CONVERT_INT(i32, int32_t)
CONVERT_INT(i64, int64_t)
CONVERT_INT(u8, uint8_t)
CONVERT(get_f16, uint16_t, float, ph__f16_get(x))
CONVERT(put_f16, float, uint16_t, ph__f16_put(x))
CONVERT(get_bf16, uint16_t, float, ph__bf16_get(x))
CONVERT(put_bf16, float, uint16_t, ph__bf16_put(x))
CONVERT(to_odd, double, float, ph__to_odd(x))
CONVERT(copy_1, uint8_t, uint8_t, x)
CONVERT(copy_2, uint16_t, uint16_t, x)
CONVERT(copy_4, uint32_t, uint32_t, x)
CONVERT(copy_8, uint64_t, uint64_t, x)
#undef CONVERT
#undef CONVERT_INT
#undef CONVERT_FLOAT
