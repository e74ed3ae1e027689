/* SPDX-License-Identifier: MIT */
/* phonograph/cxx/graph_cache.hpp: graphs by key. */
#ifndef PHONOGRAPH_CXX_GRAPH_CACHE_HPP
#define PHONOGRAPH_CXX_GRAPH_CACHE_HPP
#include <phonograph/cxx/standard.hpp>

#include <cstddef>
#include <phonograph/cxx/graph.hpp>
#include <phonograph/graph_cache.h>
#include <phonograph/graph_cache_stats.h>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace phonograph
{
/* Runs bodies by keys (graph_cache.h). Thread-safe. */
class graph_cache : public handle<ph_graph_cache, ph_graph_cache_destroy>
{
  public:
    using handle::handle;
    graph_cache() noexcept = default;
    explicit graph_cache(ph_device *device, const ph_graph_cache_options *options = nullptr)
    {
        check(ph_graph_cache_create(out(), device, options));
    }

    /* The body is called with the stream or nothing, and returns a ph_status or nothing. What it
     * throws in a capture aborts that, and arrives here. call: key, pointers and values; its body
     * and user are set by this. */
    template <class Body>
    ph_graph_cache_result run(ph_stream *stream, ph_graph_cache_call call, Body &&body)
    {
        using callable = std::remove_reference_t<Body>;
        ph_graph_cache_result result;
        call.body = detail::call_body<callable>;
        call.user = detail::address_of(body);
        check(ph_graph_cache_run(get(), stream, &call, &result));
        return result;
    }
    /* Without pointers and values: all that changes is in the key, a struct without padding. */
    template <class Key, class Body>
    ph_graph_cache_result run(ph_stream *stream, const Key &key, Body &&body)
    {
        static_assert(std::has_unique_object_representations_v<Key>,
                      "keys are compared byte by byte: no padding, and no floating point");
        ph_graph_cache_call call{};
        call.key = &key;
        call.key_bytes = sizeof key;
        return run(stream, call, std::forward<Body>(body));
    }
    void prepare(ph_stream *stream, span<const ph_graph_cache_call> calls)
    {
        check(ph_graph_cache_prepare(get(), stream, calls.data(), calls.size(), nullptr, nullptr));
    }
    void drop(const void *key, std::size_t key_bytes)
    {
        check(ph_graph_cache_drop(get(), key, key_bytes));
    }

    void set_buckets(span<const std::size_t> sizes)
    {
        check(ph_graph_cache_set_buckets(get(), sizes.data(), sizes.size()));
    }
    /* 0: above the largest one. */
    std::size_t bucket(std::size_t size)
    {
        std::size_t bucket;
        check(ph_graph_cache_bucket(&bucket, get(), size));
        return bucket;
    }
    std::vector<std::size_t> suggest(std::size_t most)
    {
        std::vector<std::size_t> sizes(most);
        std::size_t count;
        check(ph_graph_cache_suggest(sizes.data(), &count, get(), most));
        sizes.resize(count);
        return sizes;
    }

    ph_graph_cache_stats stats() const
    {
        ph_graph_cache_stats stats;
        check(ph_graph_cache_get_stats(&stats, get()));
        return stats;
    }
    ph_graph_cache_entry entry(std::size_t index) const
    {
        ph_graph_cache_entry entry;
        check(ph_graph_cache_entry_at(&entry, get(), index));
        return entry;
    }
    std::string text() const
    {
        char *text = nullptr;
        check(ph_graph_cache_text(&text, get()));
        return take_string(text);
    }
};
} // namespace phonograph
#endif
