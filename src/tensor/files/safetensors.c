/* SPDX-License-Identifier: MIT */
/* tensor/files/safetensors.c: safetensors files: reading tensors by name, and writing. */
#include "tensor/files/safetensors.h"
#include "base/alloc.h"
#include "base/json.h"
#include "base/status.h"
#include "base/text.h"
#include "tensor/core/describe.h"
#include "tensor/core/overwrite_tag.h"
#include "tensor/core/tensor.h"
#include "tensor/files/json_read.h"
#include "tensor/files/safetensors_header.h"
#include "tensor/tape/node.h"
#include "tensor/tape/tape.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- opening ---- */
ph_status ph_safetensors_open(ph_safetensors **out, const char *path)
{
    static const char call[] = "ph_safetensors_open";
    if (!out)
        return ph__fail_null(call, "out");
    *out = NULL;
    if (!path)
        return ph__fail_null(call, "path");
    ph_safetensors *file = ph__calloc(1, sizeof *file);
    if (!file)
        return ph__fail_host_memory(call, "an open file");
    file->reader.number = -1;
    file->path = ph__strdup(path);
    ph_status status = file->path ? ph__reader_open(&file->reader, file->path, call)
                                  : ph__fail_host_memory(call, "the name of a file");
    if (status == PH_OK)
        status = ph__safetensors_read_header(file);
    if (status == PH_OK)
        *out = file;
    else
        ph_safetensors_close(file);
    return status;
}

void ph_safetensors_close(ph_safetensors *file)
{
    if (!file)
        return;
    ph__reader_drop_aside(&file->reader);
    ph__reader_close(&file->reader);
    for (size_t i = 0; i < file->entries.count; i++)
        ph__free(file->entries.at[i].name);
    for (size_t i = 0; i < file->metadata.count; i++) {
        ph__free(file->metadata.at[i].key);
        ph__free(file->metadata.at[i].value);
    }
    ph__vec_free(&file->entries);
    ph__vec_free(&file->metadata);
    ph__free(file->path);
    ph__free(file);
}

/* ---- looking ---- */
size_t ph_safetensors_count(const ph_safetensors *file)
{
    return file ? file->entries.count : 0;
}

ph_status ph_safetensors_entry(const char **name, ph_dtype *dtype, ph_shape *shape,
                               const ph_safetensors *file, size_t index)
{
    static const char call[] = "ph_safetensors_entry";
    if (!file)
        return ph__fail_null(call, "file");
    if (index >= file->entries.count)
        return ph_fail(PH_ERROR_NOT_FOUND, "%s: there is no entry %zu: %s has %zu tensors", call,
                       index, file->path, file->entries.count);
    const ph__safe_entry *entry = &file->entries.at[index];
    if (name)
        *name = entry->name;
    if (dtype)
        *dtype = entry->dtype;
    if (shape)
        *shape = entry->shape;
    return PH_OK;
}

static int compare_key(const void *key, const void *pair)
{
    return strcmp(key, ((const ph__safe_pair *)pair)->key);
}

const char *ph_safetensors_metadata(const ph_safetensors *file, const char *key)
{
    if (!file || !key || file->metadata.count == 0)
        return NULL;
    const ph__safe_pair *pair = bsearch(key, file->metadata.at, file->metadata.count,
                                        sizeof *file->metadata.at, compare_key);
    return pair ? pair->value : NULL;
}

static int compare_name(const void *name, const void *entry)
{
    return strcmp(name, ((const ph__safe_entry *)entry)->name);
}

/* ---- reading ---- */
static ph_status find_entry(const ph__safe_entry **out, const ph_safetensors *file,
                            const char *name, const char *call)
{
    if (!file)
        return ph__fail_null(call, "file");
    if (!name)
        return ph__fail_null(call, "name");
    *out = file->entries.count ? bsearch(name, file->entries.at, file->entries.count,
                                         sizeof *file->entries.at, compare_name)
                               : NULL;
    if (!*out)
        return ph_fail(PH_ERROR_NOT_FOUND, "%s: %s has no tensor '%s'", call, file->path, name);
    if (!(*out)->dtype)
        return ph_fail(PH_ERROR_UNSUPPORTED,
                       "%s: %s: the tensor '%s' has a dtype, or a rank, that there is none of here",
                       call, file->path, name);
    return PH_OK;
}

static ph_status load_entry(ph_tape *tape, ph_tensor *x, const ph_safetensors *file,
                            const ph__safe_entry *entry, const char *call)
{
    ph__reader reader = file->reader;
    reader.call = call;
    return ph__tensor_load(tape, x, &reader, file->data + entry->begin);
}

