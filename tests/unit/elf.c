/* SPDX-License-Identifier: MIT */
/* tests/unit/elf.c: names of functions out of an ELF file's symbol table. */
#include "base/elf.h"
#include "support/support.h"
#include "support/test.h"
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int program;

FIXTURE(open_program)
{
    program = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    return program < 0;
}

FIXTURE(close_program)
{
    return close(program);
}

/* The program comes first. */
static int copy_first(struct dl_phdr_info *object, size_t bytes, void *out)
{
    (void)bytes;
    *(struct dl_phdr_info *)out = *object;
    return 1;
}

static struct dl_phdr_info loaded(void)
{
    struct dl_phdr_info object = {0};
    (void)dl_iterate_phdr(copy_first, &object);
    return object;
}

__attribute__((noinline)) static int not_exported(int a)
{
    return a + (program > 1000);
}

/* As much room as a name has, and more. */
#define LONG_PART    a_function_with_a_name_that_is_longer_than_all_others_in_this_program_
#define JOIN(a, b)   a##b
#define JOINED(a, b) JOIN(a, b)
#define LONG_NAME    JOINED(LONG_PART, JOINED(LONG_PART, LONG_PART))
__attribute__((noinline)) static int LONG_NAME(int a)
{
    return a - (program > 1000);
}

static uint64_t address_of(int (*function)(int))
{
    uintptr_t address;
    memcpy(&address, &function, sizeof address);
    return address - loaded().dlpi_addr;
}

TEST(finds_functions_that_are_not_exported)
{
    uint64_t start = address_of(not_exported);
    ph__elf_symbol symbols[3] = {{.address = start}, {.address = 1}, {.address = start + 1}};
    assert_int_equal(ph__elf_find(symbols, 3, program), 2);
    assert_string_equal(symbols[0].name, "not_exported");
    assert_string_equal(symbols[1].name, "");
    assert_string_equal(symbols[2].name, "not_exported");
    assert_int_equal(symbols[0].start, start);
    assert_int_equal(symbols[2].start, start);
    assert_int_equal(not_exported(1), 1);
}

TEST(cuts_long_names)
{
    ph__elf_symbol symbol = {.address = address_of(LONG_NAME)};
    assert_int_equal(ph__elf_find(&symbol, 1, program), 1);
    assert_int_equal(strlen(symbol.name), sizeof symbol.name - 1);
    assert_memory_equal(symbol.name, "a_function_with_a_name_that_is_longer", 37);
    assert_int_equal(LONG_NAME(1), 1);
}

TEST(knows_what_was_loaded)
{
    struct dl_phdr_info object = loaded();
    assert_true(ph__elf_has_headers(program, object.dlpi_phdr, object.dlpi_phnum));
    assert_false(ph__elf_has_headers(program, object.dlpi_phdr, object.dlpi_phnum - 1u));
    ElfW(Phdr) *other = calloc(object.dlpi_phnum, sizeof *other);
    assert_non_null(other);
    memcpy(other, object.dlpi_phdr, object.dlpi_phnum * sizeof *other);
    other[object.dlpi_phnum - 1].p_memsz++;
    assert_false(ph__elf_has_headers(program, other, object.dlpi_phnum));
    free(other);
}

static int file_of(const void *bytes, size_t size)
{
    FILE *file = tmpfile();
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fflush(file), 0);
    int number = dup(fileno(file));
    assert_true(number >= 0);
    assert_int_equal(fclose(file), 0);
    return number;
}

static void expect_nothing(const void *bytes, size_t size)
{
    int file = file_of(bytes, size);
    ph__elf_symbol symbol = {.address = 0, .start = 7, .name = "stale"};
    assert_int_equal(ph__elf_find(&symbol, 1, file), 0);
    assert_string_equal(symbol.name, "");
    assert_int_equal(symbol.start, 0);
    assert_false(ph__elf_has_headers(file, "", 0) && size < sizeof(Elf64_Ehdr));
    assert_int_equal(close(file), 0);
}

/* A header whose offsets and numbers point nowhere. */
TEST(answers_nothing_for_other_files)
{
    Elf64_Ehdr header;
    assert_int_equal(pread(program, &header, sizeof header, 0), sizeof header);
    expect_nothing("", 0);
    expect_nothing("#!/bin/sh\n", 10);
    expect_nothing(&header, sizeof header - 1);
    expect_nothing(&header, sizeof header); /* its sections are not there */
    Elf64_Ehdr other = header;
    other.e_ident[EI_CLASS] = ELFCLASS32;
    expect_nothing(&other, sizeof other);
    other = header;
    other.e_ident[EI_DATA] = 3 - header.e_ident[EI_DATA];
    expect_nothing(&other, sizeof other);
    other = header;
    other.e_shoff = UINT64_MAX - 8;
    expect_nothing(&other, sizeof other);
    other.e_shoff = sizeof other;
    other.e_shnum = 0xffff;
    expect_nothing(&other, sizeof other);
    other.e_shnum = 0; /* then the first section says how many there are */
    expect_nothing(&other, sizeof other);
    struct {
        Elf64_Ehdr header;
        Elf64_Shdr first;
    } many = {other, {.sh_size = UINT64_MAX, .sh_type = SHT_SYMTAB}};
    expect_nothing(&many, sizeof many);
}

/* One symbol, whose name and extent are at the ends of what the format can say. */
TEST(survives_symbols_at_the_limits)
{
    struct {
        Elf64_Ehdr header;
        Elf64_Shdr sections[2];
        Elf64_Sym symbol;
        char names[8];
    } image;
    assert_int_equal(pread(program, &image.header, sizeof image.header, 0), sizeof image.header);
    image.header.e_shoff = offsetof(__typeof__(image), sections);
    image.header.e_shnum = 2;
    image.sections[0] = (Elf64_Shdr){.sh_type = SHT_SYMTAB,
                                     .sh_link = 1,
                                     .sh_offset = offsetof(__typeof__(image), symbol),
                                     .sh_size = sizeof image.symbol,
                                     .sh_entsize = sizeof image.symbol};
    image.sections[1] = (Elf64_Shdr){.sh_type = SHT_STRTAB,
                                     .sh_offset = offsetof(__typeof__(image), names),
                                     .sh_size = sizeof image.names};
    image.symbol = (Elf64_Sym){.st_name = 1,
                               .st_info = ELF64_ST_INFO(STB_LOCAL, STT_FUNC),
                               .st_shndx = 1,
                               .st_value = UINT64_MAX - 1,
                               .st_size = UINT64_MAX};
    memcpy(image.names, "\0unended", sizeof image.names);
    int file = file_of(&image, sizeof image);
    ph__elf_symbol symbol = {.address = UINT64_MAX};
    assert_int_equal(ph__elf_find(&symbol, 1, file), 1);
    assert_string_equal(symbol.name, "unended");
    assert_int_equal(close(file), 0);
    image.symbol.st_name = sizeof image.names;
    expect_nothing(&image, sizeof image);
    image.symbol.st_name = 1;
    image.sections[1].sh_offset = UINT64_MAX;
    expect_nothing(&image, sizeof image);
    image.sections[1].sh_size = UINT64_MAX;
    expect_nothing(&image, sizeof image);
    image.sections[0].sh_link = 2;
    expect_nothing(&image, sizeof image);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_functions_that_are_not_exported),
        cmocka_unit_test(cuts_long_names),
        cmocka_unit_test(knows_what_was_loaded),
        cmocka_unit_test(answers_nothing_for_other_files),
        cmocka_unit_test(survives_symbols_at_the_limits),
    };
    return cmocka_run_group_tests_name("unit.elf", tests, open_program, close_program);
}
