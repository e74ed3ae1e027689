/* SPDX-License-Identifier: MIT */
/* tests/graph/foreign_blocks.c: blocks of another allocator that are announced and ended, and the
 * graphs, records and slots that address them. */
#include "inputs.h"
#include "support/fault.h"
#include "support/test.h"

#include <phonograph/foreign.h>
#include <phonograph/slots.h>
#include <stdio.h>
#include <string.h>

/* A segment of the other allocator, in blocks. */
enum {
    BLOCKS = 8,
    SEGMENT = BLOCKS * BYTES
};
static char *segment;
static uint64_t block_of[BLOCKS];

static int32_t *at(size_t index)
{
    return (int32_t *)(void *)(segment + index * BYTES);
}

static uint64_t announce(const void *address, size_t bytes, const char *label)
{
    const ph_foreign_block block = {.address = address, .bytes = bytes, .label = label};
    uint64_t generation = 0;
    assert_ok(ph_foreign_announce(&generation, world.device, &block));
    assert_int_not_equal(generation, 0);
    return generation;
}

static int open_blocks(void **state)
{
    void *memory = NULL;
    int result = open_world(state);
    assert_int_equal(world.device->driver->plain_alloc(&memory, world.device->handle, SEGMENT), 0);
    segment = memory;
    for (size_t i = 0; i < BLOCKS; i++) {
        char label[40];
        snprintf(label, sizeof label, "block %zu\nmodel.py:%zu forward", i, 10 + i);
        block_of[i] = announce(at(i), BYTES, label);
    }
    return result;
}

static int close_blocks(void **state)
{
    assert_ok(ph_device_synchronize(world.device));
    assert_int_equal(world.device->driver->plain_free(world.device->handle, segment), 0);
    return close_world(state);
}
#define IN_BLOCKS(name) cmocka_unit_test_setup_teardown(name, open_blocks, close_blocks)

/* ---- looking up ---- */
TEST(test_blocks_are_found_by_any_address_in_them)
{
    ph_allocation found;
    char *label;
    assert_int_equal(ph_foreign_count(world.device), BLOCKS);
    for (size_t i = 0; i < BLOCKS; i++) {
        assert_ok(ph_memory_lookup(&found, world.device, at(i) + N - 1));
        assert_ptr_equal(found.base, at(i));
        assert_int_equal(found.size, BYTES);
        assert_int_equal(found.requested, BYTES);
        assert_true(found.foreign);
        assert_false(found.pinned);
        assert_null(found.pool);
        assert_int_equal(found.generation, block_of[i]);
    }
    assert_ok(ph_foreign_label(&label, world.device, at(3) + 5));
    assert_string_equal(label, "block 3\nmodel.py:13 forward");
    ph_string_free(label);
    assert_ok(ph_foreign_end(world.device, at(3), block_of[3], NULL));
    assert_status(ph_memory_lookup(&found, world.device, at(3)), PH_ERROR_NOT_FOUND);
    assert_error(ph_foreign_label(&label, world.device, at(3)), PH_ERROR_NOT_FOUND,
                 "no block is announced");
    assert_null(label);
    assert_ok(ph_memory_lookup(&found, world.device, x));
    assert_false(found.foreign);
    assert_int_equal(ph_foreign_count(world.device), BLOCKS - 1);
}

TEST(test_a_new_block_ends_those_that_it_overlaps)
{
    ph_allocation found;
    uint64_t large = announce(at(1) + 8, 2 * BYTES, NULL);
    assert_int_equal(ph_foreign_count(world.device), BLOCKS - 3 + 1);
    assert_ok(ph_memory_lookup(&found, world.device, at(2)));
    assert_ptr_equal(found.base, at(1) + 8);
    assert_int_equal(found.generation, large);
    for (size_t i = 1; i < 4; i++)
        assert_status(ph_foreign_end(world.device, at(i), block_of[i], NULL), PH_ERROR_NOT_FOUND);
    assert_status(ph_memory_lookup(&found, world.device, at(1)), PH_ERROR_NOT_FOUND);
    assert_ok(ph_foreign_end(world.device, at(0), 0, NULL));
    assert_ok(ph_foreign_end(world.device, at(1) + 8, large, NULL));
    assert_true(announce(at(1), BYTES, NULL) > large);
}

