/* SPDX-License-Identifier: MIT */
/* driver/cuda/exec/tools.c: what NVIDIA's tools call the nodes of an executable in their traces:
 * the executable's graph id above the node's. */
#include "base/fork.h"
#include "driver/cuda/exec/exec.h"
#include "driver/cuda/load/entries.h"
#include <dlfcn.h>
#include <string.h>

/* CUPTI's, of a libcupti that the process has loaded already: nothing is loaded for this.
 * Drivers that answer by themselves have both functions of their own. */
static struct {
    int (*node)(ph__cu_node node, uint64_t *id);
    int (*exec)(ph__cu_exec exec, uint32_t *id);
} cupti;

static void *loaded_cupti(void)
{
    static const char *const names[] = {"libcupti.so.13", "libcupti.so.12", "libcupti.so"};
    void *library = NULL;
    for (size_t i = 0; !library && i < sizeof names / sizeof names[0]; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    return library;
}

static pthread_mutex_t finding = PTHREAD_MUTEX_INITIALIZER;
PH__FORK_LOCK(PH__FORK_CUDA_TOOLS, finding)

static bool find_cupti(void)
{
    pthread_mutex_lock(&finding);
    void *library = cupti.node ? NULL : loaded_cupti();
    void *node = library ? dlsym(library, "cuptiGetGraphNodeId") : NULL;
    void *exec = library ? dlsym(library, "cuptiGetGraphExecId") : NULL;
    if (node && exec) {
        memcpy(&cupti.exec, &exec, sizeof exec);
        memcpy(&cupti.node, &node, sizeof node);
    } else if (library) {
        (void)dlclose(library); /* a reference of ours, to what others keep */
    }
    bool found = cupti.node != NULL;
    pthread_mutex_unlock(&finding);
    return found;
}

void ph__cuda_exec_tools_id(uint64_t *out, ph__drv_exec *exec, ph__drv_node *node)
{
    unsigned long long of_node = 0;
    unsigned of_exec = 0;
    uint64_t id = 0;
    *out = 0;
    bool known = ph__cu.GraphExecGetId && ph__cu.GraphNodeGetToolsId &&
                 ph__cu.GraphExecGetId(exec->handle, &of_exec) == PH__R_OK &&
                 ph__cu.GraphNodeGetToolsId(node->handle, &of_node) == PH__R_OK;
    if (!known && find_cupti()) {
        known = cupti.exec(exec->handle, &of_exec) == 0 && cupti.node(node->handle, &id) == 0;
        of_node = id;
    }
    if (known)
        *out = (uint64_t)of_exec << 32 | (of_node & UINT32_MAX);
}
