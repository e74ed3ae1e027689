/* SPDX-License-Identifier: MIT */
/* tensor/backend/texts.c: the CUDA texts of cuda/, embedded as they are. */
#include "tensor/backend/texts.h"
#include "tensor/backend/kernels.h"

#define EMBED(name)                                                                                \
    __asm__(".pushsection .rodata\n"                                                               \
            ".global ph__text_" #name "\n"                                                         \
            ".hidden ph__text_" #name "\n"                                                         \
            ".type ph__text_" #name ", %object\n"                                                  \
            "ph__text_" #name ":\n"                                                                \
            ".incbin \"" PH__TEXT_DIR "/" #name ".cu\"\n"                                          \
            ".byte 0\n"                                                                            \
            ".size ph__text_" #name ", . - ph__text_" #name "\n"                                   \
            ".popsection\n");
PH__TEXTS(EMBED)