/* ---- graphs ---- */
TEST(test_the_end_of_an_input_refuses_the_replay)
{
    begin(&checked);
    assert_ok(t_add(&world, world.stream, at(2) + 3, y, N - 3, 1));
    end();
    assert_int_equal(count(), 2);
    ph_input_info info = input(0);
    assert_true(info.foreign && info.proved);
    assert_ptr_equal(info.base, at(2));
    assert_int_equal(info.bytes, BYTES);
    assert_int_equal(info.state, PH_INPUT_LIVE);
    assert_string_equal(info.allocated_at, "block 2\nmodel.py:12 forward");
    assert_string_equal(info.freed_at, "");
    assert_ok(ph_graph_replay(graph, world.stream));
    assert_ok(ph_foreign_end(world.device, at(1), block_of[1], NULL));
    assert_ok(ph_graph_replay(graph, world.stream)); /* a neighbour */
    assert_ok(ph_foreign_end(world.device, at(2), block_of[2], "train.py:7 step"));
    t_log_start();
    for (int i = 0; i < 3; i++)
        assert_error(ph_graph_replay(graph, world.stream), PH_ERROR_STALE_INPUT,
                     "+12 in 1024 bytes of another allocator (block 2)");
    assert_int_equal(t_log_count("freed at train.py:7 step; allocated at block 2 model.py:12"), 1);
    t_log_stop();
    info = input(0);
    assert_int_equal(info.state, PH_INPUT_FREED);
    assert_string_equal(info.allocated_at, "block 2\nmodel.py:12 forward");
    assert_string_equal(info.freed_at, "train.py:7 step");
}

TEST(test_another_block_at_the_same_address_is_told_apart)
{
    begin(&checked);
    assert_ok(ph_memcpy(y, at(0), BYTES, world.stream));
    end();
    assert_ok(ph_graph_replay(graph, world.stream));
    assert_ok(ph_foreign_end(world.device, at(0), block_of[0], NULL));
    announce(at(0), BYTES, "another");
    assert_error(ph_graph_replay(graph, world.stream), PH_ERROR_STALE_INPUT,
                 "of another allocator (block 0), replaced");
    assert_int_equal(input(1).state, PH_INPUT_REPLACED);
    assert_ok(ph_graph_reset(graph));
    begin(&checked);
    assert_ok(ph_memcpy(y, at(0), BYTES, world.stream));
    end();
    announce(at(0), BYTES, "a third"); /* without an end */
    assert_error(ph_graph_replay(graph, world.stream), PH_ERROR_STALE_INPUT,
                 "of another allocator (another), replaced");
}

/* Without a check at the replay, and where the inputs are asked for after the block's end. */
TEST(test_records_have_the_blocks_of_the_end_of_the_capture)
{
    const ph_record *record;
    ph_word word;
    char *json;
    begin(NULL);
    assert_ok(t_add(&world, world.stream, at(5) + 1, y, N - 1, 1));
    end();
    assert_ok(ph_foreign_end(world.device, at(5), block_of[5], NULL));
    announce(at(5), BYTES, NULL);
    announce(at(4), BYTES, NULL);
    assert_ok(ph_graph_record(&record, graph));
    assert_ok(ph_record_word(&word, record, 0, 1));
    assert_ptr_equal(word.base, at(5));
    assert_int_equal(word.allocation_bytes, BYTES);
    assert_int_equal(word.generation, block_of[5]);
    assert_true(word.foreign);
    assert_false(word.internal);
    assert_ok(ph_record_json(&json, record));
    assert_non_null(strstr(json, "\"foreign\""));
    ph_string_free(json);
    assert_error(ph_graph_check_inputs(graph), PH_ERROR_STALE_INPUT, "of another allocator");
}

TEST(test_suspected_words_warn)
{
    ph_kernel *kernel;
    assert_ok(ph_kernel_create(&kernel, world.device, &t_kernel_sources[T_KERNEL_COPY_FIRST]));
    struct t_copy_first pair = {at(1), y};
    begin(&checked);
    assert_ok(ph_launch(world.stream, kernel, NULL, &pair, sizeof pair));
    end();
    assert_true(input(0).foreign);
    assert_false(input(0).proved);
    assert_ok(ph_foreign_end(world.device, at(1), block_of[1], NULL));
    t_log_start();
    assert_ok(ph_graph_replay(graph, world.stream));
    assert_ok(ph_graph_replay(graph, world.stream));
    assert_int_equal(t_log_count("of another allocator (block 1): looks like an address"), 1);
    t_log_stop();
    assert_ok(ph_stream_synchronize(world.stream));
    ph_kernel_release(kernel);
}

