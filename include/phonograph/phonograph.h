/* SPDX-License-Identifier: MIT */
/* phonograph/phonograph.h: capture GPU work once, replay it with one launch. C11 and C++17, gcc
 * and clang. This header includes all others of libphonograph but block.h, host.h and cuda.h;
 * <phonograph/nn.h> includes those of libphonograph_nn.
 *
 * Conventions of the whole API:
 * - Fallible calls return ph_status, must-use. destroy, release, free and abort return void,
 *   take NULL, never touch the error record.
 * - `T **out` comes first, is pure output (NULL or 0 on failure) and is yours; a returned
 *   pointer is borrowed. A failed call changes nothing but its outputs.
 * - create/destroy: sole owner. retain/release: shared. begin/end: a scope.
 * - Options, arguments and strings are copied before return. NULL options are all defaults, zero
 *   is every member's default, reserved words must be 0. Sizes are bytes unless a comment says
 *   otherwise.
 * - Pairs of calls. x_with and x_create_with take options, or values, that x and x_create leave at
 *   their defaults. x_from begins with something that is given, where x begins with the default.
 *   A create that takes options has no _with.
 * - In C++17, which has no designated initialisers, write `ph_launch_config c = {};` and set the
 *   members.
 * - Nothing in the library exits or aborts, and it prints nothing but warnings to stderr, which
 *   ph_log_set redirects or silences. Calls that may block say so.
 * - Everything is thread-safe unless a comment says "externally synchronised". */
#ifndef PHONOGRAPH_H
#define PHONOGRAPH_H
#include <phonograph/annotation.h>
#include <phonograph/cells.h>
#include <phonograph/device.h>
#include <phonograph/export.h>
#include <phonograph/graph.h>
#include <phonograph/inspect/diff.h>
#include <phonograph/inspect/inputs.h>
#include <phonograph/inspect/locate.h>
#include <phonograph/inspect/profile.h>
#include <phonograph/inspect/record.h>
#include <phonograph/kernel.h>
#include <phonograph/log.h>
#include <phonograph/memory.h>
#include <phonograph/slots.h>
#include <phonograph/status.h>
#include <phonograph/stream.h>
#include <phonograph/version.h>
#endif
