/* SPDX-License-Identifier: MIT */
/* tensor/tape/tape_list.c: the tapes that a device has: who asks after their streams, and what
 * fork() makes of them. */
#include "tensor/tape/tape_list.h"
#include "base/status.h"
#include "base/sync.h"
#include "tensor/backend/backend.h"
#include "tensor/tape/tape.h"

void ph__tape_join_list(ph_tape *tape)
{
    pthread_mutex_lock(&tape->backend->lock);
    tape->next = tape->backend->tapes;
    tape->link = &tape->backend->tapes;
    if (tape->next)
        tape->next->link = &tape->next;
    tape->backend->tapes = tape;
    pthread_mutex_unlock(&tape->backend->lock);
}

void ph__tape_leave_list(ph_tape *tape)
{
    pthread_mutex_lock(&tape->backend->lock);
    *tape->link = tape->next;
    if (tape->next)
        tape->next->link = tape->link;
    for (unsigned round = 0; tape->lookers > 0;) {
        pthread_mutex_unlock(&tape->backend->lock);
        ph__back_off(&round, 0);
        pthread_mutex_lock(&tape->backend->lock);
    }
    pthread_mutex_unlock(&tape->backend->lock);
}

/* The driver is asked without the lock. Meanwhile the tape does not leave, and so its stream,
 * which outlives it, is there. */
static ph_status is_tape_captured(bool *out, ph__backend *backend, uint64_t key)
{
    ph_capture_info info = {0};
    pthread_mutex_lock(&backend->lock);
    ph_tape *tape = backend->tapes;
    while (tape && tape->key != key)
        tape = tape->next;
    if (tape)
        tape->lookers++;
    pthread_mutex_unlock(&backend->lock);
    if (!tape)
        return PH_OK;
    ph_status status = ph_stream_get_capture_info(&info, tape->stream);
    pthread_mutex_lock(&backend->lock);
    tape->lookers--;
    pthread_mutex_unlock(&backend->lock);
    *out = info.id != 0;
    return status;
}

ph_status ph__storage_captured(bool *out, ph__storage *storage)
{
    const uint64_t keys[] = {storage->key,
                             atomic_load_explicit(&storage->last_key, memory_order_relaxed),
                             atomic_load_explicit(&storage->captured_key, memory_order_relaxed)};
    ph_status status = PH_OK;
    *out = false;
    for (size_t i = 0; i < 3 && status == PH_OK && !*out; i++)
        if (keys[i] != 0)
            status = is_tape_captured(out, storage->backend, keys[i]);
    return status;
}

/* ---- fork ---- */
/* The threads that looked at the tapes are not here. */
static void fail_tapes(ph__backend *backend)
{
    ph_error saved, error;
    ph__error_save(&saved);
    ph_ignore(
        ph_fail(PH_ERROR_STATE,
                "the tape was made before fork(), by the parent process, and cannot be used in "
                "the child: make one here, of a device that is opened here"));
    ph__error_save(&error);
    ph__error_restore(&saved);
    for (ph_tape *tape = backend->tapes; tape; tape = tape->next) {
        tape->lookers = 0;
        if (!ph__tape_failed(tape))
            tape->error = error;
    }
}
PH__BACKEND_PART(.order = PH__BACKEND_TAPES, .forked = fail_tapes)
