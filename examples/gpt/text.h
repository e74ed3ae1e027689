/* SPDX-License-Identifier: MIT */
/* gpt/text.h: the text to learn, as numbers of characters. */
#ifndef GPT_TEXT_H
#define GPT_TEXT_H
#include <phonograph/nn.h>

/* Every byte that occurs in the text is a character of the vocabulary, in order of the bytes. */
typedef struct corpus {
    int32_t *token; /* count of them */
    int64_t count;
    int64_t files;
    unsigned char byte_of[256]; /* of each character of the vocabulary */
    int32_t vocabulary;
} corpus;

/* path: a file, or a folder, of which all .c, .h and .md files are read, in the order of their
 * names. */
ph_status text_load(corpus *out, const char *path);
uint32_t text_checksum(const corpus *text); /* FNV-1a of its characters */
void text_free(corpus *text);
#endif
