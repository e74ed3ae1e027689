/* SPDX-License-Identifier: MIT */
/* phonograph/status.h: the status of fallible calls, and the error record of the calling thread. */
#ifndef PHONOGRAPH_STATUS_H
#define PHONOGRAPH_STATUS_H
#include <phonograph/export.h>

PH_BEGIN_DECLS

/* The number zero in an option struct, where a number of 0 is the member's default. Members of any
 * type take it. It is refused (ARGUMENT) where zero has no meaning. */
#define PH_ZERO 0x80000001u

/* Fixed numbers, in tens by family; never renumbered. */
typedef enum ph_status {
    PH_OK = 0,
    /* a NULL handle, a value out of range, a reserved word that is not 0 */
    PH_ERROR_ARGUMENT = 10,
    /* the object is in a state in which this call has no meaning */
    PH_ERROR_STATE = 11,
    PH_ERROR_UNSUPPORTED = 12, /* this device or build cannot do it */
    PH_ERROR_NOT_FOUND = 13,   /* no device, node or address of that name */
    PH_ERROR_SIZE = 14,        /* a size that overflows, or exceeds its limit */
    /* handles of two devices in one call, or a capture over two devices */
    PH_ERROR_WRONG_DEVICE = 15,
    PH_ERROR_IO = 16, /* a file could not be written or read; the native code is errno */
    /* an executable cannot be updated from this capture, or a file does not match; the message says
     * why */
    PH_ERROR_MISMATCH = 17,
    PH_ERROR_HOST_MEMORY = 20,   /* no host memory */
    PH_ERROR_DEVICE_MEMORY = 21, /* out of memory on the device */
    PH_ERROR_POOL_LIMIT = 22,    /* the memory limit of the device or pool is reached */
    PH_ERROR_DEVICE = 30,        /* the device or its driver failed; the native code says how */
    /* not allowed in a capture, or has killed one; the native code is CUDA's, 900 to 908 */
    PH_ERROR_CAPTURE = 40,
    PH_ERROR_DEFAULT_STREAM = 41, /* captures need a stream other than the legacy default stream */
    /* a copy between pageable host memory and a device inside a capture */
    PH_ERROR_UNPINNED = 42,
    PH_ERROR_STALE_INPUT = 43, /* a replay would read memory that was freed since the capture */
    PH_ERROR_OVERWRITTEN = 44, /* an output that a later replay has overwritten */
    PH_ERROR_POOL_BUSY = 45,   /* another capture or scope records to the pool */
    /* another rank of a communicator failed, or did not come in time (comm.h) */
    PH_ERROR_PEER = 50,
    PH_ERROR_CALLER = 90 /* a user's callback failed for a reason of its own */
} ph_status;

/* The error record of a thread. Fixed size; allocates nothing. Only failing calls write it, so it
 * is valid until the thread's next failure. Clean-up (destroy, release, free, abort) never touches
 * it. */
typedef struct ph_error {
    ph_status status;
    /* the driver's number: 900..908, 401 ... on every device; 0: no driver call failed */
    int native_code;
    char native_call[64]; /* the driver call that failed, or "" */
    /* the call, its arguments, the reason and the remedy; one line, no newline */
    char message[440];
} ph_error;

#define PH_CALL PH_API PH_MUST_USE ph_status

/* The calling thread's record; never NULL. Before any failure: status PH_OK and an empty
 * message. Borrowed, valid for the life of the thread. Legal everywhere. */
PH_API const ph_error *ph_error_last(void);

/* Sets the record and returns status, for callbacks and capture bodies that fail for reasons of
 * their own. PH_OK is returned, and sets nothing. Legal everywhere, thread-safe. */
PH_API ph_status ph_fail(ph_status status, const char *format, ...) PH_PRINTF(2, 3);

/* Makes *error this thread's record and returns its status, for libraries and bindings that move a
 * failure to another place or thread. Legal everywhere, thread-safe. */
PH_API ph_status ph_error_set(const ph_error *error);

/* "PH_ERROR_STATE" and so on; "unknown status" for an unknown number. Static storage. */
PH_API const char *ph_status_name(ph_status status);

/* Discards a status on purpose, visibly. */
static inline void ph_ignore(ph_status status)
{
    (void)status;
}

/* Returns from the calling function with the status of a failed call. One of the few macros that
 * hide control flow. */
#define PH_TRY(call)                                                                               \
    do {                                                                                           \
        ph_status ph_try_ = (call);                                                                \
        if (ph_try_ != PH_OK)                                                                      \
            return ph_try_;                                                                        \
    } while (0)

PH_END_DECLS
#endif
