/* SPDX-License-Identifier: MIT */
/* cli/help.c: the commands and their help. The completions (completions/) and the manual page
 * (../docs/man/phonograph.1) name the same options; tests hold that. */
#include "help.h"
#include "cli.h"
#include <string.h>

static const cli_command commands[] = {
    {"info", cli_info, "[--device NAME]... [--json]",
     "shows the version, the drivers, the settings and the devices",
     "The version; each driver, or the reason why it cannot be used; the variables of the\n"
     "environment; each device with its properties and settings.\n"
     "\n"
     "  --device NAME  this device alone, as ph_device_open takes it: cuda:1, host:threads=2.\n"
     "                 More than once: several devices\n"
     "  --json         the same as one JSON object\n"
     "\n"
     "Exit status: 1 when a device cannot be opened.\n"},
    {"dump", cli_dump, "FILE [--text|--dot] [--verbose]", "shows a record as text or as a drawing",
     "FILE is a record that ph_record_dump or ph_profile_dump_record wrote; - reads standard\n"
     "input.\n"
     "\n"
     "  --text     text: nodes in order, memory, inputs (the default)\n"
     "  --dot      Graphviz DOT, for dot -Tsvg\n"
     "  --verbose  parameters and annotations of each node too\n"},
    {"diff", cli_diff, "A B [--json]", "shows the differences of two records",
     "A and B are records as ph_record_dump wrote them; one of them may be -, standard input.\n"
     "Says too whether a graph captured as A could be updated to B.\n"
     "\n"
     "  --json  the differences as one JSON object\n"
     "\n"
     "Exit status: 0 no difference, 1 differences, 2 trouble.\n"},
    {"view", cli_view, "FILE [-o FILE.html]", "makes a page for a browser from a record",
     "FILE is a record that ph_record_dump or ph_profile_dump_record wrote; - reads standard\n"
     "input. The page has a drawing, a timeline, the memory and a table. It needs no network.\n"
     "\n"
     "  -o, --output FILE.html  the page; - is standard output. By default it is written beside\n"
     "                          the record, and replaces no file that is not such a page\n"}};

enum {
    COMMANDS = sizeof commands / sizeof *commands
};

const cli_command *cli_find_command(const char *name)
{
    for (size_t i = 0; i < COMMANDS; i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

void cli_put_usage(FILE *out)
{
    (void)fputs("usage: phonograph COMMAND [ARGUMENTS]\n\n", out);
    for (size_t i = 0; i < COMMANDS; i++)
        (void)fprintf(out, "  %s %s\n      %s\n", commands[i].name, commands[i].arguments,
                      commands[i].summary);
    (void)fputs("\nphonograph COMMAND --help has more on each command.\n"
                "phonograph --version prints the version.\n\n"
                "Exit status: 0 all is well, 1 something failed, 2 bad usage.\n",
                out);
}

void cli_put_help(FILE *out, const cli_command *command)
{
    (void)fprintf(out, "usage: phonograph %s %s\n\n%s", command->name, command->arguments,
                  command->details);
}
