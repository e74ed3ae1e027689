/* SPDX-License-Identifier: MIT */
/* cli/help.h: the commands and their help. */
#ifndef CLI_HELP_H
#define CLI_HELP_H
#include <stddef.h>
#include <stdio.h>

typedef struct cli_command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *arguments; /* as the usage line shows them */
    const char *summary;   /* one line, without a full stop */
    const char *details;   /* paragraphs and options, a newline behind each line */
} cli_command;

/* NULL for an unknown name. */
const cli_command *cli_find_command(const char *name);

/* All commands, a line each. */
void cli_put_usage(FILE *out);

/* One command: its usage line, its details. */
void cli_put_help(FILE *out, const cli_command *command);
#endif
