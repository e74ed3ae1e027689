/* SPDX-License-Identifier: MIT */
/* cli/diff.c: `phonograph diff`: what differs between the records of two files. */
#include "cli.h"
#include "load.h"
#include "record_make.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* As diff(1) has them. */
enum {
    EXIT_SAME = 0,
    EXIT_DIFFERENT = 1,
    EXIT_TROUBLE = 2
};

struct options {
    const char *path[2];
    int count;
    bool json;
};

static int parse(struct options *o, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0)
            o->json = true;
        else if (argv[i][0] == '-' && argv[i][1] != '\0')
            return cli_usage_error("diff: unknown option '%s'", argv[i]);
        else if (o->count == 2)
            return cli_usage_error("diff: two files, but there is '%s' too", argv[i]);
        else
            o->path[o->count++] = argv[i];
    }
    if (o->count < 2)
        return cli_usage_error("diff: which two files? (- is standard input)");
    if (strcmp(o->path[0], "-") == 0 && strcmp(o->path[1], "-") == 0)
        return cli_usage_error("diff: only one of the files can be standard input");
    return EXIT_SUCCESS;
}

static json_t *index_of(size_t node)
{
    return node == SIZE_MAX ? json_null() : json_integer((json_int_t)node);
}

static json_t *change_of(const ph_change *change)
{
    return json_pack("{s:s, s:o, s:o, s:b, s:s?, s:s}", "kind", ph_change_kind_name(change->kind),
                     "a", index_of(change->a), "b", index_of(change->b), "blocks_update",
                     (int)change->blocks_update, "rule", change->rule, "text", change->text);
}

static ph_status put_json(const ph_diff *diff)
{
    bool possible = true;
    json_t *list = json_array();
    for (size_t i = 0; list && i < ph_diff_count(diff); i++) {
        ph_change change;
        PH_TRY(ph_diff_at(&change, diff, i));
        possible = possible && !change.blocks_update;
        if (json_array_append_new(list, change_of(&change)) != 0) {
            json_decref(list);
            list = NULL;
        }
    }
    json_t *all = list ? json_pack("{s:s, s:i, s:b, s:o}", "format", "phonograph.diff", "version",
                                   1, "update_possible", (int)possible, "changes", list)
                       : NULL;
    bool put = all && json_dumpf(all, stdout, JSON_INDENT(1)) == 0;
    json_decref(all);
    if (all && put) {
        (void)fputc('\n', stdout);
        return PH_OK;
    }
    return all ? PH_OK
               : ph_fail(PH_ERROR_HOST_MEMORY,
                         "no memory for the differences"); /* stdout says what is wrong with it */
}

static ph_status put_text(const ph_diff *diff)
{
    char *text;
    PH_TRY(ph_diff_text(&text, diff));
    (void)fputs(text, stdout);
    ph_string_free(text);
    return PH_OK;
}

static ph_status compare(int *out, const struct options *o, made_record records[2])
{
    ph_diff *diff;
    for (int i = 0; i < 2; i++)
        PH_TRY(record_read(&records[i], o->path[i]));
    PH_TRY(ph_record_diff(&diff, record_made(&records[0]), record_made(&records[1])));
    *out = ph_diff_count(diff) == 0 ? EXIT_SAME : EXIT_DIFFERENT;
    ph_status status = o->json ? put_json(diff) : put_text(diff);
    ph_diff_destroy(diff);
    return status;
}

int cli_diff(int argc, char **argv)
{
    struct options o = {0};
    made_record records[2] = {{0}, {0}};
    int status = parse(&o, argc, argv);
    if (status != EXIT_SUCCESS)
        return status;
    ph_status done = compare(&status, &o, records);
    for (int i = 0; i < 2; i++)
        record_unmake(&records[i]);
    if (done != PH_OK) {
        (void)cli_failed();
        return EXIT_TROUBLE;
    }
    bool written = ferror(stdout) == 0;
    if (fflush(stdout) != 0 || !written) {
        (void)fprintf(stderr, "phonograph: the output cannot be written: %s\n", strerror(errno));
        return EXIT_TROUBLE;
    }
    return status;
}
