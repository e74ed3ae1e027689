/* SPDX-License-Identifier: MIT */
/* cli/main.c: the command `phonograph`: finds the command that is meant, and says what goes
 * wrong. */
#include "../src/base/characters.h"
#include "cli.h"
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static const struct command {
    const char *name;
    int (*run)(int argc, char **argv);
} commands[] = {{"info", cli_info}, {"dump", cli_dump}, {"diff", cli_diff}, {"view", cli_view}};

static void usage(FILE *out)
{
    (void)fputs("usage: phonograph COMMAND [ARGUMENTS]\n\n"
                "  info [--device NAME]...        the version, the drivers (or why one cannot be "
                "used), the devices\n"
                "                                 with their properties and settings; NAME as in "
                "host:threads=2\n"
                "  dump FILE [--text|--dot] [--verbose]\n"
                "                                 a record that ph_record_dump or "
                "ph_profile_dump_record wrote (- "
                "reads\n"
                "                                 standard input), as text or as Graphviz DOT; "
                "verbose adds the\n"
                "                                 parameters and annotations of each node\n"
                "  diff A B [--json]              what differs between two such files, and whether "
                "a graph captured "
                "as A could "
                "be\n"
                "                                 updated to B; exit status 0: nothing, 1: "
                "something, 2: trouble\n"
                "  view FILE [-o FILE.html]       such a file as a page for a browser: drawing, "
                "timeline, memory, "
                "table; written\n"
                "                                 beside the record where -o does not say "
                "otherwise (- is standard "
                "output);\n"
                "                                 a file there that is no such page is replaced "
                "only with -o\n"
                "  --help, --version\n\n"
                "Exit status: 0 all is well, 1 something failed, 2 bad usage.\n",
                out);
}

int cli_usage_error(const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    (void)fputs("phonograph: ", stderr);
    cli_put_text(stderr, text);
    (void)fputs("\nphonograph --help tells the usage\n", stderr);
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

static int run(int argc, char **argv)
{
    if (argc < 2) {
        usage(stderr);
        return EXIT_USAGE;
    }
    if (strcmp(argv[1], "help") == 0 || asks_for_help(argc, argv)) {
        usage(stdout);
        return EXIT_SUCCESS;
    }
    if (strcmp(argv[1], "--version") == 0) {
        (void)printf("phonograph %s\n", ph_version());
        return EXIT_SUCCESS;
    }
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        if (strcmp(argv[1], commands[i].name) == 0)
            return commands[i].run(argc - 1, argv + 1);
    (void)fputs("phonograph: there is no command '", stderr);
    cli_put_text(stderr, argv[1]);
    (void)fputs("'\n\n", stderr);
    usage(stderr);
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
