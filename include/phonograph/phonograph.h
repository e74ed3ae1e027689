/* SPDX-License-Identifier: MIT */
/* phonograph/phonograph.h: capture GPU work once, replay it with one launch. C11 and C++17, gcc and
 * clang. This header includes all others of libphonograph except block.h, host.h and cuda.h.
 * <phonograph/nn.h> includes those of libphonograph_nn.
 *
 * Conventions of the whole API:
 * - Fallible calls return ph_status, which must be used. destroy, release, free and abort return
 *   void, take NULL, and never touch the error record.
 * - `T **out` comes first. It is only written (NULL or 0 on failure), and the caller owns the
 *   result. A returned pointer is borrowed. A failed call changes nothing but its outputs.
 * - create/destroy: one owner. retain/release: shared. begin/end: a scope.
 * - Options, arguments and strings are copied before return. NULL options are all defaults. Zero is
 *   the default of every member. Reserved words must be 0.
 * - Sizes are bytes, unless a comment says otherwise.
 * - Pairs of calls: x_with and x_create_with take options, or values, that x and x_create leave at
 *   their defaults. x_from begins from a given value, and x from the default. A create that takes
 *   options has no _with.
 * - C++17 has no designated initialisers. Write `ph_launch_config c = {};` and set the members.
 * - The library never exits or aborts. It prints only warnings to stderr, which ph_log_set
 *   redirects or silences. Calls that may block say so.
 * - Everything is thread-safe, unless a comment says "externally synchronised". */
#ifndef PHONOGRAPH_H
#define PHONOGRAPH_H
#include <phonograph/annotation.h>
#include <phonograph/breaks.h>
#include <phonograph/cells.h>
#include <phonograph/collectives.h>
#include <phonograph/comm.h>
#include <phonograph/comm_pool.h>
#include <phonograph/device.h>
#include <phonograph/export.h>
#include <phonograph/foreign.h>
#include <phonograph/graph.h>
#include <phonograph/graph_cache.h>
#include <phonograph/graph_cache_stats.h>
#include <phonograph/inspect/changes.h>
#include <phonograph/inspect/diff.h>
#include <phonograph/inspect/inputs.h>
#include <phonograph/inspect/locate.h>
#include <phonograph/inspect/profile.h>
#include <phonograph/inspect/races.h>
#include <phonograph/inspect/record.h>
#include <phonograph/kernel.h>
#include <phonograph/log.h>
#include <phonograph/memory.h>
#include <phonograph/memory_plan.h>
#include <phonograph/slots.h>
#include <phonograph/status.h>
#include <phonograph/stream.h>
#include <phonograph/version.h>
#endif
