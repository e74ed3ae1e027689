/* SPDX-License-Identifier: MIT */
/* cli/cli.h: what the files of the command share. It uses the library's public headers only, and
 * of what is inside src/base/characters.h, which needs nothing else. */
#ifndef CLI_CLI_H
#define CLI_CLI_H
#include <phonograph/phonograph.h>
#include <stdio.h>

enum {
    EXIT_USAGE = 2,
    SHOWN_CHARACTER = 8
};

/* The commands: argv starts with the command's own name. They return the exit status and have
 * said on stderr why it is not 0. */
int cli_info(int argc, char **argv);
int cli_dump(int argc, char **argv);
int cli_diff(int argc, char **argv);
int cli_view(int argc, char **argv);

/* For bad options: a line that says what is wrong, then where the help is. Returns EXIT_USAGE. */
int cli_usage_error(const char *format, ...) PH_PRINTF(1, 2);

/* Says the thread's error record on stderr. Returns EXIT_FAILURE. */
int cli_failed(void);

/* Text that comes from a file, a driver or the command line, with what could steer a terminal,
 * or would not be seen there, shown as \xNN or \uNNNN. The same for its first character alone,
 * of *bytes bytes; text is not empty. */
const char *cli_show_character(char room[SHOWN_CHARACTER], size_t *bytes, const char *text);
void cli_put_text(FILE *out, const char *text);
#endif
