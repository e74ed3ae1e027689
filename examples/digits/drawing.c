/* SPDX-License-Identifier: MIT */
/* digits/drawing.c: the captured graph as SVG: a row a layer, a column a lane.
 *
 * A node's layer is the longest path that leads to it. A lane is a chain of nodes, each of which
 * waits for the one above it, which is what a stream looks like once it is captured. */
#include "html.h"
#include <inttypes.h>
#include <stdlib.h>

enum {
    NODE_WIDTH = 160,
    NODE_HEIGHT = 40,
    LANE_WIDTH = 200,
    LAYER_HEIGHT = 66,
    MARGIN = 20
};

struct place {
    size_t layer, lane;
};

struct layout {
    const ph_record *record;
    size_t nodes, layers, lanes;
    struct place *places; /* by node */
    size_t *tail;         /* by lane: its last node */
};

/* The lane that ends in one of the node's dependencies, or a new one. */
static void put_in_lane(struct layout *l, size_t node, const size_t *dependencies, size_t count)
{
    size_t lane = l->lanes;
    for (size_t d = 0; d < count && lane == l->lanes; d++) {
        size_t above = l->places[dependencies[d]].lane;
        if (l->tail[above] == dependencies[d])
            lane = above;
    }
    if (lane == l->lanes)
        l->lanes++;
    l->places[node].lane = lane;
    l->tail[lane] = node;
}

static ph_status lay_out(struct layout *l)
{
    ph_node_info info;
    for (size_t node = 0; node < l->nodes; node++) {
        PH_TRY(ph_record_node(&info, l->record, node));
        const size_t *dependencies = ph_record_dependencies(l->record, node);
        size_t layer = 0;
        for (size_t d = 0; d < info.dependency_count; d++)
            if (l->places[dependencies[d]].layer >= layer)
                layer = l->places[dependencies[d]].layer + 1;
        l->places[node].layer = layer;
        if (layer >= l->layers)
            l->layers = layer + 1;
        put_in_lane(l, node, dependencies, info.dependency_count);
    }
    return PH_OK;
}

static size_t centre_of(const struct place *place)
{
    return MARGIN + place->lane * LANE_WIDTH + NODE_WIDTH / 2;
}

static size_t top_of(const struct place *place)
{
    return MARGIN + place->layer * LAYER_HEIGHT;
}

/* Lines bend in the gaps between layers only, and those that pass a layer do so in the gap
 * beside a lane: never through a node. */
static void put_edge(FILE *out, const struct layout *l, size_t from, size_t to)
{
    const struct place *a = &l->places[from], *b = &l->places[to];
    size_t x1 = centre_of(a), y1 = top_of(a) + NODE_HEIGHT;
    size_t x2 = centre_of(b), y2 = top_of(b) - 2;
    (void)fprintf(out, "<path class=\"edge\" marker-end=\"url(#tip)\" d=\"M%zu %zu", x1, y1);
    if (b->layer == a->layer + 1) {
        size_t middle = (y1 + y2) / 2;
        (void)fprintf(out, "C%zu %zu %zu %zu %zu %zu", x1, middle, x2, middle, x2, y2);
    } else {
        size_t aside = a->lane < b->lane ? x2 - LANE_WIDTH / 2 : x2 + LANE_WIDTH / 2;
        (void)fprintf(out, "C%zu %zu %zu %zu %zu %zuV%zu", x1, y1 + 16, aside, y1 + 4, aside,
                      y1 + 24, y2 - 24);
        (void)fprintf(out, "C%zu %zu %zu %zu %zu %zu", aside, y2 - 4, x2, y2 - 20, x2, y2);
    }
    (void)fputs("\"/>\n", out);
}

/* What a pointer that rests on the node is told. */
static ph_status put_node_title(FILE *out, const struct layout *l, const ph_node_info *info)
{
    static const char *const kinds[] = {"a value", "perhaps an address", "an address"};
    (void)fputs("<title>", out);
    put_text(out, info->name);
    (void)fprintf(out, " (%s)", ph_node_kind_name(info->kind));
    for (size_t i = 0; i < info->word_count; i++) {
        ph_word word;
        PH_TRY(ph_record_word(&word, l->record, info->index, i));
        (void)fputc('\n', out);
        put_text(out, word.name);
        (void)fprintf(out, ": 0x%" PRIx64 ", %s", word.value, kinds[word.kind]);
        if (word.base)
            (void)fprintf(out, " in %zu bytes%s", word.allocation_bytes,
                          word.internal ? " of the graph's own pool" : "");
    }
    (void)fputs("</title>", out);
    return PH_OK;
}

