/* SPDX-License-Identifier: MIT */
/* comm/object/board.c: where the ranks of one machine stand. Each rank has a file in memory, which
 * the others open through its process: no name is left behind when a process dies. */
#include "comm/object/board.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/line.h"
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    GRACE_NS = 250000000 /* messages that a rank sent before its end come in that time */
};

/* ---- the own seat ---- */
static void read_machine(ph__introduction *out)
{
    struct stat processes;
    int file = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t got = file < 0 ? -1 : read(file, out->machine, sizeof out->machine - 1);
    if (file >= 0)
        (void)close(file);
    if (got > 0 && stat("/proc/self/ns/pid", &processes) == 0)
        out->processes = processes.st_ino;
}

static bool make_seat(ph__board *board, uint32_t rank)
{
    board->file = memfd_create("phonograph-rank", MFD_CLOEXEC);
    if (board->file < 0 || ftruncate(board->file, sizeof(ph__seat)) != 0)
        return false;
    void *memory = mmap(NULL, sizeof(ph__seat), PROT_READ | PROT_WRITE, MAP_SHARED, board->file, 0);
    if (memory == MAP_FAILED)
        return false;
    board->own = memory;
    board->own->magic = ph__now_ns() ^ ((uint64_t)getpid() << 40) ^ (uintptr_t)board;
    board->own->rank = rank;
    atomic_store(&board->own->state, PH__SEAT_HERE);
    return true;
}

ph__board *ph__board_create(ph__introduction *out, uint32_t rank, uint32_t size)
{
    ph__board *board = ph__calloc(1, sizeof *board + size * sizeof board->peers[0]);
    memset(out, 0, sizeof *out);
    if (board == NULL)
        return NULL;
    board->size = size;
    for (uint32_t i = 0; i < size; i++)
        board->peers[i].life = -1;
    if (!make_seat(board, rank))
        return board;
    read_machine(out);
    out->magic = board->own->magic;
    out->process = (int32_t)getpid();
    out->file = (int32_t)board->file;
    return board;
}

void ph__board_close_file(ph__board *board)
{
    if (board->file >= 0)
        (void)close(board->file);
    board->file = -1;
}

void ph__board_free(ph__board *board)
{
    uint32_t here = PH__SEAT_HERE;
    if (board == NULL)
        return;
    ph__board_close_file(board);
    if (board->own) {
        (void)atomic_compare_exchange_strong(&board->own->state, &here, PH__SEAT_RELEASED);
        (void)munmap(board->own, sizeof *board->own);
    }
    for (uint32_t i = 0; i < board->size; i++) {
        if (board->peers[i].seat)
            (void)munmap((void *)(uintptr_t)board->peers[i].seat, sizeof(ph__seat));
        if (board->peers[i].life >= 0)
            (void)close(board->peers[i].life);
    }
    ph__free(board);
}

/* ---- the others ---- */
static const ph__seat *open_seat(const ph__introduction *of, uint32_t rank)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)of->process, (int)of->file);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return NULL;
    struct stat info;
    void *memory = fstat(file, &info) == 0 && info.st_size == (off_t)sizeof(ph__seat)
                       ? mmap(NULL, sizeof(ph__seat), PROT_READ, MAP_SHARED, file, 0)
                       : MAP_FAILED;
    (void)close(file);
    if (memory == MAP_FAILED)
        return NULL;
    const ph__seat *seat = memory;
    if (seat->magic == of->magic && seat->rank == rank)
        return seat;
    (void)munmap(memory, sizeof(ph__seat));
    return NULL;
}

void ph__board_join(ph__board *board, const ph__introduction *all)
{
    if (board->own == NULL)
        return;
    const ph__introduction *own = &all[board->own->rank];
    for (uint32_t i = 0; i < board->size; i++) {
        ph__peer *peer = &board->peers[i];
        bool same = own->processes != 0 && all[i].processes == own->processes &&
                    memcmp(all[i].machine, own->machine, sizeof own->machine) == 0;
        if (!same || i == board->own->rank)
            continue;
        peer->process = all[i].process;
#ifdef SYS_pidfd_open
        peer->life = (int)syscall(SYS_pidfd_open, peer->process, 0);
#endif
        peer->seat = open_seat(&all[i], i);
    }
}

