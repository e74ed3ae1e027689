/* SPDX-License-Identifier: MIT */
/* base/fork.c: the handler of fork(): takes all parts' locks in order, and gives them back on both
 * sides. */
#include "base/fork.h"
#include <stddef.h>

static ph__fork_part *parts; /* in order; changes only while the library is being loaded */
static bool handled;

static void prepare_fork(void)
{
    for (ph__fork_part *part = parts; part; part = part->next) {
        if (part->lock)
            pthread_mutex_lock(part->lock);
        if (part->prepare)
            part->prepare();
    }
}

/* Innermost first: there are as many calls deep as there are parts. */
static void finish_fork(const ph__fork_part *part, bool child)
{
    if (!part)
        return;
    finish_fork(part->next, child);
    void (*call)(void) = child ? part->child : part->parent;
    if (call)
        call();
    if (part->lock)
        pthread_mutex_unlock(part->lock);
}

static void in_parent(void)
{
    finish_fork(parts, false);
}

static void in_child(void)
{
    finish_fork(parts, true);
}

void ph__fork_add(ph__fork_part *part)
{
    ph__fork_part **at = &parts;
    if (!handled)
        handled = pthread_atfork(prepare_fork, in_parent, in_child) == 0;
    while (*at && (*at)->order < part->order)
        at = &(*at)->next;
    part->next = *at;
    *at = part;
}

bool ph__fork_handled(void)
{
    return handled;
}
