/* SPDX-License-Identifier: MIT */
/* tests/headers/same.h: our declarations of others' interfaces against theirs, when it is compiled:
 * types, numbers, and tables of the fields of structs. */
#ifndef PH_TESTS_HEADERS_SAME_H
#define PH_TESTS_HEADERS_SAME_H
#include <stddef.h>

#define SAME_TYPE(ours, theirs)                                                                    \
    _Static_assert(__builtin_types_compatible_p(ours, theirs), #ours " is " #theirs)
#define SAME_NUMBER(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #ours " is " #theirs)
#define SAME_SIZE(ours, theirs)                                                                    \
    _Static_assert(sizeof(ours) == sizeof(theirs) && _Alignof(ours) == _Alignof(theirs),           \
                   #ours " is " #theirs)

/* FIELDS(ours, theirs) { FIELD(our_field, their_field); ... }: fields that lie in the same place
 * and have the same size. STRUCT: whole structs, of the same size. A compiler that finds a
 * difference names the function, and so the two structs. */
#define FIELDS(ours, theirs)                                                                       \
    static inline void fields_of_##ours##_and_##theirs(const ours *a, const theirs *b)
#define STRUCT(ours, theirs)                                                                       \
    SAME_SIZE(ours, theirs);                                                                       \
    FIELDS(ours, theirs)
#define FIELD(our_field, their_field)                                                              \
    _Static_assert(offsetof(__typeof__(*a), our_field) == offsetof(__typeof__(*b), their_field) && \
                       sizeof a->our_field == sizeof b->their_field,                               \
                   #our_field " is " #their_field)
#endif
