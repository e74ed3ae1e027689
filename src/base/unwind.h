/* SPDX-License-Identifier: MIT */
/* base/unwind.h: what is undone where a user's function is left by a C++ exception, or by the
 * end of its thread (pthread_exit), instead of a return.
 *
 * The unwinder is that of the program: libgcc_s has it, or the runtime of another compiler. It
 * is referred to weakly, so that neither library needs one: a program that has none throws
 * nothing. */
#ifndef PH_BASE_UNWIND_H
#define PH_BASE_UNWIND_H

__asm__(".weak __gcc_personality_v0\n"
        ".weak _Unwind_Resume");

typedef struct ph__unwind {
    void (*undo)(void *what); /* NULL: the function has returned */
    void *what;
} ph__unwind;

static inline void ph__unwind_run(ph__unwind *unwind)
{
    if (unwind->undo)
        unwind->undo(unwind->what);
}

/* PH__UNWIND name = {undo, what}; the function is called; name.undo = NULL. undo is to hold no
 * lock at its end, keeps the error record, and runs no function of the user's but those that
 * release what is theirs, which must not throw. */
#define PH__UNWIND __attribute__((cleanup(ph__unwind_run), unused)) ph__unwind
#endif
