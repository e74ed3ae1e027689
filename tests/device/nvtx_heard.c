/* SPDX-License-Identifier: MIT */
/* tests/device/nvtx_heard.c: ranges that a program tells NVTX of become scopes, and the tool that
 * was there gets everything. */
#include "support/support.h"

#include "fake/nvtx_tool.h"
#include "support/nvtx.h"
#include "support/test.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <wchar.h>

enum {
    N = 16,
    NODES = 8
};

/* ---- what the nodes of a capture are called ---- */
static t_world world;
static int32_t *x;

static void open_world(void)
{
    t_open(&world, NULL);
    assert_ok(PH_NEW(&x, N, world.stream));
}

static void close_world(void)
{
    ph_free(x, world.stream);
    t_close(&world);
}

static ph_status node(void)
{
    return t_fill(&world, world.stream, x, N, 1);
}

static void expect_names(ph_capture_fn body, void *user, const char *const *want, size_t count)
{
    ph_graph *graph;
    const ph_record *record;
    const ph_annotation_pair *pairs;
    size_t pair_count;
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, world.stream,
                               &(ph_capture_options){.enable_annotations = true}, body, user));
    assert_ok(ph_graph_record(&record, graph));
    assert_int_equal(ph_record_node_count(record), count);
    for (size_t i = 0; i < count; i++) {
        const char *got = NULL;
        assert_ok(ph_record_annotation(&pairs, &pair_count, record, i));
        for (size_t k = 0; k < pair_count; k++)
            if (strcmp(pairs[k].key, "name") == 0)
                got = pairs[k].text;
        if (!want[i])
            assert_null(got);
        else
            assert_string_equal(got, want[i]);
    }
    ph_graph_destroy(graph);
    assert_int_equal(ph_annotation_depth(), 0);
}
#define EXPECT_NAMES(body, ...)                                                                    \
    do {                                                                                           \
        static const char *const want_[] = {__VA_ARGS__};                                          \
        expect_names((body), NULL, want_, sizeof want_ / sizeof want_[0]);                         \
    } while (0)

static ph_status body_forms(ph_stream *stream, void *user)
{
    const ph__nvtx_event event = {.version = PH__NVTX_VERSION,
                                  .size = sizeof event,
                                  .message_type = PH__NVTX_MESSAGE_ASCII,
                                  .message = "ex"};
    (void)stream;
    (void)user;
    ph__nvtx_domain domain = create("trainer");
    void *handle = register_in(domain, "registered");
    PH_TRY(node());
    (void)push("ascii");
    PH_TRY(node());
    (void)((int (*)(const wchar_t *))core[PH__NVTX_RANGE_PUSH_W])(L"w\u00e9\u20ac\U0001F600");
    PH_TRY(node());
    (void)((int (*)(const ph__nvtx_event *))core[PH__NVTX_RANGE_PUSH_EX])(&event);
    PH_TRY(node());
    (void)push_in(domain, PH__NVTX_MESSAGE_REGISTERED, handle);
    PH_TRY(node());
    (void)push_in(domain, PH__NVTX_MESSAGE_UNICODE, L"wide");
    PH_TRY(node());
    (void)pop_in(domain);
    (void)pop_in(domain);
    (void)pop();
    (void)pop();
    PH_TRY(node());
    (void)pop();
    (void)pop(); /* there is none any more */
    return node();
}

/* Ranges of two domains end in any order; scopes of both kinds, one across the other. */
static ph_status body_crossed(ph_stream *stream, void *user)
{
    ph__nvtx_domain a = create("a"), b = create("b");
    (void)user;
    (void)push_in(a, PH__NVTX_MESSAGE_ASCII, "in a");
    (void)push_in(b, PH__NVTX_MESSAGE_ASCII, "in b");
    (void)pop_in(a); /* goes with the one inside it */
    PH_TRY(node());
    (void)pop_in(b);
    PH_TRY(node());
    PH_TRY(ph_annotation_push(stream, "mark", NULL));
    (void)push("range");
    PH_TRY(ph_annotation_pop(stream));
    PH_TRY(node());
    (void)pop();
    PH_TRY(node());
    (void)push("range");
    PH_TRY(ph_annotation_push(stream, "mark", NULL));
    (void)pop();
    PH_TRY(node());
    PH_TRY(ph_annotation_pop(stream));
    return node();
}

