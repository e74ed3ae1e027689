/* SPDX-License-Identifier: MIT */
/* driver/rules.c: the capture rules table and what it says for one capture. */
#include "driver/rules.h"

const ph__rule_row ph__rules[PH__RULE_COUNT] = {
#define PH__RULE_ROW(id, driver_call, public_call, what, driver, public_, source)                  \
    [PH__RULE_##id] = {#id, driver_call, public_call, what, driver, public_, source},
#include "driver/rules.def"
#undef PH__RULE_ROW
};

/* CUDA's "potentially unsafe" calls are those whose outcome depends on the capture's mode. */
static bool potentially_unsafe(const int column[2][3])
{
    return column[0][PH_CAPTURE_GLOBAL] == 900 && column[0][PH_CAPTURE_RELAXED] == 0;
}

static int outcome_of_rule(const int column[2][3], bool same_thread, ph_capture_mode capture_mode,
                           ph_capture_mode thread_mode)
{
    if (potentially_unsafe(column)) {
        if (thread_mode == PH_CAPTURE_RELAXED)
            return PH__ALLOWED;
        if (thread_mode == PH_CAPTURE_THREAD_LOCAL && !same_thread)
            return PH__ALLOWED;
    }
    return column[same_thread ? 0 : 1][capture_mode];
}

int ph__rule_driver(ph__rule rule, bool same_thread, ph_capture_mode capture_mode,
                    ph_capture_mode thread_mode)
{
    return outcome_of_rule(ph__rules[rule].driver, same_thread, capture_mode, thread_mode);
}

int ph__rule_public(ph__rule rule, bool same_thread, ph_capture_mode capture_mode,
                    ph_capture_mode thread_mode)
{
    return outcome_of_rule(ph__rules[rule].public_, same_thread, capture_mode, thread_mode);
}
