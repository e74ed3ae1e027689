/* SPDX-License-Identifier: MIT */
/* phonograph/log.h: the target of the library's warnings, its only output. */
#ifndef PHONOGRAPH_LOG_H
#define PHONOGRAPH_LOG_H
#include <phonograph/export.h>

PH_BEGIN_DECLS

typedef enum ph_log_level {
    PH_LOG_WARNING = 1,
    PH_LOG_INFO = 2
} ph_log_level;

/* Called on the thread that caused the message, with no lock of the library held. message is one
 * line without a newline, valid during the call. The callback may call the library. */
typedef void (*ph_log_fn)(ph_log_level level, const char *message, void *user);

/* Replaces the callback of the process. NULL restores the default, which writes warnings to stderr,
 * as "phonograph: warning: ...".
 * - A warning is given once for the same cause, where a repetition would say nothing new.
 * - user must outlive the last message. That message may come at the exit of a process inside a
 *   dead capture: it names the call that killed the capture.
 * - Thread-safe. Legal in a capture. */
PH_API void ph_log_set(ph_log_fn callback, void *user);

/* Gives one line to that callback, or to stderr, as the library's own warnings are. For libraries
 * on top of this one. Cut after 1023 bytes; NULL does nothing. Thread-safe. Legal in a capture. */
PH_API void ph_log_write(ph_log_level level, const char *message);

PH_END_DECLS
#endif
