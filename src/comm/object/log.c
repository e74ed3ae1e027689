/* SPDX-License-Identifier: MIT */
/* comm/object/log.c: what the ranks of one machine have submitted, compared through their seats. */
#include "comm/object/log.h"
#include "base/line.h"
#include <string.h>

static uint64_t hash_words(uint64_t hash, const ph__operation *operation)
{
    uint64_t words[offsetof(ph__operation, scope) / sizeof(uint64_t)];
    memcpy(words, operation, sizeof words);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        hash = ((hash ^ words[i]) * 0x9e3779b97f4a7c15u) ^ (hash >> 29);
    return hash;
}

static ph__seat_entry *entry_of(const ph__seat *seat, uint64_t number)
{
    return (ph__seat_entry *)(uintptr_t)&seat->log[number % PH__SEAT_LOG];
}

static uint64_t logged_of(const ph__seat *seat)
{
    return atomic_load_explicit(&((ph__seat *)(uintptr_t)seat)->logged, memory_order_acquire);
}

/* ---- the own log ---- */
void ph__board_log(ph__board *board, ph__operation *operation)
{
    if (board->own == NULL)
        return;
    uint64_t number = logged_of(board->own) + 1;
    ph__seat_entry *entry = entry_of(board->own, number);
    operation->sequence = number;
    uint64_t before = number == 1 ? 0 : entry_of(board->own, number - 1)->hash;
    atomic_store_explicit(&entry->number, 0, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    entry->hash = hash_words(before, operation);
    entry->operation = *operation;
    atomic_store_explicit(&entry->number, number, memory_order_release);
    atomic_store_explicit(&board->own->logged, number, memory_order_release);
}

void ph__board_unlog(ph__board *board)
{
    if (board->own)
        atomic_fetch_sub(&board->own->logged, 1);
}

uint64_t ph__board_logged(const ph__board *board)
{
    return board->own ? logged_of(board->own) : 0;
}

const char *ph__board_last(const ph__board *board, char text[200])
{
    char what[160];
    uint64_t logged = ph__board_logged(board);
    ph__line_format(text, 200, "a collective of a stream");
    if (logged)
        ph__line_format(
            text, 200, "%s, number %llu",
            ph__operation_text(what, sizeof what, &entry_of(board->own, logged)->operation),
            (unsigned long long)logged);
    return text;
}

/* ---- comparing ---- */
/* False: it was written over. */
static bool read_entry(ph__seat_entry *out, const ph__seat *seat, uint64_t number)
{
    ph__seat_entry *from = entry_of(seat, number);
    if (atomic_load_explicit(&from->number, memory_order_acquire) != number)
        return false;
    out->hash = from->hash;
    memcpy(&out->operation, &from->operation, sizeof out->operation);
    atomic_thread_fence(memory_order_acquire);
    return atomic_load_explicit(&from->number, memory_order_relaxed) == number;
}

static bool read_entry_of(ph__seat_entry *out, const ph__board *board, uint32_t rank,
                          uint64_t number)
{
    const ph__seat *seat = rank == board->own->rank ? board->own : board->peers[rank].seat;
    return seat && read_entry(out, seat, number);
}

/* As one rank and another have it: the first one that has, and the first that differs. */
static bool describe_number(char text[400], const ph__board *board, uint64_t number)
{
    ph__seat_entry first, other;
    char texts[2][160];
    uint32_t lowest = 0, rank;
    while (lowest < board->size && !read_entry_of(&first, board, lowest, number))
        lowest++;
    for (rank = lowest + 1; rank < board->size; rank++)
        if (read_entry_of(&other, board, rank, number) &&
            !ph__operation_same(&first.operation, &other.operation))
            break;
    if (rank >= board->size)
        return false;
    ph__line_format(text, 400,
                    "the ranks do not agree: as number %llu, rank %u has %s, and rank %u %s; let "
                    "all ranks make the same calls in the same order",
                    (unsigned long long)number, (unsigned)lowest,
                    ph__operation_text(texts[0], sizeof texts[0], &first.operation), (unsigned)rank,
                    ph__operation_text(texts[1], sizeof texts[1], &other.operation));
    return true;
}

/* The first number that differs, as far as the logs still have it. */
static void describe_first(char text[400], const ph__board *board, uint32_t with, uint64_t from,
                           uint64_t to)
{
    for (uint64_t number = from + 1; number <= to; number++)
        if (describe_number(text, board, number))
            return;
    ph__line_format(text, 400,
                    "the ranks do not agree: rank %u and rank %u have submitted other collectives "
                    "before number %llu; let all ranks make the same calls in the same order",
                    (unsigned)board->own->rank, (unsigned)with, (unsigned long long)to);
}

static bool log_differs(ph__board *board, uint32_t rank, char text[400])
{
    ph__peer *peer = &board->peers[rank];
    const ph__seat *own = board->own;
    ph__seat_entry mine, theirs;
    uint64_t alike = atomic_load_explicit(&peer->alike, memory_order_relaxed);
    uint64_t mine_to = logged_of(own), theirs_to = logged_of(peer->seat);
    uint64_t to = mine_to < theirs_to ? mine_to : theirs_to;
    if (to <= alike || !read_entry(&mine, own, to) || !read_entry(&theirs, peer->seat, to))
        return false;
    if (mine.hash == theirs.hash) {
        atomic_store_explicit(&peer->alike, to, memory_order_relaxed);
        return false;
    }
    uint64_t oldest = to > PH__SEAT_LOG ? to - PH__SEAT_LOG : 0;
    describe_first(text, board, rank, alike > oldest ? alike : oldest, to);
    return true;
}

bool ph__board_find_other(ph__board *board, char text[400])
{
    for (uint32_t i = 0; board->own && i < board->size; i++)
        if (board->peers[i].seat && log_differs(board, i, text))
            return true;
    return false;
}

/* ---- the others' logs ---- */
static void describe_behind(char text[240], const ph__seat *seat, uint64_t logged)
{
    ph__seat_entry last;
    char what[160];
    if (logged && read_entry(&last, seat, logged))
        ph__line_format(
            text, 240, "rank %u has submitted none after %s, number %llu", (unsigned)seat->rank,
            ph__operation_text(what, sizeof what, &last.operation), (unsigned long long)logged);
    else
        ph__line_format(text, 240, "rank %u has submitted %llu", (unsigned)seat->rank,
                        (unsigned long long)logged);
}

bool ph__board_find_behind(ph__board *board, char text[240])
{
    for (uint32_t i = 0; board->own && i < board->size; i++) {
        const ph__seat *seat = board->peers[i].seat;
        uint64_t logged = seat ? logged_of(seat) : UINT64_MAX;
        if (logged >= logged_of(board->own))
            continue;
        describe_behind(text, seat, logged);
        return true;
    }
    return false;
}
