/* SPDX-License-Identifier: MIT */
/* tests/fake/cublaslt_product.c: a software libcublasLt.so.13 beside the software libcuda:
 * products with plain loops, launched as a kernel of that libcuda, so that captures see what
 * they would see of a real one. It knows what src/tensor asks of cuBLASLt, and no more.
 *
 *   FAKE_CUBLASLT_TIMES=2,1  proposals, as fake_proposals reads them; each has a kernel
 *   FAKE_CUBLASLT_MOST=16    a question for more proposals fails
 *   FAKE_CUBLASLT_ODD=cluster      the kernel is launched in clusters of two blocks
 *                     buffer       its parameters are given in one buffer
 *                     alignment    a parameter says whether d is a multiple of 256
 *                     pair         a parameter says whether d is one and a is none
 *                     other pair   the same of d and b
 *                     window       a parameter has the upper bits of d
 *                     counter      a parameter counts the calls
 *                     distance     a parameter is the distance of a and b
 *                     same         a parameter says whether a and b are the same
 *                     stream       a parameter is the stream
 *                     missing      no parameter is the bias, which is not added
 *                     twice        a product is the same kernel twice, where it adds nothing
 *                     block, shared, function, clusters: every second call has another one
 *                     domain       the kernel is launched in another domain of memory order
 *                     programmatic the kernel may begin before what is in front of it has ended
 *
 * FAKE_CUBLASLT_ODD is read at each call. fake_cublaslt_calls: how many products were asked for. */
#include "base/half.h"
#include "driver/cuda/load/abi_params.h"
#include "fake/fake_cuda.h"
#include "tensor/products/cublaslt_abi.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT                            __attribute__((visibility("default")))
#define DECLARE(name, result, parameters) EXPORT result cublasLt##name parameters;
PH__LT_FUNCTIONS(DECLARE)
#undef DECLARE

enum {
    ALLOC_FAILED = 3,
    INVALID_VALUE = 7,
    EXECUTION_FAILED = 13
};

typedef struct matrix {
    int type;
    int batch;
    int64_t rows, columns, ld, stride; /* column-major */
} matrix;
typedef struct descriptor {
    int compute, scale_type, transpose_a, transpose_b, epilogue, bias_type;
    const void *bias;
} descriptor;

/* What the kernel is given. */
typedef struct product {
    const void *a, *b, *c, *bias;
    void *d;
    double alpha, beta;
    matrix layout_a, layout_b, layout_c, layout_d;
    int transpose_a, transpose_b, bias_type, in_f64;
    uint64_t odd; /* what FAKE_CUBLASLT_ODD asks for; the kernel does not read it */
} product;

/* ---- the kernel ---- */
static double get(const void *at, int type, int64_t i)
{
    switch (type) {
    case PH__LT_F64:
        return ((const double *)at)[i];
    case PH__LT_F16:
        return (double)ph__f16_get(((const uint16_t *)at)[i]);
    case PH__LT_BF16:
        return (double)ph__bf16_get(((const uint16_t *)at)[i]);
    default:
        return (double)((const float *)at)[i];
    }
}

static void put(void *at, int type, int64_t i, double x)
{
    switch (type) {
    case PH__LT_F64:
        ((double *)at)[i] = x;
        break;
    case PH__LT_F16:
        ((uint16_t *)at)[i] = ph__f16_put((float)x);
        break;
    case PH__LT_BF16:
        ((uint16_t *)at)[i] = ph__bf16_put((float)x);
        break;
    default:
        ((float *)at)[i] = (float)x;
    }
}

static double element(const void *at, const matrix *m, int64_t batch, int64_t row, int64_t column,
                      bool transposed)
{
    int64_t i = transposed ? column : row, j = transposed ? row : column;
    return get(at, m->type, batch * m->stride + i + j * m->ld);
}

/* A block does one column of one matrix of the batch. */
static void run(const ph_block_range *range, const void *args)
{
    const product *p = args;
    int64_t k = p->transpose_a ? p->layout_a.rows : p->layout_a.columns;
    for (uint64_t block = range->begin; block < range->end; block++) {
        int64_t batch = (int64_t)block / p->layout_d.columns,
                j = (int64_t)block % p->layout_d.columns;
        for (int64_t i = 0; i < p->layout_d.rows; i++) {
            double sum = 0;
            for (int64_t l = 0; l < k; l++)
                sum += element(p->a, &p->layout_a, batch, i, l, p->transpose_a) *
                       element(p->b, &p->layout_b, batch, l, j, p->transpose_b);
            double x = p->alpha * (p->in_f64 ? sum : (double)(float)sum);
            if (p->beta != 0)
                x += p->beta * element(p->c, &p->layout_c, batch, i, j, false);
            if (p->bias)
                x += get(p->bias, p->bias_type, i);
            put(p->d, p->layout_d.type, batch * p->layout_d.stride + i + j * p->layout_d.ld, x);
        }
    }
}

