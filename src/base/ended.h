/* SPDX-License-Identifier: MIT */
/* base/ended.h: handles whose object was destroyed. Their memory is kept for a while and is nothing
 * else meanwhile, so that a call which gets such a handle may look at it, and refuses it. */
#ifndef PH_BASE_ENDED_H
#define PH_BASE_ENDED_H
#include <phonograph/status.h>

/* Tools that watch the heap see each handle come and go. */
#if defined(__SANITIZE_ADDRESS__) || defined(PH__WATCHED_HEAP)
#define PH__RECYCLES 0
#else
#define PH__RECYCLES 1
#endif

/* Frees the block of a handle that is marked as gone, once 64 others have come. Takes NULL.
 * Thread-safe. */
void ph__ended_put(void *block);
/* STATE. what: "the graph". */
ph_status ph__fail_ended(const char *call, const char *what);
/* The warning of a second destroy, which does nothing. */
void ph__ended_report(const char *call, const char *what);
#endif
