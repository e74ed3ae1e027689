/* SPDX-License-Identifier: MIT */
/* tensor/backend/kernels.c: kernels of this library, created at a device's first use of them and
 * kept for its backend's life. */
#include "tensor/backend/kernels.h"
#include "base/alloc.h"
#include "base/fork.h"
#include "base/status.h"
#include "base/text.h"
#include "tensor/backend/backend.h"
#include "tensor/backend/texts.h"

const char *(*ph__kernel_stand_in)(const ph__kernel_def *def);

static pthread_mutex_t slots_lock = PTHREAD_MUTEX_INITIALIZER;
PH__FORK_LOCK(PH__FORK_SLOTS, slots_lock)

/* Numbers of all defs of the process, in order of their first use; 0 is none. */
static int assign_slot(ph__kernel_def *def)
{
    static int last;
    pthread_mutex_lock(&slots_lock);
    int slot = atomic_load_explicit(&def->slot, memory_order_relaxed);
    if (slot == 0 && last + 1 < PH__KERNEL_SLOTS) {
        slot = ++last;
        atomic_store_explicit(&def->slot, slot, memory_order_release);
    }
    pthread_mutex_unlock(&slots_lock);
    return slot;
}

static char *join_texts(const char *const *pieces)
{
    ph__text text = {0};
    ph__text_add(&text, ph__text_prelude);
    for (size_t i = 0; pieces && pieces[i]; i++)
        ph__text_add(&text, pieces[i]);
    return ph__text_detach(&text);
}

static ph_kernel *create_kernel(ph__backend *backend, const ph__kernel_def *def)
{
    ph_kernel *kernel = NULL;
    char *text = NULL;
    ph_kernel_source source = {.name = def->name,
                               .host = def->host,
                               .args_size = def->args_size,
                               .params = def->params,
                               .param_count = def->param_count,
                               .cuda_options = def->cuda_options,
                               .host_inline = true};
    if (backend->cuda && ph__kernel_stand_in)
        source.cuda = ph__kernel_stand_in(def);
    if (backend->cuda && !source.cuda) {
        source.cuda = text = join_texts(def->cuda);
        if (!text) {
            ph_ignore(ph__fail_host_memory(def->name, "the text of a kernel"));
            return NULL;
        }
    }
    if (ph_kernel_create(&kernel, backend->device, &source) != PH_OK)
        kernel = NULL;
    ph__free(text);
    return kernel;
}

/* The lock is held while it compiles: two threads that want the same kernel compile it once. */
ph_kernel *ph__kernel_make_first(ph__backend *backend, ph__kernel_def *def)
{
    int slot = assign_slot(def);
    if (slot == 0) {
        (void)ph_fail(PH_ERROR_UNSUPPORTED, "%s: more than %d kernels", def->name,
                      PH__KERNEL_SLOTS - 1);
        return NULL;
    }
    pthread_mutex_lock(&backend->lock);
    ph_kernel *kernel = atomic_load_explicit(&backend->kernels[slot], memory_order_relaxed);
    if (!kernel) {
        kernel = create_kernel(backend, def);
        atomic_store_explicit(&backend->kernels[slot], kernel, memory_order_release);
    }
    pthread_mutex_unlock(&backend->lock);
    return kernel;
}
