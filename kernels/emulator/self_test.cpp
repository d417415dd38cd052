// Tests the emulator itself, through the interfaces of the driver and the run-time compiler. Every case has a process of its
// own, since an error stays. Arguments: the source of self_test.cu with its headers in place.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

extern "C" {
int nvrtcCreateProgram(void **, const char *, const char *, int, const char *const *, const char *const *);
int nvrtcCompileProgram(void *, int, const char *const *);
int nvrtcGetCUBINSize(void *, size_t *);
int nvrtcGetCUBIN(void *, char *);
int cuInit(unsigned);
int cuDevicePrimaryCtxRetain(void **, int);
int cuCtxSetCurrent(void *);
int cuMemAlloc_v2(uint64_t *, size_t);
int cuMemFree_v2(uint64_t);
int cuModuleLoadData(void **, const void *);
int cuModuleGetFunction(void **, void *, const char *);
int cuLaunchKernelEx(const void *, void *, void **, void **);
int cuLaunchKernel(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
}

namespace {

enum { RIGHT, BARRIERS, NEVER_MET, DIVERGED, BAD_ADDRESS, UNKNOWN_INSTRUCTION, BEYOND_MEMORY, RACE, UNFINISHED_COPY, CLUSTER, LATE_ARRIVAL, CASES };
const char *const NAMES[CASES] = {"right numbers", "barriers of parts", "threads that never meet", "lanes at different operations",
                                  "a bad address", "an unknown instruction", "a write beyond memory", "a race", "an unfinished copy", "blocks that meet", "an arrival after a block's end"};

struct SelfTest {
    const void *a, *b;
    int *out;
    int what, pad;
};

// What cuLaunchKernelEx takes.
struct Attribute {
    unsigned id, pad, cluster[3], rest[13];
};
struct Config {
    unsigned grid[3], block[3], shared;
    void *stream;
    const Attribute *attributes;
    unsigned count;
};

uint64_t memory(size_t bytes) {
    uint64_t address = 0;
    if (cuMemAlloc_v2(&address, bytes) != 0) _exit(3);
    return address;
}

// Whether a case ends as it should.
bool holds(int what, const std::vector<char> &image, bool checked) {
    void *context, *module, *function;
    if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context) || cuModuleLoadData(&module, image.data()) ||
        cuModuleGetFunction(&function, module, "self_test")) {
        return false;
    }
    const uint64_t a = memory(512), b = memory(256), out = memory(512);
    auto *x = reinterpret_cast<int8_t *>(a), *y = reinterpret_cast<int8_t *>(b);
    auto *z = reinterpret_cast<int *>(out);
    for (int i = 0; i < 512; ++i) x[i] = (int8_t)(i * 37 + 11);
    for (int i = 0; i < 256; ++i) y[i] = (int8_t)(i * 91 + 5);
    SelfTest argument = {x, y, z, what, 0};
    void *arguments[] = {&argument};
    const Attribute pair = {4, 0, {2, 1, 1}, {}};
    const Config both = {{2, 1, 1}, {256, 1, 1}, 256, nullptr, &pair, 1};
    const int result = what >= CLUSTER ? cuLaunchKernelEx(&both, function, arguments, nullptr)
                                       : cuLaunchKernel(function, 1, 1, 1, 256, 1, 1, 256, nullptr, arguments, nullptr);
    // A fault stays.
    uint64_t more;
    if (result != 0 && cuMemAlloc_v2(&more, 16) != result) return false;
    switch (what) {
        case RIGHT:
            for (int i = 0; i < 128; ++i) {
                int sum = 1;
                for (int k = 0; k < 32; ++k) sum += x[i / 8 * 32 + k] * y[i % 8 * 32 + k];
                if (z[i] != sum) return false;
            }
            return result == 0;
        case BARRIERS: return result == 0 && z[0] == 42;
        case NEVER_MET: case DIVERGED: case UNKNOWN_INSTRUCTION: return result == 719;
        case BAD_ADDRESS: return result == (checked ? 719 : 700);
        // Without checks it shows when the memory is freed.
        case BEYOND_MEMORY: return checked ? result == 719 : result == 0 && cuMemFree_v2(out) == 700;
        case CLUSTER: return result == 0 && z[0] == 42 && z[1] == 42;
        case LATE_ARRIVAL: return result == 719;
        case RACE: return result == (checked ? 719 : 0);
        default: return result == 0 && z[0] == -1 && memcmp(z + 1, x, 4) == 0;
    }
}

} // namespace

int main(int count, char **arguments) {
    std::ostringstream source;
    if (count > 1) source << std::ifstream(arguments[1]).rdbuf();
    void *program;
    const char *settings = getenv("DIKAST_EMULATOR");
    const bool hopper = settings && strstr(settings, "capability=90");
    const char *options[] = {hopper ? "--gpu-architecture=sm_90a" : "--gpu-architecture=sm_89"};
    size_t size = 0;
    if (nvrtcCreateProgram(&program, source.str().c_str(), "self_test.cu", 0, nullptr, nullptr) ||
        nvrtcCompileProgram(program, 1, options) || nvrtcGetCUBINSize(program, &size)) {
        return 2;
    }
    std::vector<char> image(size);
    nvrtcGetCUBIN(program, image.data());
    const bool checked = settings && strstr(settings, "check");
    int failed = 0;
    for (int what = 0; what < (hopper ? CASES : CLUSTER); ++what) {
        fflush(stdout);
        const pid_t child = fork();
        if (child == 0) _exit(holds(what, image, checked) ? 0 : 1);
        int status = 1;
        waitpid(child, &status, 0);
        printf("%s %s\n", status == 0 ? "ok  " : "FAIL", NAMES[what]);
        failed += status != 0;
    }
    return failed != 0;
}
