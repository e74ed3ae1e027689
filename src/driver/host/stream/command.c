/* SPDX-License-Identifier: MIT */
/* driver/host/stream/command.c: the memory of a stream's commands. */
#include "driver/host/stream/command.h"
#include "base/alloc.h"

void *ph__host_command_acquire(ph__host_stream *stream)
{
    ph__spin_lock(&stream->lock);
    ph__host_command *command = stream->spare_commands;
    if (command) {
        stream->spare_commands = command->next;
        stream->spare_count--;
    }
    ph__spin_unlock(&stream->lock);
    return command ? command : ph__alloc(PH__HOST_COMMAND_BYTES);
}

void ph__host_command_drop(ph__host_stream *stream, void *memory)
{
    ph__host_command *command = memory;
    ph__spin_lock(&stream->lock);
    command->next = stream->spare_commands;
    stream->spare_commands = command;
    stream->spare_count++;
    ph__spin_unlock(&stream->lock);
}

/* Finished commands go back in one piece, when the runner holds the lock anyhow; a runner that is
 * far behind keeps fewer. */
void ph__host_command_finish(ph__host_stream *stream, void *memory)
{
    ph__host_command *command = memory;
    if (stream->finished_count >= PH__HOST_SPARE_COMMANDS) {
        ph__free(memory);
        return;
    }
    command->next = stream->finished;
    if (!stream->finished)
        stream->finished_last = command;
    stream->finished = command;
    stream->finished_count++;
}