static ph_status put_node(FILE *out, const struct layout *l, size_t node)
{
    ph_node_info info;
    PH_TRY(ph_record_node(&info, l->record, node));
    size_t x = centre_of(&l->places[node]), y = top_of(&l->places[node]);
    (void)fprintf(out, "<g class=\"node lane%zu\">", l->places[node].lane % 2);
    PH_TRY(put_node_title(out, l, &info));
    (void)fprintf(out, "<rect x=\"%zu\" y=\"%zu\" width=\"%d\" height=\"%d\" rx=\"8\"/>",
                  x - NODE_WIDTH / 2, y, NODE_WIDTH, NODE_HEIGHT);
    (void)fprintf(out, "<text x=\"%zu\" y=\"%zu\">", x, y + 17);
    put_text(out, info.name);
    (void)fputs("</text>", out);
    if (info.kind == PH_NODE_KERNEL) {
        uint64_t blocks = (uint64_t)info.grid[0] * info.grid[1] * info.grid[2];
        (void)fprintf(out, "<text class=\"small\" x=\"%zu\" y=\"%zu\">%" PRIu64 " block%s</text>",
                      x, y + 32, blocks, blocks == 1 ? "" : "s");
    }
    (void)fputs("</g>\n", out);
    return PH_OK;
}

static ph_status put_drawing(FILE *out, struct layout *l)
{
    PH_TRY(lay_out(l));
    size_t width = 2 * MARGIN + (l->lanes ? l->lanes - 1 : 0) * LANE_WIDTH + NODE_WIDTH;
    size_t height = 2 * MARGIN + (l->layers ? l->layers - 1 : 0) * LAYER_HEIGHT + NODE_HEIGHT;
    (void)fprintf(
        out,
        "<svg viewBox=\"0 0 %zu %zu\" role=\"img\" aria-labelledby=\"graph-title graph-desc\">\n"
        "<title id=\"graph-title\">The captured step</title>\n"
        "<desc id=\"graph-desc\">%zu nodes and %zu edges in %zu layers and %zu lanes. The table of "
        "nodes "
        "below says the same in words.</desc>\n"
        "<defs><marker id=\"tip\" viewBox=\"0 0 8 8\" refX=\"6\" refY=\"4\" markerWidth=\"7\" "
        "markerHeight=\"7\" orient=\"auto\"><path class=\"tip\" d=\"M0 0L8 4L0 "
        "8z\"/></marker></defs>\n",
        width, height, l->nodes, ph_record_edge_count(l->record), l->layers, l->lanes);
    for (size_t node = 0; node < l->nodes; node++) {
        ph_node_info info;
        PH_TRY(ph_record_node(&info, l->record, node));
        const size_t *dependencies = ph_record_dependencies(l->record, node);
        for (size_t d = 0; d < info.dependency_count; d++)
            put_edge(out, l, dependencies[d], node);
    }
    for (size_t node = 0; node < l->nodes; node++)
        PH_TRY(put_node(out, l, node));
    (void)fputs("</svg>\n", out);
    return PH_OK;
}

static ph_status put_node_table(FILE *out, const struct layout *l)
{
    (void)fputs("<details><summary>The nodes as a table</summary>\n<div "
                "class=\"scroll\"><table><thead><tr><th>node</th>"
                "<th>name</th><th>blocks</th><th>waits for</th></tr></thead><tbody>\n",
                out);
    for (size_t node = 0; node < l->nodes; node++) {
        ph_node_info info;
        PH_TRY(ph_record_node(&info, l->record, node));
        (void)fprintf(out, "<tr><td>%zu</td><td>", node);
        put_text(out, info.name);
        (void)fprintf(out, "</td><td>%" PRIu64 "</td><td>",
                      (uint64_t)info.grid[0] * info.grid[1] * info.grid[2]);
        const size_t *dependencies = ph_record_dependencies(l->record, node);
        for (size_t d = 0; d < info.dependency_count; d++)
            (void)fprintf(out, "%s%zu", d ? ", " : "", dependencies[d]);
        (void)fputs("</td></tr>\n", out);
    }
    (void)fputs("</tbody></table></div></details>\n", out);
    return PH_OK;
}

ph_status draw_graph(FILE *out, const ph_record *record)
{
    struct layout l = {.record = record, .nodes = ph_record_node_count(record)};
    l.places = calloc(l.nodes + 1, sizeof *l.places);
    l.tail = calloc(l.nodes + 1, sizeof *l.tail);
    ph_status st = PH_OK;
    if (!l.places || !l.tail)
        st = ph_fail(PH_ERROR_HOST_MEMORY, "no memory to draw a graph of %zu nodes", l.nodes);
    if (st == PH_OK)
        st = put_drawing(out, &l);
    if (st == PH_OK)
        st = put_node_table(out, &l);
    free(l.tail);
    free(l.places);
    return st;
}
