/* SPDX-License-Identifier: MIT */
/* tensor/files/file.c: contents between files and tensors, piece by piece through pinned memory. */
#include "tensor/files/file.h"
#include "base/error_text.h"
#include "base/status.h"
#include "tensor/core/shape.h"
#include "tensor/core/storage.h"
#include "tensor/core/tensor.h"
#include "tensor/operators/transfer.h"
#include "tensor/tape/tape.h"
#include "tensor/tape/tape_error.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#define PIECE_BYTES ((size_t)4 << 20)

/* ---- reading at places ---- */
static ph_status fail_system(const ph__reader *reader, const char *system_call)
{
    int number = errno;
    char buffer[128];
    return ph__fail_native(PH_ERROR_IO, number, system_call, "%s: cannot read %s: %s failed: %s",
                           reader->call, reader->path, system_call,
                           ph__error_text(number, buffer, sizeof buffer));
}

/* Without O_NONBLOCK a pipe would hang here. */
ph_status ph__reader_open(ph__reader *reader, const char *path, const char *call)
{
    struct stat info;
    ph_status status = PH_OK;
    *reader = (ph__reader){
        .number = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), .path = path, .call = call};
    if (reader->number < 0)
        return fail_system(reader, "open");
    if (fstat(reader->number, &info) != 0)
        status = fail_system(reader, "fstat");
    else if (!S_ISREG(info.st_mode))
        status = ph__fail_native(PH_ERROR_IO, 0, NULL, "%s: cannot read %s: it is no regular file",
                                 call, path);
    else
        reader->size = (uint64_t)info.st_size;
    if (status != PH_OK)
        ph__reader_close(reader);
    return status;
}

ph_status ph__reader_read(const ph__reader *reader, void *to, uint64_t offset, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t got =
            pread(reader->number, (char *)to + done, bytes - done, (off_t)(offset + done));
        if (got == 0)
            return ph__fail_native(PH_ERROR_IO, 0, NULL,
                                   "%s: cannot read %s: it ends at byte %" PRIu64
                                   "; it has been cut short since it was opened",
                                   reader->call, reader->path, offset + done);
        if (got > 0)
            done += (size_t)got;
        else if (errno != EINTR)
            return fail_system(reader, "pread");
    }
    return PH_OK;
}

void ph__reader_close(ph__reader *reader)
{
    if (reader->number >= 0)
        (void)close(reader->number);
    reader->number = -1;
}

/* ---- beginning ---- */
ph_status ph__file_begin(ph_tape *tape, const char *path, const char *call)
{
    if (!tape)
        return ph__fail_null(call, "tape");
    if (!path)
        return ph__fail_null(call, "path");
    PH_TRY(ph__tape_refuse(tape, call));
    return ph__refuse_in_capture(tape, call);
}

ph_status ph__tensor_for(ph_tensor **out, ph_tape *tape, ph_dtype dtype, const ph_shape *shape,
                         const char *call)
{
    size_t bytes;
    PH_TRY(ph__shape_check(&bytes, dtype, shape, call));
    return ph__tensor_fresh(out, &tape->spares, tape->backend, dtype, shape, bytes, tape->stream,
                            tape->key);
}

/* ---- contents ---- */
static ph_status check_bools(const ph__reader *reader, const unsigned char *bytes, size_t count,
                             uint64_t offset)
{
    for (size_t i = 0; i < count; i++)
        if (bytes[i] > 1)
            return ph_fail(PH_ERROR_ARGUMENT,
                           "%s: %s: byte %" PRIu64 " is %d, and a bool is 0 or 1", reader->call,
                           reader->path, offset + i, bytes[i]);
    return PH_OK;
}

static ph_status load_pieces(ph_tape *tape, const ph_tensor *x, const ph__reader *reader,
                             uint64_t offset, void *aside)
{
    size_t bytes = ph_tensor_bytes(x);
    for (size_t done = 0, piece; done < bytes; done += piece) {
        piece = bytes - done < PIECE_BYTES ? bytes - done : PIECE_BYTES;
        PH_TRY(ph__reader_read(reader, aside, offset + done, piece));
        if (x->dtype == PH_DTYPE_BOOL)
            PH_TRY(check_bools(reader, aside, piece, offset + done));
        PH_TRY(ph_memcpy(x->data + done, aside, piece, tape->stream));
        PH_TRY(ph_stream_synchronize(tape->stream));
    }
    return PH_OK;
}

