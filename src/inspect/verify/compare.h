/* SPDX-License-Identifier: MIT */
/* inspect/verify/compare.h: the comparison of two images. */
#ifndef PH_INSPECT_VERIFY_COMPARE_H
#define PH_INSPECT_VERIFY_COMPARE_H
#include "inspect/verify/verify.h"

/* BYTES: all of them, whatever the outputs. POISONS: a began with PH__POISON_NAN, b with
 * PH__POISON_NUMBER: bytes that still have them are alike. */
enum {
    PH__COMPARE_BYTES = 1,
    PH__COMPARE_POISONS = 2
};
bool ph__verify_compare(ph__difference *out, const ph__verify *verify, const ph__image *a,
                        const ph__image *b, unsigned how);
/* The first output of the options that the address is in, or NULL. */
const ph_verify_output *ph__verify_output_at(const ph__verify *verify, uintptr_t address);
/* The poison of memory at an address. */
void ph__poison_fill(unsigned char *to, uintptr_t address, size_t bytes, ph__poison_pattern poison);
size_t ph__number_size(ph_number_type type);
double ph__number_value(const void *bytes, ph_number_type type);
/* Whether bits of no known type look like this number of floating point. */
bool ph__number_is_plausible(double number);
#endif
