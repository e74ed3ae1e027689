/* SPDX-License-Identifier: MIT */
/* inspect/verify/written.c: what a graph's nodes may write, as far as their parameters tell, and
 * how much of that a verification compares. */
#include "inspect/verify/written.h"
#include "base/alloc.h"
#include "base/line.h"
#include "graph/locate/probes.h"
#include "graph/memory/cells.h"
#include "inspect/verify/collect.h"
#include "record/sparse.h"

typedef struct survey {
    ph__written *out;
    ph__verify *verify;
    bool *addresses; /* by node: some parameter of it is an address */
} survey;

/* ---- memory that is left out ---- */
static bool add_left(ph__written *out, uintptr_t base, uintptr_t end)
{
    while (base < end) {
        const ph__range *there = ph__ranges_from(&out->left, base);
        if (there && there->base <= base) {
            base = there->base + there->size;
            continue;
        }
        uintptr_t until = there && there->base < end ? there->base : end;
        if (!ph__ranges_add(&out->left, base, until - base, out))
            return false;
        out->bytes += until - base;
        base = until;
    }
    return true;
}

static ph_status leave_out(const survey *s, const ph_input_info *input, uint64_t base, size_t bytes)
{
    ph__written *out = s->out;
    if (out->left.count == 0) {
        out->node = input->node;
        out->address = input->address;
        ph__line_format(out->node_name, sizeof out->node_name, "%s", input->node_name);
        ph__line_format(out->word, sizeof out->word, "%s", input->word);
    }
    return add_left(out, (uintptr_t)base, (uintptr_t)base + bytes)
               ? PH_OK
               : ph__fail_host_memory(s->verify->call, "the list of the memory");
}

/* ---- nodes ---- */
static void add_unseen(ph__written *out, size_t node)
{
    if (out->unseen++ == 0)
        out->first_unseen = node;
}

static const ph_node_info *info_of(const survey *s, size_t node)
{
    const ph_record *record = s->verify->graph->record;
    return node < record->node_count ? &record->nodes[node].info : NULL;
}

static bool is_copy_or_fill(const ph_node_info *info)
{
    return info && (info->kind == PH_NODE_MEMCPY || info->kind == PH_NODE_MEMSET);
}

/* Memory of the library's is compared, or is scratch, whose contents nobody promises. */
static ph_status inspect_input(const survey *s, const ph_input_info *input)
{
    const ph_node_info *info = info_of(s, input->node);
    const ph__kept *kept = ph__verify_find_kept(s->verify, (uintptr_t)input->address);
    if (info)
        s->addresses[input->node] = true;
    if ((info && info->kind == PH_NODE_MEMCPY && input->offset != 0) || (kept && kept->compared))
        return PH_OK;
    if (input->base && (!input->foreign || input->state != PH_INPUT_LIVE))
        return PH_OK;
    if (is_copy_or_fill(info))
        return leave_out(s, input, input->address, info->bytes);
    if (input->base && input->bytes)
        return leave_out(s, input, (uintptr_t)input->base, input->bytes);
    if (info)
        s->addresses[input->node] = false;
    return PH_OK;
}

/* In the library's memory; what other code's is, the inputs say. */
static bool has_address(const ph__record_node *node)
{
    ph_word room;
    for (size_t i = 0; i < node->kept_count; i++)
        if (ph__record_kept(&room, node, i)->base || ph__record_kept(&room, node, i)->internal)
            return true;
    return false;
}

static bool is_the_librarys(const ph_graph *graph, size_t node)
{
    return ph__cells_are_written_by(graph, node) || ph__locate_call_of(graph, node);
}

static void inspect_nodes(const survey *s)
{
    const ph_graph *graph = s->verify->graph;
    for (size_t n = 0; n < graph->record->node_count; n++) {
        const ph__record_node *node = &graph->record->nodes[n];
        bool copies = is_copy_or_fill(&node->info);
        if (node->info.kind == PH_NODE_HOST)
            s->out->hosts++;
        else if (copies ? node->info.dst == NULL
                        : node->info.kind == PH_NODE_KERNEL && !s->addresses[n] &&
                              !has_address(node) && !is_the_librarys(graph, n))
            add_unseen(s->out, n);
    }
}

static ph_status survey_graph(const survey *s)
{
    size_t count = 0;
    ph_input_info input;
    PH_TRY(ph_graph_input_count(&count, s->verify->graph));
    for (size_t i = 0; i < count; i++) {
        PH_TRY(ph_graph_input(&input, s->verify->graph, i));
        PH_TRY(inspect_input(s, &input));
    }
    inspect_nodes(s);
    return PH_OK;
}

ph_status ph__verify_written(ph__written *out, ph__verify *verify)
{
    *out = (ph__written){.node = SIZE_MAX};
    for (size_t i = 0; i < verify->kept.count; i++)
        out->compared += verify->kept.at[i].compared ? verify->kept.at[i].bytes : 0;
    out->bytes = out->compared;
    survey s = {out, verify, ph__calloc(verify->graph->record->node_count + 1, sizeof(bool))};
    ph_status status = s.addresses ? survey_graph(&s)
                                   : ph__fail_host_memory(verify->call, "the list of the memory");
    ph__free(s.addresses);
    return status;
}

bool ph__written_is_missed(const ph__written *written)
{
    return written->left.count || written->unseen || (written->compared == 0 && written->hosts);
}

void ph__written_free(ph__written *written)
{
    ph__ranges_free(&written->left);
}
