/* SPDX-License-Identifier: MIT */
/* tests/fake/nccl_api.c: the functions of the software libnccl. */
#include "fake_nccl.h"
#include "nccl_inside.h"
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    INTERNAL_ERROR = 3,
    MOST_NAMES = 32
};

/* ---- controls ---- */
static struct {
    pthread_mutex_t lock;
    struct {
        char name[32];
        int64_t calls;
        int result, times;
    } of[MOST_NAMES];
    atomic_int async_error;
    atomic_llong communicators;
    atomic_int usage;
} state = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Under the lock. */
static size_t find_name(const char *name)
{
    size_t i = 0;
    while (i < MOST_NAMES - 1 && state.of[i].name[0] && strcmp(state.of[i].name, name) != 0)
        i++;
    (void)snprintf(state.of[i].name, sizeof state.of[i].name, "%s", name);
    return i;
}

/* 0, or what the call is to answer. */
int nccl_count_call(const char *name)
{
    int result = 0;
    pthread_mutex_lock(&state.lock);
    size_t i = find_name(name);
    state.of[i].calls++;
    if (state.of[i].times > 0) {
        state.of[i].times--;
        result = state.of[i].result;
    }
    pthread_mutex_unlock(&state.lock);
    return result;
}

static void fail_call(const char *name, int result, int times)
{
    pthread_mutex_lock(&state.lock);
    size_t i = find_name(name);
    state.of[i].result = result;
    state.of[i].times = times;
    pthread_mutex_unlock(&state.lock);
}

static void set_async_error(int result)
{
    atomic_store(&state.async_error, result);
}

static int64_t calls_of(const char *name)
{
    pthread_mutex_lock(&state.lock);
    int64_t calls = state.of[find_name(name)].calls;
    pthread_mutex_unlock(&state.lock);
    return calls;
}

static int64_t count_communicators(void)
{
    return atomic_load(&state.communicators);
}

static int get_usage(void)
{
    return atomic_load(&state.usage);
}

extern const fake_nccl_controls fake_nccl_exports;
__attribute__((visibility("default"))) const fake_nccl_controls fake_nccl_exports = {
    fail_call, set_async_error,     calls_of,          count_communicators,
    get_usage, nccl_count_memories, nccl_is_registered};

__attribute__((destructor)) static void check_end(void)
{
    if (atomic_load(&state.communicators) == 0 && nccl_count_memories() == 0)
        return;
    fprintf(stderr, "fake libnccl: %lld communicators and %lld pieces of memory were left\n",
            (long long)atomic_load(&state.communicators), (long long)nccl_count_memories());
    _exit(97);
}

/* ---- CUDA ---- */
static struct {
    int (*launch_host)(struct CUstream_st *stream, void (*fn)(void *), void *user);
    int (*current)(void **context);
    int (*push)(void *context);
    int (*pop)(void **context);
    int (*exchange)(int *mode);
} cuda;

void nccl_find_cuda(void *out, const char *name)
{
    int (*find)(const char *name, void **function, int version, uint64_t flags) = NULL;
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library)
        *(void **)&find = dlsym(library, "cuGetProcAddress");
    if (find && find(name, out, 12000, 0) == 0)
        return;
    fprintf(stderr, "fake libnccl: no software libcuda\n");
    abort();
}

static void load_cuda(void)
{
    nccl_find_cuda(&cuda.launch_host, "cuLaunchHostFunc");
    nccl_find_cuda(&cuda.current, "cuCtxGetCurrent");
    nccl_find_cuda(&cuda.push, "cuCtxPushCurrent");
    nccl_find_cuda(&cuda.pop, "cuCtxPopCurrent");
    nccl_find_cuda(&cuda.exchange, "cuThreadExchangeStreamCaptureMode");
}

static void need_cuda(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, load_cuda);
}

/* ---- what it is ---- */
EXPORT(int, ncclGetVersion, (int *version))
{
    const char *own = getenv("FAKE_NCCL_VERSION");
    *version = own ? atoi(own) : 22809;
    return 0;
}

