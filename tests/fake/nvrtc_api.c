/* SPDX-License-Identifier: MIT */
/* tests/fake/nvrtc_api.c: the functions of the software libnvrtc. FAKE_NVRTC_VERSION=99000 says
 * which version it plays: by default one that no real one has, so that a real one never finds
 * its entries in a cache. FAKE_NVRTC_LOG names a file that gets a line for each compilation. */
#include "nvrtc_inside.h"
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    OUT_OF_MEMORY = 1,
    INVALID_INPUT = 3,
    INVALID_PROGRAM = 4,
    INVALID_OPTION = 5,
    COMPILATION = 6
};

typedef struct program {
    char *text, *name;
    nvrtc_text ptx, log, cubin;
} program;

#define EXPORT(result, name, parameters)                                                           \
    __attribute__((visibility("default"))) result name parameters;                                 \
    result name parameters

static const int architectures[] = {75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121};

EXPORT(int, nvrtcVersion, (int *major, int *minor))
{
    const char *text = getenv("FAKE_NVRTC_VERSION");
    int version = text && *text ? atoi(text) : 99000;
    *major = version / 1000;
    *minor = version % 1000 / 10;
    return 0;
}

EXPORT(int, nvrtcGetNumSupportedArchs, (int *count))
{
    *count = (int)(sizeof architectures / sizeof *architectures);
    return 0;
}

EXPORT(int, nvrtcGetSupportedArchs, (int *out))
{
    memcpy(out, architectures, sizeof architectures);
    return 0;
}

EXPORT(const char *, nvrtcGetErrorString, (int result))
{
    static const char *const names[] = {"NVRTC_SUCCESS",
                                        "NVRTC_ERROR_OUT_OF_MEMORY",
                                        "NVRTC_ERROR_PROGRAM_CREATION_FAILURE",
                                        "NVRTC_ERROR_INVALID_INPUT",
                                        "NVRTC_ERROR_INVALID_PROGRAM",
                                        "NVRTC_ERROR_INVALID_OPTION",
                                        "NVRTC_ERROR_COMPILATION"};
    return result >= 0 && result <= COMPILATION ? names[result] : "NVRTC_ERROR unknown";
}

EXPORT(int, nvrtcCreateProgram,
       (program * *out, const char *text, const char *name, int header_count,
        const char *const *headers, const char *const *header_names))
{
    (void)headers;
    (void)header_names;
    if (!out || !text || header_count < 0)
        return INVALID_INPUT;
    program *fresh = calloc(1, sizeof *fresh);
    if (!fresh)
        return OUT_OF_MEMORY;
    fresh->text = strdup(text);
    fresh->name = strdup(name ? name : "default_program");
    *out = fresh;
    return 0;
}

EXPORT(int, nvrtcDestroyProgram, (program * *handle))
{
    if (!handle || !*handle)
        return INVALID_PROGRAM;
    free((*handle)->text);
    free((*handle)->name);
    free((*handle)->ptx.at);
    free((*handle)->log.at);
    free((*handle)->cubin.at);
    free(*handle);
    *handle = NULL;
    return 0;
}

static bool is_known_option(const char *option)
{
    static const char *const known[] = {"-D",
                                        "-I",
                                        "-U",
                                        "--define-macro",
                                        "--include-path",
                                        "-std=",
                                        "--std=",
                                        "-use_fast_math",
                                        "--use_fast_math",
                                        "-lineinfo",
                                        "--generate-line-info",
                                        "-G",
                                        "-default-device",
                                        "--fmad=",
                                        "-fmad=",
                                        "--maxrregcount=",
                                        "-w"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strncmp(option, known[i], strlen(known[i])) == 0)
            return true;
    return false;
}

