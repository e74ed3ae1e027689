/* SPDX-License-Identifier: MIT */
/* driver/host/capture/capture.h: captures: begin, end, and the recording of work. */
#ifndef PH_DRIVER_HOST_CAPTURE_CAPTURE_H
#define PH_DRIVER_HOST_CAPTURE_CAPTURE_H
#include "driver/host/capture/graph.h"
#include "driver/host/resource/rules.h"

/* Makes a stream a member. False when out of memory. */
bool ph__host_capture_join(ph__host_capture *capture, ph__host_stream *stream,
                           ph__host_node_set terminals);

/* As ph__host_record_kernel and its like; on success the body belongs to the node. */
int ph__host_record_child(ph__host_stream *stream, ph__host_graph *body);

/* Records one node on a capturing stream, depending on the stream's terminals, and makes it the
 * only terminal. The graph keeps copies of the parameters and retains kernel or event. 901: the
 * capture is invalidated; 2: out of memory (capture unchanged). 401: not capturing. */
int ph__host_record_kernel(ph__host_stream *stream, ph__host_kernel *kernel,
                           const ph__drv_launch *launch);
int ph__host_record_copy(ph__host_stream *stream, const ph__drv_memcpy *copy, uint64_t *capture_id);
int ph__host_record_fill(ph__host_stream *stream, const ph__drv_memset *fill);
int ph__host_record_host(ph__host_stream *stream, const ph__drv_host *host);
int ph__host_record_event_node(ph__host_stream *stream, ph__host_event *event, bool wait);

/* A stream that is in a capture is being destroyed: the capture is invalidated and the stream
 * leaves it. */
void ph__host_capture_stream_gone(ph__host_stream *stream);
#endif
