/* SPDX-License-Identifier: MIT */
/* driver/suspects.h: who may have killed a capture: driver calls that failed while one was open,
 * noted on the offending thread, as they happen. Both drivers note; the device layer asks when a
 * capture has died. One ring for the process. */
#ifndef PH_DRIVER_SUSPECTS_H
#define PH_DRIVER_SUSPECTS_H
#include "driver/driver.h"

enum {
    PH__SUSPECTS = 64,
    PH__SUSPECT_FRAMES = 24
};

typedef struct ph__suspect {
    uint64_t sequence;    /* ascending in the order of the notes */
    uint64_t capture_id;  /* the capture that it killed; 0: not known */
    uint64_t thread;      /* ph__thread_id */
    char thread_name[16]; /* as pthread_getname_np gives it */
    int result;           /* CUDA's number */
    char call[64];        /* the driver's function */
    char text[192];       /* the driver's own words; "" when it has none */
    int frame_count;
    /* return addresses, innermost first; the noting itself is cut off */
    void *frames[PH__SUSPECT_FRAMES];
} ph__suspect;

/* Notes are taken while at least one capture is open; open also makes the first backtrace, whose
 * set-up allocates. Thread-safe. */
void ph__suspects_prepare(void); /* only makes that backtrace */
void ph__suspects_open(void);
void ph__suspects_close(void);

/* Notes a failing call of the calling thread; does nothing while no capture is open. Takes no lock,
 * allocates nothing, calls no driver, keeps errno: fit for a driver's log callback. Older notes are
 * overwritten when the ring is full; one whose turn comes while another thread still writes to its
 * place is lost. text may be NULL. */
void ph__suspect_note(uint64_t capture_id, const char *call, int result, const char *text);

/* The number of the next note: what came before it belongs to earlier captures. */
uint64_t ph__suspects_next(void);
/* The notes from `since` on that are whole, oldest first; at most capacity. Thread-safe. */
size_t ph__suspects_read(ph__suspect *out, size_t capacity, uint64_t since);
/* The one that most likely killed a capture: the first since `since` that names it, else the first
 * of its own thread with a number that invalidates captures (900, 902 to 907), else the first of
 * any thread, one with such a number before others. Notes that name another capture are nobody's
 * here. false: none. */
bool ph__suspects_blame(ph__suspect *out, uint64_t since, uint64_t capture_id,
                        uint64_t owner_thread);

/* "cuStreamSynchronize (900, CUDA_ERROR_...: text) on this thread|thread "loader", from f+0x12 <
 * g+0x3 (lib.so)": as snprintf. text: the driver's own, where it has some. At most `frames` of the
 * frames behind this library's and CUDA's, innermost first (driver/frames.h). */
size_t ph__suspect_describe(char *out, size_t size, const ph__suspect *suspect, int frames);
#endif
