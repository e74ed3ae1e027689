/* SPDX-License-Identifier: MIT */
/* driver/cuda/load/cache.h: what NVRTC compiled, kept on disk between processes. Never fails a
 * caller: where nothing can be kept, nothing is found. The folder: PH_CACHE_DIR (set and empty:
 * no cache), else $XDG_CACHE_HOME/phonograph, else $HOME/.cache/phonograph. */
#ifndef PH_CUDA_CACHE_H
#define PH_CUDA_CACHE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All entries together; beyond it those that were longest unused go. A key of more than a
 * quarter of it, or a payload of more than half, is not kept. */
enum {
    PH__CUDA_CACHE_LIMIT = 256 << 20
};

/* The beginning of an entry's file; the key and the payload follow, and nothing else. The
 * numbers are in the machine's own order: an entry of another one does not fit its file's size. */
typedef struct ph__cuda_cache_header {
    char magic[8];
    uint64_t key_bytes, payload_bytes;
    uint8_t payload_sha256[32];
} ph__cuda_cache_header;
#define PH__CUDA_CACHE_MAGIC "PHCUDA\0\1" /* its last byte is the version of the format */

/* True when there is an entry of exactly this key, whole and undamaged, in a folder and a file
 * that nobody else can write: *payload is followed by a NUL and freed with ph__free. */
bool ph__cuda_cache_get(char **payload, size_t *payload_bytes, const char *key, size_t key_bytes);
/* Whole or not at all, also when several processes put the same. */
void ph__cuda_cache_put(const char *key, size_t key_bytes, const char *payload,
                        size_t payload_bytes);
#endif
