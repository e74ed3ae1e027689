/* SPDX-License-Identifier: MIT */
/* comm/work/run.c: a collective, as a stream runs it: the ranks tell each other what they are about
 * to do, and then move bytes, in pieces that fit into the room. */
#include "comm/work/run.h"
#include "comm/engine/load.h"
#include "comm/object/meet.h"
#include "comm/object/wait.h"
#include "comm/work/exchange.h"
#include "comm/work/reduce.h"
#include <string.h>

/* One that runs. */
typedef struct running {
    ph_comm *comm;
    const ph__collective_args *args;
    ph__operation mine;
    uint64_t deadline;
    size_t element; /* bytes */
} running;

enum {
    SMALL_BYTES = 4096,        /* all_reduce of at most so many bytes takes one round */
    BROADCAST_BYTES = 1 << 30, /* at a time */
};

/* ---- pieces ---- */
static ph_status gather_piece(running *r, const void *send, void *receive, size_t bytes)
{
    ph__transfer *t = NULL;
    int result = r->comm->engine->all_gather(&t, r->comm->streams.raw, send, receive, bytes);
    return ph__comm_wait(r->comm, result, t, r->deadline, &r->mine);
}

static ph_status exchange_piece(running *r, const void *send, void *receive, size_t bytes)
{
    ph__transfer *t = NULL;
    int result = r->comm->engine->all_to_all(&t, r->comm->streams.raw, send, receive, bytes);
    return ph__comm_wait(r->comm, result, t, r->deadline, &r->mine);
}

static void reduce_piece(const running *r, void *out, const void *parts, size_t count)
{
    ph__reduce_parts(out, parts, count, r->comm->size, count, (ph_dtype)r->mine.dtype,
                     (ph_reduce_op)r->mine.op);
}

