/* SPDX-License-Identifier: MIT */
/* driver/cuda/load/image.c: finding a kernel's code in its source. The driver is not told how
 * long an image is, so what it would read beyond its end is refused here. */
#include "driver/cuda/load/image.h"
#include "base/alloc.h"
#include "driver/cuda/load/nvrtc.h"
#include "driver/driver.h"
#include <elf.h>
#include <string.h>

static const uint32_t FATBIN_MAGIC = 0xba55ed50;
typedef struct fatbin_header {
    uint32_t magic;
    uint16_t version, header_bytes;
    uint64_t bytes; /* after the header */
} fatbin_header;

typedef enum image_form {
    FORM_UNKNOWN,
    FORM_CUT_OFF,
    FORM_WHOLE
} image_form;

static bool is_inside_image(uint64_t begin, uint64_t count, uint64_t size, size_t bytes)
{
    return begin <= bytes && count * size <= bytes - begin; /* both below 2^16 */
}

static image_form cubin_form(const char *image, size_t bytes)
{
    Elf64_Ehdr header;
    if (bytes < SELFMAG || memcmp(image, ELFMAG, SELFMAG) != 0)
        return FORM_UNKNOWN;
    if (bytes < sizeof header)
        return FORM_CUT_OFF;
    memcpy(&header, image, sizeof header);
    if (header.e_ident[EI_CLASS] != ELFCLASS64)
        return FORM_UNKNOWN;
    bool whole = is_inside_image(header.e_shoff, header.e_shnum, header.e_shentsize, bytes) &&
                 is_inside_image(header.e_phoff, header.e_phnum, header.e_phentsize, bytes);
    return whole ? FORM_WHOLE : FORM_CUT_OFF;
}

static image_form fatbin_form(const char *image, size_t bytes)
{
    fatbin_header header;
    if (bytes < sizeof header.magic || memcmp(image, &FATBIN_MAGIC, sizeof header.magic) != 0)
        return FORM_UNKNOWN;
    if (bytes < sizeof header)
        return FORM_CUT_OFF;
    memcpy(&header, image, sizeof header);
    bool whole = header.header_bytes >= sizeof header &&
                 is_inside_image(0, 1, header.header_bytes, bytes) &&
                 header.bytes <= bytes - header.header_bytes;
    return whole ? FORM_WHOLE : FORM_CUT_OFF;
}

/* Past blanks and comments. */
static const char *skip_blanks(const char *at)
{
    for (;;) {
        const char *end = NULL;
        at += strspn(at, " \t\r\n");
        if (strncmp(at, "//", 2) == 0)
            end = strchr(at, '\n');
        else if (strncmp(at, "/*", 2) == 0)
            end = strstr(at + 2, "*/");
        if (!end)
            return at;
        at = end + (*end == '\n' ? 1 : 2);
    }
}

/* A PTX text begins with its version; NULs may follow it. */
static image_form ptx_form(const char *image, size_t bytes)
{
    for (size_t i = strlen(image); i < bytes; i++)
        if (image[i] != '\0')
            return FORM_UNKNOWN;
    return strncmp(skip_blanks(image), ".version", 8) == 0 ? FORM_WHOLE : FORM_UNKNOWN;
}

static int check_form(const char *image, size_t bytes)
{
    image_form form = cubin_form(image, bytes);
    if (form == FORM_UNKNOWN)
        form = fatbin_form(image, bytes);
    if (form == FORM_UNKNOWN)
        form = ptx_form(image, bytes);
    if (form == FORM_WHOLE)
        return PH__R_OK;
    if (form == FORM_CUT_OFF)
        ph__driver_set_reason(
            "its cuda_image is cut off: cuda_image_bytes is %zu, and its header says more", bytes);
    else
        ph__driver_set_reason("its cuda_image of %zu bytes is neither PTX text (which begins with "
                              ".version), nor a cubin, "
                              "nor a fatbin",
                              bytes);
    return PH__R_INVALID_VALUE;
}

static int copy_image(ph__cuda_image *out, const char *image, size_t bytes)
{
    char *copy = ph__alloc(bytes + 1);
    if (!copy)
        return PH__R_OUT_OF_MEMORY;
    memcpy(copy, image, bytes);
    copy[bytes] = '\0';
    int result = check_form(copy, bytes);
    if (result != PH__R_OK) {
        ph__free(copy);
        return result;
    }
    *out = (ph__cuda_image){copy, bytes};
    return PH__R_OK;
}

int ph__cuda_image_of(ph__cuda_image *out, const ph_kernel_source *source, int capability)
{
    if (source->cuda_image)
        return copy_image(out, source->cuda_image, source->cuda_image_bytes);
    if (source->cuda)
        return ph__cuda_nvrtc_compile(out, source, capability);
    ph__driver_set_reason("set ph_kernel_source.cuda to its text in CUDA C, or cuda_image to PTX, "
                          "cubin or fatbin bytes");
    return PH__R_NOT_SUPPORTED;
}