ph_status ph_safetensors_read(ph_tensor **out, ph_tape *tape, const ph_safetensors *file,
                              const char *name)
{
    static const char call[] = "ph_safetensors_read";
    const ph__safe_entry *entry;
    if (!out)
        return ph__fail_null(call, "out");
    *out = NULL;
    PH_TRY(find_entry(&entry, file, name, call));
    PH_TRY(ph__file_begin(tape, file->path, call));
    PH_TRY(ph__tensor_for(out, tape, entry->dtype, &entry->shape, call));
    ph_status status = load_entry(tape, *out, file, entry, call);
    if (status != PH_OK) {
        ph_tensor_release(*out);
        *out = NULL;
    }
    return status;
}

ph_status ph_safetensors_read_into(ph_tape *tape, ph_tensor *dst, const ph_safetensors *file,
                                   const char *name)
{
    static const char call[] = "ph_safetensors_read_into";
    const ph__safe_entry *entry;
    char want[PH__DESCRIBE], have[PH__DESCRIBE];
    PH_TRY(find_entry(&entry, file, name, call));
    PH_TRY(ph__file_begin(tape, file->path, call));
    if (!dst)
        return ph__fail_null(call, "dst");
    if (ph__tensor_is_overwritten(dst))
        return ph__fail_overwritten(dst, call, "the tensor");
    if (dst->storage->backend != tape->backend)
        return ph_fail(PH_ERROR_WRONG_DEVICE, "%s: %s is of another device than the tape", call,
                       ph__describe(have, dst));
    if (dst->dtype != entry->dtype || !ph_shape_equal(&dst->shape, &entry->shape)) {
        ph_tensor like = {.dtype = entry->dtype, .shape = entry->shape};
        return ph_fail(PH_ERROR_MISMATCH,
                       "%s: %s: the tensor '%s' is %s, and is to be read into %s", call, file->path,
                       name, ph__describe(want, &like), ph__describe(have, dst));
    }
    if (dst->storage->read_only)
        return ph_fail(PH_ERROR_STATE, "%s: the memory of %s is read-only", call,
                       ph__describe(have, dst));
    if (ph__node_is_alive(dst->node))
        return ph_fail(PH_ERROR_STATE,
                       "%s: %s was made by an operator, and is no leaf; ph_detach gives one", call,
                       ph__describe(have, dst));
    return load_entry(tape, dst, file, entry, call);
}

ph_status ph__safetensors_look_up(ph_safetensors *file, ph_tape *tape, const char *call)
{
    PH_TRY(ph__reader_make_aside(&file->reader, tape->stream));
    ph__reader reader = file->reader;
    reader.call = call;
    for (size_t i = 0; i < file->entries.count; i++) {
        const ph__safe_entry *entry = &file->entries.at[i];
        if (entry->dtype != 0)
            PH_TRY(ph__reader_look_up(&reader, entry->dtype, file->data + entry->begin,
                                      entry->end - entry->begin));
    }
    return PH_OK;
}

/* ---- writing ---- */
/* Tensors with large elements come first, so that each begins at a multiple of its element's size;
 * then by name. */
static int by_size_and_name(const void *a_, const void *b_)
{
    const ph_named_tensor *a = a_, *b = b_;
    size_t x = ph_dtype_size(a->tensor->dtype), y = ph_dtype_size(b->tensor->dtype);
    return x != y ? (x > y ? -1 : 1) : strcmp(a->name, b->name);
}

static int compare_tensor_names(const void *a, const void *b)
{
    return strcmp(((const ph_named_tensor *)a)->name, ((const ph_named_tensor *)b)->name);
}

static ph_status check_named_tensors(const ph_tape *tape, const ph_named_tensor *tensors,
                                     size_t count, const char *call)
{
    for (size_t i = 0; i < count; i++) {
        const ph_named_tensor *t = &tensors[i];
        if (!t->name || !t->tensor)
            return ph_fail(PH_ERROR_ARGUMENT, "%s: entry %zu has no name, or no tensor", call, i);
        if (!ph__json_is_utf8(t->name))
            return ph_fail(PH_ERROR_ARGUMENT, "%s: the name of entry %zu is not UTF-8", call, i);
        if (strcmp(t->name, "__metadata__") == 0)
            return ph_fail(PH_ERROR_ARGUMENT,
                           "%s: '__metadata__' is the name of no tensor in this format", call);
        if (ph__tensor_is_overwritten(t->tensor)) {
            char quoted[96];
            (void)snprintf(quoted, sizeof quoted, "'%s'", t->name);
            return ph__fail_overwritten(t->tensor, call, quoted);
        }
        if (t->tensor->storage->backend != tape->backend)
            return ph_fail(PH_ERROR_WRONG_DEVICE, "%s: '%s' is of another device than the tape",
                           call, t->name);
    }
    return PH_OK;
}

