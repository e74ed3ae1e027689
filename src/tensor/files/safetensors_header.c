/* SPDX-License-Identifier: MIT */
/* tensor/files/safetensors_header.c: the header of a safetensors file, which is not trusted. */
#include "tensor/files/safetensors_header.h"
#include "base/alloc.h"
#include "base/checked.h"
#include "base/status.h"
#include "tensor/files/json_read.h"
#include "tensor/files/safetensors.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char *const dtype_names[] = {
    [PH_DTYPE_F32] = "F32",   [PH_DTYPE_F64] = "F64",  [PH_DTYPE_F16] = "F16",
    [PH_DTYPE_BF16] = "BF16", [PH_DTYPE_I32] = "I32",  [PH_DTYPE_I64] = "I64",
    [PH_DTYPE_U8] = "U8",     [PH_DTYPE_BOOL] = "BOOL"};

const char *ph__safetensors_dtype_name(ph_dtype dtype)
{
    return dtype_names[dtype];
}

static ph_dtype dtype_of_name(const char *name)
{
    for (int dtype = PH_DTYPE_F32; dtype <= PH_DTYPE_BOOL; dtype++)
        if (strcmp(name, dtype_names[dtype]) == 0)
            return (ph_dtype)dtype;
    return (ph_dtype)0;
}

/* ---- members ---- false: in->wrong says why. */
static bool read_metadata(ph_safetensors *file, ph__json_in *in)
{
    if (!ph__json_in_open(in, '{'))
        return false;
    while (ph__json_in_more(in, '}')) {
        ph__safe_pair pair = {ph__json_in_key(in), NULL};
        pair.value = pair.key ? ph__json_in_string(in) : NULL;
        if (pair.value && ph__vec_push(&file->metadata, pair))
            continue;
        in->no_memory = in->no_memory || pair.value;
        ph__free(pair.key);
        ph__free(pair.value);
        return ph__json_in_fail(in, "no host memory for the metadata");
    }
    return !in->wrong;
}

static bool read_entry_dtype(ph__safe_entry *entry, ph__json_in *in)
{
    char *name = ph__json_in_string(in);
    if (!name)
        return false;
    entry->dtype = dtype_of_name(name);
    ph__free(name);
    return true;
}

/* Dimensions beyond PH_MAX_RANK are read and dropped; *rank counts them. */
static bool read_entry_shape(ph__safe_entry *entry, size_t *rank, ph__json_in *in)
{
    uint64_t dim;
    if (!ph__json_in_open(in, '['))
        return false;
    for (*rank = 0; ph__json_in_more(in, ']'); ++*rank) {
        if (!ph__json_in_u64(in, &dim))
            return false;
        if (dim > INT64_MAX)
            return ph__json_in_fail(in, "a dimension beyond 63 bits");
        if (*rank < PH_MAX_RANK)
            entry->shape.dim[*rank] = (int64_t)dim;
    }
    return !in->wrong;
}

static bool read_offsets(ph__safe_entry *entry, ph__json_in *in)
{
    bool both = ph__json_in_open(in, '[') && ph__json_in_more(in, ']') &&
                ph__json_in_u64(in, &entry->begin) && ph__json_in_more(in, ']') &&
                ph__json_in_u64(in, &entry->end);
    if (!both || ph__json_in_more(in, ']'))
        return ph__json_in_fail(in, "data_offsets are two numbers");
    if (!in->wrong && entry->begin > entry->end)
        return ph__json_in_fail(in, "data_offsets that end before they begin");
    return !in->wrong;
}

enum {
    HAS_DTYPE = 1,
    HAS_SHAPE = 2,
    HAS_OFFSETS = 4,
    HAS_ALL = 7
};

static bool read_entry_member(ph__safe_entry *entry, unsigned *has, size_t *rank, ph__json_in *in)
{
    char *key = ph__json_in_key(in);
    if (!key)
        return false;
    unsigned bit = strcmp(key, "dtype") == 0          ? HAS_DTYPE
                   : strcmp(key, "shape") == 0        ? HAS_SHAPE
                   : strcmp(key, "data_offsets") == 0 ? HAS_OFFSETS
                                                      : 0;
    ph__free(key);
    if (bit == 0)
        return ph__json_in_fail(in, "a tensor has a member that is not known");
    if (*has & bit)
        return ph__json_in_fail(in, "a tensor has a member twice");
    *has |= bit;
    return bit == HAS_DTYPE   ? read_entry_dtype(entry, in)
           : bit == HAS_SHAPE ? read_entry_shape(entry, rank, in)
                              : read_offsets(entry, in);
}

