// The driver's objects.
#pragma once
#include "launch.h"

#include <chrono>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace emulated {

// CUresult.
enum Result {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    INVALID_DEVICE = 101,
    INVALID_IMAGE = 200,
    INVALID_CONTEXT = 201,
    INVALID_HANDLE = 400,
    NOT_FOUND = 500,
    ILLEGAL_ADDRESS = 700,
    LAUNCH_OUT_OF_RESOURCES = 701,
    LAUNCH_FAILED = 719,
    NOT_SUPPORTED = 801,
    CAPTURE_UNSUPPORTED = 900,
    CAPTURE_INVALIDATED = 901,
    CAPTURE_UNMATCHED = 903,
    CAPTURE_WRONG_THREAD = 908,
};

// Work that a graph repeats; what a stream does at once.
using Work = std::function<Result()>;

struct Graph {
    std::vector<Work> work;
    bool invalid = false;
};
struct Stream {
    Graph *capture = nullptr; // what is being captured
    bool origin = false;      // whether the capture began here
    bool thread_local_mode = false;
};
struct Event {
    std::chrono::steady_clock::time_point time;
    bool recorded = false;
    Graph *capture = nullptr; // recorded in this capture
};

struct LoadedModule;
struct Function {
    const Kernel *kernel;
    LoadedModule *module;
    unsigned most_dynamic; // bytes of dynamic shared memory allowed
};

// Every call holds this.
extern std::recursive_mutex calls;
// The error that a kernel left: every later call fails with it, as after a fault of a real device.
extern Result left_error;

// Does it now, or puts it down for the graph that the stream captures.
Result submit(Stream *stream, Work work);
// For what waits or allocates: an error while this thread captures.
Result outside_capture();
Stream *stream_of(void *handle);
// Leaves an error for good, with a line on stderr.
Result leave(Result error, const std::string &message);

} // namespace emulated

// Begins every call but the few that need no device.
#define EMULATED_CALL                                                       \
    std::lock_guard<std::recursive_mutex> lock_of_calls(emulated::calls);   \
    if (emulated::left_error != emulated::SUCCESS) return emulated::left_error;