/* What was unwound is ended by its program all the same, and ends nothing else then. */
static ph_status body_unwound(ph_stream *stream, void *user)
{
    (void)user;
    (void)push("outer");
    size_t depth = ph_annotation_depth();
    (void)push("inner");
    ph_annotation_unwind(depth);
    PH_TRY(node());
    (void)push("late"); /* not seen: "inner" is still to end */
    PH_TRY(node());
    (void)pop();
    (void)pop();
    PH_TRY(node());
    if (ph_annotation_pop(stream) != PH_ERROR_STATE)
        return ph_fail(PH_ERROR_ARGUMENT, "ph_annotation_pop ended an NVTX range");
    (void)push("seen");
    PH_TRY(node());
    (void)pop();
    (void)pop();
    return node();
}

/* A copy of this library tells of its own ranges in this domain. */
static ph_status body_own(ph_stream *stream, void *user)
{
    (void)stream;
    (void)user;
    ph__nvtx_domain domain = create("phonograph");
    (void)push_in(domain, PH__NVTX_MESSAGE_ASCII, "graph 1");
    PH_TRY(node());
    (void)pop_in(domain);
    return node();
}

TEST(nvtx_ranges_become_scopes_of_annotations)
{
    assert_int_equal(InitializeInjectionNvtx2(NULL), 0);
    assert_int_equal(start_nvtx(InitializeInjectionNvtx2), 1);
    assert_int_equal(tool_version, PH__NVTX_VERSION);
    open_world();
    EXPECT_NAMES(body_forms, NULL, "ascii", "w\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "ex",
                 "registered", "wide", "ascii", NULL);
    EXPECT_NAMES(body_crossed, "in b", NULL, "range", NULL, "mark", NULL);
    EXPECT_NAMES(body_unwound, "outer", "outer", "outer", "seen", NULL);
    EXPECT_NAMES(body_own, NULL, NULL);
    assert_ptr_equal(create("one"),
                     create("one")); /* nothing grows with how often it is asked for */
    assert_ptr_not_equal(create("one"), create("other"));
    assert_int_equal(push("level"), PH__NVTX_NO_LEVEL);
    assert_int_equal(pop(), PH__NVTX_NO_LEVEL);
    assert_int_equal(start_nvtx(InitializeInjectionNvtx2), 1); /* another binary of the program's */
    EXPECT_NAMES(body_crossed, "in b", NULL, "range", NULL, "mark", NULL);
    close_world();
}

/* ---- in processes of their own, as tools are looked for once ---- */
static int run_child(const char *mode, const char *tool, const char *next, const char *scopes)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        if ((tool && setenv("NVTX_INJECTION64_PATH", tool, 1) != 0) ||
            (next && setenv("PH_NVTX_NEXT", next, 1) != 0) ||
            (scopes && setenv("PH_NVTX_SCOPES", scopes, 1) != 0))
            _exit(2);
        (void)execl("/proc/self/exe", "nvtx_heard", mode, (char *)NULL);
        _exit(2);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

TEST(another_tool_keeps_its_place_in_each_process)
{
    assert_int_equal(run_child("behind", NULL, NULL, NULL), 0);
    assert_int_equal(run_child("no-loop", PH_TEST_LIBRARY, PH_TEST_NVTX_TOOL, NULL), 0);
    assert_int_equal(run_child("no-loop", PH_TEST_LIBRARY, PH_TEST_LIBRARY, NULL), 0);
    assert_int_equal(run_child("in-front", PH_TEST_NVTX_TOOL, NULL, NULL), 0);
    assert_int_equal(run_child("static", PH_TEST_NVTX_TOOL, NULL, "1"), 0);
}

static const char *heard(void)
{
    void *library = dlopen(PH_TEST_NVTX_TOOL, RTLD_NOW | RTLD_LOCAL), *address;
    nvtx_tool_heard_fn *fn;
    assert_non_null(library);
    address = dlsym(library, "nvtx_tool_heard");
    memcpy(&fn, &address, sizeof fn);
    return fn();
}

/* The tool takes three functions, and sees of them what it would see without this library:
 * "!domain" is its word for a domain that is not called phonograph. What it does not take becomes
 * scopes all the same. */
TEST(child_behind_leaves_the_tool_its_functions)
{
    assert_int_equal(setenv("NVTX_INJECTION64_PATH", PH_TEST_NVTX_TOOL, 1), 0);
    assert_int_equal(start_nvtx(InitializeInjectionNvtx2), 1);
    unsetenv("NVTX_INJECTION64_PATH"); /* the library's own ranges have no tool */
    ph__nvtx_domain domain = create("trainer");
    open_world();
    assert_int_equal(push_in(domain, PH__NVTX_MESSAGE_ASCII, "layer"), 0);
    assert_int_equal(push("not taken"), PH__NVTX_NO_LEVEL);
    assert_int_equal(ph_annotation_depth(), 2);
    assert_int_equal(pop(), PH__NVTX_NO_LEVEL);
    assert_int_equal(pop_in(domain), 0);
    assert_int_equal(ph_annotation_depth(), 0);
    assert_string_equal(heard(), "!domain+layer-");
    close_world();
}

