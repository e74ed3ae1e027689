/* SPDX-License-Identifier: MIT */
/* tests/fake/cuda_module.c: modules and functions of the software libcuda, and the host forms
 * behind the functions. */
#include "cuda_inside.h"
#include <elf.h>
#include <stdio.h>
#include <string.h>

static const ph__driver *const host = &ph__driver_host;

/* ---- host forms ---- */
enum {
    MOST_FORMS = 4096
};
static struct {
    pthread_mutex_t lock;
    size_t count;
    struct {
        char name[128];
        ph_host_kernel_fn fn;
    } at[MOST_FORMS];
} forms = {.lock = PTHREAD_MUTEX_INITIALIZER};

void fake_register_kernel(const char *name, ph_host_kernel_fn fn)
{
    size_t at = 0;
    pthread_mutex_lock(&forms.lock);
    while (at < forms.count && strcmp(forms.at[at].name, name) != 0)
        at++;
    if (at < MOST_FORMS) {
        (void)snprintf(forms.at[at].name, sizeof forms.at[at].name, "%s", name);
        forms.at[at].fn = fn;
        forms.count += at == forms.count;
    }
    pthread_mutex_unlock(&forms.lock);
}

/* The library's own fill: its arguments are those of src/driver/cuda/load/core_kernels.cu. */
static void core_fill(const ph_block_range *range, const void *args)
{
    struct {
        uint64_t dst;
        uint32_t value, value_size;
        uint64_t count;
    } fill;
    memcpy(&fill, args, sizeof fill);
    if (range->begin == 0)
        ph__host_fill_fn(NULL, &(ph__drv_memset){.dst = (void *)(uintptr_t)fill.dst,
                                                 .value = fill.value,
                                                 .value_size = fill.value_size,
                                                 .count = fill.count});
}

/* Its writers of cells: ph__drv_cells of src/driver/driver.h. */
static void core_cells(const ph_block_range *range, const void *args)
{
    const ph__drv_cells *cells = args;
    for (uint64_t i = 0; range->begin == 0 && i < cells->count; i++)
        *cells->cells[i].at = cells->cells[i].value;
}

ph_host_kernel_fn fake_kernel_form(const char *name)
{
    ph_host_kernel_fn fn = NULL;
    if (strcmp(name, "ph_core_fill") == 0)
        fn = core_fill;
    else if (strncmp(name, "ph_core_cells_", 14) == 0)
        fn = core_cells;
    else if (strcmp(name, "phonograph_breadcrumb") == 0)
        fn = ph__host_breadcrumb_fn;
    else if (strcmp(name, "phonograph_check_finite") == 0)
        fn = ph__host_finite_fn;
    pthread_mutex_lock(&forms.lock);
    for (size_t i = 0; i < forms.count && !fn; i++)
        if (strcmp(forms.at[i].name, name) == 0)
            fn = forms.at[i].fn;
    pthread_mutex_unlock(&forms.lock);
    return fn;
}

/* ---- images ---- PTX text; or a cubin of this folder's NVRTC: an ELF header, whose sections
 * begin at its end, and PTX text. */
static int text_of(const char **out, const void *image)
{
    Elf64_Ehdr header;
    if (memcmp(image, ELFMAG, SELFMAG) != 0) {
        *out = image;
        return 0;
    }
    memcpy(&header, image, sizeof header);
    *out = (const char *)image + sizeof header;
    if (header.e_machine != EM_CUDA || header.e_shoff <= sizeof header ||
        header.e_shoff - sizeof header != strlen(*out) + 1)
        return FAKE_INVALID_IMAGE;
    return header.e_flags == (Elf64_Word)fake_environment("FAKE_CUDA_CAPABILITY", 90)
               ? 0
               : FAKE_NO_BINARY;
}

