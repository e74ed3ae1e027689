/* SPDX-License-Identifier: MIT */
/* tests/support/files.h: a folder of a test's own, and files in it made byte by byte. */
#ifndef PH_TESTS_FILES_H
#define PH_TESTS_FILES_H
#include "support/support.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct t_folder {
    char path[64], name[160];
} t_folder;

static inline void t_folder_open(t_folder *folder)
{
    (void)snprintf(folder->path, sizeof folder->path, "/tmp/phonograph-test-XXXXXX");
    assert_non_null(mkdtemp(folder->path));
}

/* The path of a file in it; overwritten by the next call. */
static inline const char *t_inside(t_folder *folder, const char *name)
{
    (void)snprintf(folder->name, sizeof folder->name, "%s/%s", folder->path, name);
    return folder->name;
}

static inline const char *t_put_file(t_folder *folder, const char *name, const void *bytes,
                                     size_t size)
{
    FILE *file = fopen(t_inside(folder, name), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
    return folder->name;
}

/* What a file has, at most `size` bytes of it. */
static inline size_t t_get_file(t_folder *folder, const char *name, void *bytes, size_t size)
{
    FILE *file = fopen(t_inside(folder, name), "rb");
    assert_non_null(file);
    size_t got = fread(bytes, 1, size, file);
    assert_int_equal(fclose(file), 0);
    return got;
}

/* It must be empty but for files of these names: nothing may be left behind. */
static inline void t_folder_close(t_folder *folder, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        (void)unlink(t_inside(folder, names[i]));
    assert_int_equal(rmdir(folder->path), 0);
}
#endif
