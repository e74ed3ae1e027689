/* SPDX-License-Identifier: MIT */
/* tests/cuda/wide.c: kernels as vendor libraries launch them: some hundred words of parameters,
 * of which few are addresses. The record keeps those, and makes the others when it is asked for
 * them. */
#include "module.h"
#include "support/sweep.h"
#include "support/test.h"
#include <phonograph/cuda.h>
#include <phonograph/inspect/diff.h>

enum {
    BLOCK_BYTES = 4096,
    WORDS = 216,               /* 215 of 8 bytes, and one of 4 */
    PARAM_BYTES = 215 * 8 + 4, /* one parameter, as a struct */
    NODES = 8,
    FIRST = 7, /* the words that are addresses */
    SECOND = 180,
    PINNED = 90,   /* this one of pinned memory */
    SEVERAL = 120, /* five more, each of another value */
    NOBODYS = 150  /* in the segment of x, where nothing is */
};

static const char ptx[] =
    ".version 7.0\n.target sm_60\n.address_size 64\n"
    ".visible .entry t_wide(.param .align 8 .b8 t_wide_param_0[1724])\n{\n    ret;\n}\n";

static void wide_on_host(const ph_block_range *range, const void *args)
{
    (void)range;
    (void)args;
}

static ph__cu_function wide;
static char *x, *y, *pinned;

FIXTURE(open_world)
{
    if (fake_cuda())
        fake_cuda()->register_kernel("t_wide", wide_on_host);
    module_open(ptx);
    wide = module_function("t_wide");
    assert_ok(PH_NEW(&x, BLOCK_BYTES, world.stream));
    assert_ok(PH_NEW(&y, BLOCK_BYTES, world.stream));
    assert_ok(ph_malloc_pinned(&pinned, 1, BLOCK_BYTES, world.stream));
    return 0;
}

FIXTURE(close_world)
{
    ph_free(x, NULL);
    ph_free(y, NULL);
    ph_free_pinned(pinned, NULL);
    module_close();
    return 0;
}

typedef struct params {
    uint64_t words[WORDS];
} params;

/* No address is as small as these, nor in the middle of nowhere. */
static params make_params(size_t node)
{
    params p = {{0}};
    for (size_t w = 0; w < WORDS; w++)
        p.words[w] = w % 3 ? node * 1000 + w : 0;
    p.words[FIRST] = (uint64_t)(uintptr_t)x + 16 * node;
    p.words[SECOND] = (uint64_t)(uintptr_t)y;
    p.words[PINNED] = (uint64_t)(uintptr_t)pinned + BLOCK_BYTES - 1 - node;
    for (size_t i = 0; i < 5; i++)
        p.words[SEVERAL + i] = (uint64_t)(uintptr_t)y + 8 * (1 + i + 5 * node);
    p.words[NOBODYS] = (uint64_t)(uintptr_t)x + (1U << 20) + node;
    p.words[WORDS - 1] = 0xabcd1234;
    return p;
}

static ph_status body(ph_stream *stream, void *user)
{
    struct CUstream_st *raw;
    PH_TRY(ph_stream_cuda(&raw, stream));
    for (size_t i = 0; i < NODES; i++) {
        params p = make_params(i);
        if (user && i == 3)
            p.words[100] += *(const uint64_t *)user;
        void *list[] = {&p};
        cu(LaunchKernel(wide, 1, 1, 1, 1, 1, 1, 0, raw, list, NULL));
    }
    return PH_OK;
}

static ph_graph *captured(uint64_t change)
{
    ph_graph *made;
    assert_ok(ph_graph_create(&made, NULL));
    assert_ok(ph_graph_capture(made, world.stream, NULL, body, change ? &change : NULL));
    return made;
}

static void check_word(const ph_record *record, size_t node, size_t w)
{
    params p = make_params(node);
    ph_word word;
    char name[16];
    (void)snprintf(name, sizeof name, "+%zu", 8 * w);
    assert_ok(ph_record_word(&word, record, node, w));
    assert_string_equal(word.name, name);
    assert_int_equal(word.offset, 8 * w);
    assert_int_equal(word.value, p.words[w]);
    bool in_y = w == SECOND || (w >= SEVERAL && w < SEVERAL + 5);
    const char *base = w == FIRST ? x : in_y ? y : w == PINNED ? pinned : NULL;
    assert_int_equal(word.kind, base ? PH_WORD_SUSPECTED : PH_WORD_VALUE);
    assert_ptr_equal(word.base, base);
    assert_int_equal(word.pinned, w == PINNED);
    assert_false(word.internal);
}

TEST(every_word_is_there)
{
    const ph_record *record;
    ph_graph *graph = captured(0);
    assert_ok(ph_graph_record(&record, graph));
    assert_int_equal(ph_record_node_count(record), NODES);
    for (size_t n = 0; n < NODES; n++) {
        ph_node_info node;
        ph_word word;
        assert_ok(ph_record_node(&node, record, n));
        assert_int_equal(node.args_size, PARAM_BYTES);
        assert_int_equal(node.word_count, WORDS);
        for (size_t w = 0; w < WORDS; w++)
            check_word(record, n, w);
        assert_error(ph_record_word(&word, record, n, WORDS), PH_ERROR_NOT_FOUND,
                     "has no word 216");
    }
    ph_graph_destroy(graph);
}

