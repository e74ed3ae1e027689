/* SPDX-License-Identifier: MIT */
/* tensor/files/file.h: what the formats of tensor files share: reading at places, and contents
 * between files and tensors. */
#ifndef PH_TENSOR_FILES_FILE_H
#define PH_TENSOR_FILES_FILE_H
#include "base/file.h"
#include "tensor/tape/tape.h"

/* Read by calls that say what they want, not mapped: a file that somebody cuts short meanwhile
 * is an error (IO), and no signal. */
typedef struct ph__reader {
    int number; /* -1: none */
    const char *path, *call;
    uint64_t size;
    void *aside; /* pinned, of one piece: ph__reader_make_aside; NULL: each load has its own */
} ph__reader;
/* path and call must stay */
ph_status ph__reader_open(ph__reader *reader, const char *path, const char *call);
ph_status ph__reader_read(const ph__reader *reader, void *to, uint64_t offset, size_t bytes);
void ph__reader_close(ph__reader *reader);

/* The checks at the start of every such call: no NULL, a tape without an error, no capture. */
ph_status ph__file_begin(ph_tape *tape, const char *path, const char *call);
/* The caller's tensor, contiguous, contents undefined, in order of the tape's stream. */
ph_status ph__tensor_for(ph_tensor **out, ph_tape *tape, ph_dtype dtype, const ph_shape *shape,
                         const char *call);
/* For loads of several tensors, none of which is to fail for memory that it needs itself. drop:
 * takes a reader that has none. */
ph_status ph__reader_make_aside(ph__reader *reader, ph_stream *stream);
void ph__reader_drop_aside(ph__reader *reader);
/* Reads it, and looks at it as a load does, into the aside. */
ph_status ph__reader_look_up(const ph__reader *reader, ph_dtype dtype, uint64_t offset,
                             uint64_t bytes);
/* x's bytes from the file at offset, in x's order; waits. The caller has checked that the file
 * has them. A byte of a bool that is neither 0 nor 1: ARGUMENT. x may have any strides. Counts
 * as a change of x. */
ph_status ph__tensor_load(ph_tape *tape, ph_tensor *x, const ph__reader *reader, uint64_t offset);
ph_status ph__tensor_save(ph_tape *tape, ph_tensor *x, ph__file *file);
#endif
