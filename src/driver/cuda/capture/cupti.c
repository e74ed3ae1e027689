/* SPDX-License-Identifier: MIT */
/* driver/cuda/capture/cupti.c: hearing about failed driver calls through CUPTI, for drivers that
 * have no log callback. */
#include "driver/cuda/capture/cupti.h"
#include "base/line.h"
#include "driver/cuda/capture/logs.h"
#include "driver/cuda/load/abi_cupti.h"
#include "driver/cuda/load/load.h"
#include "driver/suspects.h"
#include <dlfcn.h>
#include <string.h>

/* Called around every driver call of the process, on the thread that makes it. Acquires no lock,
 * calls no driver. ph__suspect_note drops reports while no capture is open. */
static void on_call(void *user, int domain, uint32_t function_id, const void *data)
{
    const ph__cupti_call *call = data;
    char name[64];
    (void)user;
    (void)function_id;
    if (domain != PH__CUPTI_DRIVER_API || call->site != PH__CUPTI_EXIT || !call->result ||
        !call->function)
        return;
    int result = *(const int *)call->result;
    if (result < PH__R_CAPTURE_UNSUPPORTED || result > PH__R_CAPTURE_WRONG_THREAD)
        return;
    ph__cuda_call_name(name, call->function, strlen(call->function));
    if (ph__cuda_may_kill(name, result))
        ph__suspect_note(0, name, result, NULL);
}

/* The library of the driver's own major version comes first. */
void *ph__cuda_cupti_open(void)
{
    static const char *const names[] = {"libcupti.so.13", "libcupti.so.12", "libcupti.so",
                                        "/usr/local/cuda/extras/CUPTI/lib64/libcupti.so",
                                        "/usr/local/cuda/lib64/libcupti.so"};
    void *library =
        ph__cuda_version() < 13000 ? dlopen("libcupti.so.12", RTLD_NOW | RTLD_LOCAL) : NULL;
    for (size_t i = 0; !library && i < sizeof names / sizeof names[0]; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    return library;
}

typedef struct cupti {
    int (*subscribe)(ph__cupti_subscriber *subscriber, ph__cupti_callback callback, void *user);
    int (*unsubscribe)(ph__cupti_subscriber subscriber);
    int (*enable_domain)(uint32_t enable, ph__cupti_subscriber subscriber, int domain);
} cupti;

static bool find_functions(cupti *out, void *library)
{
    void *subscribe = dlsym(library, "cuptiSubscribe"),
         *unsubscribe = dlsym(library, "cuptiUnsubscribe"),
         *enable = dlsym(library, "cuptiEnableDomain");
    memcpy(&out->subscribe, &subscribe, sizeof subscribe);
    memcpy(&out->unsubscribe, &unsubscribe, sizeof unsubscribe);
    memcpy(&out->enable_domain, &enable, sizeof enable);
    return subscribe && unsubscribe && enable;
}

static atomic_bool subscribed;

bool ph__cuda_cupti_is_ours(void)
{
    return atomic_load(&subscribed);
}

/* Subscribed for good, as the log callback is registered for good; the library stays loaded. */
static bool subscribe_to_callbacks(const cupti *c, char why[256])
{
    ph__cupti_subscriber subscriber;
    int result = c->subscribe(&subscriber, on_call, NULL);
    if (result == PH__CUPTI_R_OTHER_SUBSCRIBER) {
        ph__line_format(why, 256, "a profiler or debugger uses CUPTI already (39)");
        return false;
    }
    if (result == 0) {
        result = c->enable_domain(1, subscriber, PH__CUPTI_DRIVER_API);
        if (result != 0)
            (void)c->unsubscribe(subscriber);
    }
    if (result != 0)
        ph__line_format(why, 256, "CUPTI cannot be used (%d)", result);
    atomic_store(&subscribed, result == 0);
    return result == 0;
}

bool ph__cuda_cupti_start(char why[256])
{
    cupti c;
    void *library = ph__cuda_cupti_open();
    if (!library) {
        ph__line_format(
            why, 256,
            "libcupti.so, a part of the CUDA toolkit, cannot be loaded: put its folder into "
            "LD_LIBRARY_PATH");
        return false;
    }
    if (!find_functions(&c, library)) {
        ph__line_format(why, 256, "the libcupti.so that was found lacks functions");
        (void)dlclose(library);
        return false;
    }
    return subscribe_to_callbacks(&c, why);
}
