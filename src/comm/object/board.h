/* SPDX-License-Identifier: MIT */
/* comm/object/board.h: where the ranks of one machine stand, in memory that each shows to the
 * others, and whether their processes live. Without it, as between machines, deadlines are all that
 * ends a wait. */
#ifndef PH_COMM_OBJECT_BOARD_H
#define PH_COMM_OBJECT_BOARD_H
#include "comm/object/operation.h"
#include <phonograph/status.h>
#include <stdatomic.h>
#include <sys/types.h>

typedef enum ph__seat_state {
    PH__SEAT_HERE = 1,
    PH__SEAT_FAILED = 2,
    PH__SEAT_RELEASED = 3
} ph__seat_state;

/* The last operation of a channel. version: odd while it is written. */
typedef struct ph__seat_at {
    _Atomic uint64_t version;
    ph__operation operation;
    uint64_t since_ns; /* ph__now_ns, which is the same on one machine */
    bool over;
} ph__seat_at;

/* A collective that a rank has submitted, by its number. The hash has all before, too. */
typedef struct ph__seat_entry {
    _Atomic uint64_t number; /* 0 while it is written */
    uint64_t hash;
    ph__operation operation;
} ph__seat_entry;
enum {
    PH__SEAT_LOG = 1024
};

/* The memory of one rank: it writes, the others read. */
typedef struct ph__seat {
    uint64_t magic;
    uint32_t rank;
    _Atomic uint32_t state;
    char message[320]; /* of the failure; before the state says so */
    ph__seat_at at[2]; /* of the host's calls, and of streams */
    _Atomic uint64_t logged;
    ph__seat_entry log[PH__SEAT_LOG];
} ph__seat;

/* The words in which a rank tells the others of its seat. */
typedef struct ph__introduction {
    char machine[40];   /* of the kernel's boot */
    uint64_t processes; /* the inode of its namespace of processes; 0: none is told */
    uint64_t magic;
    int32_t process, file;
} ph__introduction;

/* Another rank, as this one sees it. */
typedef struct ph__peer {
    const ph__seat *seat; /* NULL: on another machine, or out of reach */
    int life;             /* a pidfd; -1: none */
    pid_t process;
    uint64_t gone_since_ns; /* when its end was first seen; 0: it was not */
    _Atomic uint64_t alike; /* entries of its log up to this number are those of the own one */
} ph__peer;

typedef struct ph__board {
    ph__seat *own; /* NULL: there is none */
    int file;      /* of own, until the others have opened it */
    uint32_t size;
    bool logs;        /* ranks log what they submit: one that has submitted all may release */
    ph__peer peers[]; /* one for each rank; the own one is empty */
} ph__board;

/* NULL: no host memory. Without a seat of its own where the system gives none. */
ph__board *ph__board_create(ph__introduction *out, uint32_t rank, uint32_t size);
/* all: of every rank. */
void ph__board_join(ph__board *board, const ph__introduction *all);
void ph__board_close_file(ph__board *board); /* all have joined */
void ph__board_free(ph__board *board);       /* takes NULL; others see RELEASED, unless it failed */

/* channel: 0 of the host's calls, 1 of streams. */
void ph__board_enter(ph__board *board, unsigned channel, const ph__operation *operation);
void ph__board_leave(ph__board *board, unsigned channel);
void ph__board_fail(ph__board *board, const char *message);

/* Whether a rank is gone for so long that nothing of it can be under way any more: its number and
 * the reason in words. */
bool ph__board_find_gone(ph__board *board, uint32_t *rank, char reason[400]);
/* A rank that has not come to the operation, in words; false: none is known. */
bool ph__board_find_late(ph__board *board, unsigned channel, uint64_t sequence, char text[240]);
#endif
