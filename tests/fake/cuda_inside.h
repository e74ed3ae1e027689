/* SPDX-License-Identifier: MIT */
/* tests/fake/cuda_inside.h: what the files of the software libcuda share. Its GPUs are host
 * devices; most calls are those of the host driver under CUDA's names. */
#ifndef PH_TESTS_FAKE_CUDA_INSIDE_H
#define PH_TESTS_FAKE_CUDA_INSIDE_H
#include "driver/cuda/load/abi_params.h"
#include "driver/host/capture/capture.h"
#include "driver/host/capture/child.h"
#include "driver/host/exec/event_node.h"
#include "driver/host/resource/body.h"
#include "driver/host/resource/probe_kernels.h"
#include "driver/host/stream/entries.h"
#include "fake_cuda.h"

enum {
    FAKE_GPUS = 2,
    FAKE_MOST_PARAMS = 128,
    FAKE_SHARED_DEFAULT = 48 << 10,
    FAKE_SHARED_LIMIT = 232448,
    FAKE_GRANULARITY = 2 << 20
};
/* Numbers that driver.h has no name for. */
enum {
    FAKE_NOT_INITIALIZED = 3,
    FAKE_INVALID_IMAGE = 200,
    FAKE_NO_BINARY = 209,
    FAKE_INVALID_PTX = 218,
    FAKE_LOSSY_QUERY = 402
};

/* ---- calls (cuda_calls.c) ---- one number for each function of the list. */
typedef enum fake_call {
#define PH__CU(name, version, need, parameters) FAKE_CALL_##name,
#include "cuda_programs.def"
#include "driver/cuda/load/symbols.def"
#undef PH__CU
    FAKE_CALLS
} fake_call;

#define PH__CU(name, version, need, parameters) int fake_##name parameters;
#include "cuda_programs.def"
#include "driver/cuda/load/symbols.def"
#undef PH__CU

/* enter: 0, or what the call has to answer. leave: tells the log callbacks of a failure; returns
 * result. */
int fake_enter(fake_call call);
int fake_leave(fake_call call, int result); /* cuda_log.c */
const char *fake_name(fake_call call);
/* Defines the function of that name: FAKE(CtxPopCurrent, (ph__cu_context *context), (context)) {
 * body } */