/* A copy to sort: by name, and no name twice. */
static ph_status sort_by_name(ph_named_tensor **out, const ph_named_tensor *tensors, size_t count,
                              const char *call)
{
    ph_named_tensor *copy = ph__calloc(count ? count : 1, sizeof *copy);
    if (!copy)
        return ph__fail_host_memory(call, "the names");
    if (count > 0) {
        memcpy(copy, tensors, count * sizeof *copy);
        qsort(copy, count, sizeof *copy, compare_tensor_names);
    }
    for (size_t i = 1; i < count; i++)
        if (strcmp(copy[i - 1].name, copy[i].name) == 0) {
            ph_status status = ph_fail(PH_ERROR_ARGUMENT, "%s: two tensors have the name '%s'",
                                       call, copy[i].name);
            ph__free(copy);
            return status;
        }
    if (count > 0)
        qsort(copy, count, sizeof *copy, by_size_and_name);
    *out = copy;
    return PH_OK;
}

static void add_header_entry(ph__json *json, const ph_named_tensor *t, uint64_t begin)
{
    ph__json_key(json, t->name);
    ph__json_open(json, '{');
    ph__json_key(json, "dtype");
    ph__json_string(json, ph__safetensors_dtype_name(t->tensor->dtype));
    ph__json_key(json, "shape");
    ph__json_open(json, '[');
    for (size_t i = 0; i < t->tensor->shape.rank; i++)
        ph__json_i64(json, t->tensor->shape.dim[i]);
    ph__json_close(json, ']');
    ph__json_key(json, "data_offsets");
    ph__json_open(json, '[');
    ph__json_u64(json, begin);
    ph__json_u64(json, begin + ph_tensor_bytes(t->tensor));
    ph__json_close(json, ']');
    ph__json_close(json, '}');
}

/* Ends in blanks, so that the tensors begin at a multiple of 8. */
static void make_safetensors_header(ph__text *out, const ph_named_tensor *tensors, size_t count)
{
    ph__json json = {0};
    uint64_t at = 0;
    ph__json_open(&json, '{');
    for (size_t i = 0; i < count; i++) {
        add_header_entry(&json, &tensors[i], at);
        at += ph_tensor_bytes(tensors[i].tensor);
    }
    ph__json_close(&json, '}');
    *out = json.text;
    while (!out->failed && out->length % PH__SAFETENSORS_LENGTH_BYTES != 0)
        ph__text_add(out, " ");
}

static ph_status write_all(ph__file *file, ph_tape *tape, const ph__text *header,
                           const ph_named_tensor *tensors, size_t count)
{
    unsigned char length[PH__SAFETENSORS_LENGTH_BYTES];
    for (size_t i = 0; i < sizeof length; i++)
        length[i] = (unsigned char)((uint64_t)header->length >> 8 * i);
    PH_TRY(ph__file_write(file, length, sizeof length));
    PH_TRY(ph__file_write(file, header->at, header->length));
    for (size_t i = 0; i < count; i++)
        PH_TRY(ph__tensor_save(tape, tensors[i].tensor, file));
    return PH_OK;
}

static ph_status write_safetensors_file(ph_tape *tape, const char *path,
                                        const ph_named_tensor *tensors, size_t count,
                                        const char *call)
{
    ph__text header;
    ph__file file;
    make_safetensors_header(&header, tensors, count);
    ph_status status = header.failed ? ph__fail_host_memory(call, "the header of the file") : PH_OK;
    if (status == PH_OK && header.length > PH__SAFETENSORS_MOST_HEADER)
        status =
            ph_fail(PH_ERROR_SIZE, "%s: the header would have %zu bytes, more than a reader takes",
                    call, header.length);
    if (status == PH_OK)
        status = ph__file_create(&file, path, call);
    if (status == PH_OK) {
        status = write_all(&file, tape, &header, tensors, count);
        if (status == PH_OK)
            status = ph__file_commit(&file);
        else
            ph__file_abandon(&file);
    }
    ph__text_free(&header);
    return status;
}

ph_status ph_safetensors_write(ph_tape *tape, const char *path, const ph_named_tensor *tensors,
                               size_t count)
{
    static const char call[] = "ph_safetensors_write";
    ph_named_tensor *copy = NULL;
    PH_TRY(ph__file_begin(tape, path, call));
    if (count > 0 && !tensors)
        return ph__fail_null(call, "tensors");
    PH_TRY(check_named_tensors(tape, tensors, count, call));
    PH_TRY(sort_by_name(&copy, tensors, count, call));
    ph_status status = write_safetensors_file(tape, path, copy, count, call);
    ph__free(copy);
    return status;
}
