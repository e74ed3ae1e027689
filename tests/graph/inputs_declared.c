/* SPDX-License-Identifier: MIT */
/* tests/graph/inputs_declared.c: what cannot be seen of a graph's inputs, and what a declared
 * use or a slot tells of it. */
#include "inputs.h"
#include "support/test.h"

#include <string.h>

/* ---- declared uses ---- */
TEST(test_declared_alone)
{
    begin(&checked);
    assert_ok(t_fill(&world, world.stream, y, N, 1));
    assert_ok(ph_stream_declare_use(world.stream, x + 1, "bias"));
    assert_ok(ph_stream_declare_use(world.stream, x + 9, "again"));
    assert_ok(ph_stream_declare_use(world.stream, NULL, "none"));
    end();
    assert_int_equal(count(), 2);
    ph_input_info use = input(1);
    assert_int_equal(use.node, PH_INPUT_DECLARED);
    assert_string_equal(use.word, "bias");
    assert_ptr_equal(use.base, x);
    assert_true(use.proved);
    assert_ok(ph_graph_replay(graph, world.stream));
    ph_free(x, world.stream);
    x = NULL;
    assert_error(ph_graph_replay(graph, world.stream), PH_ERROR_STALE_INPUT, "1 dead input: ");
    assert_non_null(strstr(ph_error_last()->message, "ph_stream_declare_use: bias = 0x"));
}

TEST(test_declared_proves_words)
{
    ph_kernel *kernel;
    assert_ok(ph_kernel_create(&kernel, world.device, &t_kernel_sources[T_KERNEL_COPY_FIRST]));
    struct t_copy_first pair = {x, y};
    begin(&checked);
    assert_ok(ph_stream_declare_use(world.stream, x, NULL));
    assert_ok(ph_launch(world.stream, kernel, NULL, &pair, sizeof pair));
    end();
    assert_int_equal(count(), 2);
    assert_true(input(0).proved);
    assert_false(input(1).proved);
    assert_ok(ph_graph_replay(graph, world.stream));
    ph_free(x, world.stream);
    x = NULL;
    assert_error(ph_graph_replay(graph, world.stream), PH_ERROR_STALE_INPUT,
                 "node 0 (copy_first) +0 = 0x");
    assert_non_null(strstr(ph_error_last()->message, "1 dead input: "));
    ph_kernel_release(kernel);
}

/* So does a slot, by two captures or by the caller's word. */
TEST(test_slot_proves_words)
{
    ph_kernel *kernel;
    size_t slot;
    int32_t *z;
    const ph_slot_place place = {0, 0};
    assert_ok(ph_kernel_create(&kernel, world.device, &t_kernel_sources[T_KERNEL_COPY_FIRST]));
    assert_ok(PH_NEW(&z, N, world.stream));
    struct t_copy_first pair = {x, y};
    begin(&checked);
    assert_ok(ph_launch(world.stream, kernel, NULL, &pair, sizeof pair));
    end();
    assert_false(input(0).proved);
    assert_ok(ph_graph_slot_declare_address(&slot, graph, "in", x, BYTES, &place, 1, NULL));
    assert_true(input(0).proved);
    assert_true(input(0).address == (uintptr_t)x);
    assert_ok(ph_graph_replay_with(graph, world.stream, &(ph_slot_value){slot, z}, 1));
    assert_true(input(0).address == (uintptr_t)z);
    assert_ptr_equal(input(0).base, z);
    ph_free(x, world.stream);
    x = NULL;
    assert_ok(ph_graph_replay(graph, world.stream));
    assert_int_equal(input(0).state, PH_INPUT_LIVE);
    ph_free(z, world.stream);
    assert_int_equal(input(0).state, PH_INPUT_FREED);
    assert_error(ph_graph_replay(graph, world.stream), PH_ERROR_STALE_INPUT, "slot in = 0x");
    int32_t *other = other_new();
    assert_ok(ph_graph_replay_with(graph, world.stream, &(ph_slot_value){slot, other}, 1));
    assert_true(input(0).foreign);
    assert_ptr_equal(input(0).base, other);
    assert_int_equal(input(0).state, PH_INPUT_LIVE);
    assert_ok(ph_stream_synchronize(world.stream));
    other_free(other);
    assert_int_equal(input(0).state, PH_INPUT_UNKNOWN);
    ph_kernel_release(kernel);
}

