// A launch as the driver hands it to the blocks' machinery.
#pragma once
#include "runtime.h"

#include <cstddef>
#include <string>

namespace emulated {

struct Launch {
    const Kernel *kernel;
    void *const *parameters;
    Index grid, size;
    unsigned static_shared, dynamic_shared;
    unsigned cluster; // blocks, along x
    const void *image; // the module in memory
    size_t image_bytes;
};

enum class Outcome { DONE, FAULT, ILLEGAL_ADDRESS };

// Runs all blocks of a launch; on a fault, `message` says what happened where.
Outcome run(const Launch &launch, std::string &message);

} // namespace emulated
