/* SPDX-License-Identifier: MIT */
/* tests/support/command.c: running programs, and a folder of files for them. */
#include "support/command.h"
#include "support/support.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    NOBODY = 65534,
    NOT_RUN = 126,
    TIME_LIMIT_S = 280
};

/* ---- running ---- */

static bool prepare(const t_command *p, int out, int err)
{
    int in = open(p->input ? p->input : "/dev/null", O_RDONLY | O_CLOEXEC);
    if (in < 0 || dup2(in, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0 ||
        dup2(err, STDERR_FILENO) < 0)
        return false;
    if (p->file_limit > 0) {
        struct rlimit limit = {p->file_limit, p->file_limit};
        if (signal(SIGXFSZ, SIG_IGN) == SIG_ERR || setrlimit(RLIMIT_FSIZE, &limit) != 0)
            return false;
    }
    if (p->unprivileged && geteuid() == 0 &&
        (setgroups(0, NULL) != 0 || setgid(NOBODY) != 0 || setuid(NOBODY) != 0))
        return false;
    (void)alarm(TIME_LIMIT_S);
    return true;
}

static void run_child(const t_command *p, int out, int err)
{
    char *argv[sizeof p->argv / sizeof p->argv[0] + 1] = {NULL};
    for (size_t i = 0; i < sizeof p->argv / sizeof p->argv[0]; i++)
        argv[i] = (char *)(uintptr_t)p->argv[i];
    if (prepare(p, out, err))
        (void)execv(argv[0], argv);
    _exit(NOT_RUN);
}

static char *read_all(int file, size_t *size)
{
    size_t used = 0, capacity = 4096;
    char *text = malloc(capacity);
    for (;;) {
        assert_non_null(text);
        ssize_t got = read(file, text + used, capacity - used - 1);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break; /* a terminal whose other side is gone says EIO */
        used += (size_t)got;
        if (capacity - used < 2)
            text = realloc(text, capacity *= 2);
    }
    text[used] = '\0';
    if (size)
        *size = used;
    return text;
}

static int open_temporary(void)
{
    char name[] = "/tmp/phonograph-out-XXXXXX";
    int file = mkostemp(name, O_CLOEXEC);
    assert_true(file >= 0);
    assert_int_equal(unlink(name), 0);
    return file;
}

/* The side that the program gets is kept open here until it has ended, so that what it wrote is
 * not lost. */
static int open_terminal(int *programs_side)
{
    int terminal = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    assert_true(terminal >= 0 && grantpt(terminal) == 0 && unlockpt(terminal) == 0);
    *programs_side = open(ptsname(terminal), O_RDWR | O_NOCTTY | O_CLOEXEC);
    assert_true(*programs_side >= 0);
    assert_true(fcntl(terminal, F_SETFL, O_NONBLOCK) == 0);
    return terminal;
}

bool t_has_terminals(void)
{
    int terminal = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    bool usable = terminal >= 0 && grantpt(terminal) == 0 && unlockpt(terminal) == 0;
    if (terminal >= 0)
        (void)close(terminal);
    return usable;
}

static char *text_of(int file, bool rewind_it)
{
    if (rewind_it)
        (void)lseek(file, 0, SEEK_SET);
    char *text = read_all(file, NULL);
    (void)close(file);
    return text;
}

t_result t_run(const t_command *command)
{
    t_result result = {0};
    int side = -1, status = 0;
    int out = command->output ? open(command->output, O_WRONLY | O_CLOEXEC) : open_temporary();
    int err = command->terminal ? open_terminal(&side) : open_temporary();
    assert_true(out >= 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        run_child(command, out, command->terminal ? side : err);
    while (waitpid(child, &status, 0) < 0)
        assert_int_equal(errno, EINTR);
    result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    result.out = text_of(out, !command->output);
    result.err = text_of(err, !command->terminal);
    if (side >= 0)
        (void)close(side);
    return result;
}

void t_result_free(t_result *result)
{
    free(result->out);
    free(result->err);
    *result = (t_result){0};
}

void t_expect(const t_command *command, int status, const char *out_part, const char *err_part)
{
    t_result r = t_run(command);
    bool good = r.status == status && (!out_part || strstr(r.out, out_part)) &&
                (!err_part || strstr(r.err, err_part));
    if (!good) {
        print_error(
            "%s %s: status %d, expected %d; wanted \"%s\" and \"%s\"\n--- out\n%s\n--- err\n%s\n",
            command->argv[0], command->argv[1] ? command->argv[1] : "", r.status, status,
            out_part ? out_part : "", err_part ? err_part : "", r.out, r.err);
    }
    t_result_free(&r);
    assert_true(good);
}

/* ---- files ---- */

static char folder[64];

void t_folder_create(void)
{
    (void)snprintf(folder, sizeof folder, "/tmp/phonograph-test-XXXXXX");
    assert_non_null(mkdtemp(folder));
    assert_int_equal(chmod(folder, 0777), 0);
}

const char *t_path(const char *name)
{
    static char paths[8][512];
    static size_t next;
    char *path = paths[next++ % 8];
    (void)snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

size_t t_count_files(void)
{
    size_t count = 0;
    DIR *open_folder = opendir(folder);
    assert_non_null(open_folder);
    for (struct dirent *entry; (entry = readdir(open_folder)) != NULL;)
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    (void)closedir(open_folder);
    return count;
}

static int remove_entry(const char *path, const struct stat *entry, int kind, struct FTW *place)
{
    (void)entry, (void)kind, (void)place;
    return remove(path);
}

void t_remove_tree(const char *path)
{
    assert_int_equal(nftw(path, remove_entry, 8, FTW_DEPTH | FTW_PHYS), 0);
}

void t_folder_remove(void)
{
    t_remove_tree(folder);
}

void t_write(const char *path, const void *bytes, size_t size)
{
    FILE *file = fopen(path, "wbe");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

char *t_read_file(const char *path, size_t *size)
{
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        print_error("%s: %s\n", path, strerror(errno));
    assert_true(file >= 0);
    char *text = read_all(file, size);
    (void)close(file);
    return text;
}
