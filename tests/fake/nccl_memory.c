/* SPDX-License-Identifier: MIT */
/* tests/fake/nccl_memory.c: memory of the software libnccl, and who has registered it. */
#include "nccl_inside.h"
#include <stdio.h>
#include <unistd.h>

enum {
    MOST = 256,
    ALIGNMENT = 4096
};
static struct {
    pthread_mutex_t lock;
    struct {
        unsigned char *address; /* NULL: a free place */
        size_t bytes;
        uint64_t whole;           /* of the software libcuda, which aligns less */
        const ph__nccl_raw *comm; /* NULL: not registered */
    } of[MOST];
} memories = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct {
    int (*alloc)(uint64_t *address, size_t bytes);
    int (*free)(uint64_t address);
} cuda;

static void load_cuda(void)
{
    nccl_find_cuda(&cuda.alloc, "cuMemAlloc");
    nccl_find_cuda(&cuda.free, "cuMemFree");
}

_Noreturn static void complain(const char *what)
{
    fprintf(stderr, "fake libnccl: %s\n", what);
    _exit(97);
}

/* Under the lock. MOST: none. */
static size_t find_memory(const void *address)
{
    size_t i = 0;
    while (i < MOST && memories.of[i].address != address)
        i++;
    return i;
}

EXPORT(int, ncclMemAlloc, (void **out, size_t bytes))
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    uint64_t address = 0;
    int failure = nccl_count_call("ncclMemAlloc");
    (void)pthread_once(&once, load_cuda);
    if (failure)
        return failure;
    if (cuda.alloc(&address, bytes + ALIGNMENT) != 0)
        return PH__NCCL_UNHANDLED_CUDA;
    pthread_mutex_lock(&memories.lock);
    size_t i = find_memory(NULL);
    if (i == MOST)
        complain("too much memory");
    memories.of[i].whole = address;
    memories.of[i].address =
        (unsigned char *)(uintptr_t)((address + ALIGNMENT - 1) & ~(uint64_t)(ALIGNMENT - 1));
    memories.of[i].bytes = bytes;
    *out = memories.of[i].address;
    pthread_mutex_unlock(&memories.lock);
    return 0;
}

EXPORT(int, ncclMemFree, (void *memory))
{
    (void)nccl_count_call("ncclMemFree");
    pthread_mutex_lock(&memories.lock);
    size_t i = find_memory(memory);
    if (i == MOST)
        complain("ncclMemFree of memory that ncclMemAlloc did not give");
    if (memories.of[i].comm)
        complain("ncclMemFree of registered memory");
    uint64_t whole = memories.of[i].whole;
    memories.of[i].address = NULL;
    pthread_mutex_unlock(&memories.lock);
    return cuda.free(whole) == 0 ? 0 : PH__NCCL_UNHANDLED_CUDA;
}

/* The handle is the place in the table. */
EXPORT(int, ncclCommRegister,
       (const ph__nccl_raw *comm, void *memory, size_t bytes, void **registration))
{
    int failure = nccl_count_call("ncclCommRegister");
    if (failure)
        return failure;
    if (atomic_load(&comm->state) == PH__NCCL_IN_PROGRESS)
        complain("ncclCommRegister while the communicator is busy");
    pthread_mutex_lock(&memories.lock);
    size_t i = find_memory(memory);
    bool right = i < MOST && memories.of[i].bytes == bytes && memories.of[i].comm == NULL;
    if (right) {
        memories.of[i].comm = comm;
        *registration = &memories.of[i];
    }
    pthread_mutex_unlock(&memories.lock);
    return right ? 0 : PH__NCCL_INVALID_ARGUMENT;
}

EXPORT(int, ncclCommDeregister, (const ph__nccl_raw *comm, void *registration))
{
    int failure = nccl_count_call("ncclCommDeregister");
    if (failure)
        return failure;
    if (atomic_load(&comm->state) == PH__NCCL_IN_PROGRESS)
        complain("ncclCommDeregister while the communicator is busy");
    pthread_mutex_lock(&memories.lock);
    size_t i = 0;
    while (i < MOST && (void *)&memories.of[i] != registration)
        i++;
    if (i == MOST || memories.of[i].address == NULL || memories.of[i].comm != comm)
        complain("ncclCommDeregister of no registration");
    memories.of[i].comm = NULL;
    pthread_mutex_unlock(&memories.lock);
    return 0;
}

void nccl_forget_registrations(const ph__nccl_raw *comm, bool aborted)
{
    pthread_mutex_lock(&memories.lock);
    for (size_t i = 0; i < MOST; i++)
        if (memories.of[i].address && memories.of[i].comm == comm) {
            if (!aborted)
                complain("the end of a communicator with registrations");
            memories.of[i].comm = NULL;
        }
    pthread_mutex_unlock(&memories.lock);
}

int64_t nccl_count_memories(void)
{
    int64_t count = 0;
    pthread_mutex_lock(&memories.lock);
    for (size_t i = 0; i < MOST; i++)
        count += memories.of[i].address != NULL;
    pthread_mutex_unlock(&memories.lock);
    return count;
}

bool nccl_is_registered(const void *address, size_t bytes)
{
    const unsigned char *at = address;
    bool found = false;
    pthread_mutex_lock(&memories.lock);
    for (size_t i = 0; i < MOST && !found; i++)
        found = memories.of[i].address && memories.of[i].comm && at >= memories.of[i].address &&
                at + bytes <= memories.of[i].address + memories.of[i].bytes;
    pthread_mutex_unlock(&memories.lock);
    return found;
}
