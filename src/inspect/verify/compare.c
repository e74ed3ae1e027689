/* SPDX-License-Identifier: MIT */
/* inspect/verify/compare.c: two images of one memory held against each other: all bytes, or
 * named numbers within a tolerance. */
#include "inspect/verify/compare.h"
#include "inspect/verify/collect.h"
#include <math.h>
#include <string.h>

/* ---- poison ---- depends on the address, so that poison that was copied elsewhere shows. Each
 * half of 16 bits of the first is not a number in f16 and bf16, each 4 and 8 bytes in f32 and
 * f64. */
static uint32_t poison_word(uintptr_t address, ph__poison_pattern poison)
{
    uint32_t hash = (uint32_t)(address >> 2) * UINT32_C(0x9e3779b1) >> 16;
    return poison == PH__POISON_NAN
               ? UINT32_C(0xfff0fff0) | (hash & 0xf) | (hash >> 4 & 0xf) << 16
               : UINT32_C(0x3d003d00) | (hash & 0xff) | (hash >> 8 & 0xff) << 16;
}

static unsigned char poison_byte(uintptr_t address, ph__poison_pattern poison)
{
    return (unsigned char)(poison_word(address, poison) >> 8 * (address & 3));
}

void ph__poison_fill(unsigned char *to, uintptr_t address, size_t bytes, ph__poison_pattern poison)
{
    size_t i = 0;
    for (; i < bytes && (address + i) % 4 != 0; i++)
        to[i] = poison_byte(address + i, poison);
    for (; bytes - i >= 4; i += 4) {
        uint32_t word = poison_word(address + i, poison);
        memcpy(to + i, &word, sizeof word);
    }
    for (; i < bytes; i++)
        to[i] = poison_byte(address + i, poison);
}

static bool still_poison(uintptr_t address, unsigned char a, unsigned char b)
{
    return a == poison_byte(address, PH__POISON_NAN) &&
           b == poison_byte(address, PH__POISON_NUMBER);
}

/* ---- bytes ---- */
static void note_difference(ph__difference *out, const ph__kept *kept, uintptr_t address)
{
    if (out->different++ > 0)
        return;
    out->address = address;
    out->kept = kept;
}

const ph_verify_output *ph__verify_output_at(const ph__verify *verify, uintptr_t address)
{
    for (size_t i = 0; i < verify->options->output_count; i++) {
        const ph_verify_output *output = &verify->options->outputs[i];
        if (address - (uintptr_t)output->address < output->count * ph__number_size(output->type))
            return output;
    }
    return NULL;
}

/* The values around the first difference, which it is moved to: the number of an output, or what
 * there is of 4 bytes. */
static void store_word(ph__difference *out, const ph__verify *verify, const ph__image *a,
                       const ph__image *b)
{
    const ph__kept *kept = out->kept;
    const ph_verify_output *output = ph__verify_output_at(verify, out->address);
    uintptr_t from = output ? (uintptr_t)output->address : 0, base = kept->base;
    size_t size = output ? ph__number_size(output->type) : 4;
    uintptr_t first = out->address - (out->address - from) % size, end = first + size;
    out->address = first < base ? base : first;
    end = end > base + kept->bytes ? base + kept->bytes : end;
    out->size = end - out->address;
    memcpy(out->a, a->bytes + kept->at + (out->address - base), out->size);
    memcpy(out->b, b->bytes + kept->at + (out->address - base), out->size);
}

static void compare_bytes(ph__difference *out, const ph__verify *verify, const ph__image *a,
                          const ph__image *b, bool poisons)
{
    for (size_t k = 0; k < verify->kept.count; k++) {
        const ph__kept *kept = &verify->kept.at[k];
        const unsigned char *x = a->bytes + kept->at, *y = b->bytes + kept->at;
        if (!kept->compared)
            continue;
        out->compared += kept->bytes;
        if (memcmp(x, y, kept->bytes) == 0)
            continue;
        for (size_t i = 0; i < kept->bytes; i++)
            if (x[i] != y[i] &&
                !(poisons && kept->poisoned && still_poison(kept->base + i, x[i], y[i])))
                note_difference(out, kept, kept->base + i);
    }
    if (out->different)
        store_word(out, verify, a, b);
}

