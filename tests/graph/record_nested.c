/* SPDX-License-Identifier: MIT */
/* tests/graph/record_nested.c: records of graphs in graphs in graphs are written as deep as they
 * are. */
#include "support/support.h"

#include "base/alloc.h"
#include "support/test.h"
#include <string.h>

enum {
    DEEP = 40,
    N = 16
};
static t_world world;
static ph_graph *graphs[DEEP];
static int32_t *x;
static size_t made;

FIXTURE(open_world)
{
    t_open(&world, NULL);
    assert_ok(PH_NEW(&x, N, world.stream));
    assert_ok(t_fill(&world, world.stream, x, N, 0));
    made = 0;
    return 0;
}

FIXTURE(close_world)
{
    while (made > 0)
        ph_graph_destroy(graphs[--made]);
    ph_free(x, world.stream);
    t_close(&world);
    assert_int_equal(ph__alloc_live(), 0);
    return 0;
}

static ph_status inner(ph_stream *stream, void *user)
{
    (void)user;
    return made == 0 ? t_add(&world, stream, x, x, N, 1)
                     : ph_graph_replay(graphs[made - 1], stream);
}

/* Each graph replays the one before it: the last one has so many bodies in one another. */
static const ph_record *nest(size_t graph_count)
{
    const ph_record *record = NULL;
    while (made < graph_count) {
        assert_ok(ph_graph_create(&graphs[made], NULL));
        ph_status status = ph_graph_capture(graphs[made], world.stream, NULL, inner, NULL);
        made++;
        assert_ok(status);
    }
    assert_ok(ph_graph_record(&record, graphs[made - 1]));
    return record;
}

static size_t occurrences(const char *text, const char *of)
{
    size_t count = 0;
    for (const char *at = strstr(text, of); at; at = strstr(at + 1, of))
        count++;
    return count;
}

TEST(test_every_depth)
{
    for (size_t count = 1; count <= DEEP; count++) {
        char *json, *dot;
        const ph_record *record = nest(count);
        assert_ok(ph_record_json(&json, record));
        assert_int_equal(occurrences(json, "\"body\":"), count - 1);
        assert_int_equal(occurrences(json, "\"name\":\"add_i32\""), 1);
        assert_ok(ph_record_dot(&dot, record, true));
        assert_int_equal(occurrences(dot, "label=\"body of 0\""), count - 1);
        assert_int_equal(occurrences(dot, "add_i32"), 1);
        ph_string_free(json);
        ph_string_free(dot);
    }
    assert_ok(ph_graph_replay(graphs[DEEP - 1], world.stream));
    t_all(x, N, 1, world.stream);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(test_every_depth),
    };
    return cmocka_run_group_tests_name("graph.record_nested", tests, NULL, NULL);
}
