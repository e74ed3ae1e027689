/* SPDX-License-Identifier: MIT */
/* tests/unit/core_kernels.c: the library's own kernels: their source, run on the host, does what
 * it should, and the committed code is what it compiles to. With --print: writes core_kernels.h
 * anew, to standard output. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/text.h"
#include "driver/cuda/load/core.h"
#include "driver/cuda/load/core_kernels.h"
#include "driver/cuda/load/nvrtc.h"
#include "support/test.h"
#include <cmocka.h>
#include <phonograph/inspect/locate.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char source_path[] = PH_TEST_SOURCE_DIR "/src/driver/cuda/load/core_kernels.cu";

static char *read_source(void)
{
    ph__text text = {0};
    char piece[4096];
    FILE *file = fopen(source_path, "r");
    if (!file)
        return NULL;
    for (size_t got; (got = fread(piece, 1, sizeof piece, file)) > 0;)
        ph__text_add_bytes(&text, piece, got);
    (void)fclose(file);
    return ph__text_detach(&text);
}

/* Without comments and blank lines; the version and the target lowered to what the code needs,
 * so that older drivers and GPUs load it. */
static char *tidy(char *ptx)
{
    ph__text text = {0};
    char *rest = NULL;
    for (char *line = strtok_r(ptx, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        const char *word = line + strspn(line, " \t");
        if (strncmp(word, "//", 2) == 0 || *word == '\0')
            continue;
        if (strncmp(word, ".version", 8) == 0)
            line = (char *)".version 7.0";
        else if (strncmp(word, ".target", 7) == 0)
            line = (char *)".target sm_60";
        ph__text_format(&text, "%s\n", line);
    }
    return ph__text_detach(&text);
}

/* NULL where NVRTC cannot do it: said why. */
static char *compile(void)
{
    ph__cuda_image image;
    char *source = read_source(), *tidied = NULL;
    ph_kernel_source kernel = {
        .name = "core_kernels", .cuda = source, .cuda_options = "--gpu-architecture=compute_75"};
    if (source && setenv("PH_CACHE_DIR", "", 1) == 0 &&
        ph__cuda_nvrtc_compile(&image, &kernel, 75) == 0) {
        tidied = tidy(image.at);
        ph__free(image.at);
    } else {
        (void)fprintf(stderr, "%s\n", source ? ph__driver_reason() : source_path);
    }
    ph__free(source);
    return tidied;
}

static void print_line(const char *line, size_t length)
{
    (void)printf("    \"");
    for (size_t i = 0; i < length; i++) {
        if (line[i] == '\t')
            (void)printf("\\t");
        else
            (void)printf("%s%c", line[i] == '"' || line[i] == '\\' ? "\\" : "", line[i]);
    }
    (void)printf("\\n\"");
}

static int print_header(void)
{
    int version = 0;
    char *ptx = compile();
    if (!ptx || ph__cuda_nvrtc_version(&version) != 0)
        return 1;
    (void)printf(
        "/* SPDX-License-Identifier: MIT */\n"
        "/* driver/cuda/load/core_kernels.h: core_kernels.cu as PTX text, made by NVRTC %d.%d for "
        "compute_75 with "
        "its version and\n"
        " * target lowered to what it needs: PTX 7.0 (CUDA 11.0), compute capability 6.0. Written "
        "by\n"
        " * `tests/unit/core_kernels --print`. */\n"
        "#ifndef PH_CUDA_CORE_KERNELS_H\n#define PH_CUDA_CORE_KERNELS_H\n\n"
        "/* Longer than what C promises, not than what the compilers take. */\n"
        "#pragma GCC diagnostic push\n#pragma GCC diagnostic ignored \"-Woverlength-strings\"\n"
        "/* clang-format off */\n"
        "enum { PH__CORE_KERNELS_NVRTC = %d };\n"
        "static const char ph__core_kernels_ptx[] =\n",
        version / 1000, version % 1000 / 10, version);
    for (const char *line = ptx; *line;) {
        size_t length = strcspn(line, "\n");
        print_line(line, length);
        line += length + 1;
        (void)printf("%s\n", *line ? "" : ";");
    }
    (void)printf("/* clang-format on */\n#pragma GCC diagnostic pop\n#endif\n");
    ph__free(ptx);
    return 0;
}

TEST(test_committed_code)
{
    int version = 0;
    if (ph__cuda_nvrtc_version(&version) != 0 || version != PH__CORE_KERNELS_NVRTC) {
        (void)printf("skipped: NVRTC %d.%d, which made core_kernels.h, is not here: %s\n",
                     PH__CORE_KERNELS_NVRTC / 1000, PH__CORE_KERNELS_NVRTC % 1000 / 10,
                     version ? "another version is" : ph__driver_reason());
        skip();
    }
    char *ptx = compile();
    assert_non_null(ptx);
    assert_string_equal(ph__core_kernels_ptx, ptx);
    ph__free(ptx);
    assert_int_equal(ph__alloc_live(), 0);
}

/* ---- the source, run on the host ---- */

typedef struct uint4 {
    unsigned x, y, z, w;
} uint4;
typedef struct dimensions {
    unsigned x;
} dimensions;
static dimensions gridDim, blockDim, blockIdx;
static _Thread_local dimensions threadIdx;
static pthread_barrier_t together;

static uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w)
{
    return (uint4){x, y, z, w};
}