TEST(test_declared_uses_are_watched)
{
    begin(&checked);
    assert_ok(ph_stream_declare_use(world.stream, at(6) + 1, "workspace"));
    assert_ok(t_fill(&world, world.stream, y, N, 1));
    end();
    assert_int_equal(input(1).node, PH_INPUT_DECLARED);
    assert_true(input(1).foreign);
    assert_ok(ph_graph_replay(graph, world.stream));
    assert_ok(ph_foreign_end(world.device, at(6), block_of[6], NULL));
    assert_error(ph_graph_replay(graph, world.stream), PH_ERROR_STALE_INPUT,
                 "ph_stream_declare_use: workspace");
}

TEST(test_slots_take_blocks_and_watch_them)
{
    size_t slot;
    ph_slot_value value;
    begin(&checked);
    assert_ok(t_add(&world, world.stream, x, y, N, 1));
    end();
    assert_ok(ph_graph_slot_find(&slot, graph, "x", x, BYTES, NULL));
    value = (ph_slot_value){.slot = slot, .value = at(4)};
    assert_ok(ph_graph_replay_with(graph, world.stream, &value, 1));
    value.value = at(4) + 1; /* the block ends before the slot does */
    assert_status(ph_graph_replay_with(graph, world.stream, &value, 1), PH_ERROR_ARGUMENT);
    value.value = at(4);
    assert_ok(ph_graph_replay_with(graph, world.stream, &value, 1));
    assert_ok(ph_foreign_end(world.device, at(4), block_of[4], NULL));
    assert_error(ph_graph_replay(graph, world.stream), PH_ERROR_STALE_INPUT, "slot x = ");
    value.value = at(3);
    assert_ok(ph_graph_replay_with(graph, world.stream, &value, 1));
}

TEST(test_the_driver_is_not_asked)
{
    int64_t before = ph__driver_calls();
    announce(at(0), BYTES, "again");
    assert_ok(ph_foreign_end(world.device, at(0), 0, "gone"));
    assert_int_equal(ph__driver_calls() - before, 0);
    block_of[0] = announce(at(0), BYTES, "again");
    begin(&checked);
    assert_ok(ph_memcpy(y, at(0), BYTES, world.stream));
    announce(at(1), BYTES, NULL); /* in a capture */
    end();
    assert_ok(ph_graph_replay(graph, world.stream));
    before = ph__driver_calls();
    assert_ok(ph_foreign_end(world.device, at(0), block_of[0], NULL));
    assert_status(ph_graph_replay(graph, world.stream), PH_ERROR_STALE_INPUT);
    assert_int_equal(ph__driver_calls() - before, 0);
}

/* The texts of the newest 1,024 ended blocks are kept. */
TEST(test_texts_of_ended_blocks_are_bounded)
{
    enum {
        MANY = 1030
    };
    static char text[32];
    begin(&checked);
    for (size_t i = 0; i < MANY; i++) {
        announce(segment + i * 4, 4, "small");
        assert_ok(ph_memset_u32(segment + i * 4, 0, 1, world.stream));
    }
    end();
    assert_int_equal(count(), MANY);
    for (size_t i = 0; i < MANY; i++) {
        snprintf(text, sizeof text, "end %zu", i);
        assert_ok(ph_foreign_end(world.device, segment + i * 4, 0, text));
    }
    assert_string_equal(input(0).freed_at, "");
    assert_string_equal(input(MANY - 1025).freed_at, "");
    assert_string_equal(input(MANY - 1024).freed_at, "end 6");
    assert_string_equal(input(MANY - 1).freed_at, text);
}

/* ---- memory of this library ---- */
static ph_status give_segment(void **out, size_t bytes, ph_stream *stream, void *user)
{
    (void)stream;
    *out = *(void **)user;
    *(void **)user = NULL;
    return *out && bytes <= (size_t)4 << 20 ? PH_OK : PH_ERROR_DEVICE_MEMORY;
}

