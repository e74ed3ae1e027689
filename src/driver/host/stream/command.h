/* SPDX-License-Identifier: MIT */
/* driver/host/stream/command.h: the commands of a stream, and their memory. */
#ifndef PH_DRIVER_HOST_STREAM_COMMAND_H
#define PH_DRIVER_HOST_STREAM_COMMAND_H
#include "driver/host/stream/marker.h"
#include "driver/host/stream/stream.h"

/* A command is the first member of what it runs. The stream owns it until run returns, which may
 * free or recycle it. */
struct ph__host_command {
    void (*run)(ph__host_command *command); /* on the stream's thread, no lock held; may block */
    ph__host_command *next;
    ph__host_marker *wait, *signal; /* the stream's own; run is NULL for those two kinds */
};

/* Recycled memory for a stream's commands, PH__HOST_COMMAND_BYTES each, contents undefined. NULL
 * when out of memory. */
enum {
    PH__HOST_COMMAND_BYTES = 448,
    PH__HOST_SPARE_COMMANDS = 1024 /* of a stream, at most */
};
void *ph__host_command_acquire(ph__host_stream *stream);
void ph__host_command_finish(ph__host_stream *stream, void *command); /* by its run function */
void ph__host_command_drop(ph__host_stream *stream,
                           void *command); /* of a command that was never submitted */

/* Under the stream's lock, by the runner. What is too much is left with it. */
static inline void ph__host_commands_give_finished(ph__host_stream *stream)
{
    if (!stream->finished || stream->spare_count >= PH__HOST_SPARE_COMMANDS)
        return;
    stream->finished_last->next = stream->spare_commands;
    stream->spare_commands = stream->finished;
    stream->spare_count += stream->finished_count;
    stream->finished = NULL;
    stream->finished_count = 0;
}
#endif
