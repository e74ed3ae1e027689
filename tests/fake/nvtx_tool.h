/* SPDX-License-Identifier: MIT */
/* tests/fake/nvtx_tool.h: what the tool of this folder that listens to NVTX ranges has heard. */
#ifndef PH_TESTS_NVTX_TOOL_H
#define PH_TESTS_NVTX_TOOL_H

/* Of the domain "phonograph", by all threads: "+name" for a range that begins, "-" for one that
 * ends, "!" for what should not be. */
typedef const char *nvtx_tool_heard_fn(void);
typedef void nvtx_tool_forget_fn(void);
#endif
