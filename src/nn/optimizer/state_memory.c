/* SPDX-License-Identifier: MIT */
/* nn/optimizer/state_memory.c: one allocation for the state that a step makes. */
#include "nn/optimizer/state_memory.h"
#include "base/status.h"
#include "tensor/core/guard.h"
#include "tensor/core/quarantine.h"
#include "tensor/tape/tape.h"

typedef struct wanted {
    size_t count, bytes;
} wanted;

static void add_states(wanted *all, const ph_optimizer *optimizer, const ph__trained *p)
{
    const size_t last = PH__TENSOR_BATCH_ALIGNMENT - 1,
                 bytes = (ph_tensor_bytes(p->param) + last) & ~last;
    for (size_t k = 0; k < PH__OPTIMIZER_STATES; k++) {
        if (!(ph__group_of(optimizer, p)->settings.states >> k & 1) || p->state[k])
            continue;
        all->count += bytes > 0;
        all->bytes += bytes;
    }
}

ph_status ph__optimizer_reserve_states(ph__tensor_batch **out, const ph_optimizer *optimizer,
                                       const ph_tape *tape)
{
    wanted all = {0, 0};
    ph_error before;
    *out = NULL;
    for (size_t i = 0; i < optimizer->params.count; i++)
        if (optimizer->params.at[i].grad)
            add_states(&all, optimizer, &optimizer->params.at[i]);
    if (all.count < 2 || ph__quarantine_is_on(tape->backend) || ph__guards_on())
        return PH_OK;
    ph__error_save(&before);
    ph_status status =
        ph__tensor_batch_create(out, tape->backend, all.count, all.bytes, tape->stream, tape->key);
    if (status != PH_ERROR_DEVICE_MEMORY && status != PH_ERROR_POOL_LIMIT &&
        status != PH_ERROR_HOST_MEMORY)
        return status;
    ph__error_restore(&before); /* there may be room for each alone */
    return PH_OK;
}
