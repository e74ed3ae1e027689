/* SPDX-License-Identifier: MIT */
/* tensor/files/npy.c: NumPy's .npy files, versions 1 to 3
 * (numpy.org/doc/stable/reference/generated/numpy.lib.format.html). */
#include "base/alloc.h"
#include "base/status.h"
#include "base/text.h"
#include "tensor/core/describe.h"
#include "tensor/core/overwrite_tag.h"
#include "tensor/core/shape.h"
#include "tensor/core/tensor.h"
#include "tensor/files/file.h"
#include "tensor/tape/tape.h"
#include <inttypes.h>
#include <phonograph/tensor_file.h>
#include <string.h>

enum {
    MAGIC_BYTES = 6,
    START_BYTES = 12,        /* magic, version, and the length of the header in the longest form */
    MOST_HEADER = 64 * 1024, /* NumPy's own have some hundred bytes */
    ALIGNMENT = 64
};
static const char magic[MAGIC_BYTES + 1] = "\x93NUMPY";

/* The contents of the header. */
typedef struct header {
    ph_dtype dtype;
    bool fortran;
    ph_shape shape;
    uint64_t data; /* where the elements begin */
} header;

/* The header is the text of a Python dictionary. */
typedef struct words {
    const char *start, *at, *end;
    const ph__reader *reader;
} words;

static ph_status fail_header(const words *w, const char *what)
{
    return ph_fail(PH_ERROR_ARGUMENT,
                   "%s: %s is no .npy file that can be read: %s, at character %td of the header",
                   w->reader->call, w->reader->path, what, w->at - w->start);
}

static char peek_char(words *w)
{
    while (w->at < w->end && (*w->at == ' ' || *w->at == '\n'))
        w->at++;
    return w->at < w->end ? *w->at : 0;
}

static bool accept_header_char(words *w, char c)
{
    if (peek_char(w) != c || w->at == w->end)
        return false;
    w->at++;
    return true;
}

/* A plain string: what NumPy writes here has no escapes. */
static ph_status read_string(words *w, char *out, size_t size)
{
    char quote = peek_char(w);
    size_t length = 0;
    if (quote != '\'' && quote != '"')
        return fail_header(w, "a string must stand here");
    const char *close = memchr(w->at + 1, quote, (size_t)(w->end - w->at - 1));
    if (!close)
        return fail_header(w, "a string without an end");
    for (const char *p = w->at + 1; p < close; p++, length++) {
        if (*p == '\\' || (unsigned char)*p < 0x20 || length + 1 == size)
            return fail_header(w, "a string that stands for nothing known");
        out[length] = *p;
    }
    out[length] = '\0';
    w->at = close + 1;
    return PH_OK;
}

static const struct {
    ph_dtype dtype;
    char code[4]; /* behind the byte order */
} dtypes[] = {{PH_DTYPE_F32, "f4"}, {PH_DTYPE_F64, "f8"}, {PH_DTYPE_F16, "f2"},
              {PH_DTYPE_I32, "i4"}, {PH_DTYPE_I64, "i8"}, {PH_DTYPE_U8, "u1"},
              {PH_DTYPE_BOOL, "b1"}};

static ph_status read_npy_dtype(ph_dtype *out, words *w)
{
    char text[32];
    if (peek_char(w) == '[')
        return ph_fail(PH_ERROR_UNSUPPORTED,
                       "%s: %s has a structured dtype, and there is none here", w->reader->call,
                       w->reader->path);
    PH_TRY(read_string(w, text, sizeof text));
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        bool one_byte = ph_dtype_size(dtypes[i].dtype) == 1;
        if (strcmp(text + (*text != '\0'), dtypes[i].code) == 0 &&
            (*text == '<' || (one_byte && strchr("|=>", *text)))) {
            *out = dtypes[i].dtype;
            return PH_OK;
        }
    }
    return ph_fail(
        PH_ERROR_UNSUPPORTED,
        "%s: %s has the dtype '%s'; f2, f4, f8, i4, i8, u1 and b1, little-endian, can be read",
        w->reader->call, w->reader->path, text);
}

static ph_status read_bool(bool *out, words *w)
{
    static const char *const names[] = {"False", "True"};
    (void)peek_char(w);
    for (int value = 0; value < 2; value++) {
        size_t length = strlen(names[value]);
        if ((size_t)(w->end - w->at) >= length && memcmp(w->at, names[value], length) == 0) {
            w->at += length;
            *out = value;
            return PH_OK;
        }
    }
    return fail_header(w, "True or False must stand here");
}

static ph_status read_dimension(int64_t *out, words *w)
{
    int64_t value = 0;
    char c = peek_char(w);
    if (c < '0' || c > '9')
        return fail_header(w, "a dimension must stand here");
    for (; w->at < w->end && *w->at >= '0' && *w->at <= '9'; w->at++)
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, *w->at - '0', &value))
            return fail_header(w, "a dimension beyond 63 bits");
    *out = value;
    return PH_OK;
}