#define FAKE(name, parameters, arguments)                                                          \
    static int do_##name parameters;                                                               \
    int fake_##name parameters                                                                     \
    {                                                                                              \
        int refused = fake_enter(FAKE_CALL_##name);                                                \
        return fake_leave(FAKE_CALL_##name, refused ? refused : do_##name arguments);              \
    }                                                                                              \
    static int do_##name parameters

int fake_version(void);
bool fake_is_missing(const char *name);
void fake_misuse(const char *format, ...) PH_PRINTF(1, 2);
int64_t fake_environment(const char *name, int64_t otherwise);

/* ---- objects (cuda_objects.c) ---- every handle that was given out, so that others are refused
 * with 400. */
typedef enum fake_kind {
    FAKE_STREAM,
    FAKE_EVENT,
    FAKE_MODULE,
    FAKE_FUNCTION,
    FAKE_GRAPH, /* its handle is the host driver's; the object stands beside it */
    FAKE_EXEC,
    FAKE_MEMORY,
    FAKE_KINDS
} fake_kind;
typedef struct fake_object {
    fake_kind kind;
    uint64_t handle;
    ph__cu_context context;
    bool uncounted; /* belongs to another object */
} fake_object;
/* add: false when out of memory. find: NULL when there is none of that kind. */
bool fake_add(fake_object *object, fake_kind kind, ph__cu_context context, const void *handle);
void *fake_find(fake_kind kind, const void *handle);
void *fake_remove(fake_kind kind, const void *handle);
void fake_recount(fake_object *object, bool uncounted);
/* Any object of that kind and context, taken off; NULL: none is left. */
void *fake_take_any(fake_kind kind, ph__cu_context context);
int64_t fake_live(fake_kind kind);

/* ---- GPUs (cuda_gpu.c) ---- */
bool fake_is_device(ph__cu_device device);

/* ---- contexts (cuda_context.c) ---- */
struct CUctx_st {
    int gpu;
    bool primary;
    unsigned references;
    ph__drv_device *device; /* NULL: no reference */
};
static inline ph__host_device *fake_host(ph__cu_context context)
{
    return (ph__host_device *)context->device;
}
/* The thread's current context; 201, and a misuse: there is none. */
int fake_current(ph__cu_context *out, const char *call);
/* The same, and it must be this one: else a misuse, but no error. */
int fake_expect(ph__cu_context context, const char *call);
ph__cu_context fake_context_of(int gpu); /* the primary one, or NULL where it has no reference */
ph__cu_context fake_other_context(const ph__host_device *device); /* not a primary one; or NULL */
bool fake_is_context(ph__cu_context context);
ph__cu_context fake_context_at(const void *address,
                               ph__drv_pointer *pointer); /* whose memory it is, or NULL */
void fake_contexts_reset(void);
void fake_count(fake_cuda_counts *live, fake_cuda_counts *left);
size_t fake_context_stack(void *out[FAKE_CUDA_STACK]);
int fake_context_create(void **out, int gpu);
void fake_context_destroy(void *context);
/* For calls that CUDA counts as potentially unsafe and the host driver does not: 0 or 900. */
int fake_unsafe(ph__cu_context context, const char *call);

/* ---- streams (cuda_stream.c) ---- */
struct CUstream_st {
    fake_object object;
    ph__drv_stream *stream;
    unsigned flags;
    int priority;
};
struct CUevent_st {
    fake_object object;
    ph__drv_event *event;
};
typedef struct fake_target {
    ph__cu_context context;
    ph__drv_stream *stream;
} fake_target;
bool fake_event_is_gone(const ph__host_event *event);
/* Any name of a stream: 0, 400, or 201 for the legacy one without a context. */
int fake_target_of(fake_target *out, ph__cu_stream handle, const char *call);

/* ---- memory (cuda_vmm.c, cuda_alloc.c) ---- */
void fake_vmm_clear(ph__cu_context context, fake_cuda_counts *left); /* everything of that GPU */
/* The address space that was reserved around it. */
bool fake_reservation_at(uintptr_t *base, size_t *bytes, uintptr_t address);
void fake_vmm_count(fake_cuda_counts *out);
void fake_alloc_count(fake_cuda_counts *out, ph__cu_context context); /* adds */
/* Takes bytes of the GPU's memory, or gives them back: false when there is not so much. */
bool fake_take(ph__cu_context context, size_t bytes);
void fake_give(ph__cu_context context, size_t bytes);

/* ---- modules (cuda_module.c, cuda_ptx.c) ---- */
typedef struct fake_param {
    size_t offset, bytes;
} fake_param;
typedef struct fake_entry {
    char name[128];
    size_t count, end; /* parameters; where the last ends */
    fake_param params[FAKE_MOST_PARAMS];
} fake_entry;
struct CUmod_st {
    fake_object object;
    char *text;
    PH__VEC(ph__cu_function) functions;
};
struct CUfunc_st {
    fake_object object;
    ph__cu_function next; /* of an unloaded module, kept until the context goes */
    ph__drv_kernel *kernel;
    int most_shared;
    bool unloaded;
    fake_entry entry;
};
/* 0, 218 or 209 with the compiler's words in *log. */
int fake_ptx_check(const char *text, char *log, size_t size);
int fake_ptx_entry(fake_entry *out, const char *text, const char *name); /* 0 or 500 */
void fake_register_kernel(const char *name, ph_host_kernel_fn fn);
ph_host_kernel_fn fake_kernel_form(const char *name);
/* The function whose host form that is; NULL: none. */
ph__cu_function fake_function_of(ph__drv_kernel *kernel);
void fake_module_end(ph__cu_module module); /* taken off the objects before */
void fake_modules_clear(ph__cu_context context);

/* ---- launches (cuda_launch.c) ---- */
enum {
    FAKE_ARGS = 4096 + 16
};
/* Checks and puts together what a launch hands over, in whichever form: 0, 1 or 400. */
int fake_args(unsigned char out[FAKE_ARGS], ph__cu_function function, void **params, void **extra);
int fake_check_shared(ph__cu_function function, unsigned shared_bytes);
/* What launches, copies and fills answer: where they wait, when they are done, unless captured. */
int fake_submitted(const fake_target *target, int result);
void fake_launches_wait(bool wait);
/* As in fake_cuda_controls. */
void fake_tell_time(float milliseconds);

/* ---- graphs (cuda_graph.c, cuda_capture.c) ---- */
/* How a kernel was launched, beside its sizes. */
typedef struct fake_launch_form {
    bool with_extra, programmatic;
    unsigned cluster[3]; /* 0: none */
    int sync_domain;
} fake_launch_form;
typedef struct fake_node { /* of a kernel */
    fake_launch_form form;
    size_t size;
    void *extra[5];
    void *params[];
} fake_node;
typedef struct fake_graph {
    fake_object object;
    ph__drv_graph *graph;
    ph__map nodes; /* ph__drv_node -> fake_node */
    /* ph__drv_node -> itself: destroyed; it stays in the host driver's graph, where it does
     * nothing */
    ph__map removed;
    ph__map twins; /* of a copy: the original's ph__drv_node -> its own */
    PH__VEC(struct fake_graph *) bodies;
} fake_graph;
/* The object of a graph, made where there is none yet: under capture, or a body. NULL: no
 * memory. */
fake_graph *fake_graph_of(ph__drv_graph *graph);
void fake_graph_forget(ph__drv_graph *graph); /* the host driver has destroyed it, or will */
void fake_graph_end(fake_graph *graph);       /* destroys it */
int fake_node_note(ph__drv_node *node, ph__cu_function function, const fake_launch_form *form);
bool fake_node_is_removed(ph__drv_node *node);
bool fake_node_remove(fake_graph *object, ph__drv_node *node); /* false: no memory */
/* What is known of the nodes of a graph, for the host driver's copy of it. */
int fake_copy_notes(fake_graph *copy, fake_graph *original);
/* In the list of its graph, under capture_lock (cuda_edit.c). */
void fake_move_node(ph__host_node *node, size_t to);
bool fake_node_is_programmatic(ph__drv_node *node, ph__drv_node *dependency);
/* `to` is the host driver's copy of `from`, and the body of a node of parent. */
int fake_body_note(fake_graph *parent, ph__drv_graph *to, ph__drv_graph *from);
/* The graph of the capture that began on the stream (any_member: that it is in), whatever its
 * state; NULL: none. */
ph__drv_graph *fake_captured(ph__drv_stream *stream, bool any_member);

/* ---- what programs make (cuda_programs.c) ---- nodes of the host driver that stand for others. */
typedef struct fake_special {
    struct fake_special *next;
    ph__drv_node *node;
    ph__drv_graph *graph;
    ph_node_kind kind; /* MEM_ALLOC, MEM_FREE, BATCH_MEM_OP, or MEMSET: of several rows */
    ph__cu_context context;
    void *memory;
    size_t bytes;
    ph__cu_fill_params fill;
    ph__cu_mem_op *ops;
    unsigned op_count;
} fake_special;
const fake_special *fake_special_of(const ph__drv_node *node); /* NULL: it is what it is */
bool fake_special_in(const ph__drv_graph *graph);
void fake_special_forget(const ph__drv_graph *graph); /* those of a graph that goes */

/* ---- executables (cuda_exec.c) ---- */
struct CUgraphExec_st {
    fake_object object;
    ph__drv_exec *exec;
    unsigned id;  /* as tools call it */
    size_t count; /* nodes */
    ph__cu_function *functions;
    size_t device_bytes;
    bool uploaded;
    bool demoted; /* a grid or block has changed */
};
int64_t fake_demoted_launches(void);
void fake_exec_end(ph__cu_exec exec);
void fake_wait_for_launches(ph__cu_exec exec); /* until none of it is in flight */

/* ---- launches whose nodes are told of (cuda_watch.c) ---- */
void fake_watch_nodes(fake_cuda_told told);
bool fake_is_watched(void);
int fake_launch_watched(ph__cu_exec exec, const fake_target *target);
uint64_t fake_node_id(const void *node);
uint32_t fake_exec_id(const void *exec);
#endif
