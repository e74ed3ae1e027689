/* SPDX-License-Identifier: MIT */
/* phonograph/cxx/error.hpp: a failed call as an exception, and an exception as a status. */
#ifndef PHONOGRAPH_CXX_ERROR_HPP
#define PHONOGRAPH_CXX_ERROR_HPP
#include <phonograph/cxx/standard.hpp>

#include <cstdio>
#include <exception>
#include <new>
#include <phonograph/status.h>
#include <type_traits>
#include <utility>

namespace phonograph
{
/* The error record of a failed call. Copies do not throw. */
class error : public std::exception
{
    ph_error record_;

  public:
    explicit error(const ph_error &record) noexcept : record_(record)
    {
    }
    /* The program's own, for a body or hook to throw: the caller of a capture gets it back.
     * PH_OK, which is no failure, becomes CALLER. The message is copied, and cut at the end of the
     * record's; NULL: "". */
    error(ph_status status, const char *message) noexcept : record_{}
    {
        record_.status = status == PH_OK ? PH_ERROR_CALLER : status;
        (void)std::snprintf(record_.message, sizeof record_.message, "%s", message ? message : "");
    }
    ph_status status() const noexcept
    {
        return record_.status;
    }
    /* The driver's number, or 0; the driver's call, or "". */
    int native_code() const noexcept
    {
        return record_.native_code;
    }
    const char *native_call() const noexcept
    {
        return record_.native_call;
    }
    const char *what() const noexcept override
    {
        return record_.message[0] ? record_.message : ph_status_name(record_.status);
    }
    const ph_error &record() const noexcept
    {
        return record_;
    }
};

/* The thread's record as the exception for that status. A status that nobody set a record for (a
 * callback that returned a number) has its name as the message. */
inline error last_error(ph_status status) noexcept
{
    ph_error record = *ph_error_last();
    if (record.status != status) {
        record = ph_error{};
        record.status = status;
    }
    return error(record);
}

/* Throws error unless the status is PH_OK. */
inline void check(ph_status status)
{
    if (status != PH_OK)
        throw last_error(status);
}

/* The exception that is being handled, as a status: for C callbacks whose exceptions must not go
 * on. Sets the thread's record: that of an error; HOST_MEMORY for std::bad_alloc; else CALLER with
 * the exception's text. Call it inside a catch clause. */
inline ph_status current_exception_status() noexcept
{
    try {
        throw;
    } catch (const error &e) {
        return ph_error_set(&e.record());
    } catch (const std::bad_alloc &e) {
        return ph_fail(PH_ERROR_HOST_MEMORY, "a callback threw: %s", e.what());
    } catch (const std::exception &e) {
        return ph_fail(PH_ERROR_CALLER, "a callback threw: %s", e.what());
    } catch (...) {
        return ph_fail(PH_ERROR_CALLER, "a callback threw what is no std::exception");
    }
}

/* Calls fn and returns PH_OK, or the status of what it threw: errors as values. */
template <class Fn> [[nodiscard]] ph_status attempt(Fn &&fn) noexcept
{
    try {
        std::forward<Fn>(fn)();
        return PH_OK;
    } catch (...) {
        return current_exception_status();
    }
}
} // namespace phonograph
#endif