EXPORT(const char *, ncclGetErrorString, (int result))
{
    static const char *const texts[] = {"no error",
                                        "unhandled cuda error",
                                        "system error",
                                        "internal error",
                                        "invalid argument",
                                        "invalid usage",
                                        "remote process exited",
                                        "NCCL operation in progress"};
    return result >= 0 && result <= PH__NCCL_IN_PROGRESS ? texts[result] : "unknown result code";
}

EXPORT(const char *, ncclGetLastError, (ph__nccl_raw * comm))
{
    (void)comm;
    return "";
}

/* ---- communicators ---- */
EXPORT(int, ncclGetUniqueId, (ph__nccl_id * id))
{
    static atomic_uint number;
    const char *address = getenv("NCCL_COMM_ID");
    int failure = nccl_count_call("ncclGetUniqueId");
    memset(id, 0, sizeof *id);
    if (failure)
        return failure;
    if (address)
        (void)snprintf(id->bytes, sizeof id->bytes, "at %.40s", address);
    else
        (void)snprintf(id->bytes, sizeof id->bytes, "of %ld %u", (long)getpid(),
                       atomic_fetch_add(&number, 1));
    for (char *c = id->bytes; *c; c++)
        *c = *c == '/' ? '.' : *c;
    return 0;
}

/* As NVIDIA's: before 2.29 the environment says it, for the whole process; later the variable comes
 * before the configuration, and 0 of it means that nothing is captured. */
static int find_usage(const ph__nccl_config *config)
{
    static atomic_int asked = -1;
    const char *variable = getenv("NCCL_GRAPH_MIXING_SUPPORT");
    int version, none = -1, said = variable ? (atoi(variable) ? 2 : 0) : INT_MIN;
    (void)ncclGetVersion(&version);
    if (version < PH__NCCL_HAS_USAGE) {
        (void)atomic_compare_exchange_strong(&asked, &none, said == INT_MIN ? 2 : said);
        return atomic_load(&asked);
    }
    if (said == INT_MIN && config->size >= sizeof *config && config->version >= PH__NCCL_HAS_USAGE)
        said = config->graph_usage_mode;
    return said == INT_MIN ? 2 : said;
}

static bool nap(const ph__nccl_raw *comm)
{
    const struct timespec time = {0, 500000};
    (void)nanosleep(&time, NULL);
    return !atomic_load(&((ph__nccl_raw *)(uintptr_t)comm)->aborted);
}

