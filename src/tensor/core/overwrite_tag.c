/* SPDX-License-Identifier: MIT */
/* tensor/core/overwrite_tag.c: marks on handles whose memory later replays write, and what is said
 * when one is read too late. */
#include "tensor/core/overwrite_tag.h"
#include "base/status.h"
#include "tensor/core/describe.h"
#include "tensor/core/quarantine.h"
#include "tensor/core/relied.h"
#include "tensor/core/tensor.h"

ph__overwrite_tag *ph__overwrite_tag_retain(ph__overwrite_tag *tag)
{
    atomic_fetch_add_explicit(&tag->references, 1, memory_order_relaxed);
    return tag;
}

void ph__overwrite_tag_release(ph__overwrite_tag *tag)
{
    if (tag && atomic_fetch_sub_explicit(&tag->references, 1, memory_order_acq_rel) == 1)
        tag->destroy(tag);
}

void ph__tensor_tag(ph_tensor *x, ph__overwrite_tag *tag, uint64_t sequence, uint64_t call)
{
    ph__overwrite_tag *before = x->overwrite_tag;
    x->overwrite_tag = tag ? ph__overwrite_tag_retain(tag) : NULL;
    x->sequence = sequence;
    x->call = call;
    ph__tensor_altered(x);
    ph__overwrite_tag_release(before);
}

ph_status ph__fail_overwritten(const ph_tensor *x, const char *call, const char *what)
{
    char shape[PH__DESCRIBE], words[256] = "";
    PH_TRY(ph__tensor_check_there(x, call, what));
    x->overwrite_tag->describe(x->overwrite_tag, x->sequence, x->call, words, sizeof words);
    return ph_fail(PH_ERROR_OVERWRITTEN, "%s: %s (%s) was overwritten: %s", call, what,
                   ph__describe(shape, x), words);
}
