// The device's memory: host memory with guards around every allocation.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

namespace emulated {

// At least `bytes` bytes, at a multiple of 4096; null when the device has no more. `device`: counts as the device's.
void *allocate(size_t bytes, bool device);
// False when nothing was allocated there. `message` is set when bytes around it were written.
bool release(void *address, std::string &message);
// Whether all of a range is inside one allocation.
bool allocated(const void *address, size_t bytes);
// Looks at the bytes around all allocations; a message when some were written.
std::string look_at_guards();
// Bytes of the device not in use.
size_t free_bytes();

} // namespace emulated
