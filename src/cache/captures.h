/* SPDX-License-Identifier: MIT */
/* cache/captures.h: calls whose body is captured. */
#ifndef PH_CACHE_CAPTURES_H
#define PH_CACHE_CAPTURES_H
#include "cache/serve.h"

/* Captures the body: the key's first graph, one to learn from, or one to update from. */
ph__served ph__serve_capture(ph_status *status, ph__visit *visit);
#endif
