/* SPDX-License-Identifier: MIT */
/* base/elf.c: reading the symbol table of an ELF file. Every offset and size comes from the file,
 * so each is checked before its use; reads go through pread, as a file that shrinks under a mapping
 * would be fatal. Source of the format: System V ABI, chapters 4 and 5. */
#include "base/elf.h"
#include <elf.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

enum {
    BUFFER_BYTES = 4096
};

static bool read_at(int file, void *out, size_t bytes, uint64_t offset)
{
    size_t done = 0;
    if (offset > INT64_MAX - bytes)
        return false;
    while (done < bytes) {
        ssize_t got = pread(file, (char *)out + done, bytes - done, (off_t)(offset + done));
        if (got <= 0 && !(got < 0 && errno == EINTR))
            return false;
        done += got > 0 ? (size_t)got : 0;
    }
    return true;
}

static bool read_header(Elf64_Ehdr *out, int file)
{
    const uint16_t one = 1;
    unsigned char order = *(const unsigned char *)&one ? ELFDATA2LSB : ELFDATA2MSB;
    return read_at(file, out, sizeof *out, 0) && memcmp(out->e_ident, ELFMAG, SELFMAG) == 0 &&
           out->e_ident[EI_CLASS] == ELFCLASS64 && out->e_ident[EI_DATA] == order;
}

/* Files of very many sections keep their number in the first section. */
static bool count_sections(size_t *count, int file, const Elf64_Ehdr *header)
{
    Elf64_Shdr first;
    *count = header->e_shnum;
    if (header->e_shoff == 0 || header->e_shentsize != sizeof first)
        return false;
    if (*count == 0) {
        if (!read_at(file, &first, sizeof first, header->e_shoff))
            return false;
        *count = first.sh_size < PH__ELF_MOST_SECTIONS ? (size_t)first.sh_size : 0;
    }
    return *count > 0 && *count <= PH__ELF_MOST_SECTIONS;
}

static bool read_section(Elf64_Shdr *out, int file, const Elf64_Ehdr *header, size_t index)
{
    uint64_t offset;
    return !__builtin_add_overflow(header->e_shoff, index * sizeof *out, &offset) &&
           read_at(file, out, sizeof *out, offset);
}

/* The symbol table and the strings that it names. */
static bool find_tables(Elf64_Shdr *symbols, Elf64_Shdr *strings, int file)
{
    Elf64_Ehdr header;
    size_t count;
    if (!read_header(&header, file) || !count_sections(&count, file, &header))
        return false;
    for (size_t i = 0; i < count; i++) {
        if (!read_section(symbols, file, &header, i))
            return false;
        if (symbols->sh_type != SHT_SYMTAB)
            continue;
        return symbols->sh_entsize == sizeof(Elf64_Sym) && symbols->sh_link < count &&
               symbols->sh_size / sizeof(Elf64_Sym) <= PH__ELF_MOST_SYMBOLS &&
               read_section(strings, file, &header, symbols->sh_link) &&
               strings->sh_type == SHT_STRTAB;
    }
    return false;
}

/* A function of known size that holds the address. */
static bool symbol_holds(const Elf64_Sym *symbol, uint64_t address)
{
    return ELF64_ST_TYPE(symbol->st_info) == STT_FUNC && symbol->st_shndx != SHN_UNDEF &&
           address >= symbol->st_value && address - symbol->st_value < symbol->st_size;
}

static bool read_name(ph__elf_symbol *out, int file, const Elf64_Shdr *strings,
                      const Elf64_Sym *symbol)
{
    if (symbol->st_name == 0 || symbol->st_name >= strings->sh_size)
        return false;
    uint64_t rest = strings->sh_size - symbol->st_name, offset;
    size_t bytes = rest < sizeof out->name ? (size_t)rest : sizeof out->name - 1;
    if (__builtin_add_overflow(strings->sh_offset, symbol->st_name, &offset) ||
        !read_at(file, out->name, bytes, offset)) {
        out->name[0] = '\0';
        return false;
    }
    out->name[bytes] = '\0';
    out->start = symbol->st_value;
    return out->name[0] != '\0';
}

size_t ph__elf_find(ph__elf_symbol *symbols, size_t count, int file)
{
    Elf64_Shdr table, strings;
    Elf64_Sym some[BUFFER_BYTES / sizeof(Elf64_Sym)];
    size_t found = 0;
    for (size_t i = 0; i < count; i++) {
        symbols[i].start = 0;
        symbols[i].name[0] = '\0';
    }
    if (count == 0 || !find_tables(&table, &strings, file))
        return 0;
    size_t left = table.sh_size / sizeof some[0];
    for (uint64_t at = table.sh_offset; left > 0 && found < count;) {
        size_t part = left < sizeof some / sizeof some[0] ? left : sizeof some / sizeof some[0];
        if (!read_at(file, some, part * sizeof some[0], at))
            break;
        for (size_t s = 0; s < part; s++)
            for (size_t i = 0; i < count; i++)
                if (!symbols[i].name[0] && symbol_holds(&some[s], symbols[i].address))
                    found += read_name(&symbols[i], file, &strings, &some[s]);
        left -= part;
        at += part * sizeof some[0];
    }
    return found;
}

int ph__elf_has_headers(int file, const void *headers, size_t count)
{
    Elf64_Ehdr header;
    Elf64_Phdr one;
    if (!read_header(&header, file) || header.e_phentsize != sizeof one || header.e_phnum != count)
        return 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t offset;
        if (__builtin_add_overflow(header.e_phoff, i * sizeof one, &offset) ||
            !read_at(file, &one, sizeof one, offset) ||
            memcmp(&one, (const Elf64_Phdr *)headers + i, sizeof one) != 0)
            return 0;
    }
    return 1;
}