/* ---- handles ---- each has a module with the kernel, in the context that was current. */
typedef struct handle {
    void *module, *function[FAKE_PROPOSALS];
} handle;
static const char *const kernels[FAKE_PROPOSALS] = {
    "fake_cublaslt_product", "fake_cublaslt_product_1", "fake_cublaslt_product_2",
    "fake_cublaslt_product_3"};

static struct {
    int (*cuModuleLoadDataEx)(void **module, const void *image, unsigned count, int *options,
                              void **values);
    int (*cuModuleUnload)(void *module);
    int (*cuModuleGetFunction)(void **function, void *module, const char *name);
    int (*cuLaunchKernelEx)(const ph__cu_launch_config *config, void *function, void **params,
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
    FIND(cuLaunchKernelEx);
#undef FIND
    for (int i = 0; i < FAKE_PROPOSALS; i++)
        fake_cuda()->register_kernel(kernels[i], run);
}

int cublasLtCreate(void **out)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
#define ENTRY(name)                                                                                \
    ".visible .entry " name "(.param .align 8 .b8 p[40], .param .align 8 .b8 "                     \
    "q[200])\n{\nret;\n}\n"
    static const char text[] =
        ".version 8.0\n.target sm_80\n.address_size 64\n" ENTRY("fake_cublaslt_product")
            ENTRY("fake_cublaslt_product_1") ENTRY("fake_cublaslt_product_2")
                ENTRY("fake_cublaslt_product_3");
#undef ENTRY
    _Static_assert(sizeof(product) == 240, "as in the text");
    (void)pthread_once(&once, find_cuda);
    handle *made = calloc(1, sizeof *made);
    if (!made || !cuda.cuLaunchKernelEx ||
        cuda.cuModuleLoadDataEx(&made->module, text, 0, NULL, NULL) != 0) {
        free(made);
        return made ? EXECUTION_FAILED : PH__LT_ALLOC_FAILED;
    }
    for (int i = 0; i < FAKE_PROPOSALS; i++)
        if (cuda.cuModuleGetFunction(&made->function[i], made->module, kernels[i]) != 0) {
            (void)cuda.cuModuleUnload(made->module);
            free(made);
            return EXECUTION_FAILED;
        }
    *out = made;
    return PH__LT_OK;
}

int cublasLtDestroy(void *at)
{
    handle *gone = at;
    int result = cuda.cuModuleUnload(gone->module);
    free(gone);
    return result ? EXECUTION_FAILED : PH__LT_OK;
}

/* ---- descriptions ---- */
int cublasLtMatmulDescCreate(void **out, int compute, int scale_type)
{
    descriptor *made = calloc(1, sizeof *made);
    if (!made)
        return PH__LT_ALLOC_FAILED;
    *made = (descriptor){.compute = compute, .scale_type = scale_type, .epilogue = 1};
    *out = made;
    return PH__LT_OK;
}

int cublasLtMatmulDescDestroy(void *at)
{
    free(at);
    return PH__LT_OK;
}

int cublasLtMatmulDescSetAttribute(void *at, int attribute, const void *value, size_t bytes)
{
    descriptor *of = at;
    int *numbers[] = {[PH__LT_DESC_TRANSPOSE_A] = &of->transpose_a,
                      [PH__LT_DESC_TRANSPOSE_B] = &of->transpose_b,
                      [PH__LT_DESC_EPILOGUE] = &of->epilogue,
                      [PH__LT_DESC_BIAS_TYPE] = &of->bias_type};
    if (attribute == PH__LT_DESC_BIAS_POINTER && bytes == sizeof of->bias) {
        memcpy(&of->bias, value, bytes);
        return PH__LT_OK;
    }
    if (attribute < 0 || (size_t)attribute >= sizeof numbers / sizeof *numbers ||
        !numbers[attribute] || bytes != sizeof(int))
        return INVALID_VALUE;
    memcpy(numbers[attribute], value, bytes);
    return PH__LT_OK;
}

int cublasLtMatrixLayoutCreate(void **out, int type, uint64_t rows, uint64_t columns, int64_t ld)
{
    matrix *made = ld >= (int64_t)rows && rows > 0 && columns > 0 ? calloc(1, sizeof *made) : NULL;
    if (!made)
        return INVALID_VALUE;
    *made = (matrix){
        .type = type, .batch = 1, .rows = (int64_t)rows, .columns = (int64_t)columns, .ld = ld};
    *out = made;
    return PH__LT_OK;
}

