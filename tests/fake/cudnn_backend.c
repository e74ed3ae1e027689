/* SPDX-License-Identifier: MIT */
/* tests/fake/cudnn_backend.c: a software libcudnn.so.9 beside the software libcuda: the backend
 * interface as far as src/tensor uses it. A plan is launched as a kernel of that libcuda, so that
 * captures see what they would see of a real one.
 *
 *   FAKE_CUDNN_VERSION=91900  what cudnnGetVersion says
 *   FAKE_CUDNN_REFUSES=1      there is no plan for anything
 *   FAKE_CUDNN_TIMES=2,1      proposals, as fake_proposals reads them; each has a kernel
 *   FAKE_CUDNN_NOTES=-1,4,99  the numerical note of each; negative: none; 99: it does not say */
#include "fake/cudnn_inside.h"
#include "fake/fake_cuda.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT                            __attribute__((visibility("default")))
#define DECLARE(name, result, parameters) EXPORT result cudnn##name parameters;
PH__CUDNN_FUNCTIONS(DECLARE)
#undef DECLARE

static int setting(const char *name, int otherwise)
{
    const char *text = getenv(name);
    return text && text[0] ? atoi(text) : otherwise;
}

size_t cudnnGetVersion(void)
{
    return (size_t)setting("FAKE_CUDNN_VERSION", 91900);
}

/* ---- handles ---- each has a module with the kernel, in the context that was current. */
typedef struct handle {
    void *module, *function[FAKE_PROPOSALS], *atomic;
    struct CUstream_st *stream;
} handle;
static const char *const kernels[FAKE_PROPOSALS] = {"fake_cudnn_plan", "fake_cudnn_plan_1",
                                                    "fake_cudnn_plan_2", "fake_cudnn_plan_3"};

static struct {
    int (*cuModuleLoadDataEx)(void **module, const void *image, unsigned count, int *options,
                              void **values);
    int (*cuModuleUnload)(void *module);
    int (*cuModuleGetFunction)(void **function, void *module, const char *name);
    int (*cuLaunchKernel)(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                          unsigned block_x, unsigned block_y, unsigned block_z,
                          unsigned shared_bytes, struct CUstream_st *stream, void **params,
                          void **extra);
} cuda;

static void find_cuda(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library || !fake_cuda())
        return;
    int (*address_of)(const char *name, void **out, int version, uint64_t flags, int *found);
    *(void **)&address_of = dlsym(library, "cuGetProcAddress_v2");
#define FIND(name) (void)address_of(#name, (void **)&cuda.name, 12000, 0, NULL)
    FIND(cuModuleLoadDataEx);
    FIND(cuModuleUnload);
    FIND(cuModuleGetFunction);
    FIND(cuLaunchKernel);
#undef FIND
    for (int i = 0; i < FAKE_PROPOSALS; i++)
        fake_cuda()->register_kernel(kernels[i], fake_cudnn_run);
    fake_cuda()->register_kernel("fake_cudnn_atomic", fake_cudnn_run);
}

int cudnnCreate(void **out)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
#define ENTRY(name) ".visible .entry " name "(.param .align 8 .b8 p[344])\n{\nret;\n}\n"
    static const char text[] =
        ".version 8.0\n.target sm_80\n.address_size 64\n" ENTRY("fake_cudnn_plan")
            ENTRY("fake_cudnn_plan_1") ENTRY("fake_cudnn_plan_2") ENTRY("fake_cudnn_plan_3")
                ENTRY("fake_cudnn_atomic");
#undef ENTRY
    _Static_assert(sizeof(fake_cudnn_call) == 344, "as in the text");
    (void)pthread_once(&once, find_cuda);
    handle *made = calloc(1, sizeof *made);
    if (!made || !cuda.cuLaunchKernel ||
        cuda.cuModuleLoadDataEx(&made->module, text, 0, NULL, NULL) != 0) {
        free(made);
        return FAKE_CUDNN_FAILED;
    }
    int result = cuda.cuModuleGetFunction(&made->atomic, made->module, "fake_cudnn_atomic");
    for (int i = 0; !result && i < FAKE_PROPOSALS; i++)
        result = cuda.cuModuleGetFunction(&made->function[i], made->module, kernels[i]);
    if (result) {
        (void)cuda.cuModuleUnload(made->module);
        free(made);
        return FAKE_CUDNN_FAILED;
    }
    *out = made;
    return PH__CUDNN_OK;
}

