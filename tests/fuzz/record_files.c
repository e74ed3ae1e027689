/* SPDX-License-Identifier: MIT */
/* tests/fuzz/record_files.c: records' files that were damaged at random, and such made up from
 * the words of the format: the command compares them with a good one, or refuses them with a
 * message that names the file; it never dies of one, and what diff refuses dump refuses.
 * PH_TEST_SEED=n runs the one round whose seed a failure printed. */
#include "base/rng.h"
#include "support/command.h"
#include "support/support.h"
#include "support/test.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PHONOGRAPH T_PROGRAM("phonograph")

enum {
    ROOM = 16384
};

typedef struct round {
    ph__rng rng;
    char bytes[ROOM];
    size_t size;
} round;

static const char *good, *bad;

static size_t below(round *r, size_t n)
{
    return (size_t)ph__rng_below(&r->rng, n);
}

static void append(round *r, const char *text)
{
    size_t size = strlen(text);
    if (size > ROOM - r->size)
        size = ROOM - r->size;
    memcpy(r->bytes + r->size, text, size);
    r->size += size;
}

static void append_number(round *r, uint64_t number)
{
    char text[32];
    (void)snprintf(text, sizeof text, "%" PRIu64, number);
    append(r, text);
}

/* ---- files made up ---- right in most places, so that what is wrong in one is met. */

static const char *pick(round *r, const char *usual, const char *const *others, size_t count)
{
    return below(r, 40) ? usual : others[below(r, count)];
}

static const char *wild(round *r, const char *usual)
{
    static const char *const others[] = {"null",
                                         "-1",
                                         "1e308",
                                         "99999999999999999999",
                                         "18446744073709551615",
                                         "9223372036854775807",
                                         "[]",
                                         "{}",
                                         "\"\"",
                                         "\"0x\"",
                                         "true",
                                         "[[[[[[[[]]]]]]]]",
                                         "0.5",
                                         "\"0xffffffffffffffff\"",
                                         "\"\\u0000\"",
                                         "\"\\ud800\"",
                                         "{\"a\":{}}",
                                         "[0,0,0]"};
    return pick(r, usual, others, sizeof others / sizeof others[0]);
}

static void put_word(round *r, size_t w)
{
    char text[400];
    static const char *const kinds[] = {"\"proved\"", "\"suspected\"", "\"value\""};
    (void)snprintf(
        text, sizeof text,
        "{\"name\":%s,\"offset\":%zu,\"kind\":%s,\"value\":%s,\"internal\":%s,\"allocation\":",
        wild(r, "\"x\""), 8 * w, wild(r, kinds[below(r, 3)]), wild(r, "\"0x1234\""),
        wild(r, "false"));
    append(r, text);
    (void)snprintf(
        text, sizeof text,
        "{\"base\":%s,\"bytes\":%s,\"offset\":52,\"generation\":%s,\"pool\":%s,\"pinned\":%s}",
        wild(r, "\"0x1200\""), wild(r, "512"), wild(r, "3"), wild(r, "[0,0]"), wild(r, "false"));
    append(r, below(r, 2) ? wild(r, "null") : text);
    append(r, "}");
}

static void put_words(round *r)
{
    size_t count = below(r, 3);
    append(r, ",\"words\":[");
    for (size_t w = 0; w < count; w++) {
        append(r, w ? "," : "");
        put_word(r, w);
    }
    append(r, "]");
}

static void put_record(round *r, size_t count, int depth);

static void put_parameters(round *r, size_t kind)
{
    char text[300] = "";
    if (kind == 0)
        (void)snprintf(text, sizeof text,
                       ",\"grid\":%s,\"block\":%s,\"shared_bytes\":%s,\"args_size\":%s,\"args\":%s",
                       wild(r, "[1,1,1]"), wild(r, "[9,1,1]"), wild(r, "0"), wild(r, "24"),
                       wild(r, "\"000000000000000000000000000000000000000000000000\""));
    else if (kind == 1)
        (void)snprintf(text, sizeof text, ",\"dst\":%s,\"src\":%s,\"bytes\":%s", wild(r, "\"0x1\""),
                       wild(r, "\"0x2\""), wild(r, "64"));
    else if (kind == 2)
        (void)snprintf(text, sizeof text, ",\"dst\":%s,\"value\":%s,\"value_size\":%s,\"bytes\":%s",
                       wild(r, "\"0x1\""), wild(r, "7"), wild(r, "4"), wild(r, "64"));
    append(r, text);
}

