/* SPDX-License-Identifier: MIT */
/* phonograph/cxx/inspect.hpp: profiles, differences of graphs and records, races. */
#ifndef PHONOGRAPH_CXX_INSPECT_HPP
#define PHONOGRAPH_CXX_INSPECT_HPP
#include <phonograph/cxx/standard.hpp>

#include <cstddef>
#include <phonograph/cxx/graph.hpp>
#include <phonograph/inspect/diff.h>
#include <phonograph/inspect/profile.h>
#include <phonograph/inspect/races.h>
#include <string>

namespace phonograph
{
/* The time of each node. Immutable; does not need the graph. */
class profile : public handle<ph_profile, ph_profile_destroy>
{
  public:
    using handle::handle;
    profile() noexcept = default;
    /* Replays the graph, and waits. */
    profile(ph_graph *of, ph_stream *on, const ph_profile_options *options = nullptr)
    {
        check(ph_graph_profile(out(), of, on, options));
    }
    ph_profile_summary summary() const
    {
        ph_profile_summary summary;
        check(ph_profile_get(&summary, get()));
        return summary;
    }
    ph_profile_node node(std::size_t index) const
    {
        ph_profile_node node;
        check(ph_profile_node_at(&node, get(), index));
        return node;
    }
    /* A timeline as Perfetto reads it. */
    std::string trace() const
    {
        char *text = nullptr;
        check(ph_profile_trace(&text, get()));
        return take_string(text);
    }
};

class diff : public handle<ph_diff, ph_diff_destroy>
{
  public:
    using handle::handle;
    diff() noexcept = default;
    diff(ph_graph *a, ph_graph *b)
    {
        check(ph_graph_diff(out(), a, b));
    }
    diff(const ph_record *a, const ph_record *b)
    {
        check(ph_record_diff(out(), a, b));
    }
    std::size_t size() const noexcept
    {
        return ph_diff_count(get());
    }
    ph_change operator[](std::size_t index) const
    {
        ph_change change;
        check(ph_diff_at(&change, get(), index));
        return change;
    }
    std::string text() const
    {
        char *text = nullptr;
        check(ph_diff_text(&text, get()));
        return take_string(text);
    }
};

/* Nodes of a captured graph that use the same memory with no order between them. */
class races : public handle<ph_races, ph_races_destroy>
{
  public:
    using handle::handle;
    races() noexcept = default;
    explicit races(ph_graph *of)
    {
        check(ph_graph_find_races(out(), of));
    }
    std::size_t size() const noexcept
    {
        return ph_races_count(get(), nullptr);
    }
    std::size_t certain() const noexcept
    {
        std::size_t certain = 0;
        (void)ph_races_count(get(), &certain);
        return certain;
    }
    ph_race operator[](std::size_t index) const
    {
        ph_race race;
        check(ph_races_at(&race, get(), index));
        return race;
    }
    std::string text() const
    {
        char *text = nullptr;
        check(ph_races_text(&text, get()));
        return take_string(text);
    }
};

/* A record that was made from nodes, as a reader of files does; those of graphs belong to them. */
class record : public handle<ph_record, ph_record_destroy>
{
  public:
    using handle::handle;
    record() noexcept = default;
    record(const ph_record_source_node *nodes, std::size_t count)
    {
        check(ph_record_create(out(), nodes, count));
    }
};
} // namespace phonograph
#endif