static ph_status save_pieces(ph_tape *tape, const ph_tensor *x, ph__file *file, void *aside)
{
    size_t bytes = ph_tensor_bytes(x);
    for (size_t done = 0, piece; done < bytes; done += piece) {
        piece = bytes - done < PIECE_BYTES ? bytes - done : PIECE_BYTES;
        PH_TRY(ph_memcpy(aside, x->data + done, piece, tape->stream));
        PH_TRY(ph_stream_synchronize(tape->stream));
        PH_TRY(ph__file_write(file, aside, piece));
    }
    return PH_OK;
}

static ph_status make_aside(void *out, const ph_tape *tape, const ph_tensor *x)
{
    size_t bytes = ph_tensor_bytes(x);
    return ph_malloc_pinned(out, bytes < PIECE_BYTES ? bytes : PIECE_BYTES, 1, tape->stream);
}

/* x contiguous. */
static ph_status load_contiguous(ph_tape *tape, ph_tensor *x, const ph__reader *reader,
                                 uint64_t offset)
{
    void *own = NULL;
    if (!reader->aside)
        PH_TRY(make_aside(&own, tape, x));
    ph_status status = load_pieces(tape, x, reader, offset, own ? own : reader->aside);
    ph_free_pinned(own, NULL);
    ph__storage_changed(x->storage, 0, 0);
    return status;
}

ph_status ph__reader_make_aside(ph__reader *reader, ph_stream *stream)
{
    return reader->aside ? PH_OK : ph_malloc_pinned(&reader->aside, PIECE_BYTES, 1, stream);
}

void ph__reader_drop_aside(ph__reader *reader)
{
    ph_free_pinned(reader->aside, NULL);
    reader->aside = NULL;
}

ph_status ph__reader_look_up(const ph__reader *reader, ph_dtype dtype, uint64_t offset,
                             uint64_t bytes)
{
    for (uint64_t done = 0; done < bytes; done += PIECE_BYTES) {
        size_t piece = bytes - done < PIECE_BYTES ? (size_t)(bytes - done) : PIECE_BYTES;
        PH_TRY(ph__reader_read(reader, reader->aside, offset + done, piece));
        if (dtype == PH_DTYPE_BOOL)
            PH_TRY(check_bools(reader, reader->aside, piece, offset + done));
    }
    return PH_OK;
}

static ph_status load_spread(ph_tape *tape, ph_tensor *x, const ph__reader *reader, uint64_t offset)
{
    ph_tensor *aside;
    PH_TRY(ph__tensor_for(&aside, tape, x->dtype, &x->shape, reader->call));
    ph_status status = load_contiguous(tape, aside, reader, offset);
    if (status == PH_OK) {
        ph_tensor_copy(tape, x, aside);
        status = ph_tape_status(tape);
    }
    ph_tensor_release(aside);
    return status;
}

ph_status ph__tensor_load(ph_tape *tape, ph_tensor *x, const ph__reader *reader, uint64_t offset)
{
    if (x->count == 0)
        return PH_OK;
    PH_TRY(ph__storage_use(x->storage, tape->stream, tape->key));
    bool grad = ph_tape_set_grad_enabled(tape, false);
    ph_status status = x->contiguous ? load_contiguous(tape, x, reader, offset)
                                     : load_spread(tape, x, reader, offset);
    (void)ph_tape_set_grad_enabled(tape, grad);
    return status;
}

ph_status ph__tensor_save(ph_tape *tape, ph_tensor *x, ph__file *file)
{
    void *aside = NULL;
    if (x->count == 0)
        return PH_OK;
    bool grad = ph_tape_set_grad_enabled(tape, false);
    size_t mark = ph_tape_scope_begin(tape);
    ph_tensor *dense = ph_contiguous(tape, x);
    ph_status status = dense ? make_aside(&aside, tape, dense) : ph_tape_status(tape);
    if (status == PH_OK)
        status = save_pieces(tape, dense, file, aside);
    ph_free_pinned(aside, NULL);
    ph_tape_scope_end(tape, mark, NULL, 0);
    (void)ph_tape_set_grad_enabled(tape, grad);
    return status;
}
