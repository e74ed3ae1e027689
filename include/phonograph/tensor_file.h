/* SPDX-License-Identifier: MIT */
/* phonograph/tensor_file.h: tensors in files: NumPy's .npy, and safetensors. Files are not
 * trusted: sizes, offsets and headers are checked before anything is allocated after them
 * (ARGUMENT, SIZE: the message says what is wrong at which place; IO: what the system said).
 * Written files are replaced whole or not at all. What moves contents waits for the device:
 * refused in a capture (CAPTURE, 900). A bad file is no failure of the tape. */
#ifndef PHONOGRAPH_TENSOR_FILE_H
#define PHONOGRAPH_TENSOR_FILE_H
#include <phonograph/operators.h>

PH_BEGIN_DECLS

/* Versions 1 to 3, little-endian, C or Fortran order; bf16 has no dtype there (UNSUPPORTED).
 * read gives a tensor that is yours. */
PH_CALL ph_npy_read(ph_tensor **out, ph_tape *tape, const char *path);
PH_CALL ph_npy_write(ph_tape *tape, ph_tensor *x, const char *path);

/* All tensors of a file, by name; opened once, read one by one. Reading is thread-safe. */
typedef struct ph_safetensors ph_safetensors;
PH_CALL ph_safetensors_open(ph_safetensors **out, const char *path);
PH_API void ph_safetensors_close(ph_safetensors *file); /* takes NULL */
PH_API size_t ph_safetensors_count(const ph_safetensors *file);
/* In order of their names; borrowed. dtype 0, and rank 0: a dtype or a rank that this library
 * does not have. NOT_FOUND beyond the last. */
PH_CALL ph_safetensors_entry(const char **name, ph_dtype *dtype, ph_shape *shape,
                             const ph_safetensors *file, size_t index);
/* borrowed; NULL: none */
PH_API const char *ph_safetensors_metadata(const ph_safetensors *file, const char *key);
/* a new tensor, yours */
PH_CALL ph_safetensors_read(ph_tensor **out, ph_tape *tape, const ph_safetensors *file,
                            const char *name);
/* MISMATCH: dtype or shape */
PH_CALL ph_safetensors_read_into(ph_tape *tape, ph_tensor *dst, const ph_safetensors *file,
                                 const char *name);
typedef struct ph_named_tensor {
    const char *name;
    ph_tensor *tensor;
} ph_named_tensor;
PH_CALL ph_safetensors_write(ph_tape *tape, const char *path, const ph_named_tensor *tensors,
                             size_t count);

PH_END_DECLS
#endif
