/* SPDX-License-Identifier: MIT */
/* tests/unit/record_scan.c: scans over the words of a kernel's parameters, several at a time,
 * against plain loops. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rng.h"
#include "graph/slots/slots_same.h"
#include "record/sparse.h"
#include "support/test.h"
#include <cmocka.h>

enum {
    MOST = 23, /* words: whole groups, and each rest */
    ROUNDS = 20000
};

typedef struct words {
    unsigned char at[MOST * 8 + 7];
    size_t bytes; /* may end in the middle of a word */
} words;

static uint64_t number(ph__rng *rng, uint64_t lowest, uint64_t span)
{
    const uint64_t edges[] = {
        0, 1, lowest - 1, lowest, lowest + span - 1, lowest + span, UINT64_MAX, ph__rng_next(rng)};
    return edges[ph__rng_next(rng) % (sizeof edges / sizeof *edges)];
}

/* Few of the numbers are in the window, so that scans go far. */
static void fill(words *out, ph__rng *rng, uint64_t lowest, uint64_t span)
{
    out->bytes = ph__rng_next(rng) % sizeof out->at;
    for (size_t i = 0; i < MOST; i++) {
        uint64_t value = ph__rng_next(rng) % 8 ? ph__rng_next(rng) % 50 : number(rng, lowest, span);
        memcpy(out->at + i * 8, &value, sizeof value);
    }
}

static bool is_within(const words *in, size_t w, uint64_t lowest, uint64_t span)
{
    const uint64_t value = ph__word_at(in->at, w * 8);
    return value >= lowest && value - lowest < span;
}

TEST(the_next_value_is_that_of_a_plain_loop)
{
    static const uint64_t windows[][2] = {{PH__ADDRESS_FIRST, PH__ADDRESS_END - PH__ADDRESS_FIRST},
                                          {1, UINT64_MAX},
                                          {UINT64_C(0x7f0000000000), 4096},
                                          {5, 0},
                                          {0, 3}};
    ph__rng rng = {1};
    words in;
    for (size_t round = 0; round < ROUNDS; round++) {
        const uint64_t *window = windows[round % (sizeof windows / sizeof *windows)];
        fill(&in, &rng, window[0], window[1]);
        const size_t whole = in.bytes / 8, from = ph__rng_next(&rng) % (whole + 1);
        size_t expected = from;
        while (expected < whole && !is_within(&in, expected, window[0], window[1]))
            expected++;
        assert_int_equal(ph__next_value_within(in.at, from * 8, in.bytes, window[0], window[1]),
                         expected * 8);
    }
}

TEST(the_next_other_word_is_that_of_a_plain_loop)
{
    const uint64_t lowest = UINT64_C(0x7f0000000000), span = 4096;
    ph__rng rng = {2};
    words mine, theirs;
    for (size_t round = 0; round < ROUNDS; round++) {
        fill(&mine, &rng, lowest, span);
        theirs = mine;
        if (round % 3)
            theirs.at[ph__rng_next(&rng) % sizeof theirs.at] ^= 1;
        const size_t whole = mine.bytes / 8, from = ph__rng_next(&rng) % (whole + 1);
        size_t expected = from;
        while (expected < whole && !is_within(&mine, expected, lowest, span) &&
               memcmp(mine.at + expected * 8, theirs.at + expected * 8, 8) == 0)
            expected++;
        assert_int_equal(ph__slot_next_other(mine.at, theirs.at, mine.bytes, from, lowest, span),
                         expected);
    }
}

/* ---- words of a sparse node ---- */
enum {
    WORDS = 12
};

/* Asked for in any ascending selection, words are those that they are alone. */
TEST(later_words_are_the_words)
{
    static const ph__place places[] = {{8, 1}, {16, 0}, {32, 1}, {40, 2}, {72, 0}};
    uint64_t args[WORDS] = {0};
    ph_word kept[3] = {{.kind = PH_WORD_SUSPECTED}, {.value = 0x7000}, {.value = 0x9000}};
    kept[0].value = 0x5000;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        args[places[i].offset / 8] = kept[places[i].word].value;
    args[6] = 77;
    const ph__record_node node = {.info = {.kind = PH_NODE_KERNEL,
                                           .args = args,
                                           .args_size = sizeof args,
                                           .word_count = WORDS},
                                  .kept = kept,
                                  .places = places,
                                  .kept_count = sizeof places / sizeof *places};
    for (unsigned chosen = 0; chosen < 1u << WORDS; chosen++) {
        size_t place = 0;
        for (size_t w = 0; w < WORDS; w++) {
            ph_word rooms[2];
            if (!(chosen >> w & 1))
                continue;
            const ph_word *later = ph__record_later_word(&rooms[0], &node, w, &place),
                          *alone = ph__record_word(&rooms[1], &node, w);
            assert_int_equal(later->value, alone->value);
            assert_int_equal(later->offset, alone->offset);
            assert_int_equal(later->kind, alone->kind);
            assert_string_equal(later->name, alone->name);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_next_value_is_that_of_a_plain_loop),
        cmocka_unit_test(later_words_are_the_words),
        cmocka_unit_test(the_next_other_word_is_that_of_a_plain_loop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
