/* SPDX-License-Identifier: MIT */
/* comm/engine/load.h: the engine of this process, found when it is first needed. */
#ifndef PH_COMM_ENGINE_LOAD_H
#define PH_COMM_ENGINE_LOAD_H
#include "base/status.h"
#include "comm/engine/engine.h"

/* The engine of host devices. UNSUPPORTED: none is found. STATE: it was found in a process that
 * this one was forked from. PEER: it was given up. */
ph_status ph__engine_load(const ph__engine **out, const char *call);

/* A transfer never ends, or an engine has failed: its state is not known any more, and no further
 * call is made on it. Nothing for an engine without give_up. */
void ph__engine_give_up(const ph__engine *engine);
bool ph__engine_is_given_up(const ph__engine *engine);

/* For tests: this one from now on; NULL: the one that is found. */
void ph__engine_replace(const ph__engine *engine);
#endif
