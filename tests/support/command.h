/* SPDX-License-Identifier: MIT */
/* tests/support/command.h: running the project's own programs as a user does, and files for them
 * to read. */
#ifndef PH_TESTS_COMMAND_H
#define PH_TESTS_COMMAND_H
#include <stdbool.h>
#include <stddef.h>

/* The path of a program of the build. */
#define T_PROGRAM(name) PH_TEST_PROGRAM_DIR "/" name

/* Zero is the default of every member but argv. */
typedef struct t_command {
    const char *argv[24]; /* argv[0]: T_PROGRAM("digits") */
    const char *input;    /* a file for standard input; NULL: nothing */
    /* a file for standard output instead of a pipe's worth of text: /dev/full */
    const char *output;
    /* no file that it writes grows beyond so many bytes: a disk that is full */
    size_t file_limit;
    bool unprivileged; /* when root runs the tests: as nobody */
    bool terminal;     /* standard error is a terminal */
} t_command;

typedef struct t_result {
    int status;      /* exit status; 128 + signal; 126: it could not be run at all */
    char *out, *err; /* what it wrote, NUL-terminated */
} t_result;

/* Waits for its end; fails the test when it cannot be started. */
t_result t_run(const t_command *program);
/* Whether this machine has pseudo terminals, which `terminal` needs. */
bool t_has_terminals(void);
void t_result_free(t_result *result);

/* Runs, frees, and asserts on the status, and on a part of each stream when not NULL. */
void t_expect(const t_command *program, int status, const char *out_part, const char *err_part);

/* ---- files ---- in a folder of the test's own, which any user may write to. */
void t_folder_create(void);
void t_folder_remove(void);           /* with everything in it */
void t_remove_tree(const char *path); /* the same of another folder */
const char *t_path(const char *name); /* valid until the eighth call after it */
void t_write(const char *path, const void *bytes, size_t size);
char *t_read_file(const char *path,
                  /* NUL-terminated, freed with free; fails the test when it is not there */
                  size_t *size);
size_t t_count_files(void);
#endif
