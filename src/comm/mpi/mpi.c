/* SPDX-License-Identifier: MIT */
/* comm/mpi/mpi.c: the plug-in libphonograph_mpi.so: bytes between ranks by MPI, whose types differ
 * from one implementation to the next. It is built against the one that programs use. */
#include "comm/mpi/mpi.h"
#include <mpi.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

struct ph__channel {
    MPI_Comm comm;
};
struct ph__transfer {
    MPI_Request request;
};
static _Thread_local char last_reason[PH__ENGINE_REASON];

static const char *get_reason(void)
{
    return last_reason;
}

static int fail_call(const char *call, int result)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    (void)MPI_Error_string(result, text, &length);
    (void)snprintf(last_reason, sizeof last_reason, "%s: %.180s", call, text);
    return PH__ENGINE_FAILED;
}

/* ---- the beginning and the end ---- */
static bool is_begun(void)
{
    int initialised = 0;
    return MPI_Initialized(&initialised) == MPI_SUCCESS && initialised;
}

/* Where the library initialised MPI: launchers take a process that ends without this for one that
 * has failed. */
static atomic_bool given_up;
static void finalise_at_exit(void)
{
    int over = 0;
    if (!given_up && MPI_Finalized(&over) == MPI_SUCCESS && !over)
        (void)MPI_Finalize();
}

static int init_engine(uint32_t *rank, uint32_t *size, char reason[PH__ENGINE_REASON])
{
    int begun = 0, over = 0, level = 0, own_rank = 0, count = 0;
    if (MPI_Finalized(&over) == MPI_SUCCESS && over) {
        (void)snprintf(reason, PH__ENGINE_REASON,
                       "the program has called MPI_Finalize, and MPI begins only once");
        return PH__ENGINE_OVER;
    }
    int result = MPI_Initialized(&begun);
    if (result == MPI_SUCCESS && !begun) {
        result = MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level);
        if (result == MPI_SUCCESS)
            (void)atexit(finalise_at_exit);
    } else if (result == MPI_SUCCESS) {
        result = MPI_Query_thread(&level);
    }
    if (result == MPI_SUCCESS && level < MPI_THREAD_MULTIPLE) {
        (void)snprintf(reason, PH__ENGINE_REASON,
                       "MPI was initialised with thread level %d, and the library calls it from "
                       "threads of its own; %s",
                       level,
                       begun ? "call MPI_Init_thread with MPI_THREAD_MULTIPLE"
                             : "this MPI was built without MPI_THREAD_MULTIPLE");
        return PH__ENGINE_UNSUPPORTED;
    }
    if (result == MPI_SUCCESS)
        result = MPI_Comm_rank(MPI_COMM_WORLD, &own_rank);
    if (result == MPI_SUCCESS)
        result = MPI_Comm_size(MPI_COMM_WORLD, &count);
    *rank = (uint32_t)own_rank;
    *size = (uint32_t)count;
    if (result == MPI_SUCCESS)
        return 0;
    (void)fail_call("MPI_Init_thread", result);
    (void)snprintf(reason, PH__ENGINE_REASON, "%s", last_reason);
    return PH__ENGINE_FAILED;
}

static void give_up(void)
{
    given_up = true;
}

/* ---- transfers ---- */
static ph__transfer *new_transfer(void)
{
    ph__transfer *transfer = malloc(sizeof *transfer);
    if (transfer)
        transfer->request = MPI_REQUEST_NULL;
    else
        (void)snprintf(last_reason, sizeof last_reason, "no host memory for a transfer");
    return transfer;
}

/* Hands the transfer out, or ends it where the call failed. */
static int finish_start(ph__transfer **out, ph__transfer *transfer, const char *call, int result)
{
    *out = transfer;
    if (result == MPI_SUCCESS)
        return 0;
    *out = NULL;
    free(transfer);
    given_up = true;
    return fail_call(call, result);
}

static int test_transfer(ph__transfer *transfer, bool *done)
{
    int flag = 0;
    int result = MPI_Test(&transfer->request, &flag, MPI_STATUS_IGNORE);
    *done = flag != 0;
    if (result != MPI_SUCCESS) {
        given_up = true;
        return fail_call("MPI_Test", result);
    }
    if (flag)
        free(transfer);
    return 0;
}

