/* SPDX-License-Identifier: MIT */
/* driver/cuda/load/nvrtc.c: loading NVRTC, its options, compiling, and the words of a failed
 * compilation. */
#include "driver/cuda/load/nvrtc.h"
#include "base/environment.h"
#include "base/fork.h"
#include "base/log.h"
#include "base/sync.h"
#include "base/text.h"
#include "base/vec.h"
#include "driver/cuda/load/cache.h"
#include "driver/driver.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the library ---- its functions as this file uses them, declared by us. */

typedef struct nvrtc_program_body *nvrtc_program;
enum {
    NVRTC_OUT_OF_MEMORY = 1,
    NVRTC_INVALID_OPTION = 5,
    NVRTC_COMPILATION = 6
};
#define NVRTC_FUNCTIONS(X)                                                                         \
    X(Version, int, (int *major, int *minor))                                                      \
    X(GetNumSupportedArchs, int, (int *count))                                                     \
    X(GetSupportedArchs, int, (int *architectures))                                                \
    X(GetErrorString, const char *, (int result))                                                  \
    X(CreateProgram, int,                                                                          \
      (nvrtc_program * out, const char *text, const char *name, int header_count,                  \
       const char *const *headers, const char *const *header_names))                               \
    X(DestroyProgram, int, (nvrtc_program * program))                                              \
    X(CompileProgram, int, (nvrtc_program program, int option_count, const char *const *options))  \
    X(GetProgramLogSize, int, (nvrtc_program program, size_t * bytes))                             \
    X(GetProgramLog, int, (nvrtc_program program, char *log))                                      \
    X(GetCUBINSize, int, (nvrtc_program program, size_t * bytes))                                  \
    X(GetCUBIN, int, (nvrtc_program program, char *cubin))                                         \
    X(GetPTXSize, int, (nvrtc_program program, size_t * bytes))                                    \
    X(GetPTX, int, (nvrtc_program program, char *ptx))

typedef struct nvrtc_functions {
#define MEMBER(name, result, parameters) result(*name) parameters;
    NVRTC_FUNCTIONS(MEMBER)
#undef MEMBER
    int version;
    int architectures[64]; /* 75 for compute capability 7.5, ascending */
    int architecture_count;
} nvrtc_functions;

static struct {
    pthread_mutex_t lock;
    _Atomic(const nvrtc_functions *)
        functions; /* set once, stays to the end of the process, as the library does */
    nvrtc_functions storage;
} loaded = {.lock = PTHREAD_MUTEX_INITIALIZER};
PH__FORK_LOCK(PH__FORK_CUDA_NVRTC, loaded.lock)

static void *open_library(void)
{
    static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so",
                                        "/usr/local/cuda/lib64/libnvrtc.so"};
    const char *own = ph__environment("PH_NVRTC");
    void *library = own && own[0] ? dlopen(own, RTLD_NOW | RTLD_LOCAL) : NULL;
    for (size_t i = 0; !library && i < sizeof names / sizeof *names; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!library)
        ph__driver_set_reason(
            "NVRTC cannot be loaded (tried %s%s, %s, %s, %s): install it, it comes with the CUDA "
            "toolkit; or name it in PH_NVRTC; or give the kernel a cuda_image",
            own && own[0] ? "PH_NVRTC, " : "", names[0], names[1], names[2], names[3]);
    return library;
}

