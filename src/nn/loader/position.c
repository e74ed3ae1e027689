/* SPDX-License-Identifier: MIT */
/* nn/loader/position.c: where a loader is, going on from elsewhere, and what it has done. */
#include "nn/loader/position.h"
#include "base/status.h"
#include "nn/loader/next.h"
#include "nn/loader/slots.h"
#include "nn/loader/threads.h"

static ph_status check_query(const void *out, const ph_data_loader *loader, const char *call)
{
    if (!out || !loader)
        return ph__fail_null(call, out ? "loader" : "out");
    return ph__loader_check(loader, call);
}

static void fill_position(ph_data_loader_position *out, const ph_data_loader *loader)
{
    const ph__epoch_order *order = &loader->order;
    *out = (ph_data_loader_position){.epoch = loader->epoch,
                                     .batch = loader->batch,
                                     .seed = order->seed,
                                     .count = order->count,
                                     .batch_size = order->batch_size,
                                     .world = order->world,
                                     .shuffle = order->shuffle,
                                     .drop_last = order->drop_last};
}

ph_status ph_data_loader_get_position(ph_data_loader_position *out, ph_data_loader *loader)
{
    PH_TRY(check_query(out, loader, "ph_data_loader_get_position"));
    ph__mutex_lock(&loader->lock);
    fill_position(out, loader);
    ph__mutex_unlock(&loader->lock);
    return PH_OK;
}

uint64_t ph_data_loader_batch_count(const ph_data_loader *loader)
{
    return loader ? loader->order.batches : 0;
}

ph_status ph_data_loader_get_stats(ph_data_loader_stats *out, ph_data_loader *loader)
{
    PH_TRY(check_query(out, loader, "ph_data_loader_get_stats"));
    ph__mutex_lock(&loader->lock);
    *out = loader->stats;
    for (size_t i = 0; i < loader->slot_count; i++)
        out->ready += loader->slots[i].state == PH__BATCH_READY;
    ph__mutex_unlock(&loader->lock);
    return PH_OK;
}

/* ---- going on ---- */
static ph_status fail_mismatch(const char *what, uint64_t saved, uint64_t own, const char *call)
{
    return ph_fail(PH_ERROR_MISMATCH,
                   "%s: the position is of a loader with %s %llu, and this one has %llu: its "
                   "batches would be other ones; make it as that one was",
                   call, what, (unsigned long long)saved, (unsigned long long)own);
}

static ph_status check_same(const ph_data_loader_position *p, const ph__epoch_order *order,
                            const char *call)
{
    const struct {
        const char *what;
        uint64_t saved, own;
    } same[] = {{"count", p->count, order->count},
                {"batch_size", p->batch_size, order->batch_size},
                {"world", p->world, order->world},
                {"shuffle", p->shuffle, order->shuffle},
                {"drop_last", p->drop_last, order->drop_last}};
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++)
        if (same[i].saved != same[i].own)
            return fail_mismatch(same[i].what, same[i].saved, same[i].own, call);
    return PH_OK;
}

ph_status ph__loader_check_position(const ph_data_loader_position *p, const ph_data_loader *loader,
                                    const char *call)
{
    uint64_t batches = loader->order.batches, first;
    if (!ph__reserved_ok(p->reserved, sizeof p->reserved / sizeof p->reserved[0]))
        return ph__fail_reserved(call, "ph_data_loader_position");
    PH_TRY(check_same(p, &loader->order, call));
    if (p->batch > batches)
        return ph_fail(PH_ERROR_ARGUMENT, "%s: batch %llu of an epoch that has %llu", call,
                       (unsigned long long)p->batch, (unsigned long long)batches);
    if (loader->epochs != 0 &&
        (p->epoch > loader->epochs || (p->epoch == loader->epochs && p->batch != 0)))
        return ph_fail(PH_ERROR_ARGUMENT, "%s: batch %llu of epoch %llu, and there are %llu epochs",
                       call, (unsigned long long)p->batch, (unsigned long long)p->epoch,
                       (unsigned long long)loader->epochs);
    if (__builtin_mul_overflow(p->epoch, batches, &first) || first > INT64_MAX)
        return ph_fail(PH_ERROR_ARGUMENT, "%s: epoch %llu is beyond what can be counted", call,
                       (unsigned long long)p->epoch);
    return PH_OK;
}

static bool is_fetching(const ph_data_loader *loader)
{
    for (size_t i = 0; i < loader->slot_count; i++)
        if (loader->slots[i].state == PH__BATCH_FETCHING)
            return true;
    return false;
}

/* Lock held. No thread takes a slot up any more, and none has one. */
static ph_status drop_batches(ph_data_loader *loader, const char *call)
{
    for (size_t i = 0; i < loader->slot_count; i++)
        if (loader->slots[i].state == PH__BATCH_OPEN)
            loader->slots[i].state = PH__BATCH_NONE;
    while (is_fetching(loader) && !loader->stopping)
        ph__loader_wait(loader, &loader->moved);
    return loader->stopping ? ph_fail(PH_ERROR_STATE,
                                      "%s: the loader is being destroyed by another thread", call)
                            : PH_OK;
}

static ph_status go_to(ph_data_loader *loader, const ph_data_loader_position *p, const char *call)
{
    PH_TRY(ph__loader_check_position(p, loader, call));
    PH_TRY(ph__loader_give_back(loader, call));
    ph__mutex_lock(&loader->lock);
    ph_status status = drop_batches(loader, call);
    if (status == PH_OK) {
        loader->order.seed = p->seed;
        loader->epoch = p->epoch;
        loader->batch = p->batch;
        ph__slots_assign(loader, p->epoch * loader->order.batches + p->batch);
    }
    ph__mutex_unlock(&loader->lock);
    return status;
}

ph_status ph_data_loader_set_position(ph_data_loader *loader,
                                      const ph_data_loader_position *position)
{
    static const char call[] = "ph_data_loader_set_position";
    if (!position)
        return ph__fail_null(call, "position");
    PH_TRY(ph__loader_enter(loader, call));
    ph_status status = go_to(loader, position, call);
    ph__loader_leave(loader);
    return status;
}
