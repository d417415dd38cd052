// libcuda: modules, functions, launches.
#include "driver.h"
#include "tensor_map.h"
#include "image.h"
#include "memory.h"
#include "settings.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <memory>
#include <unistd.h>

namespace emulated {

struct LoadedModule {
    void *library;
    Module content;
    std::vector<std::unique_ptr<Function>> functions;
};

namespace {

constexpr unsigned DEFAULT_SHARED = 48 * 1024;

struct Attribute {
    unsigned id;
    char pad[4];
    union {
        char pad64[64];
        unsigned cluster[3];
    } value;
};
struct Config {
    unsigned grid[3], block[3], shared;
    void *stream;
    const Attribute *attributes;
    unsigned count;
};

Result load(LoadedModule **out, const char *image) {
    if (memcmp(image, IMAGE_MARK, sizeof IMAGE_MARK) != 0) return INVALID_IMAGE;
    uint64_t size;
    memcpy(&size, image + sizeof IMAGE_MARK, sizeof size);
    char path[] = "/tmp/dikast-kernel-XXXXXX";
    const int file = mkstemp(path);
    if (file < 0) return OUT_OF_MEMORY;
    const char *from = image + sizeof IMAGE_MARK + sizeof size;
    bool written = true;
    for (uint64_t done = 0; done < size && written;) {
        const ssize_t n = write(file, from + done, size - done);
        written = n > 0;
        done += written ? (uint64_t)n : 0;
    }
    close(file);
    void *library = written ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : nullptr;
    unlink(path);
    if (!library) {
        fprintf(stderr, "emulator: %s\n", written ? dlerror() : "no room in /tmp");
        return INVALID_IMAGE;
    }
    const auto describe = reinterpret_cast<void (*)(Module *)>(dlsym(library, "emulated_module"));
    if (!describe) return INVALID_IMAGE;
    auto *module = new LoadedModule{library, {}, {}};
    describe(&module->content);
    *out = module;
    return SUCCESS;
}

// A launch as a graph keeps it.
struct Kept {
    const Function *function;
    Index grid, size;
    unsigned shared, cluster;
    std::vector<std::vector<uint64_t>> values; // parameters, in words for their alignment
};

Result execute(const Kept &kept) {
    std::vector<void *> parameters;
    for (const auto &v : kept.values) parameters.push_back(const_cast<uint64_t *>(v.data()));
    const Function &f = *kept.function;
    const Launch launch = {f.kernel, parameters.data(), kept.grid, kept.size, f.module->content.static_shared, kept.shared,
                           kept.cluster, f.module->content.image_begin, (size_t)(f.module->content.image_end - f.module->content.image_begin)};
    const auto start = std::chrono::steady_clock::now();
    std::string message;
    const Outcome outcome = run(launch, message);
    if (settings().trace) {
        const double time = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
        fprintf(stderr, "emulator: %s grid %u,%u,%u threads %u shared %u: %.3f ms\n", f.kernel->name, kept.grid.x, kept.grid.y,
                kept.grid.z, kept.size.x * kept.size.y * kept.size.z, kept.shared, time);
    }
    const std::string name = std::string("kernel ") + f.kernel->name + ": ";
    if (outcome != Outcome::DONE) {
        return leave(outcome == Outcome::FAULT ? LAUNCH_FAILED : ILLEGAL_ADDRESS, name + message);
    }
    if (settings().guard) {
        const std::string damage = look_at_guards();
        if (!damage.empty()) return leave(ILLEGAL_ADDRESS, name + damage);
    }
    return SUCCESS;
}

Result launch(const Config &c, Function *f, void *const *parameters, void *const *extra) {
    if (!f || extra) return INVALID_VALUE;
    const uint64_t threads = (uint64_t)c.block[0] * c.block[1] * c.block[2];
    auto refuse = [&](const char *why) {
        fprintf(stderr, "emulator: kernel %s: %s\n", f->kernel->name, why);
        return INVALID_VALUE;
    };
    if (threads == 0 || threads > 1024 || c.block[2] > 64) return refuse("no block has so many threads");
    if (c.grid[0] == 0 || c.grid[1] == 0 || c.grid[2] == 0 || c.grid[1] > 65535 || c.grid[2] > 65535 || c.grid[0] > 2147483647u) {
        return refuse("no grid has so many blocks");
    }
    if (c.shared > f->most_dynamic) return refuse("more shared memory than the function was allowed");
    if (threads > f->kernel->most_threads) {
        refuse("more threads than its launch bounds");
        return LAUNCH_OUT_OF_RESOURCES;
    }
    unsigned cluster = 1;
    for (unsigned i = 0; i < c.count; ++i) {
        const Attribute &a = c.attributes[i];
        // 4: cluster dimensions; the others are hints.
        if (a.id != 4) continue;
        const unsigned *dims = a.value.cluster;
        if (settings().capability < 90 && dims[0] * dims[1] * dims[2] > 1) return NOT_SUPPORTED;
        if (dims[1] * dims[2] != 1 || dims[0] == 0 || dims[0] > MOST_CLUSTER || c.grid[0] % dims[0] != 0) return refuse("no such cluster");
        cluster = dims[0];
    }
    Kept kept = {f, {c.grid[0], c.grid[1], c.grid[2]}, {c.block[0], c.block[1], c.block[2]}, c.shared, cluster, {}};
    for (unsigned i = 0; i < f->kernel->parameters; ++i) {
        const size_t bytes = f->kernel->parameter_bytes[i];
        kept.values.emplace_back((bytes + 7) / 8 + 1);
        memcpy(kept.values.back().data(), parameters[i], bytes);
    }
    return submit(stream_of(c.stream), [kept] { return execute(kept); });
}

} // namespace
} // namespace emulated

