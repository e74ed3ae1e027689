/* SPDX-License-Identifier: MIT */
/* nn/training/manifest.h: state.json: what a saved state consists of. */
#ifndef PH_NN_TRAINING_MANIFEST_H
#define PH_NN_TRAINING_MANIFEST_H
#include "nn/training/training.h"

typedef struct ph__manifest_part {
    char *name, *kind;
    ph_values *values;
    uint64_t bytes; /* of NAME.safetensors */
    bool has_file;
} ph__manifest_part;
typedef struct ph__manifest {
    uint64_t number;
    PH__VEC(ph__manifest_part) parts;
} ph__manifest;

void ph__manifest_free(ph__manifest *manifest);
/* A part without values yet; takes nothing of the entry. */
ph_status ph__manifest_add(ph__manifest *manifest, const ph__training_entry *entry,
                           const char *call);
ph_status ph__manifest_write(const ph__manifest *manifest, const char *folder, const char *call);
/* The folder of a state must be whole: IO, SIZE, ARGUMENT; the message has the file. On failure the
 * manifest is the caller's to free. */
ph_status ph__manifest_read(ph__manifest *manifest, const char *folder, uint64_t number,
                            const char *call);
/* NAME.safetensors in the folder; NULL: no host memory */
char *ph__manifest_path(const char *folder, const char *name);
#endif