/* "()", "(3,)", "(3, 4)". */
static ph_status read_npy_shape(ph_shape *out, words *w)
{
    bool comma = true;
    *out = PH_SCALAR;
    if (!accept_header_char(w, '('))
        return fail_header(w, "a shape must stand here");
    while (!accept_header_char(w, ')')) {
        if (!comma)
            return fail_header(w, "a comma must stand here");
        if (out->rank == PH_MAX_RANK)
            return ph_fail(PH_ERROR_UNSUPPORTED, "%s: %s has more than %d dimensions",
                           w->reader->call, w->reader->path, PH_MAX_RANK);
        PH_TRY(read_dimension(&out->dim[out->rank++], w));
        comma = accept_header_char(w, ',');
    }
    if (out->rank == 1 && !comma)
        return fail_header(w, "a shape of one dimension ends in a comma");
    return PH_OK;
}

enum {
    HAS_DESCR = 1,
    HAS_ORDER = 2,
    HAS_SHAPE = 4,
    HAS_ALL = 7
};

static ph_status read_npy_member(header *out, unsigned *has, words *w)
{
    char key[32];
    PH_TRY(read_string(w, key, sizeof key));
    unsigned bit = strcmp(key, "descr") == 0           ? HAS_DESCR
                   : strcmp(key, "fortran_order") == 0 ? HAS_ORDER
                   : strcmp(key, "shape") == 0         ? HAS_SHAPE
                                                       : 0;
    if (bit == 0)
        return fail_header(w, "an unknown key");
    if (*has & bit)
        return fail_header(w, "a key stands there twice");
    *has |= bit;
    if (!accept_header_char(w, ':'))
        return fail_header(w, "a colon must stand here");
    return bit == HAS_DESCR   ? read_npy_dtype(&out->dtype, w)
           : bit == HAS_ORDER ? read_bool(&out->fortran, w)
                              : read_npy_shape(&out->shape, w);
}

static ph_status read_dictionary(header *out, words *w)
{
    unsigned has = 0;
    bool comma = true;
    if (!accept_header_char(w, '{'))
        return fail_header(w, "a dictionary must stand here");
    while (!accept_header_char(w, '}')) {
        if (!comma)
            return fail_header(w, "a comma must stand here");
        PH_TRY(read_npy_member(out, &has, w));
        comma = accept_header_char(w, ',');
    }
    if (has != HAS_ALL)
        return fail_header(w, "descr, fortran_order or shape is missing");
    return peek_char(w) == 0 && w->at == w->end ? PH_OK
                                                : fail_header(w, "something behind the dictionary");
}

/* The start of the file: where the text lies. */
static ph_status read_start(size_t *text, size_t *length, const ph__reader *reader)
{
    unsigned char start[START_BYTES] = {0};
    size_t have = reader->size < START_BYTES ? (size_t)reader->size : START_BYTES;
    PH_TRY(ph__reader_read(reader, start, 0, have));
    if (have < 10 || memcmp(start, magic, MAGIC_BYTES) != 0)
        return ph_fail(PH_ERROR_ARGUMENT, "%s: %s is no .npy file: it does not begin like one",
                       reader->call, reader->path);
    if (start[6] < 1 || start[6] > 3 || start[7] != 0)
        return ph_fail(PH_ERROR_UNSUPPORTED,
                       "%s: %s has version %d.%d; 1.0, 2.0 and 3.0 can be read", reader->call,
                       reader->path, start[6], start[7]);
    *text = start[6] == 1 ? 10 : 12;
    *length = (size_t)start[8] | (size_t)start[9] << 8;
    if (start[6] > 1)
        *length |= (size_t)start[10] << 16 | (size_t)start[11] << 24;
    if (*length > MOST_HEADER)
        return ph_fail(PH_ERROR_SIZE, "%s: %s has a header of %zu bytes; at most %d are read",
                       reader->call, reader->path, *length, MOST_HEADER);
    if (*text + *length > reader->size)
        return ph_fail(PH_ERROR_SIZE, "%s: %s ends within its header of %zu bytes", reader->call,
                       reader->path, *length);
    return PH_OK;
}

static ph_status read_header(header *out, const ph__reader *reader)
{
    size_t start = 0, length = 0, bytes;
    PH_TRY(read_start(&start, &length, reader));
    char *text = ph__alloc(length);
    if (!text)
        return ph__fail_host_memory(reader->call, "the header of the file");
    words w = {text, text, text + length, reader};
    *out = (header){.data = start + length};
    ph_status status = ph__reader_read(reader, text, start, length);
    if (status == PH_OK)
        status = read_dictionary(out, &w);
    ph__free(text);
    PH_TRY(status);
    PH_TRY(ph__shape_check(&bytes, out->dtype, &out->shape, reader->call));
    if (bytes != reader->size - out->data)
        return ph_fail(PH_ERROR_SIZE,
                       "%s: %s has %" PRIu64 " bytes behind its header, which speaks of %zu",
                       reader->call, reader->path, reader->size - out->data, bytes);
    return PH_OK;
}

