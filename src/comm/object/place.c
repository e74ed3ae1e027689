/* SPDX-License-Identifier: MIT */
/* comm/object/place.c: which rank this process is, and of how many. */
#include "comm/object/place.h"
#include "base/environment.h"
#include "base/status.h"
#include "comm/engine/load.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

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

/* Whether a launcher of MPI started the process, or the program has loaded MPI. */
static bool is_mpi_there(void)
{
    static const char *const launchers[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMI_RANK",
                                            "PMIX_RANK"};
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++)
        if (ph__environment(launchers[i]))
            return true;
    return dlsym(RTLD_DEFAULT, "MPI_Initialized") != NULL;
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

ph_status ph__comm_place_find(ph__comm_place *out, const ph_comm_options *options, const char *call)
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
    return out->size > 1 && out->engine == NULL ? begin_engine(out, true, call) : PH_OK;
}
