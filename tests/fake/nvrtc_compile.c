/* SPDX-License-Identifier: MIT */
/* tests/fake/nvrtc_compile.c: from CUDA C to PTX that has the kernels' names and parameters, and
 * no code. */
#include "nvrtc_inside.h"
#include <string.h>

typedef struct state {
    nvrtc_reader reader;
    nvrtc_types types;
    nvrtc_text *ptx, *log;
    const char *file;
    bool c_names; /* an extern "C" block: all of it counts as one */
} state;

enum {
    MOST_WORDS = 32
};

static bool fail_undefined(const state *s, const nvrtc_word *word)
{
    nvrtc_text_format(s->log, "%s(%d): error: identifier \"%.*s\" is undefined\n", s->file,
                      word->line, (int)word->length, word->at);
    return false;
}

static void put_param(state *s, const char *kernel, size_t length, size_t index,
                      const nvrtc_type *type)
{
    static const char *const plain[] = {[1] = "u8", [2] = "u16", [4] = "u32", [8] = "u64"};
    bool is_plain = type->bytes <= 8 && plain[type->bytes] && type->alignment == type->bytes;
    nvrtc_text_format(s->ptx, "%s\n\t.param ", index ? "," : "");
    if (is_plain)
        nvrtc_text_format(s->ptx, ".%s", plain[type->bytes]);
    else
        nvrtc_text_format(s->ptx, ".align %zu .b8", type->alignment);
    nvrtc_text_format(s->ptx, " %.*s_param_%zu", (int)length, kernel, index);
    if (!is_plain)
        nvrtc_text_format(s->ptx, "[%zu]", type->bytes);
}

/* Behind the opening parenthesis, up to the closing one. */
static bool read_params(state *s, const nvrtc_word *name)
{
    nvrtc_word words[MOST_WORDS], word, unknown = *name;
    size_t count = 0, index = 0;
    while (nvrtc_next(&s->reader, &word)) {
        bool last = nvrtc_is(&word, ")");
        if (!last && !nvrtc_is(&word, ",")) {
            if (count < MOST_WORDS)
                words[count++] = word;
            continue;
        }
        bool none = count == 0 || (count == 1 && nvrtc_is(&words[0], "void"));
        nvrtc_type type;
        if (!none && !nvrtc_type_of(&type, &unknown, &s->types, words, count))
            return fail_undefined(s, &unknown);
        if (!none)
            put_param(s, name->at, name->length, index++, &type);
        count = 0;
        if (last)
            return true;
    }
    return true;
}

/* Behind __global__. C++ names are longer than what was written. */
static bool read_kernel(state *s, bool c_name)
{
    nvrtc_word word, name = {0};
    while (nvrtc_next(&s->reader, &word) && !nvrtc_is(&word, "(")) {
        name = word;
        if (!nvrtc_is(&word, "__launch_bounds__"))
            continue;
        while (nvrtc_next(&s->reader, &word) && !nvrtc_is(&word, ")")) {
        }
    }
    if (!name.at)
        return true;
    nvrtc_text_format(s->ptx, "\n.visible .entry ");
    if (!c_name)
        nvrtc_text_format(s->ptx, "_Z%zu", name.length);
    nvrtc_text_format(s->ptx, "%.*s%s(", (int)name.length, name.at, c_name ? "" : "v");
    if (!read_params(s, &name))
        return false;
    nvrtc_text_format(s->ptx, "\n)\n{\n\tret;\n}\n");
    return true;
}

static bool read_all(state *s)
{
    nvrtc_word word, before = {"", 0, 0}, unknown = {"", 0, 0};
    int depth = 0;
    bool good = true;
    while (good && nvrtc_next(&s->reader, &word)) {
        depth += nvrtc_is(&word, "{") || nvrtc_is(&word, "(");
        depth -= nvrtc_is(&word, "}") || nvrtc_is(&word, ")");
        if (nvrtc_is(&word, "{") && nvrtc_is(&before, "\"C\""))
            s->c_names = true;
        if (nvrtc_is(&word, "struct"))
            good = nvrtc_read_struct(&s->types, &s->reader, &unknown);
        else if (nvrtc_is(&word, "typedef"))
            good = nvrtc_read_typedef(&s->types, &s->reader, &unknown);
        else if (nvrtc_is(&word, "__global__") &&
                 !read_kernel(s, s->c_names || nvrtc_is(&before, "\"C\"")))
            return false;
        before = word;
    }
    if (!good)
        return fail_undefined(s, &unknown);
    if (s->reader.error_line)
        nvrtc_text_format(s->log, "%s(%d): error: #error directive: %.*s\n", s->file,
                          s->reader.error_line, (int)strcspn(s->reader.error, "\n"),
                          s->reader.error);
    else if (depth != 0)
        nvrtc_text_format(s->log, "%s(%d): error: expected a \"%s\"\n", s->file, s->reader.line,
                          depth > 0 ? "}" : "declaration");
    return !s->reader.error_line && depth == 0;
}

bool nvrtc_compile(nvrtc_text *ptx, nvrtc_text *log, const char *text, const char *file,
                   int capability)
{
    state s = {.reader = {.at = text, .line = 1}, .ptx = ptx, .log = log, .file = file};
    nvrtc_text_format(
        ptx,
        "//\n// Made by the tests' libnvrtc\n//\n.version 8.0\n.target sm_%d\n.address_size 64\n",
        capability);
    if (read_all(&s))
        return true;
    nvrtc_text_format(log, "1 error detected in the compilation of \"%s\".\n", file);
    return false;
}
