/* SPDX-License-Identifier: MIT */
/* Lists of captured collectives, compared: every rank finds the same difference. */
#include "comm/work/agree.h"
#include "support/support.h"
#include "support/test.h"
#include <stdio.h>
#include <string.h>

enum {
    RANKS = 3,
    MOST = 4
};
static ph__operation lists[RANKS][MOST];
static size_t counts[RANKS];
static char text[400];

static void add(unsigned rank, ph__operation_kind kind, uint64_t count, uint32_t peer)
{
    ph__operation *o = &lists[rank][counts[rank]];
    memset(o, 0, sizeof *o);
    o->kind = kind;
    o->count = count;
    o->dtype = PH_DTYPE_F32;
    o->peer = peer;
    o->index = (uint32_t)counts[rank]++;
    (void)snprintf(o->scope, sizeof o->scope, "rank %u", rank);
}

static void start(void)
{
    memset(counts, 0, sizeof counts);
    memset(text, 0, sizeof text);
}

static void expect(bool agreed, const char *part)
{
    assert_true(ph__agree_compare(lists[0], counts, MOST, RANKS, text, sizeof text) == agreed);
    if (!strstr(text, part))
        print_error("%s\n", text);
    assert_non_null(strstr(text, part));
}

TEST(equal_lists_fit_whatever_their_scopes_are)
{
    start();
    expect(true, "");
    for (unsigned rank = 0; rank < RANKS; rank++) {
        add(rank, PH__OPERATION_ALL_REDUCE, 10, 0);
        add(rank, PH__OPERATION_BROADCAST, 10, 2);
    }
    expect(true, "");
}

TEST(the_first_difference_is_named_with_its_rank)
{
    start();
    for (unsigned rank = 0; rank < RANKS; rank++) {
        add(rank, PH__OPERATION_ALL_REDUCE, 10, 0);
        add(rank, PH__OPERATION_BROADCAST, 10, rank == 2 ? 1 : 0);
    }
    expect(false, "as collective 1 of the graph, rank 0 has broadcast of 10 f32 from rank 0");
    expect(false, "and rank 2 broadcast of 10 f32 from rank 1, in \"rank 2\"");
    lists[1][0].op = PH_REDUCE_MAX;
    expect(false, "as collective 0 of the graph");
    expect(false, "and rank 1 all_reduce of 10 f32 (max)");
}

TEST(a_list_that_is_longer_is_named)
{
    start();
    add(1, PH__OPERATION_ALL_GATHER, 10, 0);
    expect(false, "rank 0 has none, and rank 1 all_gather of 10 f32");
}

TEST(sends_need_their_receives_in_order)
{
    start();
    add(0, PH__OPERATION_SEND, 10, 1);
    add(0, PH__OPERATION_SEND, 20, 1);
    add(0, PH__OPERATION_ALL_REDUCE, 5, 0);
    add(1, PH__OPERATION_ALL_REDUCE, 5, 0);
    add(1, PH__OPERATION_RECEIVE, 10, 0);
    add(1, PH__OPERATION_RECEIVE, 20, 0);
    add(2, PH__OPERATION_ALL_REDUCE, 5, 0);
    expect(true, "");
    lists[1][1].count = 20;
    expect(false, "rank 0 has send of 10 f32 to rank 1");
    expect(false, "and rank 1 receive of 20 f32 from rank 0");
    lists[1][1].count = 10;
    lists[1][2].peer = 2;
    expect(false, "rank 0 has send of 20 f32 to rank 1");
    expect(false, "and rank 1 none");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_lists_fit_whatever_their_scopes_are),
        cmocka_unit_test(the_first_difference_is_named_with_its_rank),
        cmocka_unit_test(a_list_that_is_longer_is_named),
        cmocka_unit_test(sends_need_their_receives_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
