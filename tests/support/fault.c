/* SPDX-License-Identifier: MIT */
/* tests/support/fault.c: tables in front of the drivers' that count calls and let one fail. */
#include "support/fault.h"
#include "device/handles/drivers.h"
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

/* A table of functions cannot carry which driver it stands for, so each slot has functions of
 * its own. */
enum {
    SLOTS = 4
};
static const ph__driver *targets[SLOTS];
static ph__driver tables[SLOTS];
static size_t used_slots;
static pthread_mutex_t slots_lock = PTHREAD_MUTEX_INITIALIZER;

static atomic_int_least64_t calls;
static atomic_int_least64_t until_failure = -1;
static atomic_int failure;
static struct {
    _Atomic(const char *) entry; /* NULL: none; set last, and taken by one call */
    void (*fn)(void *user);
    void *user;
} before;

void ph__driver_fail_after(int64_t n, int result)
{
    atomic_store(&until_failure, -1);
    atomic_store(&failure, result);
    atomic_store(&until_failure, n < 0 ? -1 : n);
}

int64_t ph__driver_calls(void)
{
    return atomic_load_explicit(&calls, memory_order_relaxed);
}

void ph__driver_before(const char *entry, void (*fn)(void *user), void *user)
{
    atomic_store(&before.entry, NULL);
    before.fn = fn;
    before.user = user;
    atomic_store(&before.entry, entry);
}

static void run_before(const char *entry)
{
    const char *wanted = atomic_load(&before.entry);
    if (wanted && strcmp(wanted, entry) == 0 &&
        atomic_compare_exchange_strong(&before.entry, &wanted, NULL))
        before.fn(before.user);
}

/* 0, or what this call has to answer: without a reason then, as a driver's own failure without
 * words. */
static int enter(const char *entry)
{
    run_before(entry);
    ph__driver_clear_reason();
    atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed);
    int_least64_t left = atomic_load_explicit(&until_failure, memory_order_relaxed);
    while (left >= 0) {
        if (!atomic_compare_exchange_weak(&until_failure, &left, left - 1))
            continue;
        return left == 0 ? atomic_load(&failure) : 0;
    }
    return 0;
}

#define PH__FAULT_SLOT 0
#include "support/fault_slot.def"
#define PH__FAULT_SLOT 1
#include "support/fault_slot.def"
#define PH__FAULT_SLOT 2
#include "support/fault_slot.def"
#define PH__FAULT_SLOT 3
#include "support/fault_slot.def"

static const ph__driver *wrap(const ph__driver *driver)
{
    static void (*const fill[SLOTS])(const ph__driver *driver) = {fill_slot_0, fill_slot_1,
                                                                  fill_slot_2, fill_slot_3};
    for (size_t i = 0; i < used_slots; i++)
        if (targets[i] == driver)
            return &tables[i];
    if (used_slots == SLOTS)
        return driver;
    fill[used_slots](driver);
    return &tables[used_slots++];
}

const ph__driver *ph__driver_faulty(const ph__driver *driver)
{
    pthread_mutex_lock(&slots_lock);
    const ph__driver *wrapped = wrap(driver);
    pthread_mutex_unlock(&slots_lock);
    return wrapped;
}

void ph__driver_tables_exchange(bool faulty)
{
    for (size_t i = 0; ph__drivers[i]; i++)
        atomic_store(&ph__driver_tables[i],
                     faulty ? ph__driver_faulty(ph__drivers[i]) : ph__drivers[i]);
}

/* Before any device is opened, so that the sweeps reach every call. */
__attribute__((constructor)) static void exchange_at_start(void)
{
    ph__driver_tables_exchange(true);
}