/* The shared library, as NVTX loads it. */
typedef struct shared {
    void *library;
    int (*start)(const void *(*find)(uint32_t number));
    size_t (*depth)(void);
    __typeof__(&ph_device_open) open;
    __typeof__(&ph_device_release) release;
    __typeof__(&ph_device_default_stream) stream;
    __typeof__(&ph_annotation_push) begin;
    __typeof__(&ph_annotation_pop) end;
} shared;

static void load_shared(shared *s)
{
    s->library = dlopen(PH_TEST_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(s->library);
    void *const found[] = {
        dlsym(s->library, "InitializeInjectionNvtx2"), dlsym(s->library, "ph_annotation_depth"),
        dlsym(s->library, "ph_device_open"),           dlsym(s->library, "ph_device_release"),
        dlsym(s->library, "ph_device_default_stream"), dlsym(s->library, "ph_annotation_push"),
        dlsym(s->library, "ph_annotation_pop")};
    for (int i = 0; i < 7; i++)
        assert_non_null(found[i]);
    memcpy(&s->start, &found[0], sizeof(void *));
    memcpy(&s->depth, &found[1], sizeof(void *));
    memcpy(&s->open, &found[2], sizeof(void *));
    memcpy(&s->release, &found[3], sizeof(void *));
    memcpy(&s->stream, &found[4], sizeof(void *));
    memcpy(&s->begin, &found[5], sizeof(void *));
    memcpy(&s->end, &found[6], sizeof(void *));
}

static void tell_own_scope(const shared *s)
{
    ph_device *device;
    assert_int_equal(s->open(&device, "host:threads=1", NULL), PH_OK);
    assert_int_equal(s->begin(s->stream(device), "own", NULL), PH_OK);
    assert_int_equal(s->depth(), 1);
    assert_int_equal(s->end(s->stream(device)), PH_OK);
    s->release(device);
}

/* NVTX_INJECTION64_PATH names this library: its own scopes go to the tool behind it, and not to
 * itself. */
TEST(child_no_loop)
{
    shared s;
    load_shared(&s);
    assert_int_equal(start_nvtx(s.start), 1);
    tell_own_scope(&s);
    bool tool = strcmp(getenv("PH_NVTX_NEXT"), PH_TEST_NVTX_TOOL) == 0;
    assert_string_equal(heard(), tool ? "+own-" : "");
}

/* PH_NVTX_SCOPES, set before the library is loaded: it stands in front of the tool. */
TEST(child_in_front)
{
    shared s;
    assert_int_equal(setenv("PH_NVTX_SCOPES", "1", 1), 0);
    load_shared(&s);
    assert_string_equal(getenv("PH_NVTX_NEXT"), PH_TEST_NVTX_TOOL);
    void *library = dlopen(getenv("NVTX_INJECTION64_PATH"), RTLD_LAZY);
    assert_ptr_equal(library, s.library);
    assert_int_equal(start_nvtx(s.start), 1);
    (void)push_in(create("trainer"), PH__NVTX_MESSAGE_ASCII, "layer");
    assert_int_equal(s.depth(), 1);
    assert_string_equal(heard(), "!domain+layer");
}

/* A program that the library is a part of: NVTX cannot load it, and the tool stays as it is. */
TEST(child_static_leaves_the_tool_as_it_is)
{
    assert_string_equal(getenv("NVTX_INJECTION64_PATH"), PH_TEST_NVTX_TOOL);
    assert_null(getenv("PH_NVTX_NEXT"));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nvtx_ranges_become_scopes_of_annotations),
        cmocka_unit_test(another_tool_keeps_its_place_in_each_process)};
    static const struct child {
        const char *mode;
        CMUnitTestFunction test;
    } children[] = {{"behind", child_behind_leaves_the_tool_its_functions},
                    {"no-loop", child_no_loop},
                    {"in-front", child_in_front},
                    {"static", child_static_leaves_the_tool_as_it_is}};
    for (size_t i = 0; argc > 1 && i < sizeof children / sizeof children[0]; i++)
        if (strcmp(argv[1], children[i].mode) == 0) {
            const struct CMUnitTest one[] = {cmocka_unit_test(children[i].test)};
            return cmocka_run_group_tests_name(argv[1], one, NULL, NULL);
        }
    return cmocka_run_group_tests_name("nvtx_heard", tests, NULL, NULL);
}
