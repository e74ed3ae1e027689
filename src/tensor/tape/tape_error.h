/* SPDX-License-Identifier: MIT */
/* tensor/tape/tape_error.h: the first error of a tape. */
#ifndef PH_TENSOR_TAPE_TAPE_ERROR_H
#define PH_TENSOR_TAPE_TAPE_ERROR_H
#include "tensor/tape/tape.h"

/* For calls that are no operators: fails the tape in the name of call. */
void ph__tape_fail_host_memory(ph_tape *tape, const char *call, const char *what_for);
/* The tape has failed with what this thread's record says. */
void ph__tape_fail_recorded(ph_tape *tape);
/* Puts text behind the message of the tape's failure, where there is room for all of it. */
void ph__tape_add_to_error(ph_tape *tape, const char *text);
/* Drops the tape's failure, which has been told; what it owns and remembers stays. */
void ph__tape_forgive(ph_tape *tape);
/* An operator of a tape that has failed does nothing: see deferred.h. */
void ph__tape_skip(const ph_tape *tape);
/* For calls that give the tape's failure back as their status, and so tell it. refuse: PH_OK, or
 * the failure that the tape had before the call, whose message says so. tell: `status` is what
 * the call itself has come to. */
ph_status ph__tape_refuse(const ph_tape *tape, const char *call);
ph_status ph__tape_report(const ph_tape *tape, ph_status status);
#endif
