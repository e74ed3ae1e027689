/* SPDX-License-Identifier: MIT */
/* phonograph/cxx/breaks.hpp: functions that a captured graph calls between two segments. */
#ifndef PHONOGRAPH_CXX_BREAKS_HPP
#define PHONOGRAPH_CXX_BREAKS_HPP
#include <phonograph/cxx/standard.hpp>

#include <memory>
#include <phonograph/breaks.h>
#include <phonograph/cxx/graph.hpp>
#include <type_traits>
#include <utility>

namespace phonograph
{
/* ph_break with a callable, which takes the stream or nothing.
 * - In a capture the graph keeps a copy of it until its reset. What it refers to must live as long.
 * - Its exceptions arrive at the capture or the replay that called it, which is over then. */
template <class Callable> void graph_break(ph_stream *stream, Callable &&callable)
{
    using kept = std::decay_t<Callable>;
    ph_graph *graph;
    check(ph_stream_capturing_graph(&graph, stream));
    if (graph == nullptr) {
        check(ph_break(stream, detail::call_body<std::remove_reference_t<Callable>>,
                       detail::address_of(callable)));
        return;
    }
    auto copy = std::make_unique<kept>(std::forward<Callable>(callable));
    check(ph_graph_retain(
        graph, [](void *object) { delete static_cast<kept *>(object); }, copy.get(), false));
    check(ph_break(stream, detail::call_body<kept>, copy.release()));
}
} // namespace phonograph
#endif