static void put_node(round *r, size_t index, size_t count, int depth)
{
    static const char *const kinds[] = {"\"kernel\"", "\"memcpy\"", "\"memset\"", "\"graph\"",
                                        "\"host\""};
    static const char *const names[] = {"\"saxpy\"", "\"add\"", "\"\\u001b[2J\"", "\"<script>\"",
                                        "\"\""};
    size_t kind = below(r, 5);
    append(r, "{\"index\":");
    append_number(r, below(r, 60) ? index : below(r, 9));
    append(r, ",\"kind\":");
    append(r, wild(r, kinds[kind]));
    append(r, ",\"name\":");
    append(r, wild(r, names[below(r, 5)]));
    put_parameters(r, kind);
    append(r, ",\"dependencies\":[");
    if (index > 0)
        append_number(r, below(r, 60) ? index - 1 : below(r, 9));
    append(r, "],\"dependents\":[");
    if (index + 1 < count)
        append_number(r, below(r, 60) ? index + 1 : below(r, 9));
    append(r, "]");
    put_words(r);
    if (below(r, 4) == 0) {
        append(r, ",\"annotation\":");
        append(r, wild(r, "{\"name\":\"a\",\"layer\":3,\"x\":0.5,\"y\":true}"));
    }
    if (below(r, 4) == 0) {
        append(r, ",\"profile\":{\"start_ns\":");
        append(r, wild(r, "0"));
        append(r, ",\"run_ns\":5,\"median_ns\":5,\"least_ns\":5,\"most_ns\":5,\"slack_ns\":0,"
                  "\"critical\":");
        append(r, wild(r, "true"));
        append(r, ",\"lane\":");
        append(r, wild(r, "0"));
        append(r, "}");
    }
    if (kind == 3 && depth < 20) {
        append(r, ",\"body\":");
        put_record(r, below(r, 3), depth + 1);
    }
    append(r, "}");
}

static void put_record(round *r, size_t count, int depth)
{
    append(r, "{\"format\":");
    append(r, wild(r, "\"phonograph.record\""));
    append(r, ",\"version\":1,\"node_count\":");
    append_number(r, below(r, 60) ? count : below(r, 9));
    append(r, ",\"edge_count\":");
    append_number(r, below(r, 60) ? (count ? count - 1 : 0) : below(r, 9));
    append(r, ",\"nodes\":[");
    for (size_t n = 0; n < count; n++) {
        append(r, n ? "," : "");
        put_node(r, n, count, depth);
    }
    append(r, "]}");
}

/* ---- damage ---- */

static void damage(round *r)
{
    size_t changes = 1 + below(r, 3);
    for (size_t i = 0; i < changes && r->size > 4; i++) {
        size_t at = below(r, r->size), length = 1 + below(r, 40);
        if (length > r->size - at)
            length = r->size - at;
        switch (below(r, 4)) {
        case 0:
            r->bytes[at] = (char)below(r, 256);
            break;
        case 1:
            r->size = at;
            break;
        case 2:
            memmove(r->bytes + at, r->bytes + at + length, r->size - at - length);
            r->size -= length;
            break;
        default:
            memset(r->bytes + at, "[{\"0,"[below(r, 5)], length);
        }
    }
}

static int run_round(uint64_t seed)
{
    static round r;
    r.rng.state = seed;
    r.size = 0;
    put_record(&r, below(&r, 6), 0);
    if (below(&r, 3) == 0)
        damage(&r);
    t_write(bad, r.bytes, r.size);
    bool first = below(&r, 2);
    t_result result =
        t_run(&(t_command){.argv = {PHONOGRAPH, "diff", first ? bad : good, first ? good : bad,
                                    below(&r, 2) ? "--json" : NULL}});
    int status = result.status;
    if (status < 0 || status > 2 || (status == 2) != (result.out[0] == '\0') ||
        (status == 2 && !strstr(result.err, "bad.json")))
        fail_msg("PH_TEST_SEED=%" PRIu64 ": exit status %d, said: %s", seed, status, result.err);
    t_result_free(&result);
    result = t_run(&(t_command){.argv = {PHONOGRAPH, "dump", bad, "--verbose"}});
    if ((result.status != 0) != (status == 2))
        fail_msg("PH_TEST_SEED=%" PRIu64 ": diff ends with %d, dump with %d and says: %s", seed,
                 status, result.status, result.err);
    t_result_free(&result);
    return status;
}

TEST(damaged_files_are_read_or_refused_without_harm)
{
    size_t seen[3] = {0};
    const char *one = getenv("PH_TEST_SEED");
    static round r = {.rng = {1}};
    do {
        r.size = 0;
        put_record(&r, 5, 0);
        t_write(good, r.bytes, r.size);
        t_result result = t_run(&(t_command){.argv = {PHONOGRAPH, "diff", good, good}});
        seen[result.status == 0]++;
        t_result_free(&result);
    } while (seen[1] == 0); /* until one is good */
    memset(seen, 0, sizeof seen);
    if (one) {
        (void)run_round(strtoull(one, NULL, 10));
        return;
    }
    for (uint64_t seed = 1; seed <= (t_nightly() ? 20000 : 400); seed++)
        seen[run_round(seed)]++;
    assert_true(seen[1] > 50); /* read and compared */
    assert_true(seen[2] > 50); /* refused */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(damaged_files_are_read_or_refused_without_harm)};
    t_folder_create();
    char *paths[] = {strdup(t_path("good.json")), strdup(t_path("bad.json"))};
    good = paths[0];
    bad = paths[1];
    int failed = cmocka_run_group_tests_name("fuzz.record_files", tests, NULL, NULL);
    t_folder_remove();
    free(paths[0]);
    free(paths[1]);
    return failed;
}
