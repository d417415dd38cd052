// libcuda: streams, events, captured graphs. A stream's work is done when it is submitted.
#include "driver.h"

#include <cstdint>
#include <cstdio>

namespace emulated {
namespace {

Stream default_stream;
// The streams that this thread captures, in a mode that forbids what waits.
thread_local int capturing = 0;
// Streams that joined a capture by an event.
std::vector<Stream *> joined;

} // namespace

Stream *stream_of(void *handle) {
    // The default stream has three names.
    return reinterpret_cast<uintptr_t>(handle) <= 2 ? &default_stream : static_cast<Stream *>(handle);
}

Result submit(Stream *stream, Work work) {
    if (!stream->capture) return work();
    if (stream->capture->invalid) return CAPTURE_INVALIDATED;
    stream->capture->work.push_back(std::move(work));
    return SUCCESS;
}

Result outside_capture() {
    if (capturing == 0) return SUCCESS;
    fprintf(stderr, "emulator: a call that may wait while a stream is captured\n");
    return CAPTURE_UNSUPPORTED;
}

} // namespace emulated

using namespace emulated;

// ---- streams ----

EXPORT Result cuStreamCreate(Stream **stream, unsigned) {
    EMULATED_CALL
    *stream = new Stream;
    return SUCCESS;
}
EXPORT Result cuStreamCreateWithPriority(Stream **stream, unsigned flags, int) { return cuStreamCreate(stream, flags); }
EXPORT Result cuStreamDestroy_v2(Stream *stream) {
    std::lock_guard<std::recursive_mutex> lock(calls);
    if (reinterpret_cast<uintptr_t>(stream) <= 2) return INVALID_HANDLE;
    if (stream->origin) delete stream->capture;
    delete stream;
    return left_error;
}
EXPORT Result cuStreamSynchronize(void *handle) {
    EMULATED_CALL
    Stream *stream = stream_of(handle);
    if (stream->capture) {
        stream->capture->invalid = true;
        return CAPTURE_UNSUPPORTED;
    }
    return SUCCESS;
}
EXPORT Result cuStreamQuery(void *handle) { return cuStreamSynchronize(handle); }
EXPORT Result cuStreamWaitEvent(void *handle, Event *event, unsigned) {
    EMULATED_CALL
    Stream *stream = stream_of(handle);
    if (event->capture && !stream->capture) {
        stream->capture = event->capture;
        joined.push_back(stream);
    } else if (stream->capture && stream->capture != event->capture) {
        // An event from outside of the capture.
        stream->capture->invalid = true;
        return CAPTURE_INVALIDATED;
    }
    return SUCCESS;
}
EXPORT Result cuLaunchHostFunc(void *handle, void (*function)(void *), void *data) {
    EMULATED_CALL
    return submit(stream_of(handle), [=] {
        function(data);
        return SUCCESS;
    });
}

// ---- events ----

EXPORT Result cuEventCreate(Event **event, unsigned) {
    EMULATED_CALL
    *event = new Event;
    return SUCCESS;
}
EXPORT Result cuEventDestroy_v2(Event *event) {
    std::lock_guard<std::recursive_mutex> lock(calls);
    delete event;
    return left_error;
}
EXPORT Result cuEventRecord(Event *event, void *handle) {
    EMULATED_CALL
    Stream *stream = stream_of(handle);
    event->capture = stream->capture;
    if (!stream->capture) {
        event->time = std::chrono::steady_clock::now();
        event->recorded = true;
    }
    return SUCCESS;
}
EXPORT Result cuEventSynchronize(Event *event) {
    EMULATED_CALL
    return event->capture ? CAPTURE_UNSUPPORTED : SUCCESS;
}
EXPORT Result cuEventQuery(Event *event) { return cuEventSynchronize(event); }
EXPORT Result cuEventElapsedTime(float *milliseconds, Event *start, Event *end) {
    EMULATED_CALL
    if (!start->recorded || !end->recorded) return INVALID_HANDLE;
    *milliseconds = std::chrono::duration<float, std::milli>(end->time - start->time).count();
    return SUCCESS;
}
EXPORT Result cuEventElapsedTime_v2(float *milliseconds, Event *start, Event *end) {
    return cuEventElapsedTime(milliseconds, start, end);
}

// ---- capture ----

EXPORT Result cuStreamBeginCapture_v2(void *handle, int mode) {
    EMULATED_CALL
    Stream *stream = stream_of(handle);
    if (stream == &default_stream || stream->capture) return CAPTURE_UNSUPPORTED;
    stream->capture = new Graph;
    stream->origin = true;
    stream->thread_local_mode = mode != 2; // 2: relaxed
    capturing += stream->thread_local_mode;
    return SUCCESS;
}
EXPORT Result cuStreamEndCapture(void *handle, Graph **graph) {
    std::lock_guard<std::recursive_mutex> lock(calls);
    *graph = nullptr;
    Stream *stream = stream_of(handle);
    if (!stream->capture || !stream->origin) return CAPTURE_UNMATCHED;
    Graph *own = stream->capture;
    capturing -= stream->thread_local_mode;
    for (Stream *other : joined) other->capture = nullptr;
    joined.clear();
    stream->capture = nullptr;
    stream->origin = false;
    if (own->invalid) {
        delete own;
        return CAPTURE_INVALIDATED;
    }
    *graph = own;
    return left_error;
}
EXPORT Result cuStreamIsCapturing(void *handle, int *status) {
    EMULATED_CALL
    const Stream *stream = stream_of(handle);
    *status = !stream->capture ? 0 : stream->capture->invalid ? 2 : 1;
    return SUCCESS;
}

// ---- graphs ----

EXPORT Result cuGraphInstantiateWithFlags(Graph **instance, Graph *graph, unsigned long long) {
    EMULATED_CALL
    *instance = new Graph(*graph);
    return SUCCESS;
}
EXPORT Result cuGraphInstantiate_v2(Graph **instance, Graph *graph, void *, char *, size_t) {
    return cuGraphInstantiateWithFlags(instance, graph, 0);
}
EXPORT Result cuGraphUpload(Graph *, void *) {
    EMULATED_CALL
    return SUCCESS;
}
EXPORT Result cuGraphLaunch(Graph *instance, void *handle) {
    EMULATED_CALL
    // Captured into another graph it stands there with its work as it is.
    for (const Work &work : instance->work) {
        if (const Result r = submit(stream_of(handle), work)) return r;
    }
    return SUCCESS;
}
EXPORT Result cuGraphDestroy(Graph *graph) {
    delete graph;
    return left_error;
}
EXPORT Result cuGraphExecDestroy(Graph *instance) {
    delete instance;
    return left_error;
}