static void give_log(const char *log, unsigned count, const int *options, void **values)
{
    char *buffer = NULL;
    size_t size = 0;
    for (unsigned i = 0; i < count; i++) {
        if (options[i] == PH__CU_JIT_ERROR_LOG_BUFFER)
            buffer = values[i];
        if (options[i] == PH__CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES)
            size = (size_t)(uintptr_t)values[i];
    }
    if (buffer && size)
        (void)snprintf(buffer, size, "%s", log);
}

FAKE(ModuleLoadDataEx,
     (ph__cu_module * out, const void *image, unsigned count, int *options, void **values),
     (out, image, count, options, values))
{
    ph__cu_context context;
    const char *text = NULL;
    char log[512] = "";
    int result = out && image ? fake_current(&context, "cuModuleLoadDataEx") : PH__R_INVALID_VALUE;
    if (!result)
        result = text_of(&text, image);
    if (!result)
        result = fake_ptx_check(text, log, sizeof log);
    give_log(log, count, options, values);
    if (result)
        return result;
    struct CUmod_st *module = ph__calloc(1, sizeof *module);
    char *copy = module ? ph__strdup(text) : NULL;
    if (!copy || !fake_add(&module->object, FAKE_MODULE, context, module)) {
        ph__free(copy);
        ph__free(module);
        return PH__R_OUT_OF_MEMORY;
    }
    module->text = copy;
    *out = module;
    return 0;
}

/* ---- functions ---- */
/* the functions of modules, and the two below */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static ph__map by_kernel; /* ph__drv_kernel -> function */
static ph__cu_function unloaded;

static int function_create(ph__cu_function *out, ph__cu_module module, const char *name)
{
    ph__cu_function function = ph__calloc(1, sizeof *function);
    if (!function)
        return PH__R_OUT_OF_MEMORY;
    int result = fake_ptx_entry(&function->entry, module->text, name);
    ph_kernel_source source = {.name = name,
                               .host = fake_kernel_form(name),
                               .args_size = (function->entry.end + 7) / 8 * 8};
    if (!result && !source.host) {
        ph__driver_set_reason("the tests' libcuda knows no host form of %s", name);
        result = PH__R_NOT_FOUND;
    }
    if (!result)
        result = host->kernel_create(&function->kernel, module->object.context->device, &source);
    if (result) {
        ph__free(function);
        return result;
    }
    function->most_shared = FAKE_SHARED_DEFAULT;
    function->object.uncounted = true;
    if (!ph__vec_push(&module->functions, function) ||
        !ph__map_put(&by_kernel, (uintptr_t)function->kernel, function) ||
        !fake_add(&function->object, FAKE_FUNCTION, module->object.context, function))
        return PH__R_OUT_OF_MEMORY;
    *out = function;
    return 0;
}

FAKE(ModuleGetFunction, (ph__cu_function * out, ph__cu_module module, const char *name),
     (out, module, name))
{
    int result = PH__R_NOT_FOUND;
    if (!out || !name)
        return PH__R_INVALID_VALUE;
    if (!fake_find(FAKE_MODULE, module))
        return PH__R_INVALID_HANDLE;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < module->functions.count && result; i++) {
        if (strcmp(module->functions.at[i]->entry.name, name) != 0)
            continue;
        *out = module->functions.at[i];
        result = 0;
    }
    if (result)
        result = function_create(out, module, name);
    pthread_mutex_unlock(&lock);
    return result;
}

/* Graphs may still hold their kernels: what they lead to stays until the context goes. */
static void end_function(ph__cu_function function)
{
    (void)fake_remove(FAKE_FUNCTION, function);
    host->kernel_destroy(function->kernel);
    function->unloaded = true;
    function->next = unloaded;
    unloaded = function;
}

void fake_module_end(ph__cu_module module)
{
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < module->functions.count; i++)
        end_function(module->functions.at[i]);
    pthread_mutex_unlock(&lock);
    ph__vec_free(&module->functions);
    ph__free(module->text);
    ph__free(module);
}