TEST(values_take_no_room)
{
    ph_graph_memory memory;
    ph_graph *graph = captured(0);
    assert_ok(ph_graph_get_memory(&memory, graph));
    assert_true(memory.template_host < NODES * WORDS * sizeof(ph_word) / 2);
    ph_graph_destroy(graph);
}

TEST(all_words_are_written)
{
    const ph_record *record;
    char *json, part[64];
    ph_graph *graph = captured(0);
    assert_ok(ph_graph_record(&record, graph));
    assert_ok(ph_record_json(&json, record));
    for (size_t w = 0; w < WORDS; w++) {
        (void)snprintf(part, sizeof part, "\"name\":\"+%zu\"", 8 * w);
        assert_non_null(strstr(json, part));
    }
    ph_string_free(json);
    ph_graph_destroy(graph);
}

TEST(a_changed_value_is_found)
{
    const ph_record *records[2];
    ph_diff *diff;
    ph_change change;
    ph_graph *one = captured(0), *other = captured(5);
    assert_ok(ph_graph_record(&records[0], one));
    assert_ok(ph_graph_record(&records[1], other));
    assert_ok(ph_record_diff(&diff, records[0], records[1]));
    assert_int_equal(ph_diff_count(diff), 1);
    assert_ok(ph_diff_at(&change, diff, 0));
    assert_int_equal(change.kind, PH_CHANGE_VALUE);
    assert_non_null(strstr(change.text, "+800: 3100 -> 3105"));
    ph_diff_destroy(diff);
    ph_graph_destroy(one);
    ph_graph_destroy(other);
}

/* ---- lifetimes ---- what is not kept is read where the driver's picture of the very graph has
 * it */
static void check_record(const ph_record *record)
{
    assert_int_equal(ph_record_node_count(record), NODES);
    for (size_t n = 0; n < NODES; n++)
        for (size_t w = 0; w < WORDS; w++)
            check_word(record, n, w);
}

static ph_status replay_inside(ph_stream *stream, void *inner)
{
    return ph_graph_replay(inner, stream);
}

/* A body's words are its own: the graph that it was made of may go. */
TEST(words_of_bodies)
{
    const ph_record *record;
    ph_node_info node;
    ph_graph *outer, *inner = captured(0);
    assert_ok(ph_graph_create(&outer, NULL));
    assert_ok(ph_graph_capture(outer, world.stream, NULL, replay_inside, inner));
    ph_graph_destroy(inner);
    assert_ok(ph_graph_record(&record, outer));
    assert_int_equal(ph_record_node_count(record), 1);
    assert_ok(ph_record_node(&node, record, 0));
    assert_non_null(node.body);
    check_record(node.body);
    ph_graph_destroy(outer);
}

/* The record is the capture's, whatever the executable was made again or given. */
TEST(words_stay_as_captured)
{
    const ph_record *record;
    const ph_graph_options keep = {.keep_graph = true};
    ph_graph *graph, *other = captured(5);
    assert_ok(ph_graph_create(&graph, &keep));
    assert_ok(ph_graph_capture(graph, world.stream, NULL, body, NULL));
    assert_ok(ph_graph_record(&record, graph));
    assert_ok(ph_graph_instantiate(graph));
    assert_ok(ph_graph_update(graph, other, NULL));
    ph_graph_destroy(other);
    check_record(record);
    assert_ok(ph_graph_instantiate(graph));
    assert_ok(ph_graph_replay(graph, world.stream));
    check_record(record);
    assert_ok(ph_graph_reset(graph));
    assert_ok(ph_graph_capture(graph, world.stream, NULL, body, NULL));
    assert_ok(ph_graph_record(&record, graph));
    check_record(record);
    ph_graph_destroy(graph);
}

static ph_graph *swept;

static ph_status capture_swept(void *user)
{
    (void)user;
    return ph_graph_capture(swept, world.stream, NULL, body, NULL);
}

static void check_swept(ph_status status, void *user)
{
    const ph_record *record;
    (void)user;
    if (status == PH_OK) {
        assert_ok(ph_graph_record(&record, swept));
        check_record(record);
    }
    assert_ok(ph_graph_reset(swept));
}

TEST(without_host_memory)
{
    assert_ok(ph_graph_create(&swept, NULL));
    t_sweep_host_memory(&(t_swept){.name = "capture", .run = capture_swept, .reset = check_swept},
                        10);
    ph_graph_destroy(swept);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(every_word_is_there),   IN_WORLD(values_take_no_room),
        IN_WORLD(all_words_are_written), IN_WORLD(a_changed_value_is_found),
        IN_WORLD(words_of_bodies),       IN_WORLD(words_stay_as_captured),
        IN_WORLD(without_host_memory)};
    return cmocka_run_group_tests_name("cuda.wide", tests, NULL, NULL);
}
