/* SPDX-License-Identifier: MIT */
/* phonograph/tensor_file.h: tensors in files: NumPy's .npy, and safetensors.
 * - Files are not trusted: sizes, offsets and headers are checked before memory is allocated for
 *   them. ARGUMENT, SIZE: the message names the place and the fault. IO: the system's own error.
 * - Written files are replaced whole or not at all.
 * - Calls that move contents wait for the device. A capture refuses them (CAPTURE, 900).
 * - A bad file does not fail the tape. */
#ifndef PHONOGRAPH_TENSOR_FILE_H
#define PHONOGRAPH_TENSOR_FILE_H
#include <phonograph/operators.h>

PH_BEGIN_DECLS

/* Versions 1 to 3, little-endian, C or Fortran order. UNSUPPORTED: bf16, for which the format has
 * no dtype. The caller owns the tensor of read. */
PH_CALL ph_npy_read(ph_tensor **out, ph_tape *tape, const char *path);
PH_CALL ph_npy_write(ph_tape *tape, ph_tensor *x, const char *path);

/* All tensors of a file, by name. The file is opened once, and tensors are read one by one. Reading
 * is thread-safe. */
typedef struct ph_safetensors ph_safetensors;
PH_CALL ph_safetensors_open(ph_safetensors **out, const char *path);
PH_API void ph_safetensors_close(ph_safetensors *file); /* takes NULL */
PH_API size_t ph_safetensors_count(const ph_safetensors *file);
/* Entries in the order of their names, borrowed. dtype 0 or rank 0: this library does not have the
 * dtype or rank. NOT_FOUND beyond the last. */
PH_CALL ph_safetensors_entry(const char **name, ph_dtype *dtype, ph_shape *shape,
                             const ph_safetensors *file, size_t index);
/* borrowed; NULL: none */
PH_API const char *ph_safetensors_metadata(const ph_safetensors *file, const char *key);
/* Makes a new tensor, which the caller owns. */
PH_CALL ph_safetensors_read(ph_tensor **out, ph_tape *tape, const ph_safetensors *file,
                            const char *name);
/* MISMATCH: the dtype or shape differs. */
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
