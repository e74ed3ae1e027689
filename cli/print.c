/* SPDX-License-Identifier: MIT */
/* cli/print.c: a record as text. */
#include "cli.h"
#include "record_file.h"
#include <inttypes.h>
#include <string.h>

static void put_list(FILE *out, const char *label, const size_t *indices, size_t count)
{
    if (count == 0)
        return;
    (void)fprintf(out, "  %s", label);
    for (size_t i = 0; i < count; i++)
        (void)fprintf(out, "%s%zu", i ? ", " : " ", indices[i]);
}

static void put_text_word(FILE *out, const file_word *word, int indent)
{
    (void)fprintf(out, "%*s", indent, "");
    cli_put_text(out, word->name);
    (void)fprintf(out, " = 0x%" PRIx64, word->value);
    if (strcmp(word->kind, "value") != 0)
        (void)fprintf(out, ", %s", word->kind);
    if (word->has_allocation && word->foreign)
        (void)fprintf(out,
                      ": +%" PRIu64 " in %" PRIu64 "%s bytes at 0x%" PRIx64
                      " (other code's, buffer %" PRIu64 ")",
                      word->base_offset, word->bytes, word->pinned ? " pinned" : "", word->base,
                      word->generation);
    else if (word->has_allocation)
        (void)fprintf(out,
                      ": +%" PRIu64 " in %" PRIu64 "%s bytes at 0x%" PRIx64 " (%spool %" PRIu64
                      ".%" PRIu64 ", generation %" PRIu64 ")",
                      word->base_offset, word->bytes, word->pinned ? " pinned" : "", word->base,
                      word->internal ? "internal, " : "", word->pool[0], word->pool[1],
                      word->generation);
    (void)fputc('\n', out);
}

static void put_text_parameters(FILE *out, const file_node *node)
{
    if (node->kind == PH_NODE_KERNEL) {
        (void)fprintf(out, "  grid %ux%ux%u, block %ux%ux%u", node->grid[0], node->grid[1],
                      node->grid[2], node->block[0], node->block[1], node->block[2]);
        if (node->shared_bytes)
            (void)fprintf(out, ", %" PRIu64 " shared bytes", node->shared_bytes);
    }
    if (node->kind == PH_NODE_MEMCPY || node->kind == PH_NODE_MEMSET ||
        node->kind == PH_NODE_MEM_ALLOC)
        (void)fprintf(out, "  %" PRIu64 " bytes", node->bytes);
    if (node->kind == PH_NODE_MEMSET)
        (void)fprintf(out, " of 0x%" PRIx64, node->value);
}

static void put_text_pair(FILE *out, const ph_annotation_pair *pair, int indent)
{
    (void)fprintf(out, "%*s", indent, "");
    cli_put_text(out, pair->key);
    if (pair->type == PH_ANNOTATION_TEXT) {
        (void)fputs(": ", out);
        cli_put_text(out, pair->text);
    } else if (pair->type == PH_ANNOTATION_INTEGER) {
        (void)fprintf(out, ": %" PRId64, pair->integer);
    } else if (pair->type == PH_ANNOTATION_REAL) {
        (void)fprintf(out, ": %.9g", pair->real);
    } else {
        (void)fprintf(out, ": %s", pair->boolean ? "true" : "false");
    }
    (void)fputc('\n', out);
}

static void put_text_record(FILE *out, const file_record *record, bool verbose, int indent)
{
    (void)fprintf(out, "%*s%zu node%s, %zu edge%s\n", indent, "", record->node_count,
                  record->node_count == 1 ? "" : "s", record->edge_count,
                  record->edge_count == 1 ? "" : "s");
    for (size_t n = 0; n < record->node_count; n++) {
        const file_node *node = &record->nodes[n];
        (void)fprintf(out, "%*s%zu: ", indent, "", n);
        if (strcmp(node->kind_name, node->name) != 0)
            (void)fprintf(out, "%s ", node->kind_name);
        cli_put_text(out, node->demangled ? node->demangled : node->name);
        put_text_parameters(out, node);
        put_list(out, "after", node->dependencies, node->dependency_count);
        put_list(out, "before", node->dependents, node->dependent_count);
        (void)fputc('\n', out);
        if (verbose && node->demangled) {
            (void)fprintf(out, "%*sname: ", indent + 6, "");
            cli_put_text(out, node->name);
            (void)fputc('\n', out);
        }
        if (verbose && node->made_for) {
            (void)fprintf(out, "%*smade for: ", indent + 6, "");
            cli_put_text(out, node->made_for);
            (void)fputc('\n', out);
        }
        for (size_t w = 0; verbose && w < node->word_count; w++)
            put_text_word(out, &node->words[w], indent + 6);
        for (size_t p = 0; verbose && p < node->annotation_count; p++)
            put_text_pair(out, &node->annotation[p], indent + 6);
        if (node->body)
            put_text_record(out, node->body, verbose, indent + 6);
    }
}

static void put_text_head(FILE *out, const file_record *record)
{
    const file_origin *origin = &record->origin;
    const char *const fields[][2] = {{"program", origin->program},
                                     {"graph", origin->graph},
                                     {"date", origin->date},
                                     {"device", origin->device},
                                     {"description", origin->description},
                                     {"driver", origin->driver},
                                     {"driver version", origin->driver_version},
                                     {"library", origin->library},
                                     {"verdict", record->verdict}};
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        if (!fields[i][1])
            continue;
        (void)fprintf(out, "%s: ", fields[i][0]);
        cli_put_text(out, fields[i][1]);
        (void)fputc('\n', out);
    }
}

static void put_text_races(FILE *out, const file_races *races)
{
    if (!races->looked)
        return;
    for (size_t i = 0; i < races->count; i++) {
        cli_put_text(out, races->at[i].text);
        (void)fputc('\n', out);
    }
    (void)fprintf(out, "races: %" PRIu64 " certain, %" PRIu64 " possible\n", races->certain,
                  races->possible);
}

void file_record_text(FILE *out, const file_record *record, bool verbose)
{
    if (verbose)
        put_text_head(out, record);
    put_text_record(out, record, verbose, 0);
    put_text_races(out, &record->races);
}
