/* SPDX-License-Identifier: MIT */
/* base/debug.c: the switches of the environment, read once. */
#include "base/debug.h"
#include "base/environment.h"
#include <pthread.h>
#include <string.h>

static ph__debug switches;
static char wrong_word[64];
static pthread_once_t read_once = PTHREAD_ONCE_INIT;

static bool is_word(const char *text, size_t length, const char *word)
{
    return strlen(word) == length && memcmp(text, word, length) == 0;
}

static bool read_level(ph__debug *out, const char *text, size_t length)
{
    out->log_set = true;
    out->log_level = is_word(text, length, "info")      ? PH_LOG_INFO
                     : is_word(text, length, "warning") ? PH_LOG_WARNING
                                                        : 0;
    return out->log_level > 0 || is_word(text, length, "off");
}

static bool read_word(ph__debug *out, const char *text, size_t length)
{
    if (length > 4 && memcmp(text, "log=", 4) == 0)
        return read_level(out, text + 4, length - 4);
    if (is_word(text, length, "liveness"))
        out->liveness = true;
    else if (is_word(text, length, "annotations"))
        out->annotations = true;
    else if (is_word(text, length, "breadcrumbs"))
        out->annotations = out->breadcrumbs = true;
    else if (is_word(text, length, "strict"))
        out->strict = true;
    else
        return length == 0;
    return true;
}

bool ph__debug_read(ph__debug *out, const char *text, const char **wrong, int *length)
{
    while (*text) {
        size_t word = strcspn(text, ", ");
        if (!read_word(out, text, word)) {
            *wrong = text;
            *length = word < sizeof wrong_word - 1 ? (int)word : (int)sizeof wrong_word - 1;
            return false;
        }
        text += word + (text[word] != '\0');
    }
    return true;
}

static void read_environment(void)
{
    const char *text = ph__environment("PH_DEBUG"), *record = ph__environment("PH_DEBUG_RECORD");
    const char *wrong;
    int length;
    ph__debug found = {.record = record && record[0] ? record : NULL};
    if (text && !ph__debug_read(&found, text, &wrong, &length)) {
        memcpy(wrong_word, wrong, (size_t)length);
        found = (ph__debug){.record = NULL};
    }
    switches = found;
}

const ph__debug *ph__debug_switches(void)
{
    (void)pthread_once(&read_once, read_environment);
    return &switches;
}

ph_status ph__debug_check(const char *call)
{
    (void)ph__debug_switches();
    if (wrong_word[0] == '\0')
        return PH_OK;
    return ph_fail(PH_ERROR_ARGUMENT,
                   "%s: the environment's PH_DEBUG has the word \"%s\"; words are liveness, "
                   "annotations, breadcrumbs, strict, log=off, log=warning and log=info, with "
                   "commas between them",
                   call, wrong_word);
}
