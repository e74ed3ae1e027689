/* SPDX-License-Identifier: MIT */
/* tests/cuda/fills.c: captured fills on both sides of the size up to which the library's own
 * kernel does them: every byte of theirs, and no other. */
#include "driver/cuda/load/core.h"
#include "support/support.h"
#include "support/test.h"
#include <phonograph/graph.h>

enum {
    ROOM = 2 * PH__CUDA_FILL_LIMIT
};
static const uint8_t BACKGROUND = 0xee;

static t_world world;

static void check_fill(uint8_t *memory, size_t offset, size_t bytes, uint32_t value, bool words)
{
    static uint8_t got[ROOM];
    ph_graph *graph;
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_memset(memory, BACKGROUND, ROOM, world.stream));
    assert_ok(ph_graph_capture_begin(graph, world.stream, NULL));
    ph_status status = words ? ph_memset_u32(memory + offset, value, bytes / 4, world.stream)
                             : ph_memset(memory + offset, (uint8_t)value, bytes, world.stream);
    assert_ok(ph_graph_capture_end(graph, status));
    assert_ok(ph_graph_replay(graph, world.stream));
    t_read(got, memory, ROOM, world.stream);
    for (size_t i = 0; i < ROOM; i++) {
        bool inside = i >= offset && i < offset + bytes;
        uint8_t want = (uint8_t)(words ? value >> 8 * ((i - offset) % 4) : value);
        if (got[i] != (inside ? want : BACKGROUND))
            fail_msg("%zu bytes at offset %zu: byte %zu is %02x", bytes, offset, i,
                     (unsigned)got[i]);
    }
    ph_graph_destroy(graph);
}

TEST(test_captured_fills)
{
    static const size_t sizes[] = {4, 8, 12, 16, 20, 60, 64, 68, 1000, 4080, 4092, 4096, 4100};
    uint8_t *memory;
    t_open(&world, NULL);
    assert_ok(PH_NEW(&memory, ROOM, world.stream));
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (size_t offset = 0; offset < 16; offset += t_nightly() ? 1 : 5) {
            check_fill(memory, offset, sizes[i], 0x5a, false);
            check_fill(memory, offset, sizes[i] - 3, 0x81, false);
        }
        for (size_t offset = 0; offset < 16; offset += 4)
            check_fill(memory, offset, sizes[i], 0x12345678, true);
    }
    ph_free(memory, world.stream);
    t_close(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_captured_fills),
    };
    return cmocka_run_group_tests_name("cuda_fills", tests, NULL, NULL);
}
