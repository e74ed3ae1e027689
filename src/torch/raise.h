/* SPDX-License-Identifier: MIT */
/* torch/raise.h: errors as C++ exceptions. */
#ifndef PH_TORCH_RAISE_H
#define PH_TORCH_RAISE_H

/* Throws std::runtime_error with the text of ph_error_last. Returns only where the process has no
 * libstdc++, or the error is none. No lock held. */
void ph__raise_last(void);
#endif
