// Kernel source to C++.
#pragma once
#include <string>

namespace emulated {

// Takes preprocessed CUDA C++ and gives C++ for device.h: asm statements become calls of ptx.h, __shared__ variables places
// in the block's memory, and `extern "C" __global__` functions are registered. `instructions` is the text of ptx.h.
std::string rewritten(const std::string &source, const std::string &instructions);

} // namespace emulated
