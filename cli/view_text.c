/* SPDX-License-Identifier: MIT */
/* cli/view_text.c: the page's text, put together by the build (cmake/page.cmake) and embedded as
 * it stands. */
#include "view.h"

#ifdef PAGE_DIR
#define EMBED(name, file)                                                                          \
    __asm__(".pushsection .rodata\n"                                                               \
            ".global " #name "\n"                                                                  \
            ".hidden " #name "\n"                                                                  \
            ".type " #name ", %object\n" #name ":\n"                                               \
            ".incbin \"" PAGE_DIR "/" file "\"\n"                                                  \
            ".byte 0\n"                                                                            \
            ".size " #name ", . - " #name "\n"                                                     \
            ".popsection\n");
EMBED(view_page_head, "head.html")
EMBED(view_page_tail, "tail.html")
#else
const char view_page_head[] = "", view_page_tail[] = "";
#endif

bool view_has_page(void)
{
    return view_page_head[0] != '\0';
}
