/* SPDX-License-Identifier: MIT */
/* tests/fake/fake_cuda.h: what tests may ask of the software libcuda.so.1 of this folder, and
 * tell it.
 *
 * It behaves as NVIDIA's does, on the host device: two GPUs, no driver, no GPU. Where NVIDIA's
 * may wait it does: for the launches in flight of an executable that goes. The environment says,
 * before it is loaded, what it plays:
 *
 *   FAKE_CUDA_VERSION=13000    what cuDriverGetVersion says; newer functions are not found
 *   FAKE_CUDA_DEVICES=2        0: cuInit answers 100
 *   FAKE_CUDA_INIT=0           what cuInit answers
 *   FAKE_CUDA_MEMORY=BYTES     of each GPU; 1 GiB
 *   FAKE_CUDA_CAPABILITY=90    compute capability
 *   FAKE_CUDA_MISSING=cuX,cuY  functions that are not found
 *   FAKE_CUDA_LAUNCHES_WAIT=1  launches, of graphs too, copies and fills return when they are
 *                              done, with all that they are ordered behind: as under
 *                              compute-sanitizer's memcheck
 *
 * A process that ends with objects of it left, or that misused it, says so and exits with 97,
 * unless FAKE_CUDA_LENIENT=1. */
#ifndef PH_TESTS_FAKE_CUDA_H
#define PH_TESTS_FAKE_CUDA_H
#include <dlfcn.h>
#include <phonograph/inspect/record.h>
#include <phonograph/kernel.h>
#include <stdlib.h>

/* Objects and memory, of all contexts. */
typedef struct fake_cuda_counts {
    int64_t contexts; /* with a reference */
    int64_t streams, events, modules, graphs, execs;
    int64_t memories, mappings, reservations; /* virtual memory management */
    int64_t plain, pinned;                    /* bytes of cuMemAlloc and cuMemHostAlloc */
} fake_cuda_counts;

enum {
    FAKE_CUDA_STACK = 16
};

/* A node of an executable that was launched, as tools call it. */
typedef struct fake_cuda_node_run {
    ph_node_kind kind;
    uint64_t id, start_ns, end_ns;
} fake_cuda_node_run;
typedef void (*fake_cuda_told)(const fake_cuda_node_run *run);

typedef struct fake_cuda_controls {
    /* The host form of the CUDA function `name`: what a launch of it runs. cuModuleGetFunction
     * finds no other. */
    void (*register_kernel)(const char *name, ph_host_kernel_fn fn);

    /* ---- faults ---- the n-th call from now on (0 is the next) answers `result` and does
     * nothing; -1: none. Not counted, and never made to fail: what destroys, what asks for and
     * changes the current context or the thread's capture mode. A cuStreamEndCapture that fails
     * still ends the capture. */
    void (*fail_after)(int64_t n, int result);
    int64_t (*calls)(void);
    /* The next `times` calls of one function, whichever it is, fail. times 0: no longer. */
    void (*fail_call)(const char *name, int result, int times);
    int64_t (*calls_of)(const char *name);
    /* From now on every call answers that number, as on a context that is lost, but those that
     * need none; 0: no longer. */
    void (*lose)(int result);
    void (*lose_after)(int64_t n, int result); /* from the n-th call on; -1: not */
    bool (*is_lost)(void);
    /* As FAKE_CUDA_LAUNCHES_WAIT, from now on. */
    void (*launches_wait)(bool wait);
    /* Ends all of it: contexts with everything in them, faults, counts. What the process held is
     * invalid. */
    void (*reset)(void);

    /* From now on cuEventElapsedTime answers that many milliseconds; negative: what passed. */
    void (*tell_time)(float milliseconds);

    /* ---- leaks ---- live: now. left: what contexts had in them when their last reference went,
     * summed up. */
    void (*count)(fake_cuda_counts *live, fake_cuda_counts *left);

    /* ---- misuse ---- calls that real drivers crash or go wrong on: without the current context
         * that they need, or with another GPU's; launches of functions whose module was unloaded;
     * changes of executables that were not uploaded yet.
     * text: the last one. */
    int64_t (*misuses)(void);
    const char *(*misuse_text)(void);

    /* ---- demotion ---- launches so far of executables in which a grid or block was changed since
     * they were made: NVIDIA's driver runs them slower for good. */
    int64_t (*demoted_launches)(void);

    /* ---- nodes ---- for the tests' own CUPTI: from now on launches of executables return when
     * they are over, and every node that ran is told of; NULL: no longer. What tools call a node
     * and an executable (CUgraphNode, CUgraphExec). */
    void (*watch_nodes)(fake_cuda_told told);
    uint64_t (*node_id)(const void *node);
    uint32_t (*exec_id)(const void *exec);

    /* ---- contexts ---- the calling thread's stack, the current one last. create: one that is
     * not the primary. */
    size_t (*context_stack)(void *out[FAKE_CUDA_STACK]);
    int (*context_create)(void **out, int gpu);
    void (*context_destroy)(void *context);
} fake_cuda_controls;

/* NULL where there is no libcuda.so.1, or it is a real one. */
static inline const fake_cuda_controls *fake_cuda(void)
{
    static const fake_cuda_controls *found;
    static bool looked;
    if (!__atomic_load_n(&looked, __ATOMIC_ACQUIRE)) {
        void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
        const fake_cuda_controls *controls = library ? dlsym(library, "fake_cuda_exports") : NULL;
        __atomic_store_n(&found, controls, __ATOMIC_RELAXED);
        __atomic_store_n(&looked, true, __ATOMIC_RELEASE);
    }
    return __atomic_load_n(&found, __ATOMIC_RELAXED);
}

/* For kernels that a test creates itself: does nothing where the fake is not. Call it before
 * ph_kernel_create. */
static inline void fake_cuda_register(const ph_kernel_source *source)
{
    const fake_cuda_controls *controls = fake_cuda();
    if (controls && source->name && source->host)
        controls->register_kernel(source->name, source->host);
}

/* ---- proposals ---- of the software cuBLASLt and cuDNN: a variable as "2,1,-1" has the
 * milliseconds that each is said to take, by tell_time, when it is submitted. Negative: it refuses.
 * Not set: there is one, and its time is what passes. */
enum {
    FAKE_PROPOSALS = 4
};
static inline int fake_proposals(float ms[FAKE_PROPOSALS], const char *variable)
{
    const char *text = getenv(variable);
    int count = 0;
    for (char *end; text && count < FAKE_PROPOSALS; text = *end == ',' ? end + 1 : NULL) {
        ms[count] = strtof(text, &end);
        count += end != text;
    }
    return count;
}
#endif
