/* SPDX-License-Identifier: MIT */
/* nn/training/manifest.c: state.json:
 * {"format": ..., "version": 1, "number": 12,
 *  "parts": [{"name": ..., "kind": ..., "bytes": of its file, "values": {...}}, ...]} */
#include "nn/training/manifest.h"
#include "base/alloc.h"
#include "base/status.h"
#include "base/text_file.h"
#include "nn/training/folder.h"
#include "nn/values/json.h"
#include "tensor/files/file.h"
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

enum {
    VERSION = 1,
    MOST_BYTES = 1 << 26
};
static const char format_name[] = "phonograph training";

static void free_part(ph__manifest_part *part)
{
    ph__free(part->name);
    ph__free(part->kind);
    ph_values_destroy(part->values);
}

void ph__manifest_free(ph__manifest *manifest)
{
    for (size_t i = 0; i < manifest->parts.count; i++)
        free_part(&manifest->parts.at[i]);
    ph__vec_free(&manifest->parts);
}

char *ph__manifest_path(const char *folder, const char *name)
{
    ph__text text = {.at = NULL};
    ph__text_format(&text, "%s/%s.safetensors", folder, name);
    return ph__text_detach(&text);
}

/* ---- writing ---- */
ph_status ph__manifest_add(ph__manifest *manifest, const ph__training_entry *entry,
                           const char *call)
{
    ph__manifest_part part = {.name = ph__strdup(entry->name),
                              .kind = ph__strdup(entry->kind->name),
                              .has_file = entry->kind->tensors};
    ph_status status = ph_values_create(&part.values);
    if (status == PH_OK && (!part.name || !part.kind || !ph__vec_push(&manifest->parts, part)))
        status = ph__fail_host_memory(call, "the list of a training's parts");
    if (status != PH_OK)
        free_part(&part);
    return status;
}

static void write_part(ph__json *json, const ph__manifest_part *part)
{
    ph__json_open(json, '{');
    ph__json_key(json, "name");
    ph__json_string(json, part->name);
    ph__json_key(json, "kind");
    ph__json_string(json, part->kind);
    if (part->has_file) {
        ph__json_key(json, "bytes");
        ph__json_u64(json, part->bytes);
    }
    ph__json_key(json, "values");
    ph__values_write(json, part->values);
    ph__json_close(json, '}');
    ph__text_add(&json->text, "\n");
}

ph_status ph__manifest_write(const ph__manifest *manifest, const char *folder, const char *call)
{
    ph__json json = {0};
    char *path = ph__folder_join(folder, PH__TRAINING_STATE);
    ph__json_open(&json, '{');
    ph__json_key(&json, "format");
    ph__json_string(&json, format_name);
    ph__json_key(&json, "version");
    ph__json_u64(&json, VERSION);
    ph__json_key(&json, "number");
    ph__json_u64(&json, manifest->number);
    ph__json_key(&json, "parts");
    ph__json_open(&json, '[');
    ph__text_add(&json.text, "\n");
    for (size_t i = 0; i < manifest->parts.count; i++)
        write_part(&json, &manifest->parts.at[i]);
    ph__json_close(&json, ']');
    ph__json_close(&json, '}');
    ph__text_add(&json.text, "\n");
    ph_status status = path ? ph__text_write_file(&json.text, path, call)
                            : ph__fail_host_memory(call, "the name of a file");
    ph__text_free(&json.text);
    ph__free(path);
    return status;
}

/* ---- reading ---- a member that is there twice is refused where its place is taken. */
static bool read_member(ph__manifest_part *part, const char *key, ph__json_in *in)
{
    if (strcmp(key, "name") == 0 && !part->name)
        return (part->name = ph__json_in_string(in)) != NULL;
    if (strcmp(key, "kind") == 0 && !part->kind)
        return (part->kind = ph__json_in_string(in)) != NULL;
    if (strcmp(key, "bytes") == 0 && !part->has_file)
        return part->has_file = ph__json_in_u64(in, &part->bytes);
    if (strcmp(key, "values") == 0 && !part->values) {
        in->no_memory = ph_values_create(&part->values) != PH_OK;
        return in->no_memory ? ph__json_in_fail(in, "no host memory for values")
                             : ph__values_read(part->values, in);
    }
    return ph__json_in_fail(in, "a member that no part has, or that is there twice");
}

static bool read_part(ph__manifest_part *part, ph__json_in *in)
{
    bool ok = ph__json_in_open(in, '{');
    while (ok && ph__json_in_more(in, '}')) {
        char *key = ph__json_in_key(in);
        ok = key && read_member(part, key, in);
        ph__free(key);
    }
    if (!ok || in->wrong)
        return false;
    if (!part->name || !part->kind || !part->values || strchr(part->name, '/'))
        return ph__json_in_fail(in, "a part has a name, a kind and values");
    return true;
}