int cudnnDestroy(void *at)
{
    handle *gone = at;
    int result = cuda.cuModuleUnload(gone->module);
    free(gone);
    return result ? FAKE_CUDNN_FAILED : PH__CUDNN_OK;
}

int cudnnSetStream(void *at, struct CUstream_st *stream)
{
    ((handle *)at)->stream = stream;
    return PH__CUDNN_OK;
}

/* ---- descriptors ---- */
int cudnnBackendCreateDescriptor(int type, void **out)
{
    fake_descriptor *made = calloc(1, sizeof *made);
    if (!made)
        return FAKE_CUDNN_NO_MEMORY;
    made->type = type;
    *out = made;
    return PH__CUDNN_OK;
}

int cudnnBackendDestroyDescriptor(void *at)
{
    fake_descriptor *gone = at;
    for (int i = 0; i < gone->attributes; i++)
        free(gone->attribute[i].values);
    free(gone);
    return PH__CUDNN_OK;
}

static size_t size_of(int type)
{
    bool wide = type == PH__CUDNN_TYPE_HANDLE || type == PH__CUDNN_TYPE_I64 ||
                type == PH__CUDNN_TYPE_ADDRESS || type == PH__CUDNN_TYPE_DESCRIPTOR;
    return wide ? 8 : type == PH__CUDNN_TYPE_BOOL ? sizeof(bool) : sizeof(int);
}

int cudnnBackendSetAttribute(void *at, int name, int type, int64_t count, const void *values)
{
    fake_descriptor *of = at;
    size_t bytes = count > 0 ? (size_t)count * size_of(type) : 0;
    if (!of || of->final || bytes == 0 || !values ||
        of->attributes == sizeof of->attribute / sizeof *of->attribute)
        return FAKE_CUDNN_BAD;
    fake_attribute *a = &of->attribute[of->attributes];
    *a = (fake_attribute){name, count, malloc(bytes)};
    if (!a->values)
        return FAKE_CUDNN_NO_MEMORY;
    memcpy(a->values, values, bytes);
    of->attributes++;
    return PH__CUDNN_OK;
}

const void *fake_cudnn_values(const fake_descriptor *of, int name, int64_t *count)
{
    for (int i = 0; of && i < of->attributes; i++)
        if (of->attribute[i].name == name) {
            *count = of->attribute[i].count;
            return of->attribute[i].values;
        }
    *count = 0;
    return NULL;
}

int fake_cudnn_number(const fake_descriptor *of, int name, int otherwise)
{
    int64_t count;
    const int *number = fake_cudnn_values(of, name, &count);
    return number ? *number : otherwise;
}

fake_descriptor *fake_cudnn_part(const fake_descriptor *of, int name)
{
    int64_t count;
    fake_descriptor *const *part = fake_cudnn_values(of, name, &count);
    return part && (*part)->final ? *part : NULL;
}

/* ---- graphs and plans ---- */
static int finalize_plan(fake_descriptor *plan)
{
    int64_t count;
    fake_descriptor *const *with = fake_cudnn_values(plan, PH__CUDNN_PLAN_CONFIGURATION, &count);
    if (!with || !(*with)->made)
        return FAKE_CUDNN_BAD;
    plan->made = (*with)->made;
    plan->proposal = (*with)->proposal;
    return setting("FAKE_CUDNN_REFUSES", 0) ? FAKE_CUDNN_UNSUPPORTED : PH__CUDNN_OK;
}

int cudnnBackendFinalize(void *at)
{
    fake_descriptor *of = at;
    const fake_program *program = NULL;
    int result = of->final ? FAKE_CUDNN_BAD : PH__CUDNN_OK;
    if (!result && of->type == PH__CUDNN_OPERATIONS) {
        result = fake_cudnn_compile(&program, of);
        of->made = program;
    }
    if (!result && of->type == PH__CUDNN_PLAN)
        result = finalize_plan(of);
    of->final = result == PH__CUDNN_OK;
    return result;
}

static int propose(const fake_descriptor *of, int64_t wanted, int64_t *count, void *values)
{
    float ms[FAKE_PROPOSALS];
    int there = fake_proposals(ms, "FAKE_CUDNN_TIMES");
    const fake_descriptor *operations = fake_cudnn_part(of, PH__CUDNN_HEURISTICS_OPERATIONS);
    if (!operations)
        return FAKE_CUDNN_BAD;
    for (*count = 0; *count < wanted && *count < (there ? there : 1); ++*count) {
        fake_descriptor *made = ((fake_descriptor **)values)[*count];
        made->made = operations->made;
        made->proposal = (int)*count;
        made->final = true;
    }
    return PH__CUDNN_OK;
}

