/* SPDX-License-Identifier: MIT */
/* tests/fake/nvrtc_inside.h: what the files of the software libnvrtc share. It looks at kernels'
 * heads alone, and gives PTX without code: the software libcuda runs host forms. */
#ifndef PH_TESTS_FAKE_NVRTC_INSIDE_H
#define PH_TESTS_FAKE_NVRTC_INSIDE_H
#include <stdbool.h>
#include <stddef.h>

/* ---- text that grows ---- ended by a NUL; short of memory it stays as it was. */
typedef struct nvrtc_text {
    char *at;
    size_t length, capacity;
} nvrtc_text;
void nvrtc_text_format(nvrtc_text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- words (nvrtc_words.c) ---- of CUDA C, without comments and preprocessor lines. */
typedef struct nvrtc_word {
    const char *at;
    size_t length;
    int line;
} nvrtc_word;
typedef struct nvrtc_reader {
    const char *at;
    int line;
    int error_line; /* of an #error, else 0; its text: */
    const char *error;
} nvrtc_reader;
bool nvrtc_next(nvrtc_reader *reader, nvrtc_word *out);
bool nvrtc_is(const nvrtc_word *word, const char *text);
bool nvrtc_is_name(const nvrtc_word *word);

/* ---- types (nvrtc_types.c) ---- */
enum {
    NVRTC_TYPES = 64
};
typedef struct nvrtc_type {
    char name[64];
    size_t bytes, alignment;
} nvrtc_type;
typedef struct nvrtc_types {
    nvrtc_type own[NVRTC_TYPES]; /* that the text defines */
    size_t count;
} nvrtc_types;
/* Of a declaration's words, without array bounds: false and the word that is no type. */
bool nvrtc_type_of(nvrtc_type *out, nvrtc_word *unknown, const nvrtc_types *types,
                   const nvrtc_word *words, size_t count);
/* Behind `struct`; adds what is defined there. */
bool nvrtc_read_struct(nvrtc_types *types, nvrtc_reader *reader, nvrtc_word *unknown);
bool nvrtc_read_typedef(nvrtc_types *types, nvrtc_reader *reader, nvrtc_word *unknown);

/* ---- programs (nvrtc_compile.c) ---- */
/* The PTX of a text; false with the words of the failure in log. */
bool nvrtc_compile(nvrtc_text *ptx, nvrtc_text *log, const char *text, const char *file,
                   int capability);
#endif
