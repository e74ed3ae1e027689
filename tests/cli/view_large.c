/* SPDX-License-Identifier: MIT */
/* tests/cli/view_large.c: phonograph view of records that are larger than a page: it has the first
 * nodes, and says what it left out, on the page and on standard error. */
#include "support/command.h"
#include "support/support.h"
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PHONOGRAPH T_PROGRAM("phonograph")
enum {
    MOST = 50000
};

FIXTURE(setup)
{
    t_folder_create();
    return 0;
}

FIXTURE(teardown)
{
    t_folder_remove();
    return 0;
}

/* A chain, with one edge from the first node to the last; end: what stands behind the last node. */
static const char *write_chain(size_t count, const char *end)
{
    const char *path = t_path("large.json");
    FILE *out = fopen(path, "we");
    assert_non_null(out);
    (void)fprintf(
        out,
        "{\"format\":\"phonograph.record\",\"version\":1,\"node_count\":%zu,\"edge_count\":%zu,"
        "\"profile\":{\"source\":\"device\",\"critical_path\":[0,%zu]},\"nodes\":[\n",
        count, count, count - 1);
    for (size_t i = 0; i < count; i++) {
        (void)fprintf(out,
                      "%s{\"index\":%zu,\"kind\":\"empty\",\"name\":\"n%zu\",\"dependencies\":[",
                      i ? ",\n" : "", i, i % 5);
        if (i == count - 1)
            (void)fprintf(out, "0,");
        if (i > 0)
            (void)fprintf(out, "%zu", i - 1);
        (void)fprintf(out, "],\"dependents\":[");
        if (i < count - 1)
            (void)fprintf(out, "%zu%s", i + 1, i == 0 ? "," : "");
        if (i == 0)
            (void)fprintf(out, "%zu", count - 1);
        (void)fprintf(out, "],\"words\":[]}");
    }
    (void)fprintf(out, "%s", end);
    assert_int_equal(fclose(out), 0);
    return path;
}

static bool can_view(void)
{
    t_result r = t_run(&(t_command){.argv = {PHONOGRAPH, "view", write_chain(3, "]}\n")}});
    bool can = strstr(r.err, "node-d3") == NULL;
    if (!can)
        print_message("skipped: this build has no D3: nothing is written by phonograph view\n");
    t_result_free(&r);
    return can;
}

TEST(test_exactly_a_page)
{
    if (!can_view())
        return;
    t_result r = t_run(&(t_command){.argv = {PHONOGRAPH, "view", write_chain(MOST, "]}\n")}});
    assert_int_equal(r.status, 0);
    assert_string_equal(r.err, "");
    t_result_free(&r);
    char *page = t_read_file(t_path("large.html"), NULL);
    assert_non_null(strstr(page, "\"outer\":50000,\"edges\":50000,\"left\":[0,0]"));
    free(page);
}

TEST(test_what_is_left_out)
{
    if (!can_view())
        return;
    const char *path = write_chain(MOST + 7000, "]}\n");
    t_expect(
        &(t_command){.argv = {PHONOGRAPH, "view", path}}, 0, "large.html",
        "it has the first 50000 nodes, with the edges between them; left out are 7000 nodes and 0 "
        "blocks of memory\n");
    char *page = t_read_file(t_path("large.html"), NULL);
    assert_non_null(strstr(page, "\"outer\":50000,\"edges\":49999,\"left\":[7000,0]"));
    assert_non_null(strstr(page, "Too large for a page"));
    free(page);
    /* All of it is read by who has to. */
    t_expect(&(t_command){.argv = {PHONOGRAPH, "dump", path}}, 0, "57000 nodes, 57000 edges", NULL);
}

/* Races between nodes that are there stay. */
TEST(races_of_what_is_left_out_are_left_out)
{
    if (!can_view())
        return;
    const char *path = write_chain(
        MOST + 5, "],\"races\":{\"certain\":2,\"possible\":0,\"found\":2,\"list\":["
                  "{\"certain\":true,\"first\":1,\"second\":3,\"text\":\"kept\"},"
                  "{\"certain\":true,\"first\":1,\"second\":50001,\"text\":\"not kept\"}]}}\n");
    t_expect(&(t_command){.argv = {PHONOGRAPH, "view", path}}, 0, "large.html", "5 nodes");
    char *page = t_read_file(t_path("large.html"), NULL);
    assert_non_null(strstr(page, "\"races\":{\"certain\":2,\"possible\":0,\"list\":[[1,1,3,"
                                 "\"kept\"]]}"));
    free(page);
    t_expect(&(t_command){.argv = {PHONOGRAPH, "dump", path}}, 0, "not kept\n", NULL);
}

/* What is cut is checked: its counts, its end, and what is kept. */
TEST(test_what_is_no_record)
{
    if (!can_view())
        return;
    const char *path = write_chain(MOST + 10, ",{}]}\n");
    t_expect(&(t_command){.argv = {PHONOGRAPH, "view", path}}, 1, NULL,
             "node_count: is 50010, but there are ");
    t_expect(&(t_command){.argv = {PHONOGRAPH, "view", write_chain(MOST + 10, "")}}, 1, NULL,
             "truncated: ");
    t_expect(&(t_command){.argv = {PHONOGRAPH, "view", write_chain(MOST + 10, "]}{")}}, 1, NULL,
             "cannot be read as JSON");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_exactly_a_page, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_is_left_out, setup, teardown),
        cmocka_unit_test_setup_teardown(races_of_what_is_left_out_are_left_out, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_is_no_record, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
