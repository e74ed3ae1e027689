/* SPDX-License-Identifier: MIT */
/* phonograph/breaks.h: functions that a captured graph calls between two parts of its work
 * (docs/reference/breaks.md). */
#ifndef PHONOGRAPH_BREAKS_H
#define PHONOGRAPH_BREAKS_H
#include <phonograph/graph.h>

PH_BEGIN_DECLS

/* Runs on the thread of the capture or replay, with no lock held.
 * - The stream is in no capture, and must be in none when the function returns. Work that the
 *   function submits runs between the two segments, in the order of the stream.
 * - The function may capture into other graphs, and replay them. Calls of ph_break just call their
 *   function.
 * - The graph that calls it is in use: replay, reset, update and instantiate are refused (STATE),
 *   and a destroy waits until the replay has stopped, which is before the next segment. */
typedef ph_status (*ph_break_fn)(ph_stream *stream, void *user);

/* Ends the segment that the capture is in, calls fn, and begins the next segment.
 * - Outside captures it calls fn, and returns what that returns.
 * - A replay launches the segments, and calls the functions between them. fn and user must be
 *   valid until the graph is reset: ph_graph_retain.
 * - A failing fn ends the capture, or the replay. The message says after which segment. Work of
 *   earlier segments has been submitted then.
 * - Memory from before a break stays allocated behind it, and the next segment has the same pool.
 *   Memory that fn allocates is not the graph's.
 * - A cell is set once in a replay, at the launch of its segment. Random numbers go on.
 * - Refused, and the capture goes on (STATE): it was begun without allow_breaks, the stream is not
 *   the one that it began on, a forked stream is not joined, the thread is not the one of the begin
 *   unless the mode is relaxed. UNSUPPORTED: the segment has collectives. CAPTURE: a capture that
 *   this library did not begin.
 * - Forks that this library does not see are found at the segment's end: CAPTURE, 904, and the
 *   capture is lost. */
PH_CALL ph_break(ph_stream *stream, ph_break_fn fn, void *user);

/* The segments of a captured graph: 1 without breaks; 0 where no capture has ended. */
PH_API size_t ph_graph_segment_count(const ph_graph *graph);
/* A segment, borrowed until the graph is reset. A graph without breaks is its own segment 0.
 * - Calls about nodes, slots and inputs take segments: they are refused (UNSUPPORTED) for a graph
 *   with breaks, whose record has one node for each segment and each break.
 * - Its replay runs that segment alone. Reset is refused (STATE), and so are instantiate and
 *   destroy, which the whole graph answers.
 * - NOT_FOUND: index is not below the count. */
PH_CALL ph_graph_segment(ph_graph **out, ph_graph *graph, size_t index);

PH_END_DECLS
#endif