static bool read_entry(ph__safe_entry *entry, ph__json_in *in)
{
    unsigned has = 0;
    size_t rank = 0;
    if (!ph__json_in_open(in, '{'))
        return false;
    while (ph__json_in_more(in, '}'))
        if (!read_entry_member(entry, &has, &rank, in))
            return false;
    if (in->wrong)
        return false;
    if (has != HAS_ALL)
        return ph__json_in_fail(in, "a tensor without dtype, shape or data_offsets");
    if (rank > PH_MAX_RANK)
        entry->dtype = (ph_dtype)0;
    entry->shape.rank = entry->dtype ? rank : 0;
    return true;
}

/* Takes the name over. */
static bool add_file_entry(ph_safetensors *file, char *name, ph__json_in *in)
{
    ph__safe_entry entry = {.name = name};
    if (read_entry(&entry, in)) {
        if (ph__vec_push(&file->entries, entry))
            return true;
        in->no_memory = true;
        (void)ph__json_in_fail(in, "no host memory for the names");
    }
    ph__free(name);
    return false;
}

static bool read_members(ph_safetensors *file, ph__json_in *in)
{
    bool has_metadata = false;
    if (!ph__json_in_open(in, '{'))
        return false;
    while (ph__json_in_more(in, '}')) {
        char *name = ph__json_in_key(in);
        if (!name)
            return false;
        if (strcmp(name, "__metadata__") != 0) {
            if (!add_file_entry(file, name, in))
                return false;
            continue;
        }
        ph__free(name);
        if (has_metadata)
            return ph__json_in_fail(in, "the metadata stand there twice");
        has_metadata = true;
        if (!read_metadata(file, in))
            return false;
    }
    return ph__json_in_end(in);
}

/* ---- checks ---- of what was read as a whole. */
static int by_place(const void *a_, const void *b_)
{
    const ph__safe_entry *a = a_, *b = b_;
    if (a->begin != b->begin)
        return a->begin < b->begin ? -1 : 1;
    return a->end < b->end ? -1 : a->end > b->end;
}

static int compare_entry_names(const void *a, const void *b)
{
    return strcmp(((const ph__safe_entry *)a)->name, ((const ph__safe_entry *)b)->name);
}

static int by_key(const void *a, const void *b)
{
    return strcmp(((const ph__safe_pair *)a)->key, ((const ph__safe_pair *)b)->key);
}

static ph_status check_size(const ph__safe_entry *entry, const ph__reader *reader)
{
    size_t bytes;
    if (!entry->dtype)
        return PH_OK;
    int64_t count = ph_shape_count(&entry->shape);
    if (count < 0 || !ph__mul((size_t)count, ph_dtype_size(entry->dtype), &bytes))
        return ph_fail(PH_ERROR_SIZE, "%s: %s: the tensor '%s' has more elements than any memory",
                       reader->call, reader->path, entry->name);
    if (bytes != entry->end - entry->begin)
        return ph_fail(PH_ERROR_SIZE,
                       "%s: %s: the tensor '%s' takes %zu bytes by its shape, and has %" PRIu64
                       " by its offsets",
                       reader->call, reader->path, entry->name, bytes, entry->end - entry->begin);
    return PH_OK;
}