int cublasLtMatrixLayoutDestroy(void *at)
{
    free(at);
    return PH__LT_OK;
}

int cublasLtMatrixLayoutSetAttribute(void *at, int attribute, const void *value, size_t bytes)
{
    matrix *of = at;
    if (attribute == PH__LT_LAYOUT_BATCH_COUNT && bytes == sizeof of->batch)
        memcpy(&of->batch, value, bytes);
    else if (attribute == PH__LT_LAYOUT_BATCH_OFFSET && bytes == sizeof of->stride)
        memcpy(&of->stride, value, bytes);
    else
        return INVALID_VALUE;
    return PH__LT_OK;
}

/* A preference is the workspace that is allowed. Where it is large, the algorithm wants a small
 * one, as cuBLASLt's that count in it do; where it is larger still, one for parts of sums. */
enum {
    ALLOWED = 1 << 20,
    COUNTERS = 128,
    MUCH = 16 << 20,
    PARTS = 1 << 20 /* an algorithm that divides sums */
};
int cublasLtMatmulPreferenceCreate(void **out)
{
    *out = calloc(1, sizeof(uint64_t));
    return *out ? PH__LT_OK : PH__LT_ALLOC_FAILED;
}

int cublasLtMatmulPreferenceDestroy(void *at)
{
    free(at);
    return PH__LT_OK;
}

int cublasLtMatmulPreferenceSetAttribute(void *at, int attribute, const void *value, size_t bytes)
{
    if (attribute == PH__LT_PREFERENCE_WORKSPACE && bytes == sizeof(uint64_t))
        memcpy(at, value, bytes);
    return bytes == sizeof(uint64_t) || bytes == sizeof(uint32_t) ? PH__LT_OK : INVALID_VALUE;
}

/* ---- products ---- */
static bool fits(const descriptor *of, const matrix *a, const matrix *b, const matrix *d)
{
    int64_t m = of->transpose_a ? a->columns : a->rows, k = of->transpose_a ? a->rows : a->columns;
    return m == d->rows && k == (of->transpose_b ? b->columns : b->rows) &&
           (of->transpose_b ? b->rows : b->columns) == d->columns && a->batch == d->batch &&
           b->batch == d->batch && a->type == b->type;
}

/* As cuBLASLt has it, a bias is added to all types but f64. */
int cublasLtMatmulAlgoGetHeuristic(void *at, void *description, void *a, void *b, void *c, void *d,
                                   void *preference, int wanted, ph__lt_choice *choices, int *found)
{
    const descriptor *of = description;
    const char *most = getenv("FAKE_CUBLASLT_MOST");
    (void)at;
    (void)c;
    *found = 0;
    if (wanted < 1 || !fits(of, a, b, d))
        return INVALID_VALUE;
    if (most && wanted > atoi(most))
        return ALLOC_FAILED;
    if (of->epilogue == PH__LT_EPILOGUE_BIAS && of->bias_type == PH__LT_F64)
        return PH__LT_NOT_SUPPORTED;
    float ms[FAKE_PROPOSALS];
    int count = fake_proposals(ms, "FAKE_CUBLASLT_TIMES");
    uint64_t allowed = *(const uint64_t *)preference;
    for (; *found < wanted && *found < (count ? count : 1); ++*found) {
        ph__lt_choice *choice = &choices[*found];
        memset(choice, 0, sizeof *choice);
        choice->workspace = allowed >= MUCH ? PARTS : allowed >= ALLOWED ? COUNTERS : 0;
        choice->algorithm.data[0] = choice->workspace;
        choice->algorithm.data[1] = (uint64_t)*found;
    }
    return PH__LT_OK;
}

static double number(const void *at, int type)
{
    return type == PH__LT_F64 ? *(const double *)at : (double)*(const float *)at;
}

/* False: the proposal refuses. */
static bool play_proposal(uint64_t i)
{
    float ms[FAKE_PROPOSALS];
    int count = fake_proposals(ms, "FAKE_CUBLASLT_TIMES");
    if (i < (uint64_t)count && ms[i] >= 0)
        fake_cuda()->tell_time(ms[i]);
    return i >= (uint64_t)count || ms[i] >= 0;
}

/* ---- what products of a real library may have in their parameters and launches ---- */
static atomic_int_least64_t calls;

EXPORT int64_t fake_cublaslt_calls(void);
int64_t fake_cublaslt_calls(void)
{
    return atomic_load(&calls);
}

static bool is_odd(const char *way)
{
    const char *asked = getenv("FAKE_CUBLASLT_ODD");
    return asked && strcmp(asked, way) == 0;
}

