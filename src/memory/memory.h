/* SPDX-License-Identifier: MIT */
/* memory/memory.h: the interface to the layers above: the headers of what they may call. It
 * declares nothing itself, and nothing below includes it. The public part is phonograph/memory.h.
 * */
#ifndef PH_MEMORY_MEMORY_H
#define PH_MEMORY_MEMORY_H
#include "memory/alloc/replay_run.h"
#include "memory/alloc/slow_path.h"
#include "memory/capture/allocation_log.h"
#include "memory/capture/ranges.h"
#include "memory/observe/hold.h"
#include "memory/observe/lookup.h"
#include "memory/observe/track.h"
#include "memory/pool/pool.h"
#include "memory/pool/recording.h"
#include "memory/pool/replay.h"
#include "memory/pool/scopes.h"
#include "memory/reclaim/elsewhere.h"
#include "memory/reclaim/pinned_holders.h"
#include "memory/state/pool_handle.h"
#endif
