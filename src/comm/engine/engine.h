/* SPDX-License-Identifier: MIT */
/* comm/engine/engine.h: what carries bytes between ranks, as a table of functions: a plug-in has
 * one, and the library finds it when the program runs.
 *
 * - Nothing blocks but init. Every transfer is a request, which test completes. So the library has
 *   the deadlines, and every plug-in has the same.
 * - Channels are apart: each keeps the order of its own transfers. One thread at a time uses a
 *   channel, and several threads use several.
 * - int results are 0, or a failure with the reason in a text. After one no further call is made on
 *   that channel, and where the engine has give_up, none on that engine in the process.
 * - Memory of a transfer is the caller's until test says that it is done. */
#ifndef PH_COMM_ENGINE_ENGINE_H
#define PH_COMM_ENGINE_ENGINE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PH__ENGINE_VERSION = 1,
    PH__ENGINE_REASON = 256,
    PH__TAG_NOTE = 1, /* tags: of the notes that come before contents, and of these */
    PH__TAG_CONTENTS = 2,
    PH__ENGINE_UNSUPPORTED = 1, /* something that is needed is missing */
    PH__ENGINE_OVER = 2,        /* already ended by the program */
    PH__ENGINE_FAILED = 3
};
typedef struct ph__channel ph__channel;
typedef struct ph__transfer ph__transfer;

typedef struct ph__engine {
    uint32_t version;
    const char *name;    /* "MPI", with its version */
    bool (*begun)(void); /* by whomever; legal at any time */
    int (*init)(uint32_t *rank, uint32_t *size, char reason[PH__ENGINE_REASON]);
    /* A new channel of all ranks: *out may be used when the transfer is done. */
    int (*open)(ph__channel **out, ph__transfer **transfer, char reason[PH__ENGINE_REASON]);
    void (*close)(ph__channel *channel); /* waits for nobody; without transfers under way */
    /* bytes: of one rank's part, at most INT_MAX */
    int (*all_gather)(ph__transfer **out, ph__channel *channel, const void *send, void *receive,
                      size_t bytes);
    int (*all_to_all)(ph__transfer **out, ph__channel *channel, const void *send, void *receive,
                      size_t bytes);
    int (*broadcast)(ph__transfer **out, ph__channel *channel, void *buffer, size_t bytes,
                     uint32_t root);
    /* Between two ranks, those of one tag meet in order. */
    int (*send)(ph__transfer **out, ph__channel *channel, const void *buffer, size_t bytes,
                uint32_t to, int tag);
    int (*receive)(ph__transfer **out, ph__channel *channel, void *buffer, size_t bytes,
                   uint32_t from, int tag);
    /* *done: it is over, and gone. */
    int (*test)(ph__transfer *transfer, bool *done);
    const char *(*reason)(void); /* of the calling thread's last failure */
    /* A transfer never ends: from now on close and the exit of the process call nothing either.
     * NULL: a failure is of one channel alone. */
    void (*give_up)(void);
} ph__engine;

/* The one function that a plug-in exports, as ph__engine_table; NULL: it has no such version. */
typedef const ph__engine *ph__engine_table_fn(uint32_t version);
#endif
