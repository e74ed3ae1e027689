/* SPDX-License-Identifier: MIT */
/* comm/pool/pool.c: pools of memory that is registered with a communicator. */
#include "memory/pool/pool.h"
#include "base/checked.h"
#include "base/option.h"
#include "comm/nccl/memory.h"
#include "comm/pool/region.h"
#include "comm/pool/source.h"
#include <phonograph/comm_pool.h>

enum {
    UNIT = 2 << 20
};

static ph_status check_sizes(const ph_comm_pool_options *options, const char *call)
{
    size_t reserve;
    PH_TRY(ph__option_no_zero(options->reserve, "reserve", call));
    PH_TRY(ph__option_no_zero(options->limit, "limit", call));
    if (!ph__round_up(options->reserve, UNIT, &reserve))
        return ph_fail(PH_ERROR_SIZE, "%s: a reserve of %zu bytes overflows", call,
                       options->reserve);
    if (options->limit && reserve > options->limit)
        return ph_fail(PH_ERROR_ARGUMENT,
                       "%s: ph_comm_pool_options: a reserve of %zu bytes (%zu, rounded up to 2 "
                       "MiB) is above the limit of %zu; no segment could use it",
                       call, options->reserve, reserve, options->limit);
    return PH_OK;
}

static ph_status check_comm(const ph_comm *comm, size_t reserve, const char *call)
{
    if (ph__comm_registers(comm) && !ph__nccl_has_memory())
        return ph_fail(PH_ERROR_UNSUPPORTED,
                       "%s: NCCL %d.%d registers no memory; install 2.19 or newer, or use an "
                       "ordinary pool (ph_pool_create)",
                       call, ph__nccl_version() / 10000, ph__nccl_version() / 100 % 100);
    if (reserve && atomic_load(&comm->device->open_captures) != 0)
        return ph_fail(PH_ERROR_STATE,
                       "%s: a reserve of %zu bytes, while a capture is open on the device, where "
                       "nothing is registered; create the pool before the capture",
                       call, reserve);
    return PH_OK;
}

ph_status ph_comm_pool_create(ph_pool **out, ph_comm *comm, const ph_comm_pool_options *options)
{
    static const char call[] = "ph_comm_pool_create";
    ph__comm_source *source;
    size_t reserve = 0;
    if (out == NULL)
        return ph__fail_null(call, "out");
    *out = NULL;
    PH_TRY(ph__comm_check_usable(comm, call));
    if (options && !PH__RESERVED_OK(options))
        return ph__fail_reserved(call, "ph_comm_pool_options");
    if (options) {
        PH_TRY(check_sizes(options, call));
        (void)ph__round_up(options->reserve, UNIT, &reserve);
    }
    PH_TRY(check_comm(comm, reserve, call));
    PH_TRY(ph__source_create(&source, comm, reserve, call));
    const ph_pool_options pool = {.use_on_oom = options && options->use_on_oom,
                                  .no_split = options && options->no_split,
                                  .limit = options ? options->limit : 0,
                                  .alloc = ph__source_alloc,
                                  .free = ph__source_free,
                                  .user = source};
    ph_status status = ph__pool_create_sourced(out, comm->device, &pool, ph__source_end, call);
    if (status != PH_OK)
        ph__source_end(source);
    return status;
}
