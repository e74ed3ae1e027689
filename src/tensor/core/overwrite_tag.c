/* SPDX-License-Identifier: MIT */
/* tensor/core/overwrite_tag.c: marks on handles whose memory later replays write, and what is said
 * when one is read too late. */
#include "tensor/core/overwrite_tag.h"
#include "base/status.h"
#include "tensor/core/describe.h"
#include "tensor/core/quarantine.h"
#include "tensor/core/tensor.h"

ph__written *ph__written_retain(ph__written *written)
{
    atomic_fetch_add_explicit(&written->references, 1, memory_order_relaxed);
    return written;
}

void ph__written_release(ph__written *written)
{
    if (written && atomic_fetch_sub_explicit(&written->references, 1, memory_order_acq_rel) == 1)
        written->destroy(written);
}

void ph__tensor_mark(ph_tensor *x, ph__written *written, uint64_t sequence, uint64_t call)
{
    ph__written *before = x->written;
    x->written = written ? ph__written_retain(written) : NULL;
    x->sequence = sequence;
    x->call = call;
    ph__written_release(before);
}

ph_status ph__fail_overwritten(const ph_tensor *x, const char *call, const char *what)
{
    char shape[PH__DESCRIBE], words[256] = "";
    PH_TRY(ph__tensor_check_there(x, call, what));
    x->written->tell(x->written, x->sequence, x->call, words, sizeof words);
    return ph_fail(PH_ERROR_OVERWRITTEN, "%s: %s (%s) was overwritten: %s", call, what,
                   ph__describe(shape, x), words);
}
