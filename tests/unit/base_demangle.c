/* SPDX-License-Identifier: MIT */
/* tests/unit/base_demangle.c: C++ names in records and texts, with and without a C++ runtime in the
 * process. */
#include "support/support.h"

#include "base/demangle.h"
#include "support/test.h"
#include <dlfcn.h>
#include <phonograph/inspect/diff.h>
#include <stdio.h>
#include <string.h>

static void *runtime;

static bool has_runtime(void)
{
    if (!runtime)
        runtime = dlopen("libstdc++.so.6", RTLD_NOW | RTLD_LOCAL);
    if (!runtime)
        print_message("skipped: no libstdc++ is found: names stay as they are\n");
    return runtime != NULL;
}

static void stays(const char *name)
{
    char room[PH__READABLE];
    assert_ptr_equal(ph__readable_name(room, name), name);
}

static void reads(const char *name, const char *readable)
{
    char room[PH__READABLE];
    assert_string_equal(ph__readable_name(room, name), readable);
}

/* First of all: nothing is loaded for it. */
TEST(test_without_a_runtime)
{
    char room[PH__READABLE];
    bool there = dlsym(RTLD_DEFAULT, "__cxa_demangle") != NULL; /* a sanitizer brings one along */
    assert_string_equal(ph__readable_name(room, "_Z1fi"), there ? "f(int)" : "_Z1fi");
    if (!there)
        assert_null(dlopen("libstdc++.so.6", RTLD_NOW | RTLD_NOLOAD));
}

TEST(mangled_names_are_read_and_others_stay)
{
    if (!has_runtime())
        return;
    reads("_Z1fi", "f(int)");
    reads("_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_"
          "11FillFunctorIfEESt5arrayIPcLm1EEEEviT0_T1_",
          "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, "
          "std::array<char*, 1ul> >(int, at::native::FillFunctor<float>, std::array<char*, 1ul>)");
    stays("saxpy");
    stays("");
    stays("_Z");
    stays("_Zbroken");
    stays("_ZN3");
}

/* Neither long names nor those that say much more than their length. */
TEST(test_long_names)
{
    char name[8192], room[PH__READABLE];
    if (!has_runtime())
        return;
    (void)strcpy(name, "_Z1fSt6vectorIiSaIiEE");
    for (int i = 0; i < 60; i++)
        (void)strcat(name, "S1_");
    const char *readable = ph__readable_name(room, name);
    assert_int_equal(strlen(readable), PH__READABLE - 1);
    assert_memory_equal(readable, "f(std::vector<int", 17);
    memset(name, 'a', sizeof name);
    memcpy(name, "_Z5000", 6);
    (void)strcpy(name + 6 + 5000, "i");
    stays(name);
}

/* Of what was captured both names are in the JSON, where they differ. */
static void do_nothing(const ph_block_range *range, const void *args)
{
    (void)range;
    (void)args;
}

TEST(test_captured_names)
{
    static const ph_kernel_source source = {.name = "_Z5scalePfi", .host = do_nothing};
    const ph_launch_config config = {.grid = {1, 1, 1}, .block = {1, 1, 1}};
    t_world world;
    ph_kernel *kernel;
    ph_graph *graph;
    const ph_record *record;
    char *json, *dot;
    if (!has_runtime())
        return;
    t_open(&world, "host");
    assert_ok(ph_kernel_create(&kernel, world.device, &source));
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture_begin(graph, world.stream, NULL));
    assert_ok(ph_launch(world.stream, kernel, &config, NULL, 0));
    assert_ok(ph_graph_capture_end(graph, PH_OK));
    assert_ok(ph_graph_record(&record, graph));
    assert_ok(ph_record_json(&json, record));
    assert_non_null(strstr(json, "\"name\":\"_Z5scalePfi\",\"demangled\":\"scale(float*, int)\""));
    char readable[32];
    assert_ok(ph_record_readable_name(readable, sizeof readable, record, 0));
    assert_string_equal(readable, "scale(float*, int)");
    assert_ok(ph_record_readable_name(readable, 6, record, 0));
    assert_string_equal(readable, "scale");
    assert_ok(ph_record_dot(&dot, record, false));
    assert_non_null(strstr(dot, "label=\"0: scale(float*, int)\""));
    ph_string_free(json);
    ph_string_free(dot);
    ph_graph_destroy(graph);
    ph_kernel_release(kernel);
    t_close(&world);
}

