/* SPDX-License-Identifier: MIT */
/* tests/unit/verify_blocks.c: which block of a layout an address is in: as looking through the
 * list gives it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "inspect/verify/blocks.h"
#include "inspect/verify/verify.h"
#include "support/test.h"
#include <cmocka.h>

enum {
    MOST = 40
};

/* The last one that covers the address. */
static const ph__logged_allocation *look(const ph__layout *layout, uintptr_t address)
{
    for (size_t i = layout->list.count; i-- > 0;)
        if (address - layout->list.at[i].address < layout->list.at[i].size)
            return &layout->list.at[i];
    return NULL;
}

static void compare(const ph__layout *layout, uintptr_t most)
{
    ph__block_index index;
    assert_true(ph__block_index_make(&index, layout));
    assert_true(index.count <= 2 * layout->list.count);
    for (uintptr_t address = 0; address <= most; address++)
        assert_ptr_equal(ph__block_index_find(&index, address), look(layout, address));
    for (size_t i = 1; i < index.count; i++)
        assert_true(index.from[i - 1] < index.from[i]);
    ph__block_index_free(&index);
    assert_int_equal(ph__alloc_live(), 0);
}

TEST(test_blocks_over_one_another)
{
    ph__logged_allocation blocks[MOST];
    ph__rng rng = {3};
    for (int round = 0; round < 600; round++) {
        ph__layout layout = {.list = {blocks, ph__rng_below(&rng, MOST + 1), MOST}};
        uintptr_t room = 4 + ph__rng_below(&rng, 200);
        for (size_t i = 0; i < layout.list.count; i++)
            blocks[i] = (ph__logged_allocation){.address = 1 + ph__rng_below(&rng, room),
                                                .size = 1 + ph__rng_below(&rng, 1 + room / 4)};
        compare(&layout, room + room / 4 + 3);
    }
}

/* One address again and again, and blocks that touch: as captures mostly have them. */
TEST(test_blocks_in_a_row)
{
    ph__logged_allocation blocks[MOST];
    ph__layout layout = {.list = {blocks, MOST, MOST}};
    for (size_t i = 0; i < MOST; i++)
        blocks[i] = (ph__logged_allocation){.address = 16 + 8 * (i % 10), .size = 8};
    compare(&layout, 120);
}

TEST(test_no_host_memory)
{
    ph__logged_allocation block = {.address = 16, .size = 8};
    ph__layout layout = {.list = {&block, 1, 1}};
    ph__block_index index;
    for (int64_t n = 0; n < 3; n++) {
        ph__alloc_fail_after(n);
        bool made = ph__block_index_make(&index, &layout);
        ph__alloc_fail_after(PH__ALLOC_NEVER);
        assert_false(made);
        assert_null(index.from);
        assert_int_equal(ph__alloc_live(), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks_over_one_another),
        cmocka_unit_test(test_blocks_in_a_row),
        cmocka_unit_test(test_no_host_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
