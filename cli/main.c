/* SPDX-License-Identifier: MIT */
/* cli/main.c: the command `phonograph`: finds the command that is meant, and says what goes
 * wrong. */
#include "../src/base/characters.h"
#include "cli.h"
#include "help.h"
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

int cli_usage_error(const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    (void)fputs("phonograph: ", stderr);
    cli_put_text(stderr, text);
    (void)fputs("\nphonograph --help shows the usage\n", stderr);
    return EXIT_USAGE;
}

int cli_failed(void)
{
    (void)fputs("phonograph: ", stderr);
    cli_put_text(stderr, ph_error_last()->message);
    (void)fputc('\n', stderr);
    return EXIT_FAILURE;
}

const char *cli_show_character(char room[SHOWN_CHARACTER], size_t *bytes, const char *text)
{
    ph__character c = ph__character_at(text);
    *bytes = c.bytes;
    if (!c.hidden) {
        memcpy(room, text, c.bytes);
        room[c.bytes] = '\0';
    } else
        (void)snprintf(room, SHOWN_CHARACTER, c.bytes == 1 ? "\\x%02x" : "\\u%04x",
                       (unsigned)c.code);
    return room;
}

void cli_put_text(FILE *out, const char *text)
{
    char room[SHOWN_CHARACTER];
    for (size_t bytes; *text; text += bytes)
        (void)fputs(cli_show_character(room, &bytes, text), out);
}

/* Wherever it stands: nobody who asks for help is told what else is wrong. */
static bool asks_for_help(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return true;
    return false;
}

/* Help on the command that the arguments name; on all where they name none. */
static int put_help(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (cli_find_command(argv[i])) {
            cli_put_help(stdout, cli_find_command(argv[i]));
            return EXIT_SUCCESS;
        }
    cli_put_usage(stdout);
    return EXIT_SUCCESS;
}

static int run(int argc, char **argv)
{
    if (argc < 2) {
        cli_put_usage(stderr);
        return EXIT_USAGE;
    }
    if (strcmp(argv[1], "help") == 0 || asks_for_help(argc, argv))
        return put_help(argc, argv);
    if (strcmp(argv[1], "--version") == 0) {
        (void)printf("phonograph %s\n", ph_version());
        return EXIT_SUCCESS;
    }
    const cli_command *command = cli_find_command(argv[1]);
    if (command)
        return command->run(argc - 1, argv + 1);
    (void)fputs("phonograph: there is no command '", stderr);
    cli_put_text(stderr, argv[1]);
    (void)fputs("'\n\n", stderr);
    cli_put_usage(stderr);
    return EXIT_USAGE;
}

int main(int argc, char **argv)
{
    int status = run(argc, argv);
    bool written = ferror(stdout) == 0;
    if ((fflush(stdout) != 0 || !written) && status == EXIT_SUCCESS) {
        (void)fprintf(stderr, "phonograph: the output cannot be written: %s\n", strerror(errno));
        return EXIT_FAILURE;
    }
    return status;
}
