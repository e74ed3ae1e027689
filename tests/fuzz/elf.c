/* SPDX-License-Identifier: MIT */
/* tests/fuzz/elf.c: this program's own file, damaged at random in its headers, section table,
 * symbols and names, or cut: whatever is read out of it, every answer is a name that ends, or none,
 * and the sound file's answers are right. PH_TEST_SEED=n runs the one round whose seed a failure
 * printed. */
#include "base/elf.h"
#include "base/rng.h"
#include "support/support.h"
#include "support/test.h"
#include <elf.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    ASKED = 8,
    ROUNDS = 400,
    ROUNDS_NIGHTLY = 20000,
    DAMAGES = 6
};
static unsigned char *sound;
static size_t size;

static void read_program(void)
{
    struct stat status;
    int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    assert_true(file >= 0);
    assert_int_equal(fstat(file, &status), 0);
    size = (size_t)status.st_size;
    sound = malloc(size);
    assert_non_null(sound);
    assert_int_equal(pread(file, sound, size, 0), size);
    assert_int_equal(close(file), 0);
}

/* The parts that the reader looks at: a random byte of one of them. */
static size_t place(ph__rng *rng)
{
    const Elf64_Ehdr *header = (const Elf64_Ehdr *)(const void *)sound;
    const Elf64_Shdr *sections = (const Elf64_Shdr *)(const void *)(sound + header->e_shoff);
    size_t s = (size_t)ph__rng_below(rng, header->e_shnum);
    switch (ph__rng_below(rng, 4)) {
    case 0:
        return (size_t)ph__rng_below(rng, sizeof *header);
    case 1:
        for (size_t i = 0; i < header->e_shnum; i++)
            if (sections[i].sh_type == SHT_SYMTAB)
                s = i;
        return header->e_shoff + s * sizeof *sections +
               (size_t)ph__rng_below(rng, sizeof *sections);
    case 2:
        return header->e_shoff + (size_t)ph__rng_below(rng, header->e_shnum * sizeof *sections);
    default:
        if (sections[s].sh_type == SHT_NOBITS || sections[s].sh_size == 0)
            return 0;
        return sections[s].sh_offset + (size_t)ph__rng_below(rng, sections[s].sh_size);
    }
}

static int file_of(const unsigned char *bytes, size_t count)
{
    int file = memfd_create("elf", MFD_CLOEXEC);
    assert_true(file >= 0);
    assert_int_equal(write(file, bytes, count), count);
    return file;
}

static void run_round(uint64_t seed)
{
    ph__rng rng;
    ph__elf_symbol symbols[ASKED];
    rng.state = seed;
    unsigned char *bytes = malloc(size);
    assert_non_null(bytes);
    memcpy(bytes, sound, size);
    size_t damages = (size_t)ph__rng_below(&rng, DAMAGES);
    for (size_t i = 0; i < damages; i++)
        bytes[place(&rng)] = ph__rng_below(&rng, 2) ? 0xff : (unsigned char)ph__rng_next(&rng);
    int file = file_of(bytes, ph__rng_below(&rng, 4) ? size : (size_t)ph__rng_below(&rng, size));
    for (size_t i = 0; i < ASKED; i++) {
        memset(&symbols[i], 0x55, sizeof symbols[i]);
        symbols[i].address = i ? ph__rng_below(&rng, size) : ph__rng_next(&rng);
    }
    size_t named = 0, found = ph__elf_find(symbols, ASKED, file);
    for (size_t i = 0; i < ASKED; i++) {
        if (!memchr(symbols[i].name, '\0', sizeof symbols[i].name))
            fail_msg("PH_TEST_SEED=%" PRIu64 ": a name does not end", seed);
        named += symbols[i].name[0] != '\0';
    }
    if (found != named)
        fail_msg("PH_TEST_SEED=%" PRIu64 ": %zu found, %zu named", seed, found, named);
    (void)ph__elf_has_headers(file, sound + sizeof(Elf64_Ehdr),
                              1 + (size_t)ph__rng_below(&rng, 16));
    assert_int_equal(close(file), 0);
    free(bytes);
}

TEST(test_damaged_files)
{
    const char *seed = getenv("PH_TEST_SEED");
    read_program();
    if (seed)
        run_round(strtoull(seed, NULL, 10));
    for (uint64_t i = 0; !seed && i < (t_nightly() ? ROUNDS_NIGHTLY : ROUNDS); i++)
        run_round(i);
    free(sound);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_damaged_files)};
    return cmocka_run_group_tests_name("fuzz.elf", tests, NULL, NULL);
}
