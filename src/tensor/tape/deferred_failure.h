/* SPDX-License-Identifier: MIT */
/* tensor/tape/deferred_failure.h: a tape's failure in a capture, of which nobody may have been
 * told: then the capture ends with it. */
#ifndef PH_TENSOR_TAPE_DEFERRED_FAILURE_H
#define PH_TENSOR_TAPE_DEFERRED_FAILURE_H
#include <phonograph/stream.h>
#include <stdbool.h>

/* The first failure of a tape. Shared by the tape and by the graphs whose captures it was met
 * in, which may outlive the tape. */
typedef struct ph__deferred_failure ph__deferred_failure;

/* NULL: no host memory; then nobody looks after the failure, and the tape's owner has to ask. */
ph__deferred_failure *ph__deferred_failure_make(const ph_error *failure);
/* The tape has just failed, or an operator does nothing because it had (`earlier`). Where the
 * stream is in a capture of this library, that capture ends with the failure unless it is
 * reported between now and then; else nothing. Tapes of several threads may be in one capture.
 * Leaves the error record alone. */
void ph__deferred_failure_watch(ph__deferred_failure *deferred, const ph_stream *stream,
                                bool earlier); /* takes NULL */
/* The failure's message says more now; while no capture that it was met in can have ended. */
void ph__deferred_failure_update(ph__deferred_failure *deferred,
                                 const ph_error *failure); /* takes NULL */
/* A call has given it back as a status, which its caller may ignore. */
void ph__deferred_failure_set_reported(ph__deferred_failure *deferred); /* takes NULL */
void ph__deferred_failure_release(ph__deferred_failure *deferred); /* takes NULL; told or not */
#endif
