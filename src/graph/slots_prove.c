/* SPDX-License-Identifier: MIT */
/* graph/slots_prove.c: slots out of two captures of the same work, with the inputs elsewhere in the second: what differs by an
 * input's distance is that input's, and nothing else may differ. */
#include "base/line.h"
#include "graph/slots.h"
#include <string.h>

typedef struct proof {
    ph_graph *graph, *shifted;
    const ph_slot_span *spans;
    size_t count;
    ph__slot_draft *drafts;
    const char *call;
    char reason[sizeof((ph_slot_proof *)0)
                    ->reason]; /* of the first difference that nothing explains; "": none */
} proof;

/* ---- the arguments ---- */
static uint64_t distance_of(const ph_slot_span *span)
{
    return (uintptr_t)span->shifted - (uintptr_t)span->base;
}

static bool overlap(const void *a, size_t a_bytes, const void *b, size_t b_bytes)
{
    return (uintptr_t)a < (uintptr_t)b + b_bytes && (uintptr_t)b < (uintptr_t)a + a_bytes;
}

static ph_status check_pair(const proof *p, size_t i, size_t j)
{
    const ph_slot_span *a = &p->spans[i], *b = &p->spans[j];
    if (a->shifted == a->base && a->bytes)
        return ph_fail(PH_ERROR_ARGUMENT, "%s: span %zu is not shifted: it lies at %p in both captures",
                       p->call, i, a->base);
    if (overlap(a->shifted, a->bytes, b->base, b->bytes) ||
        overlap(b->shifted, b->bytes, a->base, a->bytes) ||
        (i != j && overlap(a->shifted, a->bytes, b->shifted, b->bytes)))
        return ph_fail(PH_ERROR_ARGUMENT,
                       "%s: the shifted memory of spans %zu and %zu overlaps other memory of the spans",
                       p->call, i, j);
    if (i != j && distance_of(a) == distance_of(b))
        return ph_fail(PH_ERROR_ARGUMENT,
                       "%s: spans %zu and %zu are shifted by the same distance, 0x%llx, so that their uses "
                       "cannot be told apart; allocate something between the second capture's buffers",
                       p->call, i, j, (unsigned long long)distance_of(a));
    return PH_OK;
}

static ph_status check_spans(const proof *p)
{
    for (size_t i = 0; i < p->count; i++) {
        const ph_slot_span *span = &p->spans[i];
        if (!PH__RESERVED_OK(span))
            return ph__fail_reserved(p->call, "ph_slot_span");
        PH_TRY(ph__slot_check_span(span->base, span->bytes, span->alignment, p->call));
        PH_TRY(ph__slot_check_span(span->shifted, span->bytes, 0, p->call));
        for (size_t j = 0; j <= i; j++)
            PH_TRY(check_pair(p, i, j));
    }
    return PH_OK;
}

static ph_status check(const proof *p, const ph_slot_proof *out)
{
    if (p->count && out == NULL)
        return ph__fail_null(p->call, "out");
    if (p->count && p->spans == NULL)
        return ph__fail_null(p->call, "spans");
    PH_TRY(ph__graph_check(p->graph, PH__CALL_SLOT_PROVE));
    if (p->shifted == NULL)
        return ph__fail_null(p->call, "shifted");
    PH_TRY(ph__graph_check(p->shifted, PH__CALL_SLOT_PROVE_SHIFTED));
    if (p->graph == p->shifted)
        return ph_fail(PH_ERROR_ARGUMENT,
                       "%s: shifted is the graph itself; it is another capture of its work", p->call);
    if (p->graph->device != p->shifted->device)
        return ph__fail_devices(p->call, "the graph", p->graph->device, "the shifted one",
                                p->shifted->device);
    return check_spans(p);
}

/* ---- the comparison ---- every one answers false when it has put a difference into the reason. */
#define UNEXPLAINED(p, ...) (ph__line_format((p)->reason, sizeof(p)->reason, __VA_ARGS__), false)

