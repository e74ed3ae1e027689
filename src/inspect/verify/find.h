/* SPDX-License-Identifier: MIT */
/* inspect/verify/find.h: the first node that differs. */
#ifndef PH_INSPECT_VERIFY_FIND_H
#define PH_INSPECT_VERIFY_FIND_H
#include "inspect/verify/verify.h"

/* Fills in verify->out. */
ph_status ph__verify_judge(ph__verify *verify);
#endif
