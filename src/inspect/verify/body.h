/* SPDX-License-Identifier: MIT */
/* inspect/verify/body.h: work of body that no capture sees. */
#ifndef PH_INSPECT_VERIFY_BODY_H
#define PH_INSPECT_VERIFY_BODY_H
#include "inspect/verify/verify.h"

/* Fills in verify->out: the eager run differs from both captures as in `seen`. */
ph_status ph__verify_judge_body(ph__verify *verify, const ph__difference *seen);
#endif