static uint64_t odd_parameter(const product *p, struct CUstream_st *stream, uint64_t call)
{
    bool high = (uintptr_t)p->d % 256 == 0;
    if (is_odd("alignment"))
        return high;
    if (is_odd("pair"))
        return high && (uintptr_t)p->a % 256 != 0;
    if (is_odd("other pair"))
        return high && (uintptr_t)p->b % 256 != 0;
    if (is_odd("window"))
        return (uintptr_t)p->d >> 44;
    if (is_odd("counter"))
        return call;
    if (is_odd("distance"))
        return (uintptr_t)p->a - (uintptr_t)p->b;
    if (is_odd("same"))
        return p->a == p->b;
    return is_odd("stream") ? (uintptr_t)stream : 0;
}

static void add_cluster(ph__cu_launch_config *config, unsigned blocks)
{
    const unsigned cluster[3] = {blocks, 1, 1};
    ph__cu_launch_attribute *attribute = &config->attributes[config->attribute_count++];
    attribute->id = PH__CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    memcpy(attribute->value.bytes, cluster, sizeof cluster);
}

static void add_number(ph__cu_launch_config *config, int id, int number)
{
    ph__cu_launch_attribute *attribute = &config->attributes[config->attribute_count++];
    attribute->id = id;
    memcpy(attribute->value.bytes, &number, sizeof number);
}

static int launch_product(product *p, const handle *with, uint64_t algorithm,
                          struct CUstream_st *stream, bool second)
{
    void *params[] = {p, (char *)p + 40};
    size_t bytes = sizeof *p;
    void *buffer[] = {PH__CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, PH__CU_LAUNCH_PARAM_BUFFER_POINTER,
                      p, PH__CU_LAUNCH_PARAM_END};
    ph__cu_launch_attribute attributes[2];
    memset(attributes, 0, sizeof attributes);
    ph__cu_launch_config config = {
        .grid = {(unsigned)(p->layout_d.columns * p->layout_d.batch), 1, 1},
        .block = {second && is_odd("block") ? 64 : 32, 1, 1},
        .shared_bytes = second && is_odd("shared") ? 64 : 0,
        .stream = stream,
        .attributes = attributes};
    if (is_odd("cluster") || (second && is_odd("clusters")))
        add_cluster(&config, 2);
    if (is_odd("programmatic"))
        add_number(&config, PH__CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, 1);
    if (is_odd("domain"))
        add_number(&config, PH__CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN, 1);
    bool in_buffer = is_odd("buffer");
    uint64_t other = (algorithm + (second && is_odd("function"))) % FAKE_PROPOSALS;
    int result = 0;
    for (int i = 0; i < 1 + (is_odd("twice") && p->beta == 0) && result == 0; i++)
        result = cuda.cuLaunchKernelEx(&config, with->function[other], in_buffer ? NULL : params,
                                       in_buffer ? buffer : NULL);
    return result;
}

int cublasLtMatmul(void *at, void *description, const void *alpha, const void *a, void *layout_a,
                   const void *b, void *layout_b, const void *beta, const void *c, void *layout_c,
                   void *d, void *layout_d, const ph__lt_algorithm *algorithm, void *workspace,
                   size_t workspace_bytes, struct CUstream_st *stream)
{
    const handle *with = at;
    const descriptor *of = description;
    product p;
    if (!algorithm || workspace_bytes != algorithm->data[0] || !workspace != !workspace_bytes ||
        algorithm->data[1] >= FAKE_PROPOSALS || !fits(of, layout_a, layout_b, layout_d))
        return INVALID_VALUE;
    if (!play_proposal(algorithm->data[1]))
        return PH__LT_NOT_SUPPORTED;
    memset(&p, 0, sizeof p);
    p.a = a;
    p.b = b;
    p.c = c;
    p.d = d;
    p.bias = of->epilogue == PH__LT_EPILOGUE_BIAS && !is_odd("missing") ? of->bias : NULL;
    p.alpha = number(alpha, of->scale_type);
    p.beta = number(beta, of->scale_type);
    p.layout_a = *(const matrix *)layout_a;
    p.layout_b = *(const matrix *)layout_b;
    p.layout_c = *(const matrix *)layout_c;
    p.layout_d = *(const matrix *)layout_d;
    p.transpose_a = of->transpose_a;
    p.transpose_b = of->transpose_b;
    p.bias_type = of->bias_type;
    p.in_f64 = of->scale_type == PH__LT_F64;
    uint64_t call = (uint64_t)atomic_fetch_add(&calls, 1);
    p.odd = odd_parameter(&p, stream, call);
    return launch_product(&p, with, algorithm->data[1], stream, call % 2) ? EXECUTION_FAILED
                                                                          : PH__LT_OK;
}
