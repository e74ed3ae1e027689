/* SPDX-License-Identifier: MIT */
/* base/log.h: warnings of the library, handed to the user's log callback. */
#ifndef PH_BASE_LOG_H
#define PH_BASE_LOG_H
#include <phonograph/log.h>
#include <stdatomic.h>
#include <stdbool.h>

/* Formats and hands a message to the callback. No newline at the end. Never call it with a lock
 * held that a callback may want: ph__log_hold comes before such a lock. */
void ph__log(ph_log_level level, const char *format, ...) PH_PRINTF(2, 3);

/* Messages of the calling thread wait from hold on, and are reported, in their order, by report,
 * which is called behind the locks, and keeps the error record and errno. One that there is no
 * memory for goes to stderr at once. A hold within another one leaves them to that one's end. */
typedef struct ph__log_line ph__log_line;
typedef struct ph__log_held {
    ph__log_line *first, *last;
    struct ph__log_held *before; /* of the thread */
} ph__log_held;
void ph__log_hold(ph__log_held *held);
void ph__log_report(ph__log_held *held);
static inline bool ph__log_is_waiting(const ph__log_held *held)
{
    return held->first;
}

/* The same, at most once for each place in the code in the life of the process. */
#define PH__LOG_ONCE(level, ...)                                                                   \
    do {                                                                                           \
        static atomic_flag ph__said_ = ATOMIC_FLAG_INIT;                                           \
        if (!atomic_flag_test_and_set(&ph__said_))                                                 \
            ph__log((level), __VA_ARGS__);                                                         \
    } while (0)
#endif
