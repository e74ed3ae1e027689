/* SPDX-License-Identifier: MIT */
/* comm/object/broken.c: the failure of a communicator. */
#include "comm/object/broken.h"
#include <string.h>

ph_status ph__comm_break(ph_comm *comm, ph_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)ph__vfail(status, 0, NULL, format, args);
    va_end(args);
    ph__mutex_lock(&comm->lock);
    if (!atomic_load(&comm->failed)) {
        comm->listed = true;
        ph__failed_set(comm->device, &comm->failure, ph_error_last());
        ph__board_fail(comm->board, comm->failure.error.message);
        atomic_store(&comm->failed, true);
        if (comm->wake)
            comm->wake(comm);
    }
    ph_ignore(ph_error_set(&comm->failure.error));
    ph__mutex_unlock(&comm->lock);
    return ph_error_last()->status;
}

ph_status ph__comm_failure(const ph_comm *comm, const char *call)
{
    if (!atomic_load(&comm->failed))
        return PH_OK;
    ph_ignore(ph_error_set(&comm->failure.error)); /* never changes again */
    if (call)
        ph__error_prefix("%s: the communicator has failed", call);
    return ph_error_last()->status;
}

ph_status ph_comm_check(const ph_comm *comm)
{
    if (comm == NULL)
        return ph__fail_null("ph_comm_check", "comm");
    if (comm->failure.examine && !atomic_load(&comm->failed))
        comm->failure.examine((ph__failed_work *)(uintptr_t)&comm->failure);
    return ph__comm_failure(comm, NULL);
}

void ph_comm_abort(ph_comm *comm, const char *reason)
{
    ph_error saved;
    if (comm == NULL || comm->device->forked)
        return;
    ph__error_save(&saved);
    ph_ignore(ph__comm_break(comm, PH_ERROR_PEER, "ph_comm_abort: rank %u gave up%s%.200s",
                             (unsigned)comm->rank, reason ? ": " : "", reason ? reason : ""));
    ph__mutex_lock(&comm->lock);
    if (comm->listed)
        ph__failed_remove(comm->device, &comm->failure);
    comm->listed = false;
    ph__mutex_unlock(&comm->lock);
    ph__error_restore(&saved);
}
