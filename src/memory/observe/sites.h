/* SPDX-License-Identifier: MIT */
/* memory/observe/sites.h: backtraces of allocations and frees. The public part is
 * ph_memory_record_sites in phonograph/inspect/inputs.h. */
#ifndef PH_MEMORY_OBSERVE_SITES_H
#define PH_MEMORY_OBSERVE_SITES_H
#include <phonograph/inspect/inputs.h>

enum {
    PH__SITE_FRAMES = 32
};
/* Return addresses, innermost first. More than wanted where this library may be among them. */
typedef struct ph__site {
    int count;
    int wanted;  /* how many are shown of them */
    bool before; /* of an allocation: made before sites were recorded */
    void *frames[PH__SITE_FRAMES];
} ph__site;

/* Where the calling thread is now; empty when no sites are recorded. */
void ph__site_capture(ph__site *out);
/* The sites of an allocation, by its generation; false: nothing is known. freed is empty while it
 * lives; allocated is, where it was made before sites were recorded. */
bool ph__sites_find(ph__site *allocated, ph__site *freed, uint64_t generation);
/* The frames of a site as words, as ph__frames_describe gives them. */
size_t ph__site_describe(char *out, size_t size, const ph__site *site);

/* Notes the site of the calling thread, which has called the library, for the address that was just
 * allocated, or is about to be freed. No lock held. */
typedef struct ph__memory ph__memory;
void ph__sites_allocated(ph__memory *memory, const void *address);
void ph__sites_freeing(ph__memory *memory, const void *address);
void ph__sites_forget(const ph__memory *memory); /* forgets the sites of the device, which goes */
bool ph__sites_wanted(void);
#endif