FAKE(ModuleUnload, (ph__cu_module module), (module))
{
    if (!fake_find(FAKE_MODULE, module))
        return PH__R_INVALID_HANDLE;
    int result = fake_unsafe(module->object.context, "cuModuleUnload");
    if (result)
        return result;
    (void)fake_remove(FAKE_MODULE, module);
    fake_module_end(module);
    return 0;
}

void fake_modules_clear(ph__cu_context context)
{
    pthread_mutex_lock(&lock);
    for (ph__cu_function *at = &unloaded; *at;) {
        ph__cu_function function = *at;
        if (function->object.context != context) {
            at = &function->next;
            continue;
        }
        *at = function->next;
        if (ph__map_get(&by_kernel, (uintptr_t)function->kernel) == function)
            (void)ph__map_remove(&by_kernel, (uintptr_t)function->kernel);
        ph__free(function);
    }
    if (by_kernel.count == 0)
        ph__map_free(&by_kernel);
    pthread_mutex_unlock(&lock);
}

ph__cu_function fake_function_of(ph__drv_kernel *kernel)
{
    pthread_mutex_lock(&lock);
    ph__cu_function function = kernel ? ph__map_get(&by_kernel, (uintptr_t)kernel) : NULL;
    pthread_mutex_unlock(&lock);
    return function;
}

/* ---- what a function is ---- */
FAKE(FuncSetAttribute, (ph__cu_function function, int attribute, int value),
     (function, attribute, value))
{
    if (!fake_find(FAKE_FUNCTION, function))
        return PH__R_INVALID_HANDLE;
    if (attribute != PH__CU_FUNC_MAX_DYNAMIC_SHARED_SIZE_BYTES || value < 0 ||
        value > FAKE_SHARED_LIMIT)
        return PH__R_INVALID_VALUE;
    function->most_shared = value;
    return 0;
}

FAKE(FuncGetAttribute, (int *value, int attribute, ph__cu_function function),
     (value, attribute, function))
{
    if (!value)
        return PH__R_INVALID_VALUE;
    if (!fake_find(FAKE_FUNCTION, function))
        return PH__R_INVALID_HANDLE;
    if (attribute != PH__CU_FUNC_MAX_DYNAMIC_SHARED_SIZE_BYTES &&
        attribute != PH__CU_FUNC_SHARED_SIZE_BYTES)
        return PH__R_INVALID_VALUE;
    *value = attribute == PH__CU_FUNC_SHARED_SIZE_BYTES ? 0 : function->most_shared;
    return 0;
}

FAKE(FuncGetName, (const char **name, ph__cu_function function), (name, function))
{
    if (!name)
        return PH__R_INVALID_VALUE;
    if (!fake_find(FAKE_FUNCTION, function))
        return PH__R_INVALID_HANDLE;
    *name = function->entry.name;
    return 0;
}

FAKE(FuncGetParamInfo, (ph__cu_function function, size_t index, size_t *offset, size_t *bytes),
     (function, index, offset, bytes))
{
    if (!offset)
        return PH__R_INVALID_VALUE;
    if (!fake_find(FAKE_FUNCTION, function))
        return PH__R_INVALID_HANDLE;
    if (index >= function->entry.count)
        return PH__R_INVALID_VALUE;
    *offset = function->entry.params[index].offset;
    if (bytes)
        *bytes = function->entry.params[index].bytes;
    return 0;
}

/* No node of this library has a CUkernel. */
FAKE(KernelGetName, (const char **name, ph__cu_kernel kernel), (name, kernel))
{
    (void)name;
    (void)kernel;
    return PH__R_INVALID_HANDLE;
}

FAKE(KernelGetParamInfo, (ph__cu_kernel kernel, size_t index, size_t *offset, size_t *bytes),
     (kernel, index, offset, bytes))
{
    (void)kernel;
    (void)index;
    (void)offset;
    (void)bytes;
    return PH__R_INVALID_HANDLE;
}