static nccl_shared *map_shared(const char *name, bool make)
{
    struct stat info;
    int file = shm_open(name, make ? O_RDWR | O_CREAT | O_EXCL : O_RDWR, 0600);
    if (file < 0)
        return NULL;
    bool there = make ? ftruncate(file, sizeof(nccl_shared)) == 0
                      : fstat(file, &info) == 0 && info.st_size == sizeof(nccl_shared);
    void *memory =
        there ? mmap(NULL, sizeof(nccl_shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0)
              : MAP_FAILED;
    (void)close(file);
    return memory == MAP_FAILED ? NULL : memory;
}

/* Rank 0 makes the memory, and takes its name away once all have it. */
static void *join_ranks(void *argument)
{
    ph__nccl_raw *comm = argument;
    nccl_shared *shared = NULL;
    while (shared == NULL && nap(comm))
        shared = map_shared(comm->name, comm->rank == 0);
    if (shared == NULL)
        return NULL;
    comm->shared = shared;
    atomic_fetch_add(&shared->joined, 1);
    while (atomic_load(&shared->joined) < (unsigned)comm->ranks)
        if (!nap(comm))
            return NULL;
    if (comm->rank == 0)
        (void)shm_unlink(comm->name);
    atomic_store(&comm->state, PH__NCCL_SUCCESS);
    return NULL;
}

static void end_thread(ph__nccl_raw *comm)
{
    if (comm->has_thread)
        (void)pthread_join(comm->thread, NULL);
    comm->has_thread = false;
}

static int start_thread(ph__nccl_raw *comm, void *(*body)(void *))
{
    end_thread(comm);
    atomic_store(&comm->state, PH__NCCL_IN_PROGRESS);
    comm->has_thread = pthread_create(&comm->thread, NULL, body, comm) == 0;
    return comm->has_thread ? PH__NCCL_IN_PROGRESS : INTERNAL_ERROR;
}

EXPORT(int, ncclCommInitRankConfig,
       (ph__nccl_raw * *out, int ranks, ph__nccl_id id, int rank, ph__nccl_config *config))
{
    int failure = nccl_count_call("ncclCommInitRankConfig");
    need_cuda();
    *out = NULL;
    if (failure)
        return failure;
    if (config->magic != PH__NCCL_MAGIC || config->blocking != 0 || ranks > NCCL_MOST_RANKS ||
        rank >= ranks)
        return PH__NCCL_INVALID_ARGUMENT;
    ph__nccl_raw *comm = calloc(1, sizeof *comm);
    if (comm == NULL || cuda.current(&comm->context) != 0 || comm->context == NULL) {
        free(comm);
        return PH__NCCL_INVALID_USAGE; /* no context is current */
    }
    (void)pthread_mutex_init(&comm->lock, NULL);
    atomic_store(&state.usage, find_usage(config));
    comm->ranks = ranks;
    comm->rank = rank;
    (void)snprintf(comm->name, sizeof comm->name, "/fake-nccl %.48s", id.bytes);
    atomic_fetch_add(&state.communicators, 1);
    *out = comm;
    return start_thread(comm, join_ranks);
}

EXPORT(int, ncclCommGetAsyncError, (ph__nccl_raw * comm, int *result))
{
    int failure = nccl_count_call("ncclCommGetAsyncError"), error = atomic_load(&state.async_error);
    *result = error ? error : atomic_load(&comm->state);
    return failure;
}

static void free_comm(ph__nccl_raw *comm)
{
    end_thread(comm);
    nccl_forget_registrations(comm, false);
    while (comm->batches) {
        nccl_batch *next = comm->batches->next;
        free(comm->batches);
        comm->batches = next;
    }
    if (comm->shared)
        (void)munmap(comm->shared, sizeof *comm->shared);
    (void)pthread_mutex_destroy(&comm->lock);
    free(comm);
    atomic_fetch_sub(&state.communicators, 1);
}

EXPORT(int, ncclCommFinalize, (ph__nccl_raw * comm))
{
    (void)comm;
    return nccl_count_call("ncclCommFinalize");
}

EXPORT(int, ncclCommDestroy, (ph__nccl_raw * comm))
{
    (void)nccl_count_call("ncclCommDestroy");
    free_comm(comm);
    return 0;
}

/* What runs on streams ends first. */
EXPORT(int, ncclCommAbort, (ph__nccl_raw * comm))
{
    (void)nccl_count_call("ncclCommAbort");
    atomic_store(&comm->aborted, true);
    end_thread(comm);
    while (atomic_load(&comm->running) > 0)
        (void)usleep(500);
    nccl_forget_registrations(comm, true);
    atomic_fetch_sub(&state.communicators, 1); /* its memory stays: streams may still run it */
    return 0;
}

/* ---- groups ---- of a thread */
static _Thread_local struct {
    int depth, failure;
    size_t count;
    struct {
        ph__nccl_raw *comm;
        struct CUstream_st *stream;
        nccl_work work;
    } of[NCCL_MOST_OPS];
} group;

static nccl_batch *make_batch(ph__nccl_raw *comm)
{
    nccl_batch *batch = calloc(1, sizeof *batch + group.count * sizeof batch->work[0]);
    if (batch == NULL)
        return NULL;
    batch->comm = comm;
    for (size_t i = 0; i < group.count; i++)
        if (group.of[i].comm == comm) {
            batch->stream = group.of[i].stream;
            batch->work[batch->count++] = group.of[i].work;
        }
    pthread_mutex_lock(&comm->lock);
    batch->next = comm->batches;
    comm->batches = batch;
    pthread_mutex_unlock(&comm->lock);
    return batch;
}

static int launch(nccl_batch *batch)
{
    return cuda.launch_host(batch->stream, nccl_run, batch) == 0 ? 0 : PH__NCCL_UNHANDLED_CUDA;
}

static void *launch_in_thread(void *argument)
{
    ph__nccl_raw *comm = argument;
    int relaxed = 2;
    (void)cuda.push(comm->context);
    (void)cuda.exchange(&relaxed);
    (void)usleep(2000);
    int result = launch(comm->batches);
    (void)cuda.pop(&(void *){NULL});
    atomic_store(&comm->state, result);
    return NULL;
}

static int submit_group(void)
{
    ph__nccl_raw *comm = group.of[0].comm;
    for (size_t i = 1; i < group.count; i++)
        if (group.of[i].comm != comm || group.of[i].stream != group.of[0].stream)
            return PH__NCCL_INVALID_USAGE; /* the tests need one alone */
    if (atomic_load(&comm->state) == PH__NCCL_IN_PROGRESS)
        return PH__NCCL_INVALID_USAGE;
    nccl_batch *batch = make_batch(comm);
    if (batch == NULL)
        return INTERNAL_ERROR;
    return atomic_exchange(&comm->connected, true) ? launch(batch)
                                                   : start_thread(comm, launch_in_thread);
}

EXPORT(int, ncclGroupStart, (void))
{
    if (group.depth++ == 0)
        group.count = 0, group.failure = 0;
    return 0;
}

EXPORT(int, ncclGroupEnd, (void))
{
    if (group.depth == 0)
        return PH__NCCL_INVALID_USAGE;
    if (--group.depth > 0 || group.count == 0)
        return 0;
    return group.failure ? group.failure : submit_group();
}

static int add(const char *name, ph__nccl_raw *comm, struct CUstream_st *stream,
               const nccl_work *work)
{
    int result = nccl_count_call(name);
    bool alone = group.depth == 0;
    if (alone)
        (void)ncclGroupStart();
    if (result == 0 && group.count == NCCL_MOST_OPS)
        result = INTERNAL_ERROR;
    if (result == 0) {
        group.of[group.count].comm = comm;
        group.of[group.count].stream = stream;
        group.of[group.count++].work = *work;
    } else {
        group.failure = result;
    }
    if (!alone)
        return result;
    int ended = ncclGroupEnd();
    return result ? result : ended;
}

static int add_op(const char *name, nccl_kind kind, const void *send, void *receive, size_t count,
                  int type, int op, int peer, ph__nccl_raw *comm, struct CUstream_st *stream)
{
    const nccl_work work = {{kind, count, type, op, peer, 0}, send, receive};
    return add(name, comm, stream, &work);
}

EXPORT(int, ncclAllReduce,
       (const void *send, void *receive, size_t count, int type, int op, ph__nccl_raw *comm,
        struct CUstream_st *stream))
{
    return add_op("ncclAllReduce", NCCL_ALL_REDUCE, send, receive, count, type, op, 0, comm,
                  stream);
}

EXPORT(int, ncclBroadcast,
       (const void *send, void *receive, size_t count, int type, int root, ph__nccl_raw *comm,
        struct CUstream_st *stream))
{
    return add_op("ncclBroadcast", NCCL_BROADCAST, send, receive, count, type, 0, root, comm,
                  stream);
}

EXPORT(int, ncclAllGather,
       (const void *send, void *receive, size_t count, int type, ph__nccl_raw *comm,
        struct CUstream_st *stream))
{
    return add_op("ncclAllGather", NCCL_ALL_GATHER, send, receive, count, type, 0, 0, comm, stream);
}

EXPORT(int, ncclReduceScatter,
       (const void *send, void *receive, size_t count, int type, int op, ph__nccl_raw *comm,
        struct CUstream_st *stream))
{
    return add_op("ncclReduceScatter", NCCL_REDUCE_SCATTER, send, receive, count, type, op, 0, comm,
                  stream);
}

EXPORT(int, ncclSend,
       (const void *send, size_t count, int type, int to, ph__nccl_raw *comm,
        struct CUstream_st *stream))
{
    return add_op("ncclSend", NCCL_SEND, send, NULL, count, type, 0, to, comm, stream);
}

EXPORT(int, ncclRecv,
       (void *receive, size_t count, int type, int from, ph__nccl_raw *comm,
        struct CUstream_st *stream))
{
    return add_op("ncclRecv", NCCL_RECEIVE, NULL, receive, count, type, 0, from, comm, stream);
}