static bool is_in_span(const proof *p, uint64_t value)
{
    for (size_t i = 0; i < p->count; i++)
        if (value - (uintptr_t)p->spans[i].base < p->spans[i].bytes ||
            value - (uintptr_t)p->spans[i].shifted < p->spans[i].bytes)
            return true;
    return false;
}

/* What an earlier capture left in the pool of this one, too: activations that a backward pass reads. */
static bool is_own(const proof *p, const ph_graph *graph, const ph_word *word)
{
    ph_pool_id id = ph__pool_id(graph->own->pool);
    return word->internal ||
           (word->value && ph__graph_writes(graph, (const void *)(uintptr_t)word->value, 1)) ||
           (word->base && word->pool.first == id.first && word->pool.second == id.second &&
            !is_in_span(p, word->value));
}

/* Where a use goes on beyond the span, another address would take it elsewhere. */
static bool reaches_beyond(const ph_node_info *info, uint64_t inside, size_t bytes)
{
    return info->kind != PH_NODE_KERNEL && info->bytes > bytes - inside;
}

/* *status: the failure of taking a use down. */
static bool explain_word(proof *p, const ph_node_info *info, const ph_word *mine, const ph_word *theirs,
                         ph_status *status)
{
    uint64_t by = theirs->value - mine->value;
    bool own = is_own(p, p->graph, mine), own_theirs = is_own(p, p->shifted, theirs);
    if (own && own_theirs)
        return true;
    if (by == 0 && is_in_span(p, mine->value))
        return UNEXPLAINED(
            p,
            "node %zu (%s): word %s is 0x%llx in both captures, inside a span: it was not taken from the "
            "span's memory of its capture",
            info->index, info->name, mine->name, (unsigned long long)mine->value);
    if (by == 0)
        return true;
    for (size_t i = 0; i < p->count && !own && !own_theirs; i++) {
        const ph_slot_span *span = &p->spans[i];
        uint64_t inside = mine->value - (uintptr_t)span->base;
        if (by != distance_of(span) || inside >= span->bytes)
            continue;
        if (reaches_beyond(info, inside, span->bytes))
            return UNEXPLAINED(p, "node %zu (%s): its %zu bytes at %s reach beyond span %zu", info->index,
                               info->name, info->bytes, mine->name, i);
        *status = ph__slot_add(&p->drafts[i], p->graph, info->index, mine->offset, p->call);
        return *status == PH_OK;
    }
    bool negative = by > UINT64_MAX / 2;
    return UNEXPLAINED(p, "node %zu (%s): word %s differs by %s0x%llx, which is no input's distance",
                       info->index, info->name, mine->name, negative ? "-" : "",
                       (unsigned long long)(negative ? 0 - by : by));
}

/* Two words of vendor kernels' parameters, of which most are the same number in both. */
static bool is_same_number(const proof *p, const ph__record_node *mine, const ph__record_node *theirs,
                           size_t w)
{
    if (mine->info.kind != PH_NODE_KERNEL || mine->kernel || theirs->kernel)
        return false;
    uint64_t value = ph__record_untyped_value(mine, w);
    return value == ph__record_untyped_value(theirs, w) && !is_in_span(p, value);
}

