/* SPDX-License-Identifier: MIT */
/* tests/graph/states_page.c: docs/reference/graph-states.md holds the table of states.def; run with
 * --print to print it. */
#include "support/support.h"

#include "graph/object/states.h"
#include "support/test.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char table[32768];

static void add(size_t *used, const char *text)
{
    int written = snprintf(table + *used, sizeof table - *used, "%s", text);
    assert_true(written >= 0 && (size_t)written < sizeof table - *used);
    *used += (size_t)written;
}

static void make_table(void)
{
    size_t used = 0;
    add(&used, "| call |");
    for (int s = 0; s < PH__GRAPH_STATES; s++) {
        add(&used, " ");
        add(&used, ph__graph_state_name((ph_graph_state)s));
        add(&used, " |");
    }
    add(&used, " in its own hooks |\n|---|---|---|---|---|---|---|\n");
    for (int c = 0; c < PH__CALL_COUNT; c++) {
        const ph__state_row *row = &ph__graph_calls[c];
        add(&used, "| `");
        add(&used, row->name);
        add(&used, "` |");
        for (int s = 0; s < PH__GRAPH_STATES; s++) {
            add(&used, " ");
            add(&used, ph__answers[row->answer[s]].summary);
            add(&used, " |");
        }
        add(&used, row->busy ? " refused |\n" : " as outside |\n");
    }
}

TEST(test_page_holds_the_table)
{
    static char page[131072];
    FILE *file = fopen(PH_TEST_SOURCE_DIR "/docs/reference/graph-states.md", "r");
    assert_non_null(file);
    size_t length = fread(page, 1, sizeof page - 1, file);
    fclose(file);
    page[length] = 0;
    make_table();
    assert_non_null(strstr(page, table));
}

int main(int count, char **arguments)
{
    if (count > 1 && strcmp(arguments[1], "--print") == 0) {
        make_table();
        return fputs(table, stdout) < 0;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_page_holds_the_table)};
    return cmocka_run_group_tests_name("graph.states_page", tests, NULL, NULL);
}
