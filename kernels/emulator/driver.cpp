// libcuda: devices, contexts, memory, copies.
#include "driver.h"
#include "memory.h"
#include "settings.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace emulated {

std::recursive_mutex calls;
Result left_error = SUCCESS;

Result leave(Result error, const std::string &message) {
    fprintf(stderr, "emulator: %s\n", message.c_str());
    left_error = error;
    return error;
}

namespace {

// One context; it lives as long as the process.
char context;
thread_local void *bound = nullptr;
bool started = false;

constexpr unsigned OPT_IN = 99 * 1024;

Result attribute(int which, int *value) {
    const Settings &s = settings();
    switch (which) {
        case 1: *value = 1024; break;                                   // threads of a block
        case 2: case 3: *value = 1024; break;                           // block x, y
        case 4: *value = 64; break;                                     // block z
        case 5: *value = 2147483647; break;                             // grid x
        case 6: case 7: *value = 65535; break;                          // grid y, z
        case 8: *value = 48 * 1024; break;                              // shared memory of a block
        case 10: *value = 32; break;                                    // warp
        case 12: *value = 65536; break;                                 // registers of a block
        case 13: *value = 1000000; break;                               // clock, kHz
        case 16: *value = (int)s.processors; break;                     // multiprocessors
        case 36: *value = 1000000; break;                               // memory clock, kHz
        case 37: *value = 64; break;                                    // memory bus, bits
        case 38: *value = 1 << 20; break;                               // second-level cache
        case 39: *value = 1536; break;                                  // threads of a multiprocessor
        case 41: *value = 1; break;                                     // unified addressing
        case 75: *value = (int)s.capability / 10; break;
        case 76: *value = (int)s.capability % 10; break;
        case 81: *value = 100 * 1024; break;                            // shared memory of a multiprocessor
        case 82: *value = 65536; break;                                 // registers of a multiprocessor
        case 97: *value = (s.capability == 90 ? 227 * 1024 : OPT_IN); break; // shared memory of a block that asks for it
        case 106: *value = 24; break;                                   // blocks of a multiprocessor
        case 111: *value = 1024; break;                                 // reserved shared memory of a block
        default: *value = 0;
    }
    return SUCCESS;
}

void *pointer(uint64_t address) { return reinterpret_cast<void *>(address); }

// Copies that the driver can see are wrong are refused.
Result copy(void *stream, void *to, const void *from, size_t bytes, bool to_device, bool from_device) {
    if (bytes == 0) return SUCCESS;
    if ((to_device && !allocated(to, bytes)) || (from_device && !allocated(from, bytes))) {
        fprintf(stderr, "emulator: a copy of %zu bytes leaves its allocation\n", bytes);
        return INVALID_VALUE;
    }
    return submit(stream_of(stream), [=] {
        memmove(to, from, bytes);
        return SUCCESS;
    });
}

template <class T>
Result fill(void *stream, uint64_t to, T value, size_t count) {
    T *at = static_cast<T *>(pointer(to));
    if (count == 0) return SUCCESS;
    if (!allocated(at, count * sizeof(T))) return INVALID_VALUE;
    return submit(stream_of(stream), [=] {
        for (size_t i = 0; i < count; ++i) at[i] = value;
        return SUCCESS;
    });
}

} // namespace
} // namespace emulated

using namespace emulated;

// ---- device ----