TEST(test_declared_elsewhere)
{
    int32_t *own;
    assert_ok(ph_stream_declare_use(world.stream, x, NULL)); /* no capture */
    begin(NULL);
    assert_ok(ph_stream_declare_use(world.stream, x, NULL)); /* one that does not check */
    assert_ok(t_fill(&world, world.stream, y, N, 1));
    end();
    assert_int_equal(count(), 1);
    assert_ok(ph_graph_reset(graph));
    begin(&checked);
    assert_ok(PH_NEW(&own, N, world.stream));
    assert_ok(ph_stream_declare_use(world.stream, own, NULL)); /* of the capture itself */
    assert_ok(t_fill(&world, world.stream, own, N, 1));
    end();
    assert_int_equal(count(), 0);
    ph_free(own, world.stream);
    assert_ok(ph_graph_replay(graph, world.stream));
}

TEST(test_declared_and_freed_in_the_capture)
{
    begin(&checked);
    assert_ok(ph_stream_declare_use(world.stream, x, "x"));
    assert_ok(t_fill(&world, world.stream, y, N, 1));
    ph_free(x, NULL);
    x = NULL;
    end();
    assert_error(ph_graph_replay(graph, world.stream), PH_ERROR_STALE_INPUT,
                 "ph_stream_declare_use: x");
}

TEST(test_declared_again_by_update)
{
    ph_graph *from;
    assert_ok(ph_graph_create(&from, NULL));
    begin(&checked);
    assert_ok(t_fill(&world, world.stream, y, N, 1));
    end();
    assert_ok(ph_graph_capture_begin(from, world.stream, &checked));
    assert_ok(ph_stream_declare_use(world.stream, x, "x"));
    assert_ok(t_fill(&world, world.stream, y, N, 2));
    assert_ok(ph_graph_capture_end(from, PH_OK));
    assert_ok(ph_graph_update(graph, from, NULL));
    ph_graph_destroy(from);
    assert_int_equal(count(), 2);
    ph_free(x, world.stream);
    x = NULL;
    assert_status(ph_graph_replay(graph, world.stream), PH_ERROR_STALE_INPUT);
}

/* ---- what cannot be seen ---- */
static void nothing(void *user)
{
    (void)user;
}

TEST(inputs_that_nobody_can_see_are_said_to_be_unseen)
{
    char *text = NULL;
    ph_kernel *kernel;
    begin(&checked);
    assert_ok(ph_memcpy(y, x, BYTES, world.stream));
    end();
    assert_ok(ph_graph_unseen(&text, graph));
    assert_string_equal(text, "");
    ph_string_free(text);
    assert_ok(ph_graph_reset(graph));
    assert_ok(ph_kernel_create(&kernel, world.device, &t_kernel_sources[T_KERNEL_COPY_FIRST]));
    struct t_copy_first pair = {x, y};
    begin(&checked);
    assert_ok(ph_launch(world.stream, kernel, NULL, &pair, sizeof pair));
    assert_ok(ph_launch_host(world.stream, nothing, NULL));
    end();
    assert_ok(ph_graph_unseen(&text, graph));
    assert_non_null(strstr(text, "1 kernel: addresses that a kernel finds in memory"));
    assert_non_null(strstr(text, "2 words of copy_first: nothing proves"));
    assert_non_null(strstr(text, "node 1 (host): what the host's function reads"));
    ph_string_free(text);
    ph_kernel_release(kernel);
}

