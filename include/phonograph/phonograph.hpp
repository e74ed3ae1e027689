/* SPDX-License-Identifier: MIT */
/* phonograph/phonograph.hpp: libphonograph for C++17: header only, no dependency, g++, clang++ and
 * nvcc. <phonograph/nn.hpp> adds libphonograph_nn.
 *
 * - Handles own: they move, do not copy, and give their object back when they end. A handle
 *   converts to the pointer of the C API, which takes all that has no member here.
 * - Members throw phonograph::error. Those of the replay path have a second form, with
 *   std::nothrow as the last argument: it returns the status, and does not throw.
 * - Capture bodies, hooks and host functions are anything that can be called. An exception that
 *   leaves a capture body aborts the capture and goes on to the caller.
 * - Option structs of the C API have builders: capture_options().check_liveness().
 * - Nothing is added to a call but what it says: members are inline and allocate nothing, except
 *   for hooks and host functions, which keep a copy of what they call.
 * - The names are also in namespace ph, unless PHONOGRAPH_NO_NAMESPACE_PH is defined. */
#ifndef PHONOGRAPH_HPP
#define PHONOGRAPH_HPP
#include <phonograph/cxx/standard.hpp>

#include <phonograph/cxx/breaks.hpp>
#include <phonograph/cxx/comm.hpp>
#include <phonograph/cxx/device.hpp>
#include <phonograph/cxx/error.hpp>
#include <phonograph/cxx/foreign.hpp>
#include <phonograph/cxx/graph.hpp>
#include <phonograph/cxx/graph_cache.hpp>
#include <phonograph/cxx/graphed.hpp>
#include <phonograph/cxx/handle.hpp>
#include <phonograph/cxx/hook.hpp>
#include <phonograph/cxx/inspect.hpp>
#include <phonograph/cxx/kernel.hpp>
#include <phonograph/cxx/memory.hpp>
#include <phonograph/cxx/memory_plan.hpp>
#include <phonograph/cxx/options.hpp>
#include <phonograph/cxx/scopes.hpp>
#include <phonograph/cxx/span.hpp>
#include <phonograph/cxx/stream.hpp>
#include <phonograph/phonograph.h>

#ifndef PHONOGRAPH_NO_NAMESPACE_PH
namespace ph = phonograph;
#endif
#endif
