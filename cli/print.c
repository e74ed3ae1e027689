/* SPDX-License-Identifier: MIT */
/* cli/print.c: a record as text and as Graphviz DOT. The DOT is that of ph_record_dot. */
#include "cli.h"
#include "record_file.h"
#include <inttypes.h>
#include <string.h>

/* ---- text ---- */

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
    if (word->has_allocation)
        (void)fprintf(out,
                      ": +%" PRIu64 " in %" PRIu64 "%s bytes at 0x%" PRIx64 " (%spool %" PRIu64 ".%" PRIu64
                      ", generation %" PRIu64 ")",
                      word->base_offset, word->bytes, word->pinned ? " pinned" : "", word->base,
                      word->internal ? "internal, " : "", word->pool[0], word->pool[1], word->generation);
    (void)fputc('\n', out);
}

static void put_text_parameters(FILE *out, const file_node *node)
{
    if (node->kind == PH_NODE_KERNEL) {
        (void)fprintf(out, "  grid %ux%ux%u, block %ux%ux%u", node->grid[0], node->grid[1], node->grid[2],
                      node->block[0], node->block[1], node->block[2]);
        if (node->shared_bytes)
            (void)fprintf(out, ", %" PRIu64 " shared bytes", node->shared_bytes);
    }
    if (node->kind == PH_NODE_MEMCPY || node->kind == PH_NODE_MEMSET || node->kind == PH_NODE_MEM_ALLOC)
        (void)fprintf(out, "  %" PRIu64 " bytes", node->bytes);
    if (node->kind == PH_NODE_MEMSET)
        (void)fprintf(out, " of 0x%" PRIx64, node->value);
}

static void put_text_record(FILE *out, const file_record *record, bool verbose, int indent)
{
    (void)fprintf(out, "%*s%zu node%s, %zu edge%s\n", indent, "", record->node_count,
                  record->node_count == 1 ? "" : "s", record->edge_count, record->edge_count == 1 ? "" : "s");
    for (size_t n = 0; n < record->node_count; n++) {
        const file_node *node = &record->nodes[n];
        (void)fprintf(out, "%*s%zu: ", indent, "", n);
        if (strcmp(node->kind_name, node->name) != 0)
            (void)fprintf(out, "%s ", node->kind_name);
        cli_put_text(out, node->name);
        put_text_parameters(out, node);
        put_list(out, "after", node->dependencies, node->dependency_count);
        put_list(out, "before", node->dependents, node->dependent_count);
        (void)fputc('\n', out);
        for (size_t w = 0; verbose && w < node->word_count; w++)
            put_text_word(out, &node->words[w], indent + 6);
        if (node->body)
            put_text_record(out, node->body, verbose, indent + 6);
    }
}

void file_record_text(FILE *out, const file_record *record, bool verbose)
{
    put_text_record(out, record, verbose, 0);
}

/* ---- DOT ---- */

static void put_label(FILE *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            (void)fputc('\\', out);
        (void)fputc((unsigned char)*text < ' ' ? ' ' : *text, out);
    }
}

static const char *shape_of(ph_node_kind kind)
{
    static const char *const shapes[] = {[PH_NODE_KERNEL] = "box",
                                         [PH_NODE_MEMCPY] = "cds",
                                         [PH_NODE_MEMSET] = "cds",
                                         [PH_NODE_HOST] = "hexagon",
                                         [PH_NODE_GRAPH] = "folder",
                                         [PH_NODE_EMPTY] = "point",
                                         [PH_NODE_EVENT_WAIT] = "diamond",
                                         [PH_NODE_EVENT_RECORD] = "diamond",
                                         [PH_NODE_SEMAPHORE_SIGNAL] = "diamond",
                                         [PH_NODE_SEMAPHORE_WAIT] = "diamond",
                                         [PH_NODE_BATCH_MEM_OP] = "diamond",
                                         [PH_NODE_MEM_ALLOC] = "cylinder",
                                         [PH_NODE_MEM_FREE] = "cylinder",
                                         [PH_NODE_CONDITIONAL] = "folder"};
    return shapes[kind];
}

static void put_details(FILE *out, const file_node *node)
{
    if (node->kind == PH_NODE_KERNEL) {
        (void)fprintf(out, "\\l<<<%u,%u,%u, %u,%u,%u", node->grid[0], node->grid[1], node->grid[2],
                      node->block[0], node->block[1], node->block[2]);
        if (node->shared_bytes)
            (void)fprintf(out, ", %" PRIu64, node->shared_bytes);
        (void)fputs(">>>", out);
    }
    if (node->kind == PH_NODE_MEM_ALLOC || node->kind == PH_NODE_MEM_FREE)
        (void)fprintf(out, "\\l0x%" PRIx64, node->dst);
    if (node->kind == PH_NODE_MEMCPY || node->kind == PH_NODE_MEMSET || node->kind == PH_NODE_MEM_ALLOC)
        (void)fprintf(out, "\\l%" PRIu64 " bytes", node->bytes);
    if (node->kind == PH_NODE_MEMSET)
        (void)fprintf(out, " of 0x%" PRIx64, node->value);
    for (size_t w = 0; w < node->word_count; w++) {
        const file_word *word = &node->words[w];
        (void)fputs("\\l", out);
        put_label(out, word->name);
        (void)fprintf(out, " = 0x%" PRIx64, word->value);
        if (strcmp(word->kind, "value") != 0)
            (void)fprintf(out, " (%s%s)", word->kind, word->internal ? ", internal" : "");
    }
    (void)fputs("\\l", out);
}

/* prefix tells the nodes of nested bodies apart; the reader limits how deep they are. */
static void put_dot_nodes(FILE *out, const file_record *record, const char *prefix, bool verbose)
{
    for (size_t n = 0; n < record->node_count; n++) {
        const file_node *node = &record->nodes[n];
        (void)fprintf(out, "    %s%zu [shape=%s, label=\"%zu: ", prefix, n, shape_of(node->kind), n);
        put_label(out, node->name);
        if (verbose)
            put_details(out, node);
        (void)fputs("\"];\n", out);
        for (size_t d = 0; d < node->dependency_count; d++)
            (void)fprintf(out, "    %s%zu -> %s%zu%s;\n", prefix, node->dependencies[d], prefix, n,
                          node->programmatic && node->programmatic[d] ? " [style=dashed]" : "");
        if (!node->body)
            continue;
        char nested[512];
        (void)snprintf(nested, sizeof nested, "%s%zu_", prefix, n);
        (void)fprintf(out, "    subgraph cluster_%s%zu {\n    label=\"body of %zu\";\n", prefix, n, n);
        put_dot_nodes(out, node->body, nested, verbose);
        (void)fputs("    }\n", out);
    }
}

void file_record_dot(FILE *out, const file_record *record, bool verbose)
{
    (void)fputs("digraph phonograph {\n    rankdir=TB;\n    node [fontname=\"monospace\", fontsize=10];\n",
                out);
    put_dot_nodes(out, record, "n", verbose);
    (void)fputs("}\n", out);
}
