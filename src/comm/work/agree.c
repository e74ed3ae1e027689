/* SPDX-License-Identifier: MIT */
/* comm/work/agree.c: the ranks compare what they have captured. */
#include "comm/work/agree.h"
#include "base/line.h"
#include "comm/object/meet.h"
#include "comm/object/wait.h"
#include <string.h>

/* ---- comparing ---- */
/* The list of a rank. */
typedef struct list {
    const ph__operation *at;
    size_t count;
    uint32_t rank;
} list;

static bool is_exchange(const ph__operation *o)
{
    return o->kind >= PH__OPERATION_SEND;
}

/* The next at or behind *at in which all ranks take part; NULL: none. *at: behind it. */
static const ph__operation *next_common(const list *of, size_t *at)
{
    while (*at < of->count)
        if (!is_exchange(&of->at[(*at)++]))
            return &of->at[*at - 1];
    return NULL;
}

static const char *text_or_none(char *text, size_t size, const ph__operation *o)
{
    return o ? ph__operation_text(text, size, o) : "none";
}

/* index is not compared: sends and receives stand between. */
static bool is_alike(const ph__operation *a, const ph__operation *b)
{
    ph__operation mine = *a, theirs = *b;
    mine.index = theirs.index = 0;
    return ph__operation_same(&mine, &theirs);
}

static bool compare_common(const list *first, const list *other, char *text, size_t size)
{
    char texts[2][160];
    size_t at = 0, at_other = 0;
    for (size_t number = 0;; number++) {
        const ph__operation *a = next_common(first, &at), *b = next_common(other, &at_other);
        if (a == NULL && b == NULL)
            return true;
        if (a && b && is_alike(a, b))
            continue;
        ph__line_format(text, size,
                        "as collective %zu of the graph, rank %u has %s, and rank %u %s", number,
                        (unsigned)first->rank, text_or_none(texts[0], sizeof texts[0], a),
                        (unsigned)other->rank, text_or_none(texts[1], sizeof texts[1], b));
        return false;
    }
}

/* The next of that kind with that rank. */
static const ph__operation *next_exchange(const list *of, ph__operation_kind kind, uint32_t peer,
                                          size_t *at)
{
    while (*at < of->count) {
        const ph__operation *o = &of->at[(*at)++];
        if (o->kind == (uint32_t)kind && o->peer == peer)
            return o;
    }
    return NULL;
}

/* All sends from one rank to another, with the receives there. */
static bool compare_exchanges(const list *from, const list *to, char *text, size_t size)
{
    char texts[2][160];
    size_t sent = 0, received = 0;
    for (;;) {
        const ph__operation *a = next_exchange(from, PH__OPERATION_SEND, to->rank, &sent),
                            *b = next_exchange(to, PH__OPERATION_RECEIVE, from->rank, &received);
        if (a == NULL && b == NULL)
            return true;
        if (a && b && a->count == b->count && a->dtype == b->dtype)
            continue;
        ph__line_format(text, size, "between rank %u and rank %u: rank %u has %s, and rank %u %s",
                        (unsigned)from->rank, (unsigned)to->rank, (unsigned)from->rank,
                        text_or_none(texts[0], sizeof texts[0], a), (unsigned)to->rank,
                        text_or_none(texts[1], sizeof texts[1], b));
        return false;
    }
}

bool ph__agree_compare(const ph__operation *lists, const size_t *counts, size_t most, uint32_t size,
                       char *text, size_t text_size)
{
    const list first = {lists, counts[0], 0};
    for (uint32_t i = 1; i < size; i++) {
        const list other = {lists + i * most, counts[i], i};
        if (!compare_common(&first, &other, text, text_size))
            return false;
    }
    for (uint32_t i = 0; i < size; i++)
        for (uint32_t k = 0; k < size; k++) {
            const list from = {lists + i * most, counts[i], i},
                       to = {lists + k * most, counts[k], k};
            if (i != k && !compare_exchanges(&from, &to, text, text_size))
                return false;
        }
    return true;
}

/* ---- exchanging ---- */
/* The size of a rank's list. */
typedef struct extent {
    uint64_t count, fingerprint, exchanges;
} extent;

static ph_status gather_from_ranks(ph_comm *comm, const void *send, void *receive, size_t bytes,
                                   const ph__operation *what, uint64_t deadline)
{
    ph__transfer *t = NULL;
    int result = comm->engine->all_gather(&t, comm->control.raw, send, receive, bytes);
    return ph__comm_wait(comm, result, t, deadline, what);
}

/* *same: nothing more needs to be exchanged. */
static ph_status exchange_extents(bool *same, extent *all, size_t *most, const ph__captured_of *of,
                                  const ph__operation *what, uint64_t deadline)
{
    extent own = {of->list.count, of->fingerprint, 0};
    for (size_t i = 0; i < of->list.count; i++)
        own.exchanges += is_exchange(&of->list.at[i]);
    PH_TRY(gather_from_ranks(of->comm, &own, all, sizeof own, what, deadline));
    *same = true;
    *most = 0;
    for (uint32_t i = 0; i < of->comm->size; i++) {
        *same = *same && all[i].exchanges == 0 && all[i].fingerprint == own.fingerprint &&
                all[i].count == own.count;
        *most = all[i].count > *most ? (size_t)all[i].count : *most;
    }
    return PH_OK;
}

/* Memory of transfers is freed only where they have ended. */
static ph_status exchange_lists(bool *agreed, const extent *all, size_t most,
                                const ph__captured_of *of, const ph__operation *what,
                                uint64_t deadline, const char *call)
{
    ph_comm *comm = of->comm;
    char text[400];
    ph__operation *own = ph__calloc(most, sizeof *own),
                  *lists = ph__calloc(most * comm->size, sizeof *lists);
    size_t *counts = ph__calloc(comm->size, sizeof *counts);
    ph_status status = PH_OK;
    bool memory = own && lists && counts;
    if (memory) {
        memcpy(own, of->list.at, of->list.count * sizeof *own);
        for (uint32_t i = 0; i < comm->size; i++)
            counts[i] = (size_t)all[i].count;
        status = gather_from_ranks(comm, own, lists, most * sizeof *own, what, deadline);
        if (status != PH_OK)
            return status;
        *agreed = ph__agree_compare(lists, counts, most, comm->size, text, sizeof text);
    }
    ph__free(own);
    ph__free(lists);
    ph__free(counts);
    if (!memory)
        return ph__fail_host_memory(call, "the collectives of the other ranks");
    return *agreed ? PH_OK
                   : ph_fail(PH_ERROR_MISMATCH,
                             "%s: the ranks have captured different collectives, and nothing was "
                             "launched: %s",
                             call, text);
}

ph_status ph__captured_agree(bool *agreed, const ph__captured_of *of, const char *call)
{
    ph_comm *comm = of->comm;
    ph__operation what = {.kind = PH__OPERATION_FIRST_REPLAY};
    uint64_t deadline = ph__comm_deadline(comm->timeout_ns);
    size_t most;
    *agreed = false;
    ph__operation_note_scope(&what);
    PH_TRY(ph__comm_meet(comm, &comm->control, &what, deadline));
    extent *all = ph__calloc(comm->size, sizeof *all);
    if (all == NULL)
        return ph__fail_host_memory(call, "the collectives of the other ranks");
    ph_status status = exchange_extents(agreed, all, &most, of, &what, deadline);
    if (status != PH_OK)
        return status;
    if (!*agreed)
        status = exchange_lists(agreed, all, most, of, &what, deadline, call);
    ph__free(all);
    return status;
}
