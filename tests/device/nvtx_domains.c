/* SPDX-License-Identifier: MIT */
/* tests/device/nvtx_domains.c: NVTX ranges in front of a tool that numbers registered strings for
 * each domain, and that gives the handle of a domain which was destroyed to the next one. */
#include "support/fixture.h"

#include "fake/nvtx_tool.h"
#include "support/nvtx.h"
#include <stdlib.h>
#include <string.h>

enum {
    N = 16
};
static t_world world;
static int32_t *x;

WORLD(world, .arrays = {{&x, N}});

static void destroy(ph__nvtx_domain domain)
{
    ((void (*)(ph__nvtx_domain))core2[PH__NVTX_DOMAIN_DESTROY])(domain);
}

typedef struct range {
    ph__nvtx_domain domain;
    int type;
    const void *message;
} range;

static ph_status node_in_range(ph_stream *stream, void *user)
{
    const range *r = user;
    (void)push_in(r->domain, r->type, r->message);
    ph_status status = t_fill(&world, stream, x, N, 1);
    (void)pop_in(r->domain);
    return status;
}

/* What the node of a capture is called that is made in that range; want NULL: nothing. */
static void expect_name(ph__nvtx_domain domain, int type, const void *message, const char *want)
{
    ph_graph *graph;
    const ph_record *record;
    const ph_annotation_pair *pairs;
    const char *got = NULL;
    size_t count;
    range r = {domain, type, message};
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(
        graph, world.stream, &(ph_capture_options){.enable_annotations = true}, node_in_range, &r));
    assert_ok(ph_graph_record(&record, graph));
    assert_int_equal(ph_record_node_count(record), 1);
    assert_ok(ph_record_annotation(&pairs, &count, record, 0));
    for (size_t k = 0; k < count; k++)
        if (strcmp(pairs[k].key, "name") == 0)
            got = pairs[k].text;
    if (want) {
        assert_non_null(got);
        assert_string_equal(got, want);
    } else {
        assert_null(got);
    }
    ph_graph_destroy(graph);
    assert_int_equal(ph_annotation_depth(), 0);
}

static void expect_registered(ph__nvtx_domain domain, const void *handle, const char *want)
{
    expect_name(domain, PH__NVTX_MESSAGE_REGISTERED, handle, want);
}

TEST(test_strings_of_two_domains)
{
    ph__nvtx_domain a = create("a"), b = create("b");
    const void *of_a = register_in(a, "of a"), *of_b = register_in(b, "of b");
    const void *of_none = register_in(NULL, "of none"), *second = register_in(b, "second");
    assert_ptr_not_equal(a, b);
    assert_ptr_equal(of_a, of_b); /* what the test is about */
    assert_ptr_equal(of_a, of_none);
    expect_registered(a, of_a, "of a");
    expect_registered(b, of_b, "of b");
    expect_registered(NULL, of_none, "of none");
    expect_registered(b, second, "second");
    expect_registered(a, second, ""); /* none of a's */
    destroy(a);
    destroy(b);
}

TEST(test_strings_of_a_domain_made_anew)
{
    ph__nvtx_domain before = create("before");
    const void *old = register_in(before, "old");
    expect_registered(before, old, "old");
    destroy(before);
    ph__nvtx_domain after = create("after");
    assert_ptr_equal(after, before);
    const void *fresh = register_in(after, "fresh");
    assert_ptr_equal(fresh, old);
    expect_registered(after, fresh, "fresh");
    destroy(after);
}

/* The ranges of copies of this library are no scopes; those of a domain that has the handle of
 * theirs later are. */
TEST(test_own_domain_made_anew)
{
    ph__nvtx_domain own = create("phonograph");
    expect_name(own, PH__NVTX_MESSAGE_ASCII, "graph 1", NULL);
    destroy(own);
    ph__nvtx_domain other = create("trainer");
    assert_ptr_equal(other, own);
    expect_name(other, PH__NVTX_MESSAGE_ASCII, "layer", "layer");
    destroy(other);
    own = create("phonograph");
    assert_ptr_equal(own, other);
    expect_name(own, PH__NVTX_MESSAGE_ASCII, "graph 1", NULL);
    destroy(own);
}

/* Each copy makes the domain; this tool makes two of it. */
TEST(test_two_copies)
{
    ph__nvtx_domain first = create("phonograph"), second = create("phonograph");
    assert_ptr_not_equal(first, second);
    expect_name(first, PH__NVTX_MESSAGE_ASCII, "graph 1", NULL);
    expect_name(second, PH__NVTX_MESSAGE_ASCII, "graph 1", NULL);
    destroy(first);
    ph__nvtx_domain other = create("trainer");
    assert_ptr_equal(other, first);
    expect_name(other, PH__NVTX_MESSAGE_ASCII, "layer", "layer");
    expect_name(second, PH__NVTX_MESSAGE_ASCII, "graph 1", NULL);
    destroy(second);
    destroy(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_strings_of_two_domains),
        cmocka_unit_test(test_strings_of_a_domain_made_anew),
        cmocka_unit_test(test_own_domain_made_anew),
        cmocka_unit_test(test_two_copies),
    };
    if (setenv("NVTX_TOOL_NUMBERS", "1", 1) != 0 ||
        setenv("NVTX_INJECTION64_PATH", PH_TEST_NVTX_TOOL, 1) != 0 ||
        start_nvtx(InitializeInjectionNvtx2) != 1)
        return 1;
    unsetenv("NVTX_INJECTION64_PATH"); /* the library's own ranges have no tool */
    return cmocka_run_group_tests_name("nvtx_domains", tests, open_world, close_world);
}