/* Notes are numbers with the milliseconds' form. */
enum {
    UNKNOWN_NOTE = 99
};
static int get_notes(const fake_descriptor *of, int64_t *count, int *values)
{
    float note[FAKE_PROPOSALS];
    int there = fake_proposals(note, "FAKE_CUDNN_NOTES");
    *count = of->proposal < there && note[of->proposal] >= 0;
    if (*count)
        *values = (int)note[of->proposal];
    return *count && *values == UNKNOWN_NOTE ? FAKE_CUDNN_BAD : PH__CUDNN_OK;
}

int cudnnBackendGetAttribute(void *const at, int name, int type, int64_t wanted, int64_t *count,
                             void *values)
{
    const fake_descriptor *of = at;
    if (!of->final || wanted < 1)
        return FAKE_CUDNN_BAD;
    *count = 1;
    if (name == PH__CUDNN_PLAN_WORKSPACE && type == PH__CUDNN_TYPE_I64) {
        *(int64_t *)values =
            ((const fake_program *)of->made)->steps > 16 ? FAKE_CUDNN_WORKSPACE : 0;
        return PH__CUDNN_OK;
    }
    if (name == PH__CUDNN_CONFIGURATION_ENGINE && type == PH__CUDNN_TYPE_DESCRIPTOR) {
        fake_descriptor *engine = *(fake_descriptor **)values;
        engine->proposal = of->proposal;
        engine->final = true;
        return PH__CUDNN_OK;
    }
    if (name == PH__CUDNN_ENGINE_NOTES && type == PH__CUDNN_TYPE_NOTE)
        return get_notes(of, count, values);
    return name == PH__CUDNN_HEURISTICS_RESULTS ? propose(of, wanted, count, values)
                                                : FAKE_CUDNN_BAD;
}

/* ---- calls ---- numbers are read now. */
static int fill_call(fake_cudnn_call *call, const fake_descriptor *pack)
{
    int64_t count;
    const int64_t *ids = fake_cudnn_values(pack, PH__CUDNN_PACK_IDS, &call->count);
    void *const *addresses = fake_cudnn_values(pack, PH__CUDNN_PACK_ADDRESSES, &count);
    if (!ids || !addresses || count != call->count || count > FAKE_CUDNN_OPERANDS)
        return FAKE_CUDNN_BAD;
    void *const *workspace = fake_cudnn_values(pack, PH__CUDNN_PACK_WORKSPACE, &count);
    call->workspace = workspace ? *workspace : NULL;
    for (int64_t i = 0; i < call->count; i++) {
        call->id[i] = ids[i];
        call->address[i] = addresses[i];
    }
    for (int t = 0; t < call->program->tensors; t++) {
        const fake_tensor *tensor = &call->program->tensor[t];
        int64_t i = 0;
        while (i < call->count && call->id[i] != tensor->id)
            i++;
        if (!tensor->between &&
            (i == call->count || (!tensor->number && (uintptr_t)call->address[i] % 16 != 0)))
            return FAKE_CUDNN_BAD;
        if (tensor->number) {
            call->number[i] = *(const float *)call->address[i];
            call->address[i] = NULL;
        }
    }
    return PH__CUDNN_OK;
}

/* False: the proposal refuses. */
static bool play_proposal(int i)
{
    float ms[FAKE_PROPOSALS];
    int count = fake_proposals(ms, "FAKE_CUDNN_TIMES");
    if (i < count && ms[i] >= 0)
        fake_cuda()->tell_time(ms[i]);
    return i >= count || ms[i] >= 0;
}

int cudnnBackendExecute(void *at, void *plan, void *pack)
{
    const handle *with = at;
    const fake_descriptor *of = plan;
    fake_cudnn_call call;
    memset(&call, 0, sizeof call);
    if (!of->final || of->type != PH__CUDNN_PLAN || !((fake_descriptor *)pack)->final)
        return FAKE_CUDNN_BAD;
    if (!play_proposal(of->proposal))
        return FAKE_CUDNN_UNSUPPORTED;
    call.program = of->made;
    int result = fill_call(&call, pack);
    if (!result && call.program->steps > 16 && !call.workspace)
        result = FAKE_CUDNN_BAD;
    void *params[] = {&call};
    void *function =
        call.program && call.program->atomic ? with->atomic : with->function[of->proposal];
    if (!result &&
        cuda.cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, with->stream, params, NULL) != 0)
        result = FAKE_CUDNN_FAILED;
    return result;
}
