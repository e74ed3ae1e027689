/* SPDX-License-Identifier: MIT */
/* comm/mpi/mpi.h: the one function of the plug-in, which nothing else calls by its name. */
#ifndef PH_COMM_MPI_MPI_H
#define PH_COMM_MPI_MPI_H
#include "comm/engine/engine.h"

__attribute__((visibility("default"))) const ph__engine *ph__engine_table(uint32_t version);
#endif