static unsigned long long atomic_add(unsigned long long *at, unsigned long long value)
{
    return __atomic_fetch_add(at, value, __ATOMIC_SEQ_CST);
}

static void atomic_min(unsigned long long *at, unsigned long long value)
{
    unsigned long long old = __atomic_load_n(at, __ATOMIC_SEQ_CST);
    while (value < old &&
           !__atomic_compare_exchange_n(at, &old, value, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
    }
}

#define CORE_KERNEL static
#define CORE_DEVICE static
#define CORE_GLOBAL static
#define CORE_SHARED static
#define CORE_SHORT
#define atomicAdd              atomic_add
#define atomicMin              atomic_min
#define __syncthreads()        (void)pthread_barrier_wait(&together)
#define __threadfence_system() __atomic_thread_fence(__ATOMIC_SEQ_CST)
#include "driver/cuda/load/core_kernels.cu"

enum {
    ROOM = 80 << 10,
    GUARD = 64
};
static _Alignas(64) unsigned char memory[ROOM], expected[ROOM];

static void run_fill(const ph__cuda_fill_args *args)
{
    unsigned grid[3], block[3];
    ph__cuda_fill_dimensions(grid, block, args);
    assert_true(block[0] >= 16 && block[0] <= 1024 && block[0] % 32 == 0 && grid[0] >= 1);
    assert_true(grid[1] == 1 && grid[2] == 1 && block[1] == 1 && block[2] == 1);
    gridDim.x = grid[0];
    blockDim.x = block[0];
    for (blockIdx.x = 0; blockIdx.x < grid[0]; blockIdx.x++)
        for (threadIdx.x = 0; threadIdx.x < block[0]; threadIdx.x++)
            ph_core_fill(args->dst, args->value, args->value_size, args->count);
}

static void check_fill(size_t misalignment, uint32_t value, uint32_t value_size, size_t count)
{
    size_t bytes = count * value_size, span = bytes + 2 * GUARD + 16;
    unsigned char *at = memory + GUARD + misalignment;
    ph__cuda_fill_args args = {(uintptr_t)at, value, value_size, count};
    assert_true(span <= ROOM);
    memset(memory, 0xee, span);
    memset(expected, 0xee, span);
    for (size_t i = 0; i < bytes; i++)
        expected[GUARD + misalignment + i] =
            (unsigned char)(value >> (value_size == 1 ? 0 : 8 * (i % 4)));
    run_fill(&args);
    assert_memory_equal(memory, expected, span);
}

TEST(fills_of_bytes_write_those_bytes_alone)
{
    for (size_t misalignment = 0; misalignment < 16; misalignment++) {
        for (size_t count = 0; count <= 70; count++)
            check_fill(misalignment, 0xffffff5a, 1, count);
        for (size_t count = PH__CUDA_FILL_LIMIT - 17; count <= PH__CUDA_FILL_LIMIT + 17; count++)
            check_fill(misalignment, 0x81, 1, count);
    }
}

TEST(fills_of_words_write_those_words_alone)
{
    for (size_t misalignment = 0; misalignment < 16; misalignment += 4) {
        for (size_t count = 0; count <= 40; count++)
            check_fill(misalignment, 0x12345678, 4, count);
        for (size_t count = 1018; count <= 1030; count++)
            check_fill(misalignment, 0xcafe0180, 4, count);
        check_fill(misalignment, 0xcafe0180, 4, (64 << 10) / 4); /* several blocks */
    }
}

/* A fill of a captured node may be made larger than what was captured: the grid stays one that
 * can be launched. */
TEST(test_dimensions_of_large_fills)
{
    for (unsigned power = 0; power < 62; power++) {
        unsigned grid[3], block[3];
        ph__cuda_fill_args args = {0, 0, power % 2 ? 4 : 1, UINT64_C(1) << (power - power % 2)};
        ph__cuda_fill_dimensions(grid, block, &args);
        assert_in_range(grid[0], 1, 0x7fffffff);
        assert_in_range(block[0], 32, 1024);
        if (args.count * args.value_size <= PH__CUDA_FILL_LIMIT)
            assert_true((size_t)grid[0] * block[0] * 16 >= args.count * args.value_size);
    }
}

/* ---- cells ---- */
/* As the source has it: C tells it from uint64_t. */
static unsigned long long written[PH__CELLS_MANY + 1];

static _Alignas(
    16) unsigned char cell_args[sizeof(ph__drv_cells) + PH__CELLS_MANY * sizeof(ph__drv_cell)];

static void launch_cells(unsigned room)
{
    for (threadIdx.x = 0; threadIdx.x < PH__CELLS_BLOCK; threadIdx.x++)
        if (room == PH__CELLS_FEW) {
            few_cells few;
            memcpy(&few, cell_args, sizeof few);
            ph_core_cells_8(few);
        } else {
            many_cells many;
            memcpy(&many, cell_args, sizeof many);
            ph_core_cells_60(many);
        }
}

static void check_cells(unsigned room)
{
    assert_true(PH__CELLS_BLOCK >= room);
    ph__drv_cells *args = (ph__drv_cells *)(void *)cell_args;
    for (unsigned count = 0; count <= room; count++) {
        args->count = count;
        memset(written, 0xee, sizeof written);
        for (unsigned i = 0; i < room; i++)
            args->cells[i] = (ph__drv_cell){(uint64_t *)(void *)&written[(i * 7 + 1) % room],
                                            UINT64_C(0x123456789abc0000) + i};
        launch_cells(room);
        unsigned changed = 0;
        for (unsigned i = 0; i <= PH__CELLS_MANY; i++)
            changed += written[i] != 0xeeeeeeeeeeeeeeeeULL;
        assert_int_equal(changed, count);
        for (unsigned i = 0; i < count; i++)
            assert_int_equal(written[(i * 7 + 1) % room], UINT64_C(0x123456789abc0000) + i);
    }
}

TEST(kernels_write_few_and_many_cells)
{
    assert_int_equal(sizeof(few_cells), ph__cells_args_size(PH__CELLS_FEW));
    assert_int_equal(sizeof(many_cells), ph__cells_args_size(PH__CELLS_MANY));
    check_cells(PH__CELLS_FEW);
    check_cells(PH__CELLS_MANY);
}

/* ---- watching ---- */
TEST(a_breadcrumb_writes_a_later_time_into_its_place)
{
    unsigned long long table[4] = {0};
    phonograph_breadcrumb(0, 2);
    phonograph_breadcrumb((uintptr_t)table, 2);
    unsigned long long first = table[2];
    phonograph_breadcrumb((uintptr_t)table, 1);
    phonograph_breadcrumb((uintptr_t)table, 2);
    assert_true(first > 0 && table[1] > first && table[2] > table[1]);
    assert_true(table[0] == 0 && table[3] == 0);
}

enum {
    CHECK_THREADS = 8,
    CHECK_BLOCKS = 3
};
static ph__drv_finite check;

static void *run_thread(void *number)
{
    threadIdx.x = (unsigned)(uintptr_t)number;
    phonograph_check_finite((uintptr_t)check.address, check.count, check.type, check.number,
                            (uintptr_t)check.parts);
    return NULL;
}

static void launch_check(void)
{
    pthread_t threads[CHECK_THREADS];
    gridDim.x = CHECK_BLOCKS;
    blockDim.x = CHECK_THREADS;
    for (blockIdx.x = 0; blockIdx.x < CHECK_BLOCKS; blockIdx.x++) {
        for (size_t i = 0; i < CHECK_THREADS; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, run_thread, (void *)(uintptr_t)i),
                             0);
        for (size_t i = 0; i < CHECK_THREADS; i++)
            assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
}

static const struct {
    size_t size;
    uint64_t good, bad[3]; /* the largest number, infinity, -infinity, a NaN */
} numbers[] = {[PH_NUMBER_F32] = {4, 0x7f7fffff, {0x7f800000, 0xff800000, 0xffc00001}},
               [PH_NUMBER_F64] = {8,
                                  0x7fefffffffffffff,
                                  {0x7ff0000000000000, 0xfff0000000000000, 0x7ff0000000000001}},
               [PH_NUMBER_F16] = {2, 0x7bff, {0x7c00, 0xfc00, 0xfe01}},
               [PH_NUMBER_BF16] = {2, 0x7f7f, {0x7f80, 0xff80, 0xffc1}}};

/* Numbers at `at`, bad ones at each multiple of step behind the first. */
static void check_numbers(uint32_t type, unsigned char *at, size_t count, size_t first, size_t step)
{
    ph__drv_finite_part parts[CHECK_BLOCKS + 1];
    size_t bad = 0, size = numbers[type].size;
    memset(memory, 0xff, sizeof memory); /* NaNs all around */
    for (size_t i = 0; i < count; i++) {
        bool is_one = i >= first && (i - first) % step == 0;
        memcpy(at + i * size, is_one ? &numbers[type].bad[bad % 3] : &numbers[type].good, size);
        bad += is_one;
    }
    memset(parts, 0, sizeof parts);
    check = (ph__drv_finite){at, count, type, 0, parts};
    launch_check();
    uint64_t total = 0, lowest = UINT64_MAX, bits = 0;
    for (size_t i = 0; i < CHECK_BLOCKS; i++) {
        assert_true(parts[i].tick > 0);
        total += parts[i].bad;
        bits = parts[i].first < lowest ? parts[i].bits : bits;
        lowest = parts[i].first < lowest ? parts[i].first : lowest;
    }
    assert_int_equal(parts[CHECK_BLOCKS].tick, 0);
    assert_int_equal(total, bad);
    assert_int_equal(lowest, bad ? first : UINT64_MAX);
    assert_true(bits == (bad ? numbers[type].bad[0] : 0));
}

TEST(the_finite_check_finds_the_first_bad_number)
{
    assert_int_equal(sizeof(part), sizeof(ph__drv_finite_part));
    assert_int_equal(pthread_barrier_init(&together, NULL, CHECK_THREADS), 0);
    for (uint32_t type = PH_NUMBER_F32; type <= PH_NUMBER_BF16; type++)
        for (size_t off = 0; off < 16; off += numbers[type].size) {
            for (size_t first = 0; first < 40; first += 3)
                check_numbers(type, memory + GUARD + off, 37, first, 40);
            check_numbers(type, memory + GUARD + off, 1 + off, 0, 1);
            check_numbers(type, memory + GUARD + off, 501, 17, 5);
        }
    check = (ph__drv_finite){memory, 16, PH_NUMBER_F32, 0, NULL};
    launch_check(); /* as captured: nothing */
    (void)pthread_barrier_destroy(&together);
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--print") == 0)
        return print_header();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fills_of_bytes_write_those_bytes_alone),
        cmocka_unit_test(fills_of_words_write_those_words_alone),
        cmocka_unit_test(test_dimensions_of_large_fills),
        cmocka_unit_test(kernels_write_few_and_many_cells),
        cmocka_unit_test(a_breadcrumb_writes_a_later_time_into_its_place),
        cmocka_unit_test(the_finite_check_finds_the_first_bad_number),
        cmocka_unit_test(test_committed_code),
    };
    return cmocka_run_group_tests_name("core_kernels", tests, NULL, NULL);
}
