/* SPDX-License-Identifier: MIT */
/* tests/unit/cuda_nvrtc.c: CUDA C text through the real NVRTC, where it is installed: code,
 * errors, options, and what is kept on disk. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/log.h"
#include "driver/cuda/load/nvrtc.h"
#include "driver/driver.h"
#include "support/test.h"
#include <cmocka.h>
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ADD                                                                                        \
    "extern \"C\" __global__ void add(float *y, float x, int n) { if (threadIdx.x < n) "           \
    "y[threadIdx.x] += "                                                                           \
    "x; }"

static char folder[256];
static int warnings, informations;
static char words[4096];

static void note(ph_log_level level, const char *message, void *user)
{
    (void)user;
    *(level == PH_LOG_WARNING ? &warnings : &informations) += 1;
    size_t length = strlen(words);
    (void)snprintf(words + length, sizeof words - length, "%s\n", message);
}

/* A cache folder for each test. */
FIXTURE(set_up)
{
    const char *base = getenv("TMPDIR");
    (void)snprintf(folder, sizeof folder, "%s/phonograph-nvrtc-XXXXXX",
                   base && *base ? base : "/tmp");
    warnings = informations = 0;
    words[0] = '\0';
    ph_log_set(note, NULL);
    return mkdtemp(folder) ? setenv("PH_CACHE_DIR", folder, 1) : -1;
}

FIXTURE(tear_down)
{
    char command[400];
    ph__alloc_fail_after(PH__ALLOC_NEVER);
    ph_log_set(NULL, NULL);
    (void)snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command) == 0 && ph__alloc_live() == 0 ? 0 : -1;
}

static void need_nvrtc(void)
{
    int version;
    if (ph__cuda_nvrtc_version(&version) == 0)
        return;
    assert_non_null(strstr(ph__driver_reason(), "cuda_image"));
    (void)printf("skipped: %s\n", ph__driver_reason());
    skip();
}

static int compile(ph__cuda_image *out, const char *text, const char *options, int capability)
{
    ph_kernel_source source = {.name = "add", .cuda = text, .cuda_options = options};
    ph__driver_clear_reason();
    return ph__cuda_nvrtc_compile(out, &source, capability);
}

static void assert_refused(const char *text, const char *options, int capability, int result,
                           const char *reason)
{
    ph__cuda_image image = {0};
    assert_int_equal(compile(&image, text, options, capability), result);
    assert_null(image.at);
    if (!strstr(ph__driver_reason(), reason))
        fail_msg("\"%s\" is not in \"%s\"", reason, ph__driver_reason());
}

static bool is_cubin(const ph__cuda_image *image)
{
    return image->bytes > 64 && memcmp(image->at, "\177ELF", 4) == 0;
}

/* The files kept; the inode of the last, which changes when it is written anew. */
static int kept(ino_t *inode)
{
    int count = 0;
    DIR *files = opendir(folder);
    assert_non_null(files);
    for (struct dirent *entry; (entry = readdir(files));) {
        if (entry->d_name[0] == '.')
            continue;
        count++;
        if (inode)
            *inode = entry->d_ino;
    }
    closedir(files);
    return count;
}

/* ---- the library ---- */

TEST(test_a_library_that_is_not_nvrtc)
{
    ph__cuda_image image;
    int version;
    const char *before = getenv("PH_NVRTC");
    char *copy = before ? strdup(before) : NULL;
    assert_int_equal(setenv("PH_NVRTC", "libm.so.6", 1), 0);
    assert_int_equal(compile(&image, ADD, NULL, 90), 801);
    assert_non_null(strstr(ph__driver_reason(), "nvrtcVersion"));
    assert_non_null(strstr(ph__driver_reason(), "PH_NVRTC"));
    /* Tried again with what is set then; a name that cannot be opened is passed over. */
    assert_int_equal(setenv("PH_NVRTC", "/nowhere/libnvrtc.so", 1), 0);
    if (ph__cuda_nvrtc_version(&version) == 0)
        assert_true(version >= 11000 && version < 100000);
    else
        assert_non_null(strstr(ph__driver_reason(), "tried PH_NVRTC, libnvrtc.so.13"));
    assert_int_equal(copy ? setenv("PH_NVRTC", copy, 1) : unsetenv("PH_NVRTC"), 0);
    free(copy);
}

/* ---- code ---- */

TEST(test_code_for_the_gpu)
{
    ph__cuda_image image, again;
    need_nvrtc();
    assert_int_equal(compile(&image, ADD, NULL, 90), 0);
    assert_true(is_cubin(&image));
    assert_int_equal(image.at[image.bytes], '\0');
    assert_int_equal(compile(&again, ADD, "", 80), 0);
    assert_true(is_cubin(&again));
    assert_true(again.bytes != image.bytes || memcmp(again.at, image.at, image.bytes) != 0);
    ph__free(image.at);
    ph__free(again.at);
    assert_int_equal(warnings + informations, 0);
}

