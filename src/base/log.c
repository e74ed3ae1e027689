/* SPDX-License-Identifier: MIT */
/* base/log.c: the log callback of the process, and the default that writes to stderr. */
#include "base/log.h"
#include "base/alloc.h"
#include "base/debug.h"
#include "base/fork.h"
#include "base/line.h"
#include "base/status.h"
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

enum {
    MESSAGE_BYTES = 1024
};

static pthread_mutex_t sink_lock = PTHREAD_MUTEX_INITIALIZER;
PH__FORK_LOCK(PH__FORK_LOG, sink_lock)
static struct sink {
    ph_log_fn callback; /* NULL: the default */
    void *user;
} sink;

/* One write for the whole line, so that lines of two threads do not mix. A stderr that cannot be
 * written to loses it: there is nobody left to tell. */
static void write_to_stderr(ph_log_level level, const char *message)
{
    char line[MESSAGE_BYTES + 32];
    ph__line_format(line, sizeof line - 1, "phonograph: %s: %s",
                    level == PH_LOG_WARNING ? "warning" : "info", message);
    size_t length = strlen(line);
    line[length++] = '\n';
    ssize_t written;
    do
        written = write(STDERR_FILENO, line, length);
    while (written < 0 && errno == EINTR);
}

/* Up to which level the default prints: PH_DEBUG's log=, or warnings. */
static int printed_level(void)
{
    const ph__debug *debug = ph__debug_switches();
    return debug->log_set ? debug->log_level : PH_LOG_WARNING;
}

void ph_log_set(ph_log_fn callback, void *user)
{
    pthread_mutex_lock(&sink_lock);
    sink = (struct sink){callback, user};
    pthread_mutex_unlock(&sink_lock);
}

void ph_log_write(ph_log_level level, const char *message)
{
    if (message)
        ph__log(level, "%s", message);
}

static void hand_out(ph_log_level level, const char *message)
{
    pthread_mutex_lock(&sink_lock);
    struct sink now = sink;
    pthread_mutex_unlock(&sink_lock);
    if (now.callback)
        now.callback(level, message, now.user);
    else if ((int)level <= printed_level())
        write_to_stderr(level, message);
}

/* ---- messages that wait ---- */
struct ph__log_line {
    ph__log_line *next;
    ph_log_level level;
    char message[];
};
static _Thread_local ph__log_held *holding; /* NULL: messages do not wait */

void ph__log_hold(ph__log_held *held)
{
    *held = (ph__log_held){.before = holding};
    holding = held;
}

void ph__log_report(ph__log_held *held)
{
    holding = held->before;
    if (holding && held->first) {
        *(holding->first ? &holding->last->next : &holding->first) = held->first;
        holding->last = held->last;
        return;
    }
    if (!held->first)
        return;
    int saved_errno = errno;
    ph_error before;
    ph__error_save(&before);
    while (held->first) {
        ph__log_line *line = held->first;
        held->first = line->next;
        hand_out(line->level, line->message);
        ph__free(line);
    }
    ph__error_restore(&before);
    errno = saved_errno;
}

static void keep_line(ph_log_level level, const char *message)
{
    size_t bytes = strlen(message) + 1;
    ph__log_line *line = ph__calloc(1, sizeof *line + bytes);
    if (!line) {
        if ((int)level <= printed_level())
            write_to_stderr(level, message);
        return;
    }
    line->level = level;
    memcpy(line->message, message, bytes);
    *(holding->first ? &holding->last->next : &holding->first) = line;
    holding->last = line;
}

void ph__log(ph_log_level level, const char *format, ...)
{
    int saved_errno = errno;
    char message[MESSAGE_BYTES];
    va_list args;
    va_start(args, format);
    ph__line_vformat(message, sizeof message, format, args);
    va_end(args);
    if (holding)
        keep_line(level, message);
    else
        hand_out(level, message);
    errno = saved_errno;
}