static size_t smaller_of(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* How many elements of each rank fit, so often. */
static size_t elements_that_fit(const running *r, size_t times)
{
    size_t fit = PH__ROOM_BYTES / (times * r->element);
    return fit ? fit : 1;
}

/* ---- collectives ---- */
/* Every rank gets all parts, and reduces them itself: one round, for few elements. */
static ph_status reduce_at_every_rank(running *r, size_t at, size_t count)
{
    const unsigned char *send = (const unsigned char *)r->args->send + at * r->element;
    unsigned char *receive = (unsigned char *)r->args->receive + at * r->element;
    PH_TRY(gather_piece(r, send, r->comm->work->room, count * r->element));
    reduce_piece(r, receive, r->comm->work->room, count);
    return PH_OK;
}

/* Every rank reduces a part, and gets the parts of the others. */
static ph_status reduce_by_parts(running *r, size_t at, size_t count)
{
    size_t bytes = count * r->element;
    unsigned char *room = r->comm->work->room, *own = room + r->comm->size * bytes;
    const unsigned char *send = (const unsigned char *)r->args->send + at * r->element;
    unsigned char *receive = (unsigned char *)r->args->receive + at * r->element;
    PH_TRY(exchange_piece(r, send, room, bytes));
    reduce_piece(r, own, room, count);
    return gather_piece(r, own, receive, bytes);
}

static ph_status run_all_reduce(running *r)
{
    size_t size = r->comm->size, left = (size_t)r->mine.count, at = 0;
    size_t most = elements_that_fit(r, size + 1);
    if (left * r->element <= SMALL_BYTES && left <= elements_that_fit(r, size))
        return left ? reduce_at_every_rank(r, 0, left) : PH_OK;
    while (left >= size) {
        size_t count = smaller_of(most, left / size);
        PH_TRY(reduce_by_parts(r, at, count));
        at += count * size;
        left -= count * size;
    }
    return left ? reduce_at_every_rank(r, at, left) : PH_OK;
}

static ph_status run_reduce_scatter(running *r)
{
    size_t size = r->comm->size, all = (size_t)r->mine.count, most = elements_that_fit(r, 2 * size);
    unsigned char *room = r->comm->work->room;
    const unsigned char *send = r->args->send;
    for (size_t at = 0; at < all;) {
        size_t count = smaller_of(most, all - at), bytes = count * r->element;
        unsigned char *theirs = room + size * bytes;
        for (size_t rank = 0; rank < size; rank++)
            memcpy(room + rank * bytes, send + (rank * all + at) * r->element, bytes);
        PH_TRY(exchange_piece(r, room, theirs, bytes));
        reduce_piece(r, (unsigned char *)r->args->receive + at * r->element, theirs, count);
        at += count;
    }
    return PH_OK;
}

static ph_status run_all_gather(running *r)
{
    size_t size = r->comm->size, all = (size_t)r->mine.count, most = elements_that_fit(r, size);
    unsigned char *room = r->comm->work->room, *receive = r->args->receive;
    const unsigned char *send = r->args->send;
    for (size_t at = 0; at < all;) {
        size_t count = smaller_of(most, all - at), bytes = count * r->element;
        PH_TRY(gather_piece(r, send + at * r->element, room, bytes));
        for (size_t rank = 0; rank < size; rank++)
            memcpy(receive + (rank * all + at) * r->element, room + rank * bytes, bytes);
        at += count;
    }
    return PH_OK;
}

static ph_status run_broadcast(running *r)
{
    size_t all = (size_t)r->mine.count * r->element;
    unsigned char *receive = r->args->receive;
    if (r->mine.peer == r->comm->rank && all > 0 && r->args->send != receive)
        memcpy(receive, r->args->send, all);
    for (size_t at = 0; at < all;) {
        size_t bytes = smaller_of(BROADCAST_BYTES, all - at);
        ph__transfer *t = NULL;
        int result =
            r->comm->engine->broadcast(&t, r->comm->streams.raw, receive + at, bytes, r->mine.peer);
        PH_TRY(ph__comm_wait(r->comm, result, t, r->deadline, &r->mine));
        at += bytes;
    }
    return PH_OK;
}

static ph_status run_exchange(running *r)
{
    if (r->mine.kind != PH__OPERATION_GROUP_END) {
        PH_TRY(ph__exchange_begin(r->comm, r->args));
        if (r->args->flags & PH__IN_GROUP)
            return PH_OK;
    }
    return ph__exchange_finish(r->comm, r->deadline);
}

static ph_status run_met(running *r)
{
    PH_TRY(ph__comm_meet(r->comm, &r->comm->streams, &r->mine, r->deadline));
    switch ((ph__operation_kind)r->mine.kind) {
    case PH__OPERATION_ALL_REDUCE:
        return run_all_reduce(r);
    case PH__OPERATION_REDUCE_SCATTER:
        return run_reduce_scatter(r);
    case PH__OPERATION_ALL_GATHER:
        return run_all_gather(r);
    default:
        return run_broadcast(r);
    }
}

/* The fingerprint of the replay that the collective is of; its first one takes the next. */
static void find_graph(ph__comm_work *work, const ph__collective_args *args)
{
    if (!(args->flags & PH__OF_GRAPH)) {
        work->graph = 0;
        return;
    }
    if (args->operation.index != 0)
        return;
    uint64_t run = atomic_load(&work->replays_run);
    work->graph = atomic_load(&work->replays[run % PH__REPLAYS]);
    atomic_store(&work->replays_run, run + 1);
}

void ph__collective_run(const ph_block_range *range, const void *raw)
{
    const ph__collective_args *args = raw;
    ph_comm *comm = args->comm;
    running r = {.comm = comm, .args = args, .mine = args->operation};
    (void)range;
    find_graph(comm->work, args);
    if (!atomic_load(&comm->failed)) {
        r.mine.graph = comm->work->graph;
        r.deadline = ph__comm_deadline(comm->timeout_ns);
        r.element = ph__element_bytes((ph_dtype)r.mine.dtype);
        bool exchanges = r.mine.kind >= PH__OPERATION_SEND;
        ph_status status = exchanges ? run_exchange(&r) : run_met(&r);
        /* Their transfers never end. */
        if (status != PH_OK && comm->work->exchanges.count > 0)
            ph__engine_give_up(comm->engine);
    }
    if (!(args->flags & PH__OF_GRAPH))
        atomic_fetch_sub_explicit(&comm->work->submitted, 1, memory_order_release);
}