using namespace emulated;

// ---- modules ----

EXPORT Result cuModuleLoadData(LoadedModule **module, const void *image) {
    EMULATED_CALL
    return load(module, static_cast<const char *>(image));
}
EXPORT Result cuModuleLoadDataEx(LoadedModule **module, const void *image, unsigned, int *, void **) {
    return cuModuleLoadData(module, image);
}
EXPORT Result cuModuleUnload(LoadedModule *module) {
    std::lock_guard<std::recursive_mutex> lock(calls);
    dlclose(module->library);
    delete module;
    return left_error;
}
EXPORT Result cuModuleGetFunction(Function **function, LoadedModule *module, const char *name) {
    EMULATED_CALL
    for (const Kernel *k = module->content.kernels; k; k = k->next) {
        if (strcmp(k->name, name) != 0) continue;
        for (const auto &f : module->functions) {
            if (f->kernel == k) return *function = f.get(), SUCCESS;
        }
        module->functions.emplace_back(new Function{k, module, DEFAULT_SHARED});
        *function = module->functions.back().get();
        return SUCCESS;
    }
    return NOT_FOUND;
}

// ---- functions ----

EXPORT Result cuFuncSetAttribute(Function *function, int which, int value) {
    EMULATED_CALL
    if (which == 8) { // dynamic shared memory
        const int most = (settings().capability == 90 ? 227 : 99) * 1024;
        if (value < 0 || value > most) return INVALID_VALUE;
        function->most_dynamic = (unsigned)value;
        return SUCCESS;
    }
    return which == 9 ? SUCCESS : INVALID_VALUE; // 9: the division of on-chip memory
}
EXPORT Result cuFuncGetAttribute(int *value, int which, Function *function) {
    EMULATED_CALL
    switch (which) {
        case 0: *value = (int)function->kernel->most_threads; break;
        case 1: *value = (int)function->module->content.static_shared; break;
        case 4: *value = 32; break; // registers
        case 8: *value = (int)function->most_dynamic; break;
        default: *value = 0;
    }
    return SUCCESS;
}
EXPORT Result cuFuncSetCacheConfig(Function *, int) { return SUCCESS; }
EXPORT Result cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, Function *function, int threads, size_t shared) {
    EMULATED_CALL
    if (threads <= 0) return INVALID_VALUE;
    const int by_threads = 1536 / threads;
    const size_t each = shared + function->module->content.static_shared + 1024;
    const int by_shared = (int)(size_t(100 * 1024) / each);
    *blocks = by_threads < by_shared ? by_threads : by_shared;
    return SUCCESS;
}
EXPORT Result cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, Function *function, int threads, size_t shared, unsigned) {
    return cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, threads, shared);
}

// ---- matrices for the copy engine ----

// Two dimensions, rows of a box 128 bytes with the 128-byte swizzle: the only form that kernels use.
EXPORT Result cuTensorMapEncodeTiled(MatrixMap *map, int type, unsigned rank, void *address, const uint64_t *sizes, const uint64_t *pitches,
                                     const unsigned *box, const unsigned *steps, int interleave, int swizzle, int, int) {
    EMULATED_CALL
    const unsigned element = type == 6 || type == 9 ? 2 : type == 7 || type == 12 ? 4 : type == 10 ? 4 : 0; // bytes
    if (!map || (uintptr_t)map % 128 || rank != 2 || element == 0 || steps[0] != 1 || steps[1] != 1 || interleave != 0 || swizzle != 3) return INVALID_VALUE;
    if ((uintptr_t)address % 16 || pitches[0] % 16 || pitches[0] < sizes[0] * element || sizes[0] == 0 || sizes[1] == 0) return INVALID_VALUE;
    if (box[0] * element != 128 || box[1] == 0 || box[1] > 256) return INVALID_VALUE;
    memset(static_cast<void *>(map), 0, 128);
    *map = {MatrixMap::MARK, (unsigned long long)(uintptr_t)address, sizes[0], sizes[1], pitches[0], element, box[0], box[1]};
    return SUCCESS;
}

// ---- launches ----

EXPORT Result cuLaunchKernelEx(const Config *config, Function *function, void **parameters, void **extra) {
    EMULATED_CALL
    return launch(*config, function, parameters, extra);
}
EXPORT Result cuLaunchKernel(Function *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                             unsigned shared, void *stream, void **parameters, void **extra) {
    EMULATED_CALL
    const Config config = {{gx, gy, gz}, {bx, by, bz}, shared, stream, nullptr, 0};
    return launch(config, function, parameters, extra);
}
