/* SPDX-License-Identifier: MIT */
/* cli/dump.c: `phonograph dump`: a record's JSON file as text or DOT. */
#include "cli.h"
#include "record_file.h"
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

int cli_dump(int argc, char **argv)
{
    struct options o = {0};
    file_record *record;
    int status = parse(&o, argc, argv);
    if (status != EXIT_SUCCESS)
        return status;
    if (file_record_read(&record, o.path) != PH_OK)
        return cli_failed();
    if (o.dot)
        file_record_dot(stdout, record, o.verbose);
    else
        file_record_text(stdout, record, o.verbose);
    file_record_free(record);
    return EXIT_SUCCESS;
}
