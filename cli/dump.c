/* SPDX-License-Identifier: MIT */
/* cli/dump.c: `phonograph dump`: a record's JSON file as text or DOT. */
#include "cli.h"
#include "record_make.h"
#include <stdlib.h>
#include <string.h>

struct options {
    const char *path;
    bool dot, text, verbose;
};

static int parse(struct options *o, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--dot") == 0)
            o->dot = true;
        else if (strcmp(argv[i], "--text") == 0)
            o->text = true;
        else if (strcmp(argv[i], "--verbose") == 0)
            o->verbose = true;
        else if (argv[i][0] == '-' && argv[i][1] != '\0')
            return cli_usage_error("dump: unknown option '%s'", argv[i]);
        else if (o->path)
            return cli_usage_error("dump: one file at a time, but there is '%s' too", argv[i]);
        else
            o->path = argv[i];
    }
    if (!o->path)
        return cli_usage_error("dump: which file? (- is standard input)");
    if (o->dot && o->text)
        return cli_usage_error("dump: either --text or --dot");
    return EXIT_SUCCESS;
}

static ph_status put_dot(const struct options *o, made_record *record)
{
    char *dot;
    PH_TRY(record_read(record, o->path));
    PH_TRY(ph_record_dot(&dot, record_made(record), o->verbose));
    (void)fputs(dot, stdout);
    ph_string_free(dot);
    return PH_OK;
}

static ph_status put_text(const struct options *o)
{
    file_record *record;
    PH_TRY(file_record_read(&record, o->path));
    file_record_text(stdout, record, o->verbose);
    file_record_free(record);
    return PH_OK;
}

int cli_dump(int argc, char **argv)
{
    struct options o = {0};
    made_record record = {0};
    int status = parse(&o, argc, argv);
    if (status != EXIT_SUCCESS)
        return status;
    ph_status done = o.dot ? put_dot(&o, &record) : put_text(&o);
    record_unmake(&record);
    return done == PH_OK ? EXIT_SUCCESS : cli_failed();
}
