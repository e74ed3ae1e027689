/* SPDX-License-Identifier: MIT */
/* cli/cut.h: leaves the rest of a record out while its text is read, so that what is kept of a
 * file has a bound that does not grow with the file. */
#ifndef CLI_CUT_H
#define CLI_CUT_H
#include <stdbool.h>
#include <stddef.h>

/* The lists that are cut: elements of arrays under these keys, wherever they stand. */
typedef enum cut_list {
    CUT_OTHER,
    CUT_NODES,
    CUT_BLOCKS,
    CUT_LISTS
} cut_list;

enum {
    CUT_DEEPEST = 2048, /* of arrays and objects in one another; the parser refuses deeper ones */
    CUT_HELD = 64       /* further space is dropped */
};

typedef struct cut {
    /* The bounds: elements of each list, of all such lists together; bytes of text, behind which no
     * further node is begun. */
    size_t most[CUT_LISTS], most_bytes;
    /* What came of it. outer: nodes of the outermost list, kept or not. */
    size_t kept[CUT_LISTS], left[CUT_LISTS], bytes, outer;
    /* Where it stands. */
    unsigned char lists[CUT_DEEPEST]; /* cut_list of what is open */
    size_t depth;
    size_t skipping;  /* the depth of the list whose rest is left out; 0: none */
    char word[8];     /* the last text, as far as it may be a key */
    size_t word_size; /* above sizeof word: it is none */
    /* A comma of a list, and space, which wait for the element behind them. */
    char held[CUT_HELD];
    size_t held_count;
    bool in_text, escaped, keyed, element;
} cut;

/* Copies what is kept of the text: CUT_HELD bytes more than it is given at most. */
size_t cut_text(cut *c, char *out, const char *text, size_t bytes);
/* Some nodes or blocks were left out. */
static inline bool cut_is_short(const cut *c)
{
    return c->left[CUT_NODES] || c->left[CUT_BLOCKS];
}
#endif