EXPORT Result cuInit(unsigned) {
    started = true;
    return SUCCESS;
}
// Before 13.0, so that no image built for a real device is offered.
EXPORT Result cuDriverGetVersion(int *version) {
    *version = (int)settings().driver;
    return SUCCESS;
}
EXPORT Result cuDeviceGetCount(int *count) {
    if (!started) return NOT_INITIALIZED;
    *count = 1;
    return SUCCESS;
}
EXPORT Result cuDeviceGet(int *device, int ordinal) {
    if (!started) return NOT_INITIALIZED;
    if (ordinal != 0) return INVALID_DEVICE;
    *device = 0;
    return SUCCESS;
}
EXPORT Result cuDeviceGetName(char *name, int size, int) {
    snprintf(name, (size_t)size, "emulated");
    return SUCCESS;
}
EXPORT Result cuDeviceGetUuid(char *uuid, int) {
    memcpy(uuid, "dikast-emulated\n", 16);
    return SUCCESS;
}
EXPORT Result cuDeviceGetUuid_v2(char *uuid, int device) { return cuDeviceGetUuid(uuid, device); }
EXPORT Result cuDeviceTotalMem_v2(size_t *bytes, int) {
    *bytes = settings().memory;
    return SUCCESS;
}
EXPORT Result cuDeviceGetAttribute(int *value, int which, int) { return attribute(which, value); }
EXPORT Result cuGetErrorName(int error, const char **name) {
    static const struct {
        int code;
        const char *name;
    } names[] = {
        {0, "CUDA_SUCCESS"}, {1, "CUDA_ERROR_INVALID_VALUE"}, {2, "CUDA_ERROR_OUT_OF_MEMORY"}, {3, "CUDA_ERROR_NOT_INITIALIZED"},
        {101, "CUDA_ERROR_INVALID_DEVICE"}, {200, "CUDA_ERROR_INVALID_IMAGE"}, {201, "CUDA_ERROR_INVALID_CONTEXT"},
        {400, "CUDA_ERROR_INVALID_HANDLE"}, {500, "CUDA_ERROR_NOT_FOUND"}, {700, "CUDA_ERROR_ILLEGAL_ADDRESS"},
        {701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"}, {719, "CUDA_ERROR_LAUNCH_FAILED"}, {801, "CUDA_ERROR_NOT_SUPPORTED"},
        {900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"}, {901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"},
        {903, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED"}, {908, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD"},
    };
    for (const auto &n : names) {
        if (n.code == error) return *name = n.name, SUCCESS;
    }
    *name = "CUDA_ERROR_UNKNOWN";
    return SUCCESS;
}
EXPORT Result cuGetErrorString(int error, const char **text) { return cuGetErrorName(error, text); }

// ---- context ----

EXPORT Result cuDevicePrimaryCtxRetain(void **out, int) {
    EMULATED_CALL
    if (!started) return NOT_INITIALIZED;
    *out = &context;
    return SUCCESS;
}
EXPORT Result cuDevicePrimaryCtxRelease_v2(int) { return SUCCESS; }
EXPORT Result cuCtxSetCurrent(void *c) {
    bound = c;
    return left_error;
}
EXPORT Result cuCtxGetCurrent(void **c) {
    *c = bound;
    return SUCCESS;
}
EXPORT Result cuCtxSynchronize() {
    EMULATED_CALL
    return outside_capture();
}
EXPORT Result cuCtxSetLimit(int, size_t) { return bound ? SUCCESS : INVALID_CONTEXT; }
EXPORT Result cuCtxGetLimit(size_t *value, int) {
    *value = 0;
    return SUCCESS;
}
EXPORT Result cuCtxSetCacheConfig(int) { return SUCCESS; }
EXPORT Result cuCtxSetFlags(unsigned) { return SUCCESS; }
EXPORT Result cuCtxGetStreamPriorityRange(int *least, int *greatest) {
    *least = *greatest = 0;
    return SUCCESS;
}

// ---- memory ----

EXPORT Result cuMemGetInfo_v2(size_t *free, size_t *total) {
    EMULATED_CALL
    *free = free_bytes();
    *total = settings().memory;
    return SUCCESS;
}
EXPORT Result cuMemAlloc_v2(uint64_t *address, size_t bytes) {
    EMULATED_CALL
    if (!bound) return INVALID_CONTEXT;
    if (bytes == 0) return INVALID_VALUE;
    if (const Result r = outside_capture()) return r;
    void *p = allocate(bytes, true);
    if (!p) return OUT_OF_MEMORY;
    *address = reinterpret_cast<uint64_t>(p);
    return SUCCESS;
}
EXPORT Result cuMemFree_v2(uint64_t address) {
    EMULATED_CALL
    if (address == 0) return SUCCESS;
    if (const Result r = outside_capture()) return r;
    std::string message;
    if (!release(pointer(address), message)) return INVALID_VALUE;
    return message.empty() ? SUCCESS : leave(ILLEGAL_ADDRESS, message);
}
EXPORT Result cuMemHostAlloc(void **address, size_t bytes, unsigned) {
    EMULATED_CALL
    if (const Result r = outside_capture()) return r;
    *address = allocate(bytes, false);
    return *address ? SUCCESS : bytes == 0 ? INVALID_VALUE : OUT_OF_MEMORY;
}
EXPORT Result cuMemAllocHost_v2(void **address, size_t bytes) { return cuMemHostAlloc(address, bytes, 0); }
EXPORT Result cuMemFreeHost(void *address) { return cuMemFree_v2(reinterpret_cast<uint64_t>(address)); }
EXPORT Result cuMemAllocAsync(uint64_t *address, size_t bytes, void *) { return cuMemAlloc_v2(address, bytes); }
EXPORT Result cuMemFreeAsync(uint64_t address, void *) { return cuMemFree_v2(address); }

// ---- copies ----

EXPORT Result cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, void *stream) {
    EMULATED_CALL
    return copy(stream, pointer(to), from, bytes, true, false);
}
EXPORT Result cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, void *stream) {
    EMULATED_CALL
    return copy(stream, to, pointer(from), bytes, false, true);
}
EXPORT Result cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void *stream) {
    EMULATED_CALL
    return copy(stream, pointer(to), pointer(from), bytes, true, true);
}
EXPORT Result cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t bytes) {
    EMULATED_CALL
    if (const Result r = outside_capture()) return r;
    return copy(nullptr, pointer(to), from, bytes, true, false);
}
EXPORT Result cuMemcpyDtoH_v2(void *to, uint64_t from, size_t bytes) {
    EMULATED_CALL
    if (const Result r = outside_capture()) return r;
    return copy(nullptr, to, pointer(from), bytes, false, true);
}
EXPORT Result cuMemcpyDtoD_v2(uint64_t to, uint64_t from, size_t bytes) {
    EMULATED_CALL
    if (const Result r = outside_capture()) return r;
    return copy(nullptr, pointer(to), pointer(from), bytes, true, true);
}
EXPORT Result cuMemsetD8Async(uint64_t to, unsigned char value, size_t count, void *stream) {
    EMULATED_CALL
    return fill(stream, to, value, count);
}
EXPORT Result cuMemsetD16Async(uint64_t to, unsigned short value, size_t count, void *stream) {
    EMULATED_CALL
    return fill(stream, to, value, count);
}
EXPORT Result cuMemsetD32Async(uint64_t to, unsigned value, size_t count, void *stream) {
    EMULATED_CALL
    return fill(stream, to, value, count);
}
EXPORT Result cuMemsetD8_v2(uint64_t to, unsigned char value, size_t count) {
    EMULATED_CALL
    if (const Result r = outside_capture()) return r;
    return fill(nullptr, to, value, count);
}
EXPORT Result cuMemsetD32_v2(uint64_t to, unsigned value, size_t count) {
    EMULATED_CALL
    if (const Result r = outside_capture()) return r;
    return fill(nullptr, to, value, count);
}