static int open_channel(ph__channel **out, ph__transfer **out_transfer,
                        char reason[PH__ENGINE_REASON])
{
    ph__transfer *transfer = new_transfer();
    ph__channel *channel = malloc(sizeof *channel);
    int result = PH__ENGINE_FAILED;
    *out = NULL;
    if (transfer && channel)
        result = finish_start(out_transfer, transfer, "MPI_Comm_idup",
                              MPI_Comm_idup(MPI_COMM_WORLD, &channel->comm, &transfer->request));
    if (result == 0) {
        *out = channel;
        return 0;
    }
    (void)snprintf(reason, PH__ENGINE_REASON, "%s", last_reason);
    free(channel);
    return result;
}

static void close_channel(ph__channel *channel)
{
    int over = 0;
    if (!given_up && MPI_Finalized(&over) == MPI_SUCCESS && !over)
        (void)MPI_Comm_free(&channel->comm);
    free(channel);
}

/* Errors come back as results from the first transfer on. */
static MPI_Comm comm_of(ph__channel *channel)
{
    (void)MPI_Comm_set_errhandler(channel->comm, MPI_ERRORS_RETURN);
    return channel->comm;
}

static int start_all_gather(ph__transfer **out, ph__channel *channel, const void *send,
                            void *receive, size_t bytes)
{
    ph__transfer *t = new_transfer();
    return t == NULL ? PH__ENGINE_FAILED
                     : finish_start(out, t, "MPI_Iallgather",
                                    MPI_Iallgather(send, (int)bytes, MPI_BYTE, receive, (int)bytes,
                                                   MPI_BYTE, comm_of(channel), &t->request));
}

static int start_all_to_all(ph__transfer **out, ph__channel *channel, const void *send,
                            void *receive, size_t bytes)
{
    ph__transfer *t = new_transfer();
    return t == NULL ? PH__ENGINE_FAILED
                     : finish_start(out, t, "MPI_Ialltoall",
                                    MPI_Ialltoall(send, (int)bytes, MPI_BYTE, receive, (int)bytes,
                                                  MPI_BYTE, comm_of(channel), &t->request));
}

static int start_broadcast(ph__transfer **out, ph__channel *channel, void *buffer, size_t bytes,
                           uint32_t root)
{
    ph__transfer *t = new_transfer();
    return t == NULL ? PH__ENGINE_FAILED
                     : finish_start(out, t, "MPI_Ibcast",
                                    MPI_Ibcast(buffer, (int)bytes, MPI_BYTE, (int)root,
                                               comm_of(channel), &t->request));
}

static int start_send(ph__transfer **out, ph__channel *channel, const void *buffer, size_t bytes,
                      uint32_t to, int tag)
{
    ph__transfer *t = new_transfer();
    return t == NULL ? PH__ENGINE_FAILED
                     : finish_start(out, t, "MPI_Isend",
                                    MPI_Isend(buffer, (int)bytes, MPI_BYTE, (int)to, tag,
                                              comm_of(channel), &t->request));
}

static int start_receive(ph__transfer **out, ph__channel *channel, void *buffer, size_t bytes,
                         uint32_t from, int tag)
{
    ph__transfer *t = new_transfer();
    return t == NULL ? PH__ENGINE_FAILED
                     : finish_start(out, t, "MPI_Irecv",
                                    MPI_Irecv(buffer, (int)bytes, MPI_BYTE, (int)from, tag,
                                              comm_of(channel), &t->request));
}

const ph__engine *ph__engine_table(uint32_t version)
{
    static char name[MPI_MAX_LIBRARY_VERSION_STRING];
    static ph__engine table = {
        PH__ENGINE_VERSION, name,          is_begun,         init_engine,
        open_channel,       close_channel, start_all_gather, start_all_to_all,
        start_broadcast,    start_send,    start_receive,    test_transfer,
        get_reason,         give_up};
    int length = 0;
    if (version != PH__ENGINE_VERSION)
        return NULL;
    if (name[0] == '\0')
        (void)MPI_Get_library_version(name, &length);
    return &table;
}