/* A name cannot steer the terminal that the text is read on. */
TEST(test_unseen_of_a_hostile_name)
{
    char *text = NULL;
    ph_kernel *kernel;
    ph_kernel_source source = t_kernel_sources[T_KERNEL_COPY_FIRST];
    if (!t_on_host())
        skip(); /* the name is the module's there */
    source.name = "c\x1b[2J\xc2\x9b"
                  "2J\xe2\x80\xaetsrif\xff";
    assert_ok(ph_kernel_create(&kernel, world.device, &source));
    struct t_copy_first pair = {x, y};
    begin(&checked);
    assert_ok(ph_launch(world.stream, kernel, NULL, &pair, sizeof pair));
    end();
    assert_ok(ph_graph_unseen(&text, graph));
    assert_non_null(strstr(text, "2 words of c [2J 2J tsrif?: nothing proves"));
    ph_string_free(text);
    ph_kernel_release(kernel);
}

/* What a use or a slot proves is not told of any more. */
TEST(test_unseen_words_that_were_proved)
{
    char *text;
    size_t slot;
    ph_kernel *kernel;
    const ph_slot_place place = {0, sizeof x};
    assert_ok(ph_kernel_create(&kernel, world.device, &t_kernel_sources[T_KERNEL_COPY_FIRST]));
    struct t_copy_first pair = {x, y};
    begin(&checked);
    assert_ok(ph_stream_declare_use(world.stream, x, "x"));
    assert_ok(ph_launch(world.stream, kernel, NULL, &pair, sizeof pair));
    end();
    assert_ok(ph_graph_unseen(&text, graph));
    assert_non_null(strstr(text, "1 word of copy_first: nothing proves"));
    ph_string_free(text);
    assert_ok(ph_graph_slot_declare_address(&slot, graph, "out", y, BYTES, &place, 1, NULL));
    assert_ok(ph_graph_unseen(&text, graph));
    assert_null(strstr(text, "nothing proves"));
    ph_string_free(text);
    ph_kernel_release(kernel);
}

TEST(test_unknown_memory)
{
    static int32_t plain[N];
    char *text = NULL;
    t_host_only("other devices' kernels take no plain memory of the host");
    begin(&checked);
    assert_ok(t_add(&world, world.stream, plain, y, N, 1));
    end();
    assert_int_equal(count(), 2);
    assert_int_equal(input(0).state, PH_INPUT_UNKNOWN);
    assert_null(input(0).base);
    assert_ok(ph_graph_replay(graph, world.stream));
    assert_ok(ph_graph_unseen(&text, graph));
    assert_non_null(strstr(text, "node 0 (add_i32) x = 0x"));
    assert_non_null(strstr(text, "neither this library nor the driver knows"));
    ph_string_free(text);
}

TEST(test_unknown_memory_declared)
{
    static int32_t plain[N];
    char *text = NULL;
    t_host_only("the driver of another device may know plain memory of the host");
    begin(&checked);
    assert_ok(ph_stream_declare_use(world.stream, plain, "table"));
    assert_ok(ph_memset_u32(y, 1, N, world.stream));
    end();
    assert_int_equal(input(1).state, PH_INPUT_UNKNOWN);
    assert_ok(ph_graph_replay(graph, world.stream));
    assert_ok(ph_graph_unseen(&text, graph));
    assert_ptr_equal(strstr(text, "ph_stream_declare_use: table = 0x"), text);
    ph_string_free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(test_declared_alone),
        IN_WORLD(test_declared_proves_words),
        IN_WORLD(test_slot_proves_words),
        IN_WORLD(test_declared_elsewhere),
        IN_WORLD(test_declared_and_freed_in_the_capture),
        IN_WORLD(test_declared_again_by_update),
        IN_WORLD(inputs_that_nobody_can_see_are_said_to_be_unseen),
        IN_WORLD(test_unseen_of_a_hostile_name),
        IN_WORLD(test_unseen_words_that_were_proved),
        IN_WORLD(test_unknown_memory),
        IN_WORLD(test_unknown_memory_declared),
    };
    return cmocka_run_group_tests_name("graph.inputs_declared", tests, NULL, NULL);
}