static void keep_segment(void *pointer, size_t bytes, void *user)
{
    (void)pointer;
    (void)bytes;
    (void)user;
}

TEST(test_memory_of_a_pool_ends_the_blocks_there)
{
    void *memory = NULL, *given, *block;
    ph_pool *pool;
    ph_allocation found;
    ph_pool_options options = {.alloc = give_segment, .free = keep_segment, .user = &given};
    assert_int_equal(
        world.device->driver->plain_alloc(&memory, world.device->handle, (size_t)8 << 20), 0);
    given = (void *)(((uintptr_t)memory + ((1 << 20) - 1)) & ~(uintptr_t)((1 << 20) - 1));
    char *start = given;
    announce(start - 16, 32, "before");
    announce(start + 64, 64, "inside");
    uint64_t far = announce(start + ((size_t)6 << 20), 64, "behind");
    assert_ok(ph_pool_create(&pool, world.device, &options));
    assert_ok(ph_pool_begin(pool));
    assert_ok(ph_malloc(&block, 1, 512, world.stream));
    assert_ok(ph_pool_end(pool));
    assert_int_equal(ph_foreign_count(world.device), BLOCKS + 1);
    assert_ok(ph_memory_lookup(&found, world.device, start + 64));
    assert_false(found.foreign);
    const ph_foreign_block own = {.address = start + 600, .bytes = 8};
    uint64_t generation = 1;
    assert_error(ph_foreign_announce(&generation, world.device, &own), PH_ERROR_ARGUMENT,
                 "overlap memory of this library's allocator");
    assert_int_equal(generation, 0);
    const ph_foreign_block across = {.address = start - 8, .bytes = 16};
    assert_status(ph_foreign_announce(NULL, world.device, &across), PH_ERROR_ARGUMENT);
    assert_ok(ph_foreign_end(world.device, start + ((size_t)6 << 20), far, NULL));
    ph_free(block, world.stream);
    ph_pool_release(pool);
    assert_ok(ph_memory_trim(world.device));
    assert_int_equal(world.device->driver->plain_free(world.device->handle, memory), 0);
}

TEST(test_this_library_neither_frees_nor_holds_them)
{
    int32_t *pinned = NULL;
    const ph_foreign_block own = {.address = x + 1, .bytes = 4};
    assert_status(ph_foreign_announce(NULL, world.device, &own), PH_ERROR_ARGUMENT);
    assert_ok(ph_malloc_pinned(&pinned, 1, 64, world.stream));
    const ph_foreign_block inside = {.address = pinned, .bytes = 4};
    assert_status(ph_foreign_announce(NULL, world.device, &inside), PH_ERROR_ARGUMENT);
    ph_free_pinned(pinned, world.stream);
    begin(&checked);
    assert_ok(ph_memcpy(y, at(0), BYTES, world.stream));
    end();
    assert_error(ph_graph_hold_memory(graph, at(0)), PH_ERROR_ARGUMENT, "of another allocator");
    t_log_start();
    ph_device_free(world.device, at(0));
    assert_int_equal(t_log_count("lies in a block of another allocator"), 1);
    t_log_stop();
    assert_ok(ph_graph_replay(graph, world.stream));
    /* The driver alone says where copies end. */
    assert_ok(ph_memcpy(y, at(0) + N / 2, BYTES, world.stream));
}

