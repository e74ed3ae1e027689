/* SPDX-License-Identifier: MIT */
/* device/handles/drivers.c: the list of drivers, and the tables that their devices get. */
#include "device/handles/drivers.h"

const ph__driver *const ph__drivers[] = {&ph__driver_cuda, &ph__driver_host, NULL};
_Atomic(const ph__driver *) ph__driver_tables[] = {&ph__driver_cuda, &ph__driver_host};
_Static_assert(sizeof ph__driver_tables == sizeof ph__drivers - sizeof *ph__drivers,
               "a table for each driver");

const ph__driver *ph__driver_table(const ph__driver *driver)
{
    size_t i = 0;
    while (ph__drivers[i] && ph__drivers[i] != driver)
        i++;
    return ph__drivers[i] ? atomic_load_explicit(&ph__driver_tables[i], memory_order_acquire)
                          : driver;
}
