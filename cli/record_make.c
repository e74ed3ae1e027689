/* SPDX-License-Identifier: MIT */
/* cli/record_make.c: from a file's record to one that the library can be asked about. */
#include "record_make.h"
#include "load.h"
#include <stdlib.h>

/* One record's nodes as ph_record_create takes them; words of all nodes in one array. */
typedef struct source {
    ph_record_source_node *nodes;
    ph_word *words;
    ph_edge_kind *kinds;
} source;

static void put_word(ph_word *to, const file_word *from)
{
    to->kind = from->kind[0] == 'p'   ? PH_WORD_PROVED
               : from->kind[0] == 's' ? PH_WORD_SUSPECTED
                                      : PH_WORD_VALUE;
    to->name = from->name;
    to->offset = (size_t)from->offset;
    to->value = from->value;
    to->internal = from->internal;
    if (!from->has_allocation)
        return;
    to->base = (const void *)(uintptr_t)from->base;
    to->allocation_bytes = (size_t)from->bytes;
    to->generation = from->generation;
    to->pool = (ph_pool_id){from->pool[0], from->pool[1]};
    to->pinned = from->pinned;
    to->foreign = from->foreign;
}

static void put_node(ph_record_source_node *to, const file_node *from, const ph_record *body,
                     ph_word *words, ph_edge_kind *kinds)
{
    ph_node_info *info = &to->info;
    info->kind = from->kind;
    info->name = from->name;
    for (int i = 0; i < 3; i++) {
        info->grid[i] = from->grid[i];
        info->block[i] = from->block[i];
    }
    info->shared_bytes = (size_t)from->shared_bytes;
    info->args_size = (size_t)from->args_size;
    info->dst = (const void *)(uintptr_t)from->dst;
    info->src = (const void *)(uintptr_t)from->src;
    info->bytes = (size_t)from->bytes;
    info->value = (uint32_t)from->value;
    info->value_size = (uint32_t)from->value_size;
    info->dependency_count = from->dependency_count;
    info->word_count = from->word_count;
    info->body = body;
    to->dependencies = from->dependencies;
    to->dependency_kinds = kinds;
    to->words = words;
    to->annotation = from->annotation;
    to->annotation_count = from->annotation_count;
    for (size_t d = 0; d < from->dependency_count; d++)
        kinds[d] =
            from->programmatic && from->programmatic[d] ? PH_EDGE_PROGRAMMATIC : PH_EDGE_FULL;
    for (size_t w = 0; w < from->word_count; w++)
        put_word(&words[w], &from->words[w]);
}

static ph_status no_memory(const char *path)
{
    return ph_fail(PH_ERROR_HOST_MEMORY, "%s: no memory to read it", path);
}

static ph_status keep(made_record *made, ph_record *record, const char *path)
{
    if (made->count == made->capacity) {
        size_t capacity = made->capacity ? 2 * made->capacity : 4;
        ph_record **at = realloc(made->at, capacity * sizeof(ph_record *));
        if (!at) {
            ph_record_destroy(record);
            return no_memory(path);
        }
        made->at = at;
        made->capacity = capacity;
    }
    made->at[made->count++] = record;
    return PH_OK;
}

/* What the library refuses is the file's fault. */
static ph_status blame(const char *path)
{
    const ph_error error = *ph_error_last();
    return ph_fail(error.status == PH_ERROR_HOST_MEMORY ? error.status : PH_ERROR_IO, "%s: %s",
                   path, error.message);
}

static ph_status make_room(source *s, const file_record *file, const char *path)
{
    size_t words = 0, edges = 0;
    for (size_t n = 0; n < file->node_count; n++) {
        words += file->nodes[n].word_count;
        edges += file->nodes[n].dependency_count;
    }
    s->nodes = calloc(file->node_count + 1, sizeof *s->nodes);
    s->words = calloc(words + 1, sizeof *s->words);
    s->kinds = calloc(edges + 1, sizeof *s->kinds);
    return s->nodes && s->words && s->kinds ? PH_OK : no_memory(path);
}

/* The reader limits how deep bodies are. */
static ph_status fill(source *s, made_record *out, const file_record *file, const char *path)
{
    ph_word *words = s->words;
    ph_edge_kind *kinds = s->kinds;
    for (size_t n = 0; n < file->node_count; n++) {
        const file_node *node = &file->nodes[n];
        if (node->body)
            PH_TRY(record_make(out, node->body, path));
        put_node(&s->nodes[n], node, node->body ? record_made(out) : NULL, words, kinds);
        words += node->word_count;
        kinds += node->dependency_count;
    }
    ph_record *record;
    if (ph_record_create(&record, s->nodes, file->node_count) != PH_OK)
        return blame(path);
    return keep(out, record, path);
}

ph_status record_make(made_record *out, const file_record *file, const char *path)
{
    source s = {0};
    ph_status status = make_room(&s, file, path);
    if (status == PH_OK)
        status = fill(&s, out, file, path);
    free(s.nodes);
    free(s.words);
    free(s.kinds);
    return status;
}

ph_status record_read(made_record *out, const char *path)
{
    file_record *file;
    PH_TRY(file_record_read(&file, path));
    ph_status status = record_make(out, file, load_name(path));
    file_record_free(file);
    return status;
}

const ph_record *record_made(const made_record *made)
{
    return made->at[made->count - 1];
}

void record_unmake(made_record *made)
{
    while (made->count > 0)
        ph_record_destroy(made->at[--made->count]);
    free(made->at);
    *made = (made_record){0};
}