/* ---- numbers ---- */
size_t ph__number_size(ph_number_type type)
{
    return type == PH_NUMBER_F64 ? 8 : type == PH_NUMBER_F32 ? 4 : 2;
}

static double f16_value(uint16_t bits)
{
    int exponent = bits >> 10 & 0x1f;
    double fraction = bits & 0x3ff;
    double magnitude = exponent == 0x1f ? (fraction != 0 ? (double)NAN : (double)INFINITY)
                       : exponent == 0
                           ? fraction * 0x1p-24
                           : (fraction + 1024) * (double)((uint64_t)1 << exponent) * 0x1p-25;
    return bits & 0x8000 ? -magnitude : magnitude;
}

double ph__number_value(const void *bytes, ph_number_type type)
{
    double wide;
    float value;
    uint16_t half;
    uint32_t word;
    switch (type) {
    case PH_NUMBER_F64:
        memcpy(&wide, bytes, sizeof wide);
        return wide;
    case PH_NUMBER_F16:
        memcpy(&half, bytes, sizeof half);
        return f16_value(half);
    case PH_NUMBER_BF16:
        memcpy(&half, bytes, sizeof half);
        word = (uint32_t)half << 16;
        memcpy(&value, &word, sizeof value);
        return (double)value;
    default:
        memcpy(&value, bytes, sizeof value);
        return (double)value;
    }
}

bool ph__number_is_plausible(double number)
{
    double magnitude = fabs(number);
    return magnitude > 1e-12 && magnitude < 1e12;
}

static bool are_alike(const ph_verify_options *options, double a, double b)
{
    if (a == b || (isnan(a) && isnan(b)))
        return true;
    return isfinite(a) && isfinite(b) &&
           fabs(a - b) <= options->absolute + options->relative * fabs(b);
}

static bool number_still_poison(const ph__kept *kept, uintptr_t address, const unsigned char *a,
                                const unsigned char *b, size_t size)
{
    bool poison = kept->poisoned;
    for (size_t i = 0; i < size && poison; i++)
        poison = still_poison(address + i, a[i], b[i]);
    return poison;
}

static void compare_output(ph__difference *out, const ph__verify *verify,
                           const ph_verify_output *output, const ph__image *a, const ph__image *b,
                           bool poisons)
{
    uintptr_t base = (uintptr_t)output->address;
    size_t size = ph__number_size(output->type);
    const ph__kept *kept = ph__verify_find_kept(verify, base);
    for (size_t i = 0; i < output->count; i++) {
        const unsigned char *x = a->bytes + kept->at + (base - kept->base) + i * size;
        const unsigned char *y = b->bytes + kept->at + (base - kept->base) + i * size;
        out->compared++;
        if (memcmp(x, y, size) == 0 ||
            are_alike(verify->options, ph__number_value(x, output->type),
                      ph__number_value(y, output->type)) ||
            (poisons && number_still_poison(kept, base + i * size, x, y, size)))
            continue;
        if (out->different == 0) {
            out->output = output;
            out->size = size;
            memcpy(out->a, x, size);
            memcpy(out->b, y, size);
        }
        note_difference(out, kept, base + i * size);
    }
}

bool ph__verify_compare(ph__difference *out, const ph__verify *verify, const ph__image *a,
                        const ph__image *b, unsigned how)
{
    bool poisons = (how & PH__COMPARE_POISONS) != 0;
    memset(out, 0, sizeof *out);
    if (verify->options->output_count == 0 || (how & PH__COMPARE_BYTES))
        compare_bytes(out, verify, a, b, poisons);
    else
        for (size_t i = 0; i < verify->options->output_count; i++)
            compare_output(out, verify, &verify->options->outputs[i], a, b, poisons);
    return out->different > 0;
}
