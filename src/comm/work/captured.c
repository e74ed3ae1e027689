/* SPDX-License-Identifier: MIT */
/* comm/work/captured.c: the collectives of one capture: what its replays wait for and tell. */
#include "comm/work/captured.h"
#include "comm/object/broken.h"
#include "comm/object/log.h"
#include "comm/work/agree.h"
#include "comm/work/order.h"
#include <string.h>

static ph__captured *captured_of_base(ph__collectives *base)
{
    return (ph__captured *)base; /* its first member */
}

static void release_captured(void *object)
{
    ph__captured *captured = object;
    for (size_t i = 0; i < captured->of.count; i++) {
        ph__vec_free(&captured->of.at[i].list);
        atomic_fetch_sub(&captured->of.at[i].comm->graphs, 1);
        ph_comm_release(captured->of.at[i].comm);
    }
    ph__vec_free(&captured->of);
    ph_event_destroy(captured->last);
    ph__free(captured);
}

/* ---- replays ---- */
/* Collectives that run take them in this order. Waits while too many replays are in flight. */
static void push_fingerprint(ph__comm_work *work, uint64_t fingerprint)
{
    uint64_t begun = atomic_load(&work->replays_begun);
    unsigned round = 0;
    while (begun - atomic_load(&work->replays_run) >= PH__REPLAYS)
        ph__back_off(&round, 100);
    atomic_store(&work->replays[begun % PH__REPLAYS], fingerprint);
    atomic_store(&work->replays_begun, begun + 1);
}

/* Before the first replay. Ranks that do not agree have agreed on that, for good. */
static ph_status compare_captures(ph__captured *captured, const char *call)
{
    for (size_t i = 0; i < captured->of.count && !captured->compared; i++) {
        bool agreed;
        ph_status status = ph__captured_agree(&agreed, &captured->of.at[i], call);
        if (status == PH_ERROR_MISMATCH && !atomic_load(&captured->of.at[i].comm->failed)) {
            ph__error_save(&captured->refusal);
            captured->compared = true;
        }
        if (status != PH_OK)
            return status;
    }
    captured->compared = true;
    return captured->refusal.status == PH_OK ? PH_OK : ph_error_set(&captured->refusal);
}

/* GPUs run without the host: it tells the other ranks now. */
static void report_replay(ph__captured_of *of)
{
    ph_comm *comm = of->comm;
    if (comm->gpu == NULL) {
        push_fingerprint(comm->work, of->fingerprint);
        return;
    }
    ph__operation replay = {
        .kind = PH__OPERATION_REPLAY, .graph = of->fingerprint, .count = of->list.count};
    ph__operation_note_scope(&replay);
    ph__board_log(comm->board, &replay);
}

static ph_status begin_replay(ph__collectives *base, ph_stream *stream, const char *call)
{
    ph__captured *captured = captured_of_base(base);
    for (size_t i = 0; i < captured->of.count; i++) {
        PH_TRY(ph__comm_check_usable(captured->of.at[i].comm, call));
        if (captured->of.at[i].comm->work->grouping)
            return ph__comm_fail_group(call);
    }
    PH_TRY(compare_captures(captured, call));
    for (size_t i = 0; i < captured->of.count; i++)
        PH_TRY(ph__order_wait(captured->of.at[i].comm, stream));
    for (size_t i = 0; i < captured->of.count; i++)
        report_replay(&captured->of.at[i]);
    return PH_OK;
}

static void end_replay(ph__collectives *base, ph_stream *stream, bool launched)
{
    ph__captured *captured = captured_of_base(base);
    for (size_t i = 0; i < captured->of.count; i++) {
        ph_comm *comm = captured->of.at[i].comm;
        if (launched)
            ph_ignore(ph__order_note(comm, stream));
        else if (comm->gpu)
            ph__board_unlog(comm->board);
        else
            atomic_fetch_sub(&comm->work->replays_begun, 1);
    }
}

static bool is_same(const ph__collectives *a_base, const ph__collectives *b_base)
{
    const ph__captured *a = (const ph__captured *)a_base, *b = (const ph__captured *)b_base;
    if (a->of.count != b->of.count)
        return false;
    for (size_t i = 0; i < a->of.count; i++) {
        const ph__captured_of *mine = &a->of.at[i], *theirs = &b->of.at[i];
        if (mine->comm != theirs->comm || mine->list.count != theirs->list.count)
            return false;
        for (size_t k = 0; k < mine->list.count; k++)
            if (!ph__operation_same(&mine->list.at[k], &theirs->list.at[k]))
                return false;
    }
    return true;
}

/* ---- the capture ---- */
static ph_status make_captured(ph__captured **out, ph_graph *graph, ph_comm *comm, const char *call)
{
    ph__captured *captured = ph__calloc(1, sizeof *captured);
    if (captured == NULL)
        return ph__fail_host_memory(call, "the collectives of the capture");
    captured->base = (ph__collectives){begin_replay, end_replay, is_same};
    ph_status status = ph_event_create(&captured->last, comm->device, NULL);
    if (status == PH_OK)
        status = ph_graph_retain(graph, release_captured, captured, true);
    if (status != PH_OK) {
        release_captured(captured);
        return status;
    }
    *out = captured;
    return PH_OK;
}

ph_status ph__captured_need(ph__captured **out, size_t *index, ph_graph *graph, ph_comm *comm,
                            const char *call)
{
    *out = graph->collectives ? captured_of_base(graph->collectives) : NULL;
    if (*out == NULL) {
        PH_TRY(make_captured(out, graph, comm, call));
        graph->collectives = &(*out)->base;
    }
    for (*index = 0; *index < (*out)->of.count; ++*index)
        if ((*out)->of.at[*index].comm == comm)
            return PH_OK;
    if (!ph__vec_push(&(*out)->of, (ph__captured_of){.comm = comm}))
        return ph__fail_host_memory(call, "the collectives of the capture");
    (void)ph_comm_retain(comm);
    atomic_fetch_add(&comm->graphs, 1);
    return PH_OK;
}

/* FNV-1a over what all ranks have alike: sends and receives differ between them. */
static uint64_t hash_operation(uint64_t hash, const ph__operation *operation)
{
    const unsigned char *bytes = (const unsigned char *)operation;
    for (size_t i = 0; i < offsetof(ph__operation, scope); i++)
        hash = (hash ^ bytes[i]) * 0x100000001b3u;
    return hash;
}

void ph__captured_add(ph__captured_of *of, const ph__operation *operation)
{
    of->list.at[of->list.count++] = *operation;
    if (of->fingerprint == 0)
        of->fingerprint = 0xcbf29ce484222325u;
    if (operation->kind < PH__OPERATION_SEND)
        of->fingerprint = hash_operation(of->fingerprint, operation);
    of->fingerprint |= 1; /* 0 is no graph */
}
