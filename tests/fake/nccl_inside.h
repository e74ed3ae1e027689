/* SPDX-License-Identifier: MIT */
/* tests/fake/nccl_inside.h: what the files of the software libnccl share. */
#ifndef PH_TESTS_NCCL_INSIDE_H
#define PH_TESTS_NCCL_INSIDE_H
#include "comm/nccl/abi.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    NCCL_MOST_RANKS = 8,
    NCCL_CHUNK = 1 << 16,
    NCCL_MAIL = 1 << 14,
    NCCL_MOST_OPS = 64
};

typedef enum nccl_kind {
    NCCL_ALL_REDUCE = 1,
    NCCL_BROADCAST,
    NCCL_ALL_GATHER,
    NCCL_REDUCE_SCATTER,
    NCCL_SEND,
    NCCL_RECEIVE
} nccl_kind;

/* The same bytes on all ranks, but for sends and receives. */
typedef struct nccl_op {
    uint64_t kind, count;
    int32_t type, op, peer, reserved;
} nccl_op;

typedef struct nccl_work {
    nccl_op op;
    const unsigned char *send;
    unsigned char *receive;
} nccl_work;

/* ---- memory of all ranks ---- */
typedef struct nccl_seat {
    _Atomic uint64_t phase; /* counts its steps */
    nccl_op op;
    uint64_t bytes;
    _Alignas(16) unsigned char data[NCCL_CHUNK];
} nccl_seat;
typedef struct nccl_mail {
    atomic_uint full;
    uint32_t bytes;
    unsigned char data[NCCL_MAIL];
} nccl_mail;
typedef struct nccl_shared {
    atomic_uint ready, joined;
    nccl_seat seats[NCCL_MOST_RANKS];
    nccl_mail mail[NCCL_MOST_RANKS][NCCL_MOST_RANKS]; /* from, to */
} nccl_shared;

/* A group, as a stream runs it: as often as its graph is replayed. */
typedef struct nccl_batch {
    struct nccl_batch *next;
    ph__nccl_raw *comm;
    struct CUstream_st *stream;
    size_t count;
    nccl_work work[];
} nccl_batch;

struct ph__nccl_raw {
    int ranks, rank;
    char name[64];
    nccl_shared *shared;
    uint64_t phase; /* of the host function that runs: one at a time */
    atomic_int state;
    atomic_bool aborted, connected;
    atomic_uint running; /* host functions */
    void *context;
    pthread_t thread; /* that joins, or submits the first group */
    bool has_thread;
    pthread_mutex_t lock;
    nccl_batch *batches; /* all, to the end of the communicator */
};

#define EXPORT(result, name, parameters)                                                           \
    __attribute__((visibility("default"))) result name parameters;                                 \
    result name parameters

/* nccl_run.c: a host function of the stream. */
void nccl_run(void *batch);

/* nccl_api.c: 0, or what the call is to answer; a function of the software libcuda. */
int nccl_count_call(const char *name);
void nccl_find_cuda(void *out, const char *name);

/* nccl_memory.c: of a communicator that ends: those that it still has are an error, unless it was
 * aborted. */
void nccl_forget_registrations(const ph__nccl_raw *comm, bool aborted);
int64_t nccl_count_memories(void);
bool nccl_is_registered(const void *address, size_t bytes);
#endif