static bool read_parts(ph__manifest *manifest, ph__json_in *in)
{
    bool ok = ph__json_in_open(in, '[');
    while (ok && ph__json_in_more(in, ']')) {
        ph__manifest_part part = {.name = NULL};
        ok = read_part(&part, in);
        for (size_t i = 0; ok && i < manifest->parts.count; i++)
            if (strcmp(manifest->parts.at[i].name, part.name) == 0)
                ok = ph__json_in_fail(in, "a part whose name is there twice");
        if (ok && !ph__vec_push(&manifest->parts, part)) {
            in->no_memory = true;
            ok = ph__json_in_fail(in, "no host memory for a part");
        }
        if (!ok)
            free_part(&part);
    }
    return ok && !in->wrong;
}

static bool read_expected(ph__json_in *in, const char *key, const char *text, uint64_t number)
{
    uint64_t got = 0;
    char *name = ph__json_in_more(in, '}') ? ph__json_in_key(in) : NULL;
    bool ok = name && strcmp(name, key) == 0;
    ph__free(name);
    if (!ok)
        return ph__json_in_fail(in, "no saved state of a training begins so");
    if (!text)
        return (ph__json_in_u64(in, &got) && got == number) ||
               ph__json_in_fail(in, "another number must stand here");
    char *value = ph__json_in_string(in);
    ok = value && strcmp(value, text) == 0;
    ph__free(value);
    return ok || ph__json_in_fail(in, "no saved state of a training begins so");
}

static bool read_manifest(ph__manifest *manifest, ph__json_in *in)
{
    bool ok = ph__json_in_open(in, '{') && read_expected(in, "format", format_name, 0) &&
              read_expected(in, "version", NULL, VERSION) &&
              read_expected(in, "number", NULL, manifest->number);
    char *key = ok && ph__json_in_more(in, '}') ? ph__json_in_key(in) : NULL;
    ok = key && strcmp(key, "parts") == 0;
    ph__free(key);
    if (!ok)
        return ph__json_in_fail(in, "the parts must stand here");
    return read_parts(manifest, in) &&
           (!ph__json_in_more(in, '}') || ph__json_in_fail(in, "a bracket must stand here")) &&
           ph__json_in_end(in);
}

static ph_status parse_manifest(ph__manifest *manifest, const ph__reader *reader)
{
    size_t size = (size_t)reader->size;
    if (reader->size > MOST_BYTES)
        return ph_fail(PH_ERROR_SIZE, "%s: %s has %" PRIu64 " bytes, and at most %d are read",
                       reader->call, reader->path, reader->size, MOST_BYTES);
    char *text = ph__alloc(size + 1);
    if (!text)
        return ph__fail_host_memory(reader->call, "the text of a file");
    ph__json_in in;
    ph_status status = ph__reader_read(reader, text, 0, size);
    ph__json_in_start(&in, text, size);
    if (status == PH_OK && !read_manifest(manifest, &in))
        status = in.no_memory ? ph__fail_host_memory(reader->call, "the parts of a saved state")
                              : ph_fail(PH_ERROR_ARGUMENT, "%s: %s is wrong at its byte %zu: %s",
                                        reader->call, reader->path, in.place, in.wrong);
    ph__free(text);
    return status;
}

static ph_status check_file(const ph__manifest_part *part, const char *folder, const char *call)
{
    struct stat there;
    char *path = ph__manifest_path(folder, part->name);
    if (!path)
        return ph__fail_host_memory(call, "the name of a file");
    ph_status status = PH_OK;
    if (stat(path, &there) != 0)
        status = ph__folder_fail(call, "read", path);
    else if ((uint64_t)there.st_size != part->bytes)
        status = ph_fail(PH_ERROR_SIZE,
                         "%s: %s has %" PRIu64 " bytes, and had %" PRIu64 " when it was saved",
                         call, path, (uint64_t)there.st_size, part->bytes);
    ph__free(path);
    return status;
}

ph_status ph__manifest_read(ph__manifest *manifest, const char *folder, uint64_t number,
                            const char *call)
{
    ph__reader reader;
    *manifest = (ph__manifest){.number = number};
    char *path = ph__folder_join(folder, PH__TRAINING_STATE);
    if (!path)
        return ph__fail_host_memory(call, "the name of a file");
    ph_status status = ph__reader_open(&reader, path, call);
    if (status == PH_OK) {
        status = parse_manifest(manifest, &reader);
        ph__reader_close(&reader);
    }
    ph__free(path);
    for (size_t i = 0; i < manifest->parts.count && status == PH_OK; i++)
        if (manifest->parts.at[i].has_file)
            status = check_file(&manifest->parts.at[i], folder, call);
    return status;
}
