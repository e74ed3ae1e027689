/* SPDX-License-Identifier: MIT */
/* comm/object/place.c: which rank this process is, and of how many. */
#include "comm/object/place.h"
#include "base/environment.h"
#include "base/status.h"
#include "comm/engine/load.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A pair of variables of a launcher. */
typedef struct variables {
    const char *rank, *size;
} variables;

/* *out: the number in the variable. */
static ph_status read_number(uint32_t *out, const char *name, const char *text, const char *call)
{
    char *end;
    unsigned long number = strtoul(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || number > INT32_MAX)
        return ph_fail(PH_ERROR_ARGUMENT,
                       "%s: the variable %s is \"%.40s\", and should be a number of ranks", call,
                       name, text);
    *out = (uint32_t)number;
    return PH_OK;
}

static ph_status check_place(const ph__comm_place *place, const char *from, const char *call)
{
    if (place->size == 0)
        return ph_fail(PH_ERROR_ARGUMENT, "%s: %s: no rank of 0 ranks", call, from);
    if (place->rank >= place->size)
        return ph_fail(PH_ERROR_ARGUMENT,
                       "%s: %s: rank %u of %u; ranks are numbered from 0, below their number", call,
                       from, (unsigned)place->rank, (unsigned)place->size);
    return PH_OK;
}

/* *found: both variables are there. */
static ph_status read_variables(bool *found, ph__comm_place *out, const variables *names,
                                const char *call)
{
    const char *rank = ph__environment(names->rank), *size = ph__environment(names->size);
    *found = rank && size;
    if (!*found)
        return PH_OK;
    PH_TRY(read_number(&out->rank, names->rank, rank, call));
    PH_TRY(read_number(&out->size, names->size, size, call));
    return check_place(out, names->rank, call);
}

static bool is_launched_by_mpi(void)
{
    static const char *const launchers[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMI_RANK",
                                            "PMIX_RANK"};
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++)
        if (ph__environment(launchers[i]))
            return true;
    return false;
}

/* The same, or the program has loaded MPI. */
static bool is_mpi_there(void)
{
    return is_launched_by_mpi() || dlsym(RTLD_DEFAULT, "MPI_Initialized") != NULL;
}

static ph_status fail_init(int result, const char *reason, const char *call)
{
    ph_status status = result == PH__ENGINE_UNSUPPORTED ? PH_ERROR_UNSUPPORTED
                       : result == PH__ENGINE_OVER      ? PH_ERROR_STATE
                                                        : PH_ERROR_PEER;
    return ph_fail(status, "%s: %s", call, reason);
}

/* asked: what is known already must be what MPI says. */
static ph_status begin_engine(ph__comm_place *place, bool asked, const char *call)
{
    char reason[PH__ENGINE_REASON] = "";
    uint32_t rank = 0, size = 0;
    PH_TRY(ph__engine_load(&place->engine, call));
    int result = place->engine->init(&rank, &size, reason);
    if (result != 0)
        return fail_init(result, reason, call);
    if (asked && (rank != place->rank || size != place->size))
        return ph_fail(PH_ERROR_MISMATCH,
                       "%s: the process is to be rank %u of %u, and %s says rank %u of %u; start "
                       "the program with mpirun, or with srun --mpi",
                       call, (unsigned)place->rank, (unsigned)place->size, "MPI", (unsigned)rank,
                       (unsigned)size);
    place->rank = rank;
    place->size = size;
    return check_place(place, "MPI", call);
}

ph_status ph__comm_place_find(ph__comm_place *out, const ph_comm_options *options, bool gpu,
                              const char *call)
{
    static const variables torchrun = {"RANK", "WORLD_SIZE"},
                           slurm = {"SLURM_PROCID", "SLURM_NTASKS"};
    bool known = options && options->size > 0;
    *out = (ph__comm_place){0, 1, NULL};
    if (options && options->size == 0 && options->rank > 0)
        return ph_fail(PH_ERROR_ARGUMENT, "%s: ph_comm_options: rank %u and no size", call,
                       (unsigned)options->rank);
    if (known) {
        *out = (ph__comm_place){options->rank, options->size, NULL};
        PH_TRY(check_place(out, "ph_comm_options", call));
    }
    if (!known)
        PH_TRY(read_variables(&known, out, &torchrun, call));
    if (!known && is_mpi_there())
        PH_TRY(begin_engine(out, false, call));
    else if (!known)
        PH_TRY(read_variables(&known, out, &slurm, call));
    if (out->size == 1)
        out->engine = NULL;
    bool begin = out->size > 1 && out->engine == NULL && (!gpu || is_launched_by_mpi());
    return begin ? begin_engine(out, true, call) : PH_OK;
}

/* ---- where NCCL begins ---- */
static ph_status read_port(uint32_t *out, const ph_comm_options *options, const char *call)
{
    const char *own = ph__environment("PH_COMM_PORT"), *master = ph__environment("MASTER_PORT");
    *out = options ? (uint32_t)options->port : 0;
    if (*out > 0)
        return PH_OK;
    if (own)
        return read_number(out, "PH_COMM_PORT", own, call);
    if (master == NULL)
        return ph_fail(PH_ERROR_ARGUMENT,
                       "%s: no port for the ranks to meet at: set PH_COMM_PORT, or port in "
                       "ph_comm_options, or start the program with mpirun",
                       call);
    PH_TRY(read_number(out, "MASTER_PORT", master, call));
    ++*out; /* the launcher's own is taken */
    return PH_OK;
}

ph_status ph__comm_place_address(char out[300], const ph_comm_options *options, unsigned number,
                                 const char *call)
{
    const char *host = ph__environment("MASTER_ADDR");
    uint32_t port;
    if (host == NULL || host[0] == '\0')
        return ph_fail(
            PH_ERROR_ARGUMENT,
            "%s: the ranks need to know where rank 0 is: set MASTER_ADDR to its host, or "
            "start the program with mpirun",
            call);
    PH_TRY(read_port(&port, options, call));
    port += number;
    if (port == 0 || port > UINT16_MAX)
        return ph_fail(PH_ERROR_ARGUMENT, "%s: port %u; ports are from 1 to 65535", call,
                       (unsigned)port);
    bool bare = strchr(host, ':') && host[0] != '['; /* an address of IPv6 */
    (void)snprintf(out, 300, "%s%.255s%s:%u", bare ? "[" : "", host, bare ? "]" : "",
                   (unsigned)port);
    return PH_OK;
}

ph_status ph_comm_local_rank(uint32_t *out)
{
    static const char call[] = "ph_comm_local_rank";
    static const char *const names[] = {"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK",
                                        "MPI_LOCALRANKID", "SLURM_LOCALID"};
    if (out == NULL)
        return ph__fail_null(call, "out");
    *out = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *text = ph__environment(names[i]);
        if (text)
            return read_number(out, names[i], text, call);
    }
    return PH_OK;
}