/* The name of the first function that is missing, or NULL. */
static const char *find_functions(nvrtc_functions *out, void *library)
{
#define FIND(name, result, parameters)                                                             \
    *(void **)&out->name = dlsym(library, "nvrtc" #name);                                          \
    if (!out->name)                                                                                \
        return "nvrtc" #name;
    NVRTC_FUNCTIONS(FIND)
#undef FIND
    return NULL;
}

static bool ask_what_it_is(nvrtc_functions *out)
{
    int major, minor, limit = (int)(sizeof out->architectures / sizeof *out->architectures);
    if (out->Version(&major, &minor) != 0 ||
        out->GetNumSupportedArchs(&out->architecture_count) != 0 || out->architecture_count < 1 ||
        out->architecture_count > limit || out->GetSupportedArchs(out->architectures) != 0)
        return false;
    out->version = major * 1000 + minor * 10;
    return true;
}

/* Under the lock. A failure is tried again at the next call: PH_NVRTC may have been set since. */
static int load_nvrtc(void)
{
    void *library = open_library();
    if (!library)
        return PH__R_NOT_SUPPORTED;
    const char *missing = find_functions(&loaded.storage, library);
    if (missing)
        ph__driver_set_reason("the NVRTC that was found is too old: it has no %s; name another in "
                              "PH_NVRTC, or give the "
                              "kernel a cuda_image",
                              missing);
    else if (!ask_what_it_is(&loaded.storage))
        ph__driver_set_reason("the NVRTC that was found does not say which version it is and what "
                              "it can compile for; "
                              "name another in PH_NVRTC, or give the kernel a cuda_image");
    else
        return PH__R_OK;
    dlclose(library);
    return PH__R_NOT_SUPPORTED;
}

static int get_functions(const nvrtc_functions **out)
{
    *out = atomic_load_explicit(&loaded.functions, memory_order_acquire);
    if (*out)
        return PH__R_OK;
    pthread_mutex_lock(&loaded.lock);
    int result = loaded.functions ? PH__R_OK : load_nvrtc();
    if (result == PH__R_OK) {
        *out = &loaded.storage;
        atomic_store_explicit(&loaded.functions, *out, memory_order_release);
    }
    pthread_mutex_unlock(&loaded.lock);
    return result;
}

int ph__cuda_nvrtc_version(int *version)
{
    const nvrtc_functions *nvrtc;
    int result = get_functions(&nvrtc);
    if (result == PH__R_OK)
        *version = nvrtc->version;
    return result;
}

/* ---- options ---- */

typedef struct options {
    PH__VEC(const char *) list;
    char *text;            /* the user's, cut at spaces */
    char architecture[48]; /* ours; "" where the user's name one */
} options;

static void free_options(options *o)
{
    ph__vec_free(&o->list);
    ph__free(o->text);
}

static bool names_architecture(const char *option)
{
    return strncmp(option, "--gpu-architecture", 18) == 0 || strncmp(option, "-arch", 5) == 0;
}

/* Code for exactly that GPU; where it is newer than NVRTC knows, the newest virtual architecture
 * before it, which the driver compiles on. */
static int choose_architecture(options *out, const nvrtc_functions *nvrtc, int capability)
{
    int best = 0;
    for (int i = 0; i < nvrtc->architecture_count; i++)
        if (nvrtc->architectures[i] <= capability && nvrtc->architectures[i] > best)
            best = nvrtc->architectures[i];
    if (best == 0) {
        ph__driver_set_reason(
            "NVRTC %d.%d compiles for GPUs of compute capability %d.%d and newer, and this one has "
            "%d.%d; name an older NVRTC in PH_NVRTC, or give the kernel a cuda_image",
            nvrtc->version / 1000, nvrtc->version % 1000 / 10, nvrtc->architectures[0] / 10,
            nvrtc->architectures[0] % 10, capability / 10, capability % 10);
        return PH__R_NOT_SUPPORTED;
    }
    (void)snprintf(out->architecture, sizeof out->architecture, "--gpu-architecture=%s_%d",
                   best == capability ? "sm" : "compute", best);
    return PH__R_OK;
}

static int make_options(options *out, const nvrtc_functions *nvrtc, const char *text,
                        int capability)
{
    bool has_architecture = false;
    char *rest = NULL;
    *out = (options){.text = ph__strdup(text ? text : "")};
    if (!out->text)
        return PH__R_OUT_OF_MEMORY;
    for (char *option = strtok_r(out->text, " ", &rest); option;
         option = strtok_r(NULL, " ", &rest)) {
        has_architecture = has_architecture || names_architecture(option);
        if (!ph__vec_push(&out->list, option))
            return PH__R_OUT_OF_MEMORY;
    }
    if (has_architecture)
        return PH__R_OK;
    int result = choose_architecture(out, nvrtc, capability);
    if (result == PH__R_OK && !ph__vec_push(&out->list, out->architecture))
        result = PH__R_OUT_OF_MEMORY;
    return result;
}

/* ---- the cache's key ---- */

/* Then the text is not all that the code depends on. */
static bool includes_files(const ph_kernel_source *source)
{
    if (source->cuda_options && strstr(source->cuda_options, "include"))
        return true;
    for (const char *at = strchr(source->cuda, '#'); at; at = strchr(at, '#')) {
        at += 1 + strspn(at + 1, " \t");
        if (strncmp(at, "include", 7) == 0)
            return true;
    }
    return false;
}

/* The lengths keep one part from being taken for another's. Failing, the text is empty: no cache
 * then. */
static void make_key(ph__text *key, const nvrtc_functions *nvrtc, const options *o,
                     const ph_kernel_source *source)
{
    const char *user = source->cuda_options ? source->cuda_options : "";
    if (includes_files(source))
        return;
    ph__text_format(key, "nvrtc %d %s\n%zu %zu %zu\n", nvrtc->version, o->architecture,
                    strlen(source->name), strlen(user), strlen(source->cuda));
    ph__text_add(key, source->name);
    ph__text_add(key, user);
    ph__text_add(key, source->cuda);
    if (key->failed)
        ph__text_free(key);
}

/* ---- compiling ---- */

/* The words of NVRTC, or NULL. */
static char *read_log(const nvrtc_functions *nvrtc, nvrtc_program program)
{
    size_t bytes = 0;
    if (nvrtc->GetProgramLogSize(program, &bytes) != 0 || bytes <= 1)
        return NULL;
    char *log = ph__alloc(bytes);
    if (log && nvrtc->GetProgramLog(program, log) != 0) {
        ph__free(log);
        return NULL;
    }
    if (log)
        log[bytes - 1] = '\0';
    return log;
}

/* Cuts the log into lines. */
static void pass_on_log(ph_log_level level, const char *name, char *log)
{
    char *rest = NULL;
    for (char *line = strtok_r(log, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        ph__log(level, "kernel %s: %s", name, line);
}

static void set_reason_from_log(const char *log)
{
    const char *at = log ? strstr(log, "error") : NULL;
    if (!at)
        at = log ? log : "NVRTC gives no reason";
    while (log && at > log && at[-1] != '\n')
        at--;
    ph__driver_set_reason("%.*s", (int)strcspn(at, "\n"), at);
}

/* Only where the words are NVRTC's own. */
static int fail_nvrtc(const nvrtc_functions *nvrtc, int number, const char *call)
{
    if (number == NVRTC_OUT_OF_MEMORY)
        return PH__R_OUT_OF_MEMORY;
    ph__driver_set_reason("%s gave %d (%s)", call, number, nvrtc->GetErrorString(number));
    return 999;
}

static int compile_program(const nvrtc_functions *nvrtc, nvrtc_program program, const options *o,
                           const char *name)
{
    int number = nvrtc->CompileProgram(program, (int)o->list.count, o->list.at);
    char *log = read_log(nvrtc, program);
    int result = PH__R_OK;
    if (number == NVRTC_COMPILATION || number == NVRTC_INVALID_OPTION) {
        set_reason_from_log(log);
        result = number == NVRTC_COMPILATION ? PH__R_INVALID_PTX : PH__R_INVALID_VALUE;
    } else if (number != 0) {
        result = fail_nvrtc(nvrtc, number, "nvrtcCompileProgram");
    }
    if (log)
        pass_on_log(number != 0 ? PH_LOG_WARNING : PH_LOG_INFO, name, log);
    ph__free(log);
    return result;
}

/* There is no cubin of a virtual architecture. */
static int read_code(ph__cuda_image *out, const nvrtc_functions *nvrtc, nvrtc_program program)
{
    size_t bytes = 0;
    bool cubin = nvrtc->GetCUBINSize(program, &bytes) == 0 && bytes != 0;
    int number = cubin ? 0 : nvrtc->GetPTXSize(program, &bytes);
    if (number != 0)
        return fail_nvrtc(nvrtc, number, "nvrtcGetPTXSize");
    char *code = ph__alloc(bytes + 1);
    if (!code)
        return PH__R_OUT_OF_MEMORY;
    number = cubin ? nvrtc->GetCUBIN(program, code) : nvrtc->GetPTX(program, code);
    if (number != 0) {
        ph__free(code);
        return fail_nvrtc(nvrtc, number, cubin ? "nvrtcGetCUBIN" : "nvrtcGetPTX");
    }
    code[bytes] = '\0';
    *out = (ph__cuda_image){code, cubin ? bytes : strlen(code)};
    return PH__R_OK;
}

static int compile_text(ph__cuda_image *out, const nvrtc_functions *nvrtc, const options *o,
                        const ph_kernel_source *source)
{
    nvrtc_program program = NULL;
    ph__text file = {0};
    ph__text_format(&file, "%s.cu", source->name);
    char *file_name = ph__text_detach(&file);
    if (!file_name)
        return PH__R_OUT_OF_MEMORY;
    int number = nvrtc->CreateProgram(&program, source->cuda, file_name, 0, NULL, NULL);
    ph__free(file_name);
    if (number != 0)
        return fail_nvrtc(nvrtc, number, "nvrtcCreateProgram");
    int result = compile_program(nvrtc, program, o, source->name);
    if (result == PH__R_OK)
        result = read_code(out, nvrtc, program);
    (void)nvrtc->DestroyProgram(&program);
    return result;
}

int ph__cuda_nvrtc_compile(ph__cuda_image *out, const ph_kernel_source *source, int capability)
{
    const nvrtc_functions *nvrtc;
    int result = get_functions(&nvrtc);
    if (result != PH__R_OK)
        return result;
    options o;
    ph__text key = {0};
    ph__cuda_image image = {0};
    result = make_options(&o, nvrtc, source->cuda_options, capability);
    if (result == PH__R_OK) {
        make_key(&key, nvrtc, &o, source);
        if (!key.length || !ph__cuda_cache_get(&image.at, &image.bytes, key.at, key.length)) {
            result = compile_text(&image, nvrtc, &o, source);
            if (result == PH__R_OK && key.length)
                ph__cuda_cache_put(key.at, key.length, image.at, image.bytes);
        }
    }
    if (result == PH__R_OK)
        *out = image;
    ph__text_free(&key);
    free_options(&o);
    return result;
}