/* The driver compiles on what is there for the newest GPU that NVRTC knows. */
TEST(test_gpus_that_nvrtc_does_not_know)
{
    ph__cuda_image image;
    need_nvrtc();
    assert_int_equal(compile(&image, ADD, NULL, 999), 0);
    assert_false(is_cubin(&image));
    assert_non_null(strstr(image.at, ".version"));
    assert_int_equal(strlen(image.at), image.bytes);
    ph__free(image.at);
    assert_refused(ADD, NULL, 20, 801, "has 2.0");
}

TEST(options_of_a_source_reach_the_compiler)
{
    static const char text[] = "#ifndef ONE\n#error no one\n#endif\n"
                               "extern \"C\" __global__ void add(int *y) { y[0] = ONE + TWO; }";
    ph__cuda_image image;
    need_nvrtc();
    assert_int_equal(compile(&image, text, "  -DONE=1   -use_fast_math --define-macro=TWO=2 ", 90),
                     0);
    assert_true(is_cubin(&image));
    ph__free(image.at);
    assert_int_equal(compile(&image, text, "-DONE=1 -DTWO=2 -arch=compute_80", 90), 0);
    assert_non_null(strstr(image.at, ".target sm_80"));
    ph__free(image.at);
    assert_refused(text, "-DTWO=2", 90, 218, "no one");
    assert_refused(text, "-DONE=1 --no-such-option", 90, 1, "--no-such-option");
    assert_refused(text, "--gpu-architecture=sm_1", 90, 1, "gpu-architecture");
}

/* ---- errors ---- */

TEST(the_first_error_of_the_compiler_is_the_reason)
{
    need_nvrtc();
    assert_refused("\nextern \"C\" __global__ void add(float *y) { y[0] = one; int z = two; }",
                   NULL, 90, 218, "add.cu(2): error: identifier \"one\" is undefined");
    assert_null(strstr(ph__driver_reason(), "two"));
    assert_true(warnings > 2);
    assert_int_equal(informations, 0);
    assert_non_null(strstr(words, "kernel add: add.cu(2): error: identifier \"two\" is undefined"));
    assert_refused("#include <no_such_header.h>\n", NULL, 90, 218, "no_such_header.h");
    assert_refused("no CUDA C", NULL, 90, 218, "add.cu(1)");
    assert_int_equal(kept(NULL), 0);
}

TEST(warnings_of_the_compiler_are_logged_as_information)
{
    ph__cuda_image image;
    need_nvrtc();
    assert_int_equal(compile(&image,
                             "extern \"C\" __global__ void add(int *y) { int unused; y[0] = 1; }",
                             NULL, 90),
                     0);
    ph__free(image.at);
    assert_int_equal(warnings, 0);
    assert_true(informations > 0);
    assert_non_null(strstr(words, "unused"));
}

/* ---- what is kept ---- */

TEST(test_compiled_once)
{
    ph__cuda_image first, second;
    ino_t before = 0, after = 0;
    need_nvrtc();
    assert_int_equal(compile(&first, ADD, "-DA=1", 90), 0);
    assert_int_equal(kept(&before), 1);
    assert_int_equal(compile(&second, ADD, "-DA=1", 90), 0);
    assert_int_equal(kept(&after), 1);
    assert_int_equal(before, after);
    assert_int_equal(first.bytes, second.bytes);
    assert_memory_equal(first.at, second.at, first.bytes);
    assert_int_equal(second.at[second.bytes], '\0');
    ph__free(first.at);
    ph__free(second.at);
}

TEST(test_all_that_matters_is_in_the_key)
{
    static const struct {
        const char *name, *text, *options;
        int capability;
    } other[] = {
        {"add", ADD, NULL, 90},      {"add", ADD, NULL, 80},     {"add", ADD, "-DA", 90},
        {"add", ADD, "-DA -DB", 90}, {"add", ADD " ", NULL, 90}, {"ad", ADD, NULL, 90},
        {"add", ADD, NULL, 999},
    };
    need_nvrtc();
    for (size_t round = 0; round < 2; round++) {
        for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
            ph__cuda_image image;
            ph_kernel_source source = {
                .name = other[i].name, .cuda = other[i].text, .cuda_options = other[i].options};
            assert_int_equal(ph__cuda_nvrtc_compile(&image, &source, other[i].capability), 0);
            assert_int_equal(is_cubin(&image), other[i].capability != 999);
            ph__free(image.at);
            if (round == 0)
                assert_int_equal(kept(NULL), i + 1);
        }
    }
    assert_int_equal(kept(NULL), sizeof other / sizeof *other);
}

