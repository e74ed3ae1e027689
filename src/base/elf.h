/* SPDX-License-Identifier: MIT */
/* base/elf.h: function names from the symbol table (.symtab) of an ELF file, for backtraces. The
 * dynamic linker knows exported functions alone; a program exports none as a rule. */
#ifndef PH_BASE_ELF_H
#define PH_BASE_ELF_H
#include <stddef.h>
#include <stdint.h>

enum {
    PH__ELF_NAME_BYTES = 128,
    PH__ELF_MOST_SECTIONS = 1 << 14,
    PH__ELF_MOST_SYMBOLS = 1 << 22 /* more are not read: 96 MiB of table */
};

typedef struct ph__elf_symbol {
    uint64_t address;              /* asked for: the link-time address, as the file counts */
    uint64_t start;                /* the answer: where the function begins */
    char name[PH__ELF_NAME_BYTES]; /* its name, cut to fit; "": not found */
} ph__elf_symbol;

/* Finds the function that each address lies in.
 *  - file: open for reading, positioned anywhere; the position stays. Any content is safe: what is
 *    no 64-bit ELF file of this byte order, or is damaged, has no names.
 *  - Returns how many were found. All symbols are looked up in one pass over the table.
 *  - Allocates nothing. Thread-safe. */
size_t ph__elf_find(ph__elf_symbol *symbols, size_t count, int file);

/* Whether the program headers in memory are those of the file: whether the file is still what was
 * loaded. headers: count entries of Elf64_Phdr. */
int ph__elf_has_headers(int file, const void *headers, size_t count);
#endif
