/* SPDX-License-Identifier: MIT */
/* cli/cut.c: a walk through JSON text, byte by byte, that passes on all but the rest of long lists.
 * What is no JSON is passed on as it is, for the parser to refuse. */
#include "cut.h"
#include <string.h>

static bool is_space(char byte)
{
    return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r';
}

static cut_list list_here(const cut *c)
{
    return c->depth > 0 && c->depth <= CUT_DEEPEST ? (cut_list)c->lists[c->depth - 1] : CUT_OTHER;
}

/* The list that an array is which begins behind this key. */
static cut_list list_of_key(const cut *c)
{
    if (c->keyed && c->word_size == 5 && memcmp(c->word, "nodes", 5) == 0)
        return CUT_NODES;
    if (c->keyed && c->word_size == 6 && memcmp(c->word, "blocks", 6) == 0)
        return CUT_BLOCKS;
    return CUT_OTHER;
}

static void open(cut *c, char bracket)
{
    if (c->depth < CUT_DEEPEST)
        c->lists[c->depth] = (unsigned char)(bracket == '[' ? list_of_key(c) : CUT_OTHER);
    c->depth++;
    c->element = false;
}

/* Counts the element; what is beyond the bound is left out to the end of its list. */
static void begin_element(cut *c)
{
    cut_list list = list_here(c);
    c->element = true;
    if (list == CUT_NODES && c->depth == 2)
        c->outer++;
    if (!c->skipping &&
        (c->kept[list] >= c->most[list] || (list == CUT_NODES && c->bytes >= c->most_bytes)))
        c->skipping = c->depth;
    if (c->skipping)
        c->left[list]++;
    else
        c->kept[list]++;
}

static void read_text(cut *c, char byte)
{
    if (c->escaped || byte != '"') {
        c->escaped = !c->escaped && byte == '\\';
        if (c->word_size < sizeof c->word)
            c->word[c->word_size] = byte;
        c->word_size += c->word_size <= sizeof c->word;
        return;
    }
    c->in_text = false;
}

/* Where the byte leads. */
static void read_byte(cut *c, char byte)
{
    switch (byte) {
    case '"':
        c->in_text = true;
        c->word_size = 0;
        break;
    case ':':
        c->keyed = true;
        return;
    case '{':
    case '[':
        open(c, byte);
        break;
    case '}':
    case ']':
        c->depth -= c->depth > 0;
        c->element = true;
        if (c->depth < c->skipping)
            c->skipping = 0;
        break;
    case ',':
        c->element = false;
        break;
    default:
        if (is_space(byte))
            return;
        break;
    }
    c->keyed = false;
}

static size_t put(cut *c, char *out, char byte)
{
    size_t used = c->held_count;
    memcpy(out, c->held, used);
    c->held_count = 0;
    out[used++] = byte;
    c->bytes += used;
    return used;
}

/* Between the elements of a list. */
static bool waits(const cut *c, char byte)
{
    return c->held_count ? is_space(byte) : byte == ',';
}

static size_t hold(cut *c, char byte)
{
    if (c->held_count < CUT_HELD - 1)
        c->held[c->held_count++] = byte;
    return 0;
}

static size_t take(cut *c, char *out, char byte)
{
    if (c->in_text) {
        read_text(c, byte);
        return c->skipping ? 0 : put(c, out, byte);
    }
    cut_list list = list_here(c);
    if (list != CUT_OTHER && !c->element && !is_space(byte) && byte != ',' && byte != ']')
        begin_element(c);
    bool skipped = c->skipping != 0;
    read_byte(c, byte);
    if (skipped && c->skipping)
        return 0;
    if (skipped) /* the list has ended: so has the comma before what is left out */
        c->held_count = 0;
    else if (list != CUT_OTHER && waits(c, byte))
        return hold(c, byte);
    return put(c, out, byte);
}

size_t cut_text(cut *c, char *out, const char *text, size_t bytes)
{
    size_t used = 0;
    for (size_t i = 0; i < bytes; i++)
        used += take(c, out + used, text[i]);
    return used;
}
