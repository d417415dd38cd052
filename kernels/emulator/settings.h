// DIKAST_EMULATOR, a list like "threads=2,random=7,trace".
#pragma once
#include <cstddef>
#include <cstdint>

namespace emulated {

struct Settings {
    unsigned threads = 0;                 // threads=N: host threads for blocks; 0 for as many as there are
    size_t memory = size_t(16) << 30;     // memory=MiB: what the device seems to have
    bool random = false;                  // random=SEED: blocks, warps and lanes in a random order
    uint64_t seed = 0;
    bool guard = false;                   // guard: looks at the bytes around every allocation after every launch
    bool check = false;                   // check: looks at every access of every kernel, for bounds and races
    bool trace = false;                   // trace: a line for each launch
    unsigned capability = 89;             // capability=NN: 10 * major + minor
    unsigned driver = 12090;              // driver=N: CUDA version of the driver, 1000 * major + 10 * minor
    unsigned processors = 4;              // processors=N: multiprocessors
};

const Settings &settings();

} // namespace emulated