/* Every byte belongs to one tensor. */
static ph_status check_entry_places(ph_safetensors *file)
{
    const ph__reader *reader = &file->reader;
    uint64_t at = 0, all = reader->size - file->data;
    if (file->entries.count > 0)
        qsort(file->entries.at, file->entries.count, sizeof *file->entries.at, by_place);
    for (size_t i = 0; i < file->entries.count; i++) {
        const ph__safe_entry *entry = &file->entries.at[i];
        if (entry->begin != at)
            return ph_fail(PH_ERROR_SIZE,
                           "%s: %s: the tensor '%s' begins at byte %" PRIu64
                           ", and must at %" PRIu64 ": no gaps, no overlaps",
                           reader->call, reader->path, entry->name, entry->begin, at);
        if (entry->end > all)
            return ph_fail(PH_ERROR_SIZE,
                           "%s: %s: the tensor '%s' ends at byte %" PRIu64 " of %" PRIu64
                           ": the file is not whole",
                           reader->call, reader->path, entry->name, entry->end, all);
        PH_TRY(check_size(entry, reader));
        at = entry->end;
    }
    if (at != all)
        return ph_fail(PH_ERROR_SIZE, "%s: %s has %" PRIu64 " bytes behind its last tensor",
                       reader->call, reader->path, all - at);
    return PH_OK;
}

static ph_status check_names(ph_safetensors *file)
{
    const ph__reader *reader = &file->reader;
    if (file->entries.count > 0)
        qsort(file->entries.at, file->entries.count, sizeof *file->entries.at, compare_entry_names);
    for (size_t i = 1; i < file->entries.count; i++)
        if (strcmp(file->entries.at[i - 1].name, file->entries.at[i].name) == 0)
            return ph_fail(PH_ERROR_ARGUMENT, "%s: %s has two tensors of the name '%s'",
                           reader->call, reader->path, file->entries.at[i].name);
    if (file->metadata.count > 0)
        qsort(file->metadata.at, file->metadata.count, sizeof *file->metadata.at, by_key);
    for (size_t i = 1; i < file->metadata.count; i++)
        if (strcmp(file->metadata.at[i - 1].key, file->metadata.at[i].key) == 0)
            return ph_fail(PH_ERROR_ARGUMENT, "%s: %s has the key '%s' twice in its metadata",
                           reader->call, reader->path, file->metadata.at[i].key);
    return PH_OK;
}

static ph_status parse_header(ph_safetensors *file, const char *text, size_t length)
{
    const ph__reader *reader = &file->reader;
    ph__json_in in;
    ph__json_in_start(&in, text, length);
    if (!read_members(file, &in))
        return in.no_memory ? ph__fail_host_memory(reader->call, "the header of the file")
                            : ph_fail(PH_ERROR_ARGUMENT,
                                      "%s: %s has a header that is wrong at its byte %zu: %s",
                                      reader->call, reader->path, in.place, in.wrong);
    PH_TRY(check_entry_places(file));
    return check_names(file);
}

ph_status ph__safetensors_read_header(ph_safetensors *file)
{
    const ph__reader *reader = &file->reader;
    unsigned char start[PH__SAFETENSORS_LENGTH_BYTES];
    uint64_t length = 0;
    if (reader->size < sizeof start)
        return ph_fail(PH_ERROR_SIZE,
                       "%s: %s has %" PRIu64 " bytes, too few for a safetensors file", reader->call,
                       reader->path, reader->size);
    PH_TRY(ph__reader_read(reader, start, 0, sizeof start));
    for (size_t i = sizeof start; i-- > 0;)
        length = length << 8 | start[i];
    if (length > PH__SAFETENSORS_MOST_HEADER || length > reader->size - sizeof start)
        return ph_fail(
            PH_ERROR_SIZE,
            "%s: %s is no safetensors file, or not a whole one: it has a header of %" PRIu64
            " bytes by its first eight, and %" PRIu64 " bytes in all; at most %" PRIu64 " are read",
            reader->call, reader->path, length, reader->size, PH__SAFETENSORS_MOST_HEADER);
    file->data = sizeof start + length;
    char *text = ph__alloc((size_t)length);
    if (!text)
        return ph__fail_host_memory(reader->call, "the header of the file");
    ph_status status = ph__reader_read(reader, text, sizeof start, (size_t)length);
    if (status == PH_OK && (length == 0 || text[0] != '{'))
        status = ph_fail(PH_ERROR_ARGUMENT,
                         "%s: %s is no safetensors file: its header does not begin with '{'",
                         reader->call, reader->path);
    if (status == PH_OK)
        status = parse_header(file, text, (size_t)length);
    ph__free(text);
    return status;
}
