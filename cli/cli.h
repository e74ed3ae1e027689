/* SPDX-License-Identifier: MIT */
/* cli/cli.h: what the files of the command share. It uses the library's public headers only. */
#ifndef CLI_CLI_H
#define CLI_CLI_H
#include <phonograph/phonograph.h>
#include <stdio.h>

enum {
    EXIT_USAGE = 2
};

/* The commands: argv starts with the command's own name. They return the exit status and have said on stderr
 * why it is not 0. */
int cli_info(int argc, char **argv);
int cli_dump(int argc, char **argv);
int cli_diff(int argc, char **argv);
int cli_view(int argc, char **argv);

/* For bad options: a line that says what is wrong, then where the help is. Returns EXIT_USAGE. */
int cli_usage_error(const char *format, ...) PH_PRINTF(1, 2);

/* Says the thread's error record on stderr. Returns EXIT_FAILURE. */
int cli_failed(void);

/* Text that comes from a file or a driver, with what could steer a terminal shown as \xNN. */
void cli_put_text(FILE *out, const char *text);
#endif
