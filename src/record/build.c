/* SPDX-License-Identifier: MIT */
/* record/build.c: the names of nodes and the words of launches, for the walk that counts and for
 * that which writes. */
#include "record/build.h"
#include "record/words.h"

const char *ph__build_lasting_name(const ph__builder *b, size_t at)
{
    if (b->kernels[at])
        return ph_kernel_name(b->kernels[at]);
    const ph__drv_node_info *info = &b->infos[at];
    return info->kind == PH_NODE_KERNEL && info->kernel_name ? NULL : ph_node_kind_name(info->kind);
}

ph_status ph__build_lay_out(ph__builder *b, const ph_kernel *kernel, size_t args_size)
{
    ph__record_layout *l = &b->layout;
    if (l->known && l->kernel == kernel && l->args_size == args_size)
        return PH_OK;
    ph__words words = {kernel, args_size, 0, 0};
    ph__word_slot slot;
    l->known = false;
    l->names = 0;
    ph__vec_clear(&l->slots);
    while (ph__words_next(&words, &slot)) {
        const struct ph__word_place place = {slot, ph__word_lasting_name(&slot)};
        if (!ph__vec_push(&l->slots, place))
            return ph__fail_host_memory(b->call, "the record of the captured graph");
        if (!place.lasting)
            l->names += ph__word_name(NULL, 0, &slot) + 1;
    }
    l->known = true;
    l->kernel = kernel;
    l->args_size = args_size;
    return PH_OK;
}