/* ---- misuse and shortages ---- */
TEST(test_misuse_is_refused)
{
    uint64_t generation = 7;
    char *label;
    ph_foreign_block block = {.address = at(0), .bytes = 4};
    assert_status(ph_foreign_announce(&generation, NULL, &block), PH_ERROR_ARGUMENT);
    assert_int_equal(generation, 0);
    assert_status(ph_foreign_announce(NULL, world.device, NULL), PH_ERROR_ARGUMENT);
    block.address = NULL;
    assert_status(ph_foreign_announce(NULL, world.device, &block), PH_ERROR_ARGUMENT);
    block = (ph_foreign_block){.address = at(0)};
    assert_error(ph_foreign_announce(NULL, world.device, &block), PH_ERROR_ARGUMENT, "0 bytes");
    block.bytes = SIZE_MAX;
    assert_error(ph_foreign_announce(NULL, world.device, &block), PH_ERROR_SIZE, "address space");
    assert_int_equal(ph_foreign_count(world.device), BLOCKS);
    assert_status(ph_foreign_end(NULL, at(0), 0, NULL), PH_ERROR_ARGUMENT);
    assert_status(ph_foreign_end(world.device, NULL, 0, NULL), PH_ERROR_ARGUMENT);
    assert_error(ph_foreign_end(world.device, at(0), block_of[1], NULL), PH_ERROR_NOT_FOUND,
                 "no block");
    assert_status(ph_foreign_end(world.device, at(0) + 1, 0, NULL), PH_ERROR_NOT_FOUND);
    assert_ok(ph_foreign_end(world.device, at(0), block_of[0], NULL));
    assert_status(ph_foreign_end(world.device, at(0), block_of[0], NULL), PH_ERROR_NOT_FOUND);
    assert_status(ph_foreign_label(NULL, world.device, at(1)), PH_ERROR_ARGUMENT);
    assert_status(ph_foreign_label(&label, NULL, at(1)), PH_ERROR_ARGUMENT);
    assert_null(label);
    assert_status(ph_foreign_label(&label, world.device, NULL), PH_ERROR_NOT_FOUND);
    assert_int_equal(ph_foreign_count(NULL), 0);
    ph_device *other;
    assert_ok(ph_device_open(&other, t_device_name(), NULL));
    assert_int_equal(ph_foreign_count(other), 0);
    assert_status(ph_foreign_end(other, at(1), block_of[1], NULL), PH_ERROR_NOT_FOUND);
    ph_device_release(other);
}

TEST(test_labels_are_cut)
{
    static char text[5000];
    char *label;
    memset(text, 'a', sizeof text - 1);
    announce(at(0), BYTES, text);
    assert_ok(ph_foreign_label(&label, world.device, at(0)));
    assert_int_equal(strlen(label), 4095);
    ph_string_free(label);
}

TEST(test_shortages_change_nothing)
{
    const ph_foreign_block block = {.address = segment + 8, .bytes = 8, .label = "new"};
    for (size_t i = 0; i < BLOCKS; i++)
        assert_ok(ph_foreign_end(world.device, at(i), block_of[i], NULL));
    ph_status status = PH_ERROR_HOST_MEMORY;
    for (int64_t n = 0; status != PH_OK; n++) {
        uint64_t generation = 1;
        char *label = segment;
        ph__alloc_fail_after(n);
        status = ph_foreign_announce(&generation, world.device, &block);
        if (status == PH_OK)
            status = ph_foreign_label(&label, world.device, block.address);
        ph__alloc_fail_after(PH__ALLOC_NEVER);
        if (status == PH_OK) {
            ph_string_free(label);
            break;
        }
        assert_int_equal(status, PH_ERROR_HOST_MEMORY);
        assert_true(generation == 0 || label == NULL);
        assert_int_equal(ph_foreign_count(world.device), generation != 0);
    }
    ph__alloc_fail_after(0);
    status = ph_foreign_end(world.device, block.address, 0, "no room for this");
    ph__alloc_fail_after(PH__ALLOC_NEVER);
    assert_ok(status);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_BLOCKS(test_blocks_are_found_by_any_address_in_them),
        IN_BLOCKS(test_a_new_block_ends_those_that_it_overlaps),
        IN_BLOCKS(test_the_end_of_an_input_refuses_the_replay),
        IN_BLOCKS(test_another_block_at_the_same_address_is_told_apart),
        IN_BLOCKS(test_records_have_the_blocks_of_the_end_of_the_capture),
        IN_BLOCKS(test_suspected_words_warn),
        IN_BLOCKS(test_declared_uses_are_watched),
        IN_BLOCKS(test_slots_take_blocks_and_watch_them),
        IN_BLOCKS(test_the_driver_is_not_asked),
        IN_BLOCKS(test_texts_of_ended_blocks_are_bounded),
        IN_BLOCKS(test_memory_of_a_pool_ends_the_blocks_there),
        IN_BLOCKS(test_this_library_neither_frees_nor_holds_them),
        IN_BLOCKS(test_misuse_is_refused),
        IN_BLOCKS(test_labels_are_cut),
        IN_BLOCKS(test_shortages_change_nothing),
    };
    return cmocka_run_group_tests_name("graph.foreign_blocks", tests, NULL, NULL);
}