/* In Fortran order the elements lie as those of the transposed array do in C's. */
static ph_status read_fortran(ph_tensor **out, ph_tape *tape, const header *h,
                              const ph__reader *reader)
{
    ph_shape turned = {.rank = h->shape.rank};
    int axes[PH_MAX_RANK];
    for (size_t i = 0; i < turned.rank; i++) {
        turned.dim[i] = h->shape.dim[turned.rank - 1 - i];
        axes[i] = (int)(turned.rank - 1 - i);
    }
    ph_tensor *x;
    PH_TRY(ph__tensor_for(&x, tape, h->dtype, &turned, reader->call));
    ph_status status = ph__tensor_load(tape, x, reader, h->data);
    if (status == PH_OK) {
        size_t mark = ph_tape_scope_begin(tape);
        *out = ph_tensor_retain(ph_contiguous(tape, ph_permute(tape, x, axes, turned.rank)));
        ph_tape_scope_end(tape, mark, NULL, 0);
        status = ph_tape_status(tape);
    }
    ph_tensor_release(x);
    return status;
}

static ph_status read_plain(ph_tensor **out, ph_tape *tape, const header *h,
                            const ph__reader *reader)
{
    PH_TRY(ph__tensor_for(out, tape, h->dtype, &h->shape, reader->call));
    ph_status status = ph__tensor_load(tape, *out, reader, h->data);
    if (status != PH_OK) {
        ph_tensor_release(*out);
        *out = NULL;
    }
    return status;
}

ph_status ph_npy_read(ph_tensor **out, ph_tape *tape, const char *path)
{
    static const char call[] = "ph_npy_read";
    ph__reader reader;
    header h;
    if (!out)
        return ph__fail_null(call, "out");
    *out = NULL;
    PH_TRY(ph__file_begin(tape, path, call));
    PH_TRY(ph__reader_open(&reader, path, call));
    ph_status status = read_header(&h, &reader);
    if (status == PH_OK)
        status = h.fortran && h.shape.rank > 1 ? read_fortran(out, tape, &h, &reader)
                                               : read_plain(out, tape, &h, &reader);
    ph__reader_close(&reader);
    return status;
}

/* ---- writing ---- version 1.0; blanks make the elements begin at a multiple of 64. */
static const char *code_of(ph_dtype dtype)
{
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (dtypes[i].dtype == dtype)
            return dtypes[i].code;
    return NULL;
}

static char *make_npy_header(size_t *length, const ph_tensor *x, const char *code)
{
    ph__text text = {0};
    ph__text_add_bytes(&text, magic, MAGIC_BYTES);
    ph__text_add_bytes(&text, "\1\0\0\0", 4);
    ph__text_format(&text, "{'descr': '%c%s', 'fortran_order': False, 'shape': (",
                    ph_dtype_size(x->dtype) == 1 ? '|' : '<', code);
    for (size_t i = 0; i < x->shape.rank; i++)
        ph__text_format(&text, "%s%" PRId64 "%s", i ? " " : "", x->shape.dim[i],
                        i + 1 < x->shape.rank || x->shape.rank == 1 ? "," : "");
    ph__text_add(&text, "), }");
    while (!text.failed && (text.length + 1) % ALIGNMENT != 0)
        ph__text_add(&text, " ");
    ph__text_add(&text, "\n");
    *length = text.length;
    char *all = ph__text_detach(&text);
    if (all) {
        all[8] = (char)((*length - 10) & 0xFF);
        all[9] = (char)((*length - 10) >> 8);
    }
    return all;
}

static ph_status write_npy_file(ph_tape *tape, ph_tensor *x, const char *path, const char *code,
                                const char *call)
{
    size_t length;
    ph__file file;
    char *start = make_npy_header(&length, x, code);
    if (!start)
        return ph__fail_host_memory(call, "the header of the file");
    ph_status status = ph__file_create(&file, path, call);
    if (status == PH_OK) {
        status = ph__file_write(&file, start, length);
        if (status == PH_OK)
            status = ph__tensor_save(tape, x, &file);
        if (status == PH_OK)
            status = ph__file_commit(&file);
        else
            ph__file_abandon(&file);
    }
    ph__free(start);
    return status;
}

ph_status ph_npy_write(ph_tape *tape, ph_tensor *x, const char *path)
{
    static const char call[] = "ph_npy_write";
    char text[PH__DESCRIBE];
    PH_TRY(ph__file_begin(tape, path, call));
    if (!x)
        return ph__fail_null(call, "x");
    if (ph__tensor_is_overwritten(x))
        return ph__fail_overwritten(x, call, "the tensor");
    if (x->storage->backend != tape->backend)
        return ph_fail(PH_ERROR_WRONG_DEVICE, "%s: %s is of another device than the tape", call,
                       ph__describe(text, x));
    const char *code = code_of(x->dtype);
    if (!code)
        return ph_fail(PH_ERROR_UNSUPPORTED, "%s: .npy has no dtype for %s; ph_cast it first", call,
                       ph__describe(text, x));
    return write_npy_file(tape, x, path, code, call);
}