static bool compare_words(proof *p, const ph__record_node *mine, const ph__record_node *theirs,
                          ph_status *status)
{
    const ph_node_info *info = &mine->info;
    if (info->word_count != theirs->info.word_count)
        return UNEXPLAINED(p, "node %zu (%s): it has other parameters", info->index, info->name);
    if (ph__cells_are_written_by(p->graph, info->index) && ph__cells_are_written_by(p->shifted, info->index))
        return true;
    ph__words words = {mine->kernel, info->args_size, 0, 0};
    for (size_t w = 0; w < info->word_count; w++) {
        ph_word rooms[2];
        ph__word_slot slot = {.size = sizeof rooms[0].value};
        bool known = info->kind != PH_NODE_KERNEL || ph__words_next(&words, &slot);
        if (known && is_same_number(p, mine, theirs, w))
            continue;
        const ph_word *a = ph__record_word(&rooms[0], mine, w), *b = ph__record_word(&rooms[1], theirs, w);
        if (!known || a->offset != b->offset)
            return UNEXPLAINED(p, "node %zu (%s): it has other parameters", info->index, info->name);
        if (slot.size < sizeof a->value && a->value != b->value)
            return UNEXPLAINED(p, "node %zu (%s): the %zu bytes at %s differ", info->index, info->name,
                               slot.size, a->name);
        if (!explain_word(p, info, a, b, status))
            return false;
    }
    return true;
}

static bool same_edges(const ph__record_node *a, const ph__record_node *b)
{
    bool same = a->info.dependency_count == b->info.dependency_count;
    for (size_t d = 0; same && d < a->info.dependency_count; d++)
        same = a->dependencies[d] == b->dependencies[d] && a->dependency_kinds[d] == b->dependency_kinds[d];
    return same;
}

/* Everything but words and edges. */
static const char *other_in(const ph__record_node *a, const ph__record_node *b)
{
    const ph_node_info *mine = &a->info, *theirs = &b->info;
    if (mine->kind != theirs->kind)
        return "it is of another kind";
    if (strcmp(mine->name, theirs->name) != 0 || a->kernel != b->kernel)
        return "it is another kernel";
    if (memcmp(mine->grid, theirs->grid, sizeof mine->grid) != 0 ||
        memcmp(mine->block, theirs->block, sizeof mine->block) != 0)
        return "its grid or block differs";
    if (mine->shared_bytes != theirs->shared_bytes)
        return "its shared memory differs";
    if (mine->args_size != theirs->args_size)
        return "it has other parameters";
    if (mine->bytes != theirs->bytes || a->count != b->count)
        return "its size differs";
    if (mine->value != theirs->value || mine->value_size != theirs->value_size)
        return "its value differs";
    return NULL;
}

/* What no record shows: which kernel of a name it is, and where addresses may come from. NULL: nothing of it. */
static ph_status unseen(const char **why, const proof *p, const ph__record_node *node,
                        const ph__record_node *other)
{
    ph__drv_pointer where = {.kind = PH__MEMORY_DEVICE};
    ph__drv_node_info info = {0}, theirs = {0};
    const ph__driver *driver = p->graph->device->driver;
    int result = PH__R_OK;
    *why = NULL;
    switch (node->info.kind) {
    case PH_NODE_KERNEL:
        if (node->kernel)
            break;
        result = driver->node_info(&info, node->handle);
        if (result == PH__R_OK)
            result = driver->node_info(&theirs, other->handle);
        if (info.code != theirs.code)
            *why = "it is another kernel of that name";
        break;
    case PH_NODE_MEMCPY:
        if (!node->kept[1].base)
            result = driver->pointer_info(&where, p->graph->device->handle, node->info.src);
        if (result == PH__R_OK && (where.kind != PH__MEMORY_DEVICE || node->kept[1].pinned))
            *why = "it reads host memory, which may hold addresses";
        /* fall through */
    case PH_NODE_MEMSET:
        if (result == PH__R_OK)
            result = driver->node_info(&info, node->handle);
        if (info.strided)
            *why =
                "it copies or fills rows, planes or an array, of which the record shows the beginning alone";
        break;
    case PH_NODE_HOST:
        *why = "what a host function does nobody can see";
        break;
    case PH_NODE_GRAPH:
        *why = "a nested graph cannot be set";
        break;
    case PH_NODE_BATCH_MEM_OP:
    case PH_NODE_CONDITIONAL:
        *why = "what it does the record does not show";
        break;
    default:
        break;
    }
    return result == PH__R_OK ? PH_OK
                              : ph__driver_fail(result, PH__NAME_POINTER_GET_ATTRIBUTE, "%s: node %zu (%s)",
                                                p->call, node->info.index, node->info.name);
}

