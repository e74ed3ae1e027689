/* SPDX-License-Identifier: MIT */
/* driver/rules.h: the capture rules as one table: what each call does while a capture is open,
 * below at driver.h (as CUDA does) and above at the public call (refused before it reaches the
 * driver, so that the capture survives). tests/rules walks it. */
#ifndef PH_DRIVER_RULES_H
#define PH_DRIVER_RULES_H
#include <phonograph/device.h>

typedef enum ph__rule {
#define PH__RULE_ROW(id, ...) PH__RULE_##id,
#include "driver/rules.def"
#undef PH__RULE_ROW
    PH__RULE_COUNT
} ph__rule;

/* Outcomes: 0 allowed (runs at once, not captured), RECORDED, or CUDA's number. In the driver
 * column a number invalidates the capture unless it is listed as "goes on" (KEEPS added) or as
 * "is over" (ENDS added: its streams leave it and its graph is dropped). outcome % KEEPS is the
 * number. */
enum {
    PH__ALLOWED = 0,
    PH__RECORDED = -1,
    PH__KEEPS = 10000,
    PH__ENDS = 20000
};

typedef enum ph__rule_source {
    PH__SOURCE_MEASURED,   /* read off an H200, driver 580 */
    PH__SOURCE_DOCUMENTED, /* CUDA's documentation says so */
    PH__SOURCE_GPU         /* taken from neither: only a GPU can confirm it */
} ph__rule_source;

typedef struct ph__rule_row {
    /* public_call "-": no public call reaches it */
    const char *id, *driver_call, *public_call, *what;
    /* [0 the capturing thread, 1 another thread][ph_capture_mode of the capture] */
    int driver[2][3], public_[2][3];
    ph__rule_source source;
} ph__rule_row;

extern const ph__rule_row ph__rules[PH__RULE_COUNT];

/* The driver column for one open capture: what a call of this rule, made by a thread in
 * thread_mode, does to a capture of this mode that began on this or another thread. thread_mode
 * matters for rows marked "potentially unsafe" alone, as CUDA documents for
 * cuThreadExchangeStreamCaptureMode: relaxed lets them pass, thread_local ignores other threads'
 * captures. */
int ph__rule_driver(ph__rule rule, bool same_thread, ph_capture_mode capture_mode,
                    ph_capture_mode thread_mode);
int ph__rule_public(ph__rule rule, bool same_thread, ph_capture_mode capture_mode,
                    ph_capture_mode thread_mode);
#endif
