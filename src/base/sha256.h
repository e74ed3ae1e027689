/* SPDX-License-Identifier: MIT */
/* base/sha256.h: SHA-256 as FIPS 180-4 specifies it, for naming and checking what is kept on
 * disk. */
#ifndef PH_BASE_SHA256_H
#define PH_BASE_SHA256_H
#include <stddef.h>
#include <stdint.h>

enum {
    PH__SHA256_BYTES = 32
};

void ph__sha256(uint8_t out[PH__SHA256_BYTES], const void *data, size_t bytes);
#endif
