/* SPDX-License-Identifier: MIT */
/* phonograph/cxx/scopes.hpp: what begins with an object and ends with it: annotations, routes to a
 * pool. They belong to the thread that made them. */
#ifndef PHONOGRAPH_CXX_SCOPES_HPP
#define PHONOGRAPH_CXX_SCOPES_HPP
#include <phonograph/cxx/standard.hpp>

#include <cstddef>
#include <exception>
#include <phonograph/annotation.h>
#include <phonograph/cxx/error.hpp>
#include <phonograph/cxx/handle.hpp>
#include <phonograph/log.h>
#include <phonograph/memory.h>

namespace phonograph
{
/* An annotation scope: ph_annotation_push and _pop. Where an exception ends it, the scope is closed
 * without a breadcrumb. A pop that fails is written to the log. */
class annotation
{
    ph_stream *stream_;
    std::size_t depth_;
    int exceptions_;

  public:
    annotation(ph_stream *stream, const char *name, const ph_annotation_options *options = nullptr)
        : stream_(stream), depth_(ph_annotation_depth()), exceptions_(std::uncaught_exceptions())
    {
        check(ph_annotation_push(stream, name, options));
    }
    annotation(const annotation &) = delete;
    annotation &operator=(const annotation &) = delete;
    ~annotation()
    {
        if (std::uncaught_exceptions() > exceptions_ || ph_annotation_depth() != depth_ + 1)
            ph_annotation_unwind(depth_);
        else if (ph_annotation_pop(stream_) != PH_OK)
            ph_log_write(PH_LOG_WARNING, ph_error_last()->message);
    }
};

/* The annotations that are open on the thread, kept: for work that goes on elsewhere. NULL: none
 * are open. */
class annotation_scope : public handle<ph_annotation_scope, ph_annotation_release>
{
  public:
    using handle::handle;
    annotation_scope() noexcept = default;
    static annotation_scope current() noexcept
    {
        return annotation_scope(ph_annotation_current());
    }
};

/* Routes the thread's allocations to the pool: ph_pool_begin and _end. */
class pool_scope
{
    ph_pool *pool_;

  public:
    explicit pool_scope(ph_pool *pool) : pool_(pool)
    {
        check(ph_pool_begin(pool));
    }
    pool_scope(const pool_scope &) = delete;
    pool_scope &operator=(const pool_scope &) = delete;
    ~pool_scope()
    {
        if (ph_pool_end(pool_) != PH_OK)
            ph_log_write(PH_LOG_WARNING, ph_error_last()->message);
    }
};
} // namespace phonograph
#endif