/* sm_90: real, compute_90: not. */
static bool read_options(program *p, int count, const char *const *options, int *capability,
                         bool *real)
{
    *capability = 75;
    *real = false;
    for (int i = 0; i < count; i++) {
        const char *value = strncmp(options[i], "--gpu-architecture=", 19) == 0 ? options[i] + 19
                            : strncmp(options[i], "-arch=", 6) == 0             ? options[i] + 6
                                                                                : NULL;
        const char *number = value ? strchr(value, '_') : NULL;
        if (number) {
            *capability = atoi(number + 1);
            *real = strncmp(value, "sm_", 3) == 0;
        } else if (!is_known_option(options[i])) {
            nvrtc_text_format(&p->log, "nvrtc: error: unrecognized option '%s' found\n",
                              options[i]);
            return false;
        }
    }
    return true;
}

/* As cuda_module.c reads it. */
static int make_cubin(program *p, int capability)
{
    Elf64_Ehdr header = {.e_machine = EM_CUDA,
                         .e_version = EV_CURRENT,
                         .e_type = ET_EXEC,
                         .e_ehsize = sizeof header,
                         .e_flags = (Elf64_Word)capability,
                         .e_shoff = sizeof header + p->ptx.length + 1};
    memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_ident[EI_VERSION] = EV_CURRENT;
    p->cubin.at = malloc(header.e_shoff);
    if (!p->cubin.at)
        return OUT_OF_MEMORY;
    p->cubin.length = header.e_shoff;
    memcpy(p->cubin.at, &header, sizeof header);
    memcpy(p->cubin.at + sizeof header, p->ptx.at, p->ptx.length + 1);
    return 0;
}

static void note_compilation(const program *p)
{
    const char *path = getenv("FAKE_NVRTC_LOG");
    FILE *file = path && *path ? fopen(path, "ae") : NULL;
    if (!file)
        return;
    (void)fprintf(file, "%s\n", p->name);
    (void)fclose(file);
}

EXPORT(int, nvrtcCompileProgram, (program * p, int count, const char *const *options))
{
    int capability;
    bool real;
    if (!p)
        return INVALID_PROGRAM;
    if (!p->text || !p->name)
        return OUT_OF_MEMORY;
    if (!read_options(p, count, options, &capability, &real))
        return INVALID_OPTION;
    note_compilation(p);
    if (!nvrtc_compile(&p->ptx, &p->log, p->text, p->name, capability))
        return COMPILATION;
    return real ? make_cubin(p, capability) : 0;
}

static int give_size(const program *p, size_t *bytes, const nvrtc_text *text, size_t extra)
{
    if (!p || !bytes)
        return INVALID_INPUT;
    *bytes = text->length + extra;
    return 0;
}

static int give(const program *p, char *out, const nvrtc_text *text, size_t extra)
{
    if (!p || !out)
        return INVALID_INPUT;
    if (text->length)
        memcpy(out, text->at, text->length + extra);
    else if (extra)
        out[0] = '\0';
    return 0;
}

EXPORT(int, nvrtcGetProgramLogSize, (program * p, size_t *bytes))
{
    return p ? give_size(p, bytes, &p->log, 1) : INVALID_PROGRAM;
}

EXPORT(int, nvrtcGetProgramLog, (program * p, char *log))
{
    return p ? give(p, log, &p->log, 1) : INVALID_PROGRAM;
}

EXPORT(int, nvrtcGetPTXSize, (program * p, size_t *bytes))
{
    return p ? give_size(p, bytes, &p->ptx, 1) : INVALID_PROGRAM;
}

EXPORT(int, nvrtcGetPTX, (program * p, char *ptx))
{
    return p ? give(p, ptx, &p->ptx, 1) : INVALID_PROGRAM;
}

EXPORT(int, nvrtcGetCUBINSize, (program * p, size_t *bytes))
{
    return p ? give_size(p, bytes, &p->cubin, 0) : INVALID_PROGRAM;
}

EXPORT(int, nvrtcGetCUBIN, (program * p, char *cubin))
{
    return p ? give(p, cubin, &p->cubin, 0) : INVALID_PROGRAM;
}
