/* SPDX-License-Identifier: MIT */
/* memory/reclaim/pinned_holders.h: pinned blocks that work may still read, and who holds them. */
#ifndef PH_MEMORY_RECLAIM_PINNED_HOLDERS_H
#define PH_MEMORY_RECLAIM_PINNED_HOLDERS_H
#include "device/handles/device.h"
#include <phonograph/memory.h>

typedef struct ph__memory ph__memory;
typedef struct ph__pinned ph__pinned;
typedef struct ph__stream_uses ph__stream_uses;

/* A block that the user has freed waits for its readers. No lock held. */
void ph__pinned_hold(ph__memory *memory, ph__pinned *block);
/* The record of uses, made when there is none; NULL: no host memory. For who has freed the
 * block, or has the lock. */
ph__stream_uses *ph__pinned_uses(ph__pinned *block);
void ph__pinned_unpark(ph_pool *pool); /* no graph holds it any more. Lock held */
void ph__held_process(
    ph__memory *memory); /* lets go what only dead pools held. reclaim_lock held */
void ph__copy_captured(ph__attachment *attachment, uint64_t capture_id, const void *dst,
                       const void *src);
/* Notes that a copy in a graph of the pool uses the pinned block around address, if there is
 * one: it is not reused while the pool lives, also when it is freed. The device layer's
 * copy_captured does this for each captured ph_memcpy as it is made. */
void ph__memory_pin_used(ph_pool *pool, const void *address);
/* Bytes of the pinned blocks that graphs of one of the pools keep from reuse so. holds: is this
 * pool among them? Called under a spinning lock. */
size_t ph__memory_pinned_held(const ph_device *device,
                              bool (*holds)(const void *user, const ph_pool *pool),
                              const void *user);
#endif