/* ---- where a rank stands ---- */
void ph__board_enter(ph__board *board, unsigned channel, const ph__operation *operation)
{
    if (board == NULL || board->own == NULL)
        return;
    ph__seat_at *at = &board->own->at[channel];
    atomic_fetch_add(&at->version, 1);
    at->operation = *operation;
    at->since_ns = ph__now_ns();
    at->over = false;
    atomic_fetch_add(&at->version, 1);
}

void ph__board_leave(ph__board *board, unsigned channel)
{
    if (board == NULL || board->own == NULL)
        return;
    ph__seat_at *at = &board->own->at[channel];
    atomic_fetch_add(&at->version, 1);
    at->over = true;
    atomic_fetch_add(&at->version, 1);
}

void ph__board_fail(ph__board *board, const char *message)
{
    if (board == NULL || board->own == NULL)
        return;
    ph__line_format(board->own->message, sizeof board->own->message, "%s", message);
    atomic_store(&board->own->state, PH__SEAT_FAILED);
}

/* A copy that was not written meanwhile; false: it is written all the time. */
static bool read_place(ph__seat_at *out, const ph__seat_at *at)
{
    for (int i = 0; i < 100; i++) {
        ph__seat_at *from = (ph__seat_at *)(uintptr_t)at;
        uint64_t before = atomic_load(&from->version);
        if (before % 2 != 0)
            continue;
        memcpy(&out->operation, &from->operation, sizeof out->operation);
        out->since_ns = from->since_ns;
        out->over = from->over;
        if (atomic_load(&from->version) == before)
            return before != 0;
    }
    return false;
}

static void describe_place(ph__line_buffer *line, const ph__seat_at *at)
{
    char text[160];
    uint64_t now = ph__now_ns();
    double seconds = now > at->since_ns ? (double)(now - at->since_ns) / 1e9 : 0;
    ph__line_add(line,
                 at->over ? "was last in %s, number %llu, %.1f s ago"
                          : "is in %s, number %llu, since %.1f s",
                 ph__operation_text(text, sizeof text, &at->operation),
                 (unsigned long long)at->operation.sequence, seconds);
}

bool ph__board_find_late(ph__board *board, unsigned channel, uint64_t sequence, char text[240])
{
    for (uint32_t i = 0; board && i < board->size; i++) {
        ph__seat_at at;
        const ph__seat *seat = board->peers[i].seat;
        ph__line_buffer line = {text, 240, 0};
        if (seat == NULL)
            continue;
        bool came = read_place(&at, &seat->at[channel]);
        if (came && at.operation.sequence >= sequence)
            continue;
        ph__line_add(&line, "rank %u ", (unsigned)i);
        if (came)
            describe_place(&line, &at);
        else
            ph__line_add(&line, "has come to none yet");
        return true;
    }
    return false;
}

/* ---- ends ---- */
static bool has_ended(const ph__peer *peer)
{
    struct pollfd life = {.fd = peer->life, .events = POLLIN};
    return peer->life >= 0 && poll(&life, 1, 0) == 1;
}

static bool has_submitted_all(const ph__board *board, const ph__peer *peer)
{
    return board->logs && board->own &&
           atomic_load(&((ph__seat *)(uintptr_t)peer->seat)->logged) >=
               atomic_load(&board->own->logged);
}

static const char *find_end(const ph__board *board, ph__peer *peer)
{
    uint32_t state =
        peer->seat ? atomic_load(&((ph__seat *)(uintptr_t)peer->seat)->state) : PH__SEAT_HERE;
    if (state == PH__SEAT_FAILED)
        return peer->seat->message;
    if (state == PH__SEAT_RELEASED)
        return has_submitted_all(board, peer) ? NULL : "it has released the communicator";
    return has_ended(peer) ? "its process has ended" : NULL;
}

bool ph__board_find_gone(ph__board *board, uint32_t *rank, char reason[400])
{
    uint64_t now = ph__now_ns();
    for (uint32_t i = 0; board && i < board->size; i++) {
        ph__peer *peer = &board->peers[i];
        const char *why = find_end(board, peer);
        if (why == NULL)
            continue;
        if (peer->gone_since_ns == 0)
            peer->gone_since_ns = now;
        if (now - peer->gone_since_ns < GRACE_NS)
            continue;
        *rank = i;
        (void)snprintf(reason, 400, "%.320s (process %ld)", why, (long)peer->process);
        return true;
    }
    return false;
}
