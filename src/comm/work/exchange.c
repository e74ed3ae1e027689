/* SPDX-License-Identifier: MIT */
/* comm/work/exchange.c: sends and receives. A note with the operation goes before the contents, so
 * that a receiver never takes contents of another size. */
#include "comm/work/exchange.h"
#include "comm/object/broken.h"
#include "comm/object/wait.h"
#include <string.h>

static bool is_send(const ph__exchange *x)
{
    return x->args.operation.kind == PH__OPERATION_SEND;
}

static ph_status begin_send(ph_comm *comm, ph__exchange *x)
{
    const ph__engine *engine = comm->engine;
    ph__channel *channel = comm->streams.raw;
    uint32_t to = x->args.operation.peer;
    x->note = x->args.operation;
    x->note.graph = x->args.flags & PH__OF_GRAPH ? comm->work->graph : 0;
    int result =
        engine->send(&x->transfers[0], channel, &x->note, sizeof x->note, to, PH__TAG_NOTE);
    x->begun = true;
    if (result == 0 && x->args.send_bytes > 0)
        result = engine->send(&x->transfers[1], channel, x->args.send, x->args.send_bytes, to,
                              PH__TAG_CONTENTS);
    return result == 0 ? PH_OK : ph__comm_fail_engine(comm, &x->args.operation);
}

static ph_status begin_receive(ph_comm *comm, ph__exchange *x)
{
    int result = comm->engine->receive(&x->transfers[0], comm->streams.raw, &x->note,
                                       sizeof x->note, x->args.operation.peer, PH__TAG_NOTE);
    return result == 0 ? PH_OK : ph__comm_fail_engine(comm, &x->args.operation);
}

ph_status ph__exchange_begin(ph_comm *comm, const ph__collective_args *args)
{
    ph__comm_work *work = comm->work;
    ph__exchange *x = ph__calloc(1, sizeof *x);
    if (x == NULL || !ph__vec_push(&work->exchanges, x)) {
        ph__free(x);
        return ph__comm_break(comm, PH_ERROR_HOST_MEMORY, "rank %u of %u: no host memory for a %s",
                              (unsigned)comm->rank, (unsigned)comm->size,
                              ph__operation_name((ph__operation_kind)args->operation.kind));
    }
    x->args = *args;
    return is_send(x) ? begin_send(comm, x) : begin_receive(comm, x);
}

/* The note has come. */
static ph_status check_note(ph_comm *comm, const ph__exchange *x)
{
    const ph__operation *mine = &x->args.operation, *theirs = &x->note;
    char text[2][160];
    uint64_t graph = x->args.flags & PH__OF_GRAPH ? comm->work->graph : 0;
    if (theirs->kind == PH__OPERATION_SEND && theirs->count == mine->count &&
        theirs->dtype == mine->dtype && theirs->graph == graph)
        return PH_OK;
    return ph__comm_break(comm, PH_ERROR_MISMATCH,
                          "the ranks do not agree: rank %u has %s, and rank %u %s%s",
                          (unsigned)comm->rank, ph__operation_text(text[0], sizeof text[0], mine),
                          (unsigned)mine->peer, ph__operation_text(text[1], sizeof text[1], theirs),
                          theirs->graph != graph ? ", of another graph" : "");
}

static ph_status begin_contents(ph_comm *comm, ph__exchange *x)
{
    PH_TRY(check_note(comm, x));
    x->begun = true;
    int result = x->args.receive_bytes == 0
                     ? 0
                     : comm->engine->receive(&x->transfers[1], comm->streams.raw, x->args.receive,
                                             x->args.receive_bytes, x->args.operation.peer,
                                             PH__TAG_CONTENTS);
    return result == 0 ? PH_OK : ph__comm_fail_engine(comm, &x->args.operation);
}

/* Contents meet in the order in which they are asked for. */
static bool waits_for_earlier(const ph__comm_work *work, size_t index)
{
    const ph__exchange *x = work->exchanges.at[index];
    for (size_t i = 0; i < index; i++) {
        const ph__exchange *earlier = work->exchanges.at[i];
        if (!earlier->begun && earlier->args.operation.peer == x->args.operation.peer)
            return true;
    }
    return false;
}

/* *over: nothing of it is under way any more. */
static ph_status push_exchange(bool *over, ph_comm *comm, size_t index)
{
    ph__exchange *x = comm->work->exchanges.at[index];
    for (size_t i = 0; i < 2; i++) {
        bool done = false;
        if (x->transfers[i] && comm->engine->test(x->transfers[i], &done) != 0)
            return ph__comm_fail_engine(comm, &x->args.operation);
        if (done)
            x->transfers[i] = NULL;
    }
    if (!x->begun && x->transfers[0] == NULL && !waits_for_earlier(comm->work, index))
        PH_TRY(begin_contents(comm, x));
    *over = x->begun && x->transfers[0] == NULL && x->transfers[1] == NULL;
    return PH_OK;
}

ph_status ph__exchange_finish(ph_comm *comm, uint64_t deadline)
{
    ph__comm_work *work = comm->work;
    const ph__operation *first = NULL;
    bool all = work->exchanges.count == 0;
    for (unsigned round = 0; !all; round++) {
        all = true;
        first = NULL;
        for (size_t i = 0; i < work->exchanges.count; i++) {
            bool over = false;
            PH_TRY(push_exchange(&over, comm, i));
            if (!over && first == NULL)
                first = &work->exchanges.at[i]->args.operation;
            all = all && over;
        }
        if (!all)
            PH_TRY(ph__comm_pause_transfer(comm, round, deadline, first));
    }
    for (size_t i = 0; i < work->exchanges.count; i++)
        ph__free(work->exchanges.at[i]);
    ph__vec_clear(&work->exchanges);
    return PH_OK;
}