TEST(test_damaged_is_compiled_again)
{
    ph__cuda_image first, second;
    ino_t before = 0, after = 0;
    char command[700];
    need_nvrtc();
    assert_int_equal(compile(&first, ADD, NULL, 90), 0);
    assert_int_equal(kept(&before), 1);
    (void)snprintf(command, sizeof command,
                   "for f in '%s'/*; do ln $f '%s/.same' && truncate -s -1 $f; done", folder,
                   folder);
    assert_int_equal(system(command), 0);
    assert_int_equal(compile(&second, ADD, NULL, 90), 0);
    assert_int_equal(kept(&after), 1);
    assert_true(before != after);
    assert_int_equal(first.bytes, second.bytes);
    assert_memory_equal(first.at, second.at, first.bytes);
    ph__free(first.at);
    ph__free(second.at);
}

/* The text alone does not say what comes out then. */
TEST(test_includes_are_not_kept)
{
    static const char *const texts[] = {"#include \"y.h\"\n" ADD "\n", "#  \t include \"y.h\"\n",
                                        ""};
    char options[400], path[300];
    need_nvrtc();
    for (int i = 0; i < 3; i++) {
        ph__cuda_image image;
        (void)snprintf(path, sizeof path, "%s/.y.h", folder);
        (void)snprintf(options, sizeof options, i == 2 ? "--pre-include=%s" : "-Dy=%s", path);
        FILE *file = fopen(path, "w");
        assert_non_null(file);
        (void)fprintf(file, "__device__ int value = %d;\n", i);
        assert_int_equal(fclose(file), 0);
        if (i < 2)
            (void)snprintf(options, sizeof options, "-I%s", folder);
        (void)snprintf(path, sizeof path, "%s/y.h", folder);
        assert_int_equal(symlink(".y.h", path), 0);
        assert_int_equal(compile(&image, texts[i], options, 90), 0);
        ph__free(image.at);
        assert_int_equal(unlink(path), 0);
        assert_int_equal(kept(NULL), 0);
    }
}

TEST(test_without_a_cache)
{
    ph__cuda_image image;
    need_nvrtc();
    assert_int_equal(setenv("PH_CACHE_DIR", "", 1), 0);
    assert_int_equal(compile(&image, ADD, NULL, 90), 0);
    assert_true(is_cubin(&image));
    ph__free(image.at);
    assert_int_equal(kept(NULL), 0);
}

/* ---- threads, and no memory ---- */

static void *compile_several(void *argument)
{
    const int *number = argument;
    for (int i = 0; i < 2; i++) {
        char options[32];
        ph__cuda_image image;
        (void)snprintf(options, sizeof options, "-DN=%d", (*number + i) % 4);
        if (compile(&image, ADD, options, 90) != 0)
            return argument;
        bool good = is_cubin(&image);
        ph__free(image.at);
        if (!good || compile(&image, "wrong", options, 90) != 218)
            return argument;
    }
    return NULL;
}

static void ignore(ph_log_level level, const char *message, void *user)
{
    (void)level;
    (void)message;
    (void)user;
}

TEST(threads_compile_at_once_and_share_the_cache)
{
    enum {
        THREADS = 4
    };
    pthread_t threads[THREADS];
    int numbers[THREADS];
    need_nvrtc();
    ph_log_set(ignore, NULL);
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        assert_int_equal(pthread_create(&threads[i], NULL, compile_several, &numbers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        void *failed;
        assert_int_equal(pthread_join(threads[i], &failed), 0);
        assert_null(failed);
    }
    assert_int_equal(kept(NULL), 4);
}

/* Each allocation fails once: out of memory, or code all the same; the cache is only an attempt. */
static void sweep(const char *text, int expected)
{
    int result = 2;
    for (int64_t n = 0; n < 100; n++) {
        ph__cuda_image image = {0};
        ph__alloc_fail_after(n);
        result = compile(&image, text, "-DA -DB -DC", 90);
        ph__alloc_fail_after(PH__ALLOC_NEVER);
        assert_true(result == 2 || result == expected);
        assert_int_equal(image.at != NULL, result == 0);
        ph__free(image.at);
        assert_int_equal(ph__alloc_live(), 0);
        if (n > 20 && result == expected)
            break;
    }
    assert_int_equal(result, expected);
}

TEST(test_without_memory)
{
    need_nvrtc();
    sweep(ADD, 0);
    sweep("wrong", 218);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_a_library_that_is_not_nvrtc),
        CASE(test_code_for_the_gpu),
        CASE(test_gpus_that_nvrtc_does_not_know),
        CASE(options_of_a_source_reach_the_compiler),
        CASE(the_first_error_of_the_compiler_is_the_reason),
        CASE(warnings_of_the_compiler_are_logged_as_information),
        CASE(test_compiled_once),
        CASE(test_all_that_matters_is_in_the_key),
        CASE(test_damaged_is_compiled_again),
        CASE(test_includes_are_not_kept),
        CASE(test_without_a_cache),
        CASE(threads_compile_at_once_and_share_the_cache),
        CASE(test_without_memory),
    };
    return cmocka_run_group_tests_name("cuda_nvrtc", tests, NULL, NULL);
}