static bool compare_node(proof *p, size_t index, ph_status *status)
{
    const ph__record_node *mine = &p->graph->record->nodes[index],
                          *theirs = &p->shifted->record->nodes[index];
    const char *why = other_in(mine, theirs);
    if (why == NULL && !same_edges(mine, theirs))
        why = "it depends on other nodes";
    if (why == NULL) {
        *status = unseen(&why, p, mine, theirs);
        if (*status != PH_OK)
            return false;
    }
    return why ? UNEXPLAINED(p, "node %zu (%s): %s", index, mine->info.name, why)
               : compare_words(p, mine, theirs, status);
}

static ph_status compare(proof *p)
{
    size_t count = p->graph->record->node_count, theirs = p->shifted->record->node_count;
    ph_status status = PH_OK;
    if (count != theirs)
        return (void)UNEXPLAINED(p, "the shifted capture has %zu nodes, the graph %zu", theirs, count), PH_OK;
    for (size_t i = 0; i < count; i++)
        if (!compare_node(p, i, &status))
            break;
    return status;
}

/* ---- slots of it ---- */
/* A span in memory that a capture gave has no other uses than the capture's own. */
static const char *foreign_reason(const proof *p, const ph_slot_span *span)
{
    return ph__graph_writes(p->graph, span->base, span->bytes) ||
                   ph__graph_writes(p->shifted, span->shifted, span->bytes)
               ? "the span lies in memory of the captures themselves"
               : NULL;
}

static ph_status start_drafts(proof *p)
{
    for (size_t i = 0; i < p->count; i++) {
        const ph_slot_span *span = &p->spans[i];
        PH_TRY(ph__slot_start(&p->drafts[i], p->graph, span->name, span->base, span->bytes, span->alignment,
                              p->call));
    }
    return PH_OK;
}

static ph_status finish(proof *p, ph_slot_proof *out)
{
    size_t first = ph_graph_slot_count(p->graph), made = 0;
    for (size_t i = 0; i < p->count; i++) {
        const char *why = p->reason[0] ? p->reason : foreign_reason(p, &p->spans[i]);
        if (why == NULL) {
            out[i].slot = first + made;
            out[i].uses = p->drafts[i].places.count;
            ph__slot_draft own = p->drafts[i];
            p->drafts[i] = p->drafts[made];
            p->drafts[made++] = own;
        } else {
            ph__line_format(out[i].reason, sizeof out[i].reason, "%s", why);
        }
    }
    return made ? ph__slots_commit(p->graph, p->drafts, made, p->call) : PH_OK;
}

static void clear(ph_slot_proof *out, size_t count)
{
    for (size_t i = 0; i < count; i++)
        out[i] = (ph_slot_proof){.slot = PH_SLOT_NONE};
}

ph_status ph_graph_slot_prove(ph_slot_proof *out, ph_graph *graph, ph_graph *shifted,
                              const ph_slot_span *spans, size_t count)
{
    proof p = {graph, shifted, spans, count, NULL, "ph_graph_slot_prove", ""};
    if (out)
        clear(out, count);
    PH_TRY(check(&p, out));
    p.drafts = ph__calloc(count + 1, sizeof *p.drafts);
    if (p.drafts == NULL)
        return ph__fail_host_memory(p.call, "the slots");
    ph_status status = start_drafts(&p);
    if (status == PH_OK)
        status = compare(&p);
    if (status == PH_OK)
        status = finish(&p, out);
    if (status != PH_OK)
        clear(out, count);
    for (size_t i = 0; i < count; i++)
        ph__slot_abandon(&p.drafts[i]);
    ph__free(p.drafts);
    return status;
}