/* A graph of more kernels than the writer of JSON remembers names, each launched again and again:
 * every node has the readable form of its own name, or none. */
TEST(test_names_of_many_kernels)
{
    enum {
        KERNELS = 80,
        TURNS = 3
    };
    char mangled[KERNELS][16], line[96], *json;
    const ph_launch_config config = {.grid = {1, 1, 1}, .block = {1, 1, 1}};
    t_world world;
    ph_kernel *kernels[KERNELS];
    ph_graph *graph;
    const ph_record *record;
    if (!has_runtime())
        return;
    t_open(&world, "host");
    assert_ok(ph_graph_create(&graph, NULL));
    for (int k = 0; k < KERNELS; k++) { /* some of which cannot be read */
        (void)snprintf(mangled[k], sizeof mangled[k], k % 9 ? "_Z3f%02di" : "_Z9f%02di", k);
        const ph_kernel_source source = {.name = mangled[k], .host = do_nothing};
        assert_ok(ph_kernel_create(&kernels[k], world.device, &source));
    }
    assert_ok(ph_graph_capture_begin(graph, world.stream, NULL));
    for (int i = 0; i < TURNS * KERNELS; i++)
        assert_ok(ph_launch(world.stream, kernels[i / 2 % KERNELS], &config, NULL, 0));
    assert_ok(ph_graph_capture_end(graph, PH_OK));
    assert_ok(ph_graph_record(&record, graph));
    assert_ok(ph_record_json(&json, record));
    const char *at = json;
    for (int i = 0; i < TURNS * KERNELS; i++) {
        int k = i / 2 % KERNELS;
        (void)snprintf(line, sizeof line,
                       k % 9 ? "\"name\":\"%s\",\"demangled\":\"f%02d(int)\",\"grid\""
                             : "\"name\":\"%s\",\"grid\"",
                       mangled[k], k);
        at = strstr(at, line);
        assert_non_null(at);
        at += strlen(line);
    }
    ph_string_free(json);
    ph_graph_destroy(graph);
    for (int k = 0; k < KERNELS; k++)
        ph_kernel_release(kernels[k]);
    t_close(&world);
}

/* Names of files are not read: each part may be twice the one before it, and so on without a bound.
 */
TEST(test_names_of_others)
{
    static const char name[] = "_Z1fSt4pairIiiES_IS0_S0_ES_IS1_S1_E";
    char *json, *dot, room[PH__READABLE];
    ph_record *one, *two;
    ph_diff *diff;
    if (!has_runtime())
        return;
    assert_ptr_equal(ph__readable_name(room, name), room);
    ph_record_source_node node = {.info = {.name = name}};
    assert_ok(ph_record_create(&one, &node, 1));
    node.info.grid[0] = 2;
    assert_ok(ph_record_create(&two, &node, 1));
    assert_ok(ph_record_json(&json, one));
    assert_null(strstr(json, "demangled"));
    assert_ok(ph_record_dot(&dot, one, true));
    assert_non_null(strstr(dot, name));
    assert_ok(ph_record_diff(&diff, one, two));
    assert_true(ph_diff_count(diff) > 0);
    ph_diff_destroy(diff);
    ph_string_free(json);
    ph_string_free(dot);
    ph_record_destroy(one);
    ph_record_destroy(two);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_without_a_runtime),
        cmocka_unit_test(mangled_names_are_read_and_others_stay),
        cmocka_unit_test(test_long_names),
        cmocka_unit_test(test_captured_names),
        cmocka_unit_test(test_names_of_many_kernels),
        cmocka_unit_test(test_names_of_others),
    };
    int failed = cmocka_run_group_tests_name("unit.base_demangle", tests, NULL, NULL);
    if (runtime)
        (void)dlclose(runtime);
    return failed;
}
