#include "memory.h"
#include "check.h"
#include "settings.h"

#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <sys/mman.h>

namespace emulated {
namespace {

// A page that must not be touched, a page of guard bytes, the data, guard bytes to the end of a page and at least 256, a
// page that must not be touched.
constexpr size_t PAGE = 4096, LEAST = 256;
constexpr unsigned char GUARD = 0xC5;
// Fresh memory is NaN up to this size; filling more would take too long.
constexpr size_t POISONED = size_t(256) << 20;

struct Allocation {
    size_t bytes, mapped;
    bool device;
    unsigned char *data;

    unsigned char *base() const { return data - 2 * PAGE; }
    // Guard bytes after the data.
    size_t after() const { return mapped - 3 * PAGE - bytes; }
    std::string damage() const {
        char text[160];
        for (size_t i = 1; i <= PAGE; ++i) {
            if (data[-(ptrdiff_t)i] != GUARD) {
                snprintf(text, sizeof text, "%zu bytes before an allocation of %zu bytes were written", i, bytes);
                return text;
            }
        }
        for (size_t i = 0; i < after(); ++i) {
            if (data[bytes + i] != GUARD) {
                snprintf(text, sizeof text, "the byte %zu after an allocation of %zu bytes was written", i, bytes);
                return text;
            }
        }
        return {};
    }
};

std::mutex mutex;
std::map<uintptr_t, Allocation> all;
size_t used = 0;

} // namespace

void *allocate(size_t bytes, bool device) {
    std::lock_guard<std::mutex> lock(mutex);
    if (bytes == 0 || (device && (bytes > settings().memory || used > settings().memory - bytes))) return nullptr;
    const size_t mapped = (bytes + LEAST + PAGE - 1) / PAGE * PAGE + 3 * PAGE;
    void *p = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return nullptr;
    Allocation a = {bytes, mapped, device, static_cast<unsigned char *>(p) + 2 * PAGE};
    mprotect(a.base(), PAGE, PROT_NONE);
    mprotect(a.base() + mapped - PAGE, PAGE, PROT_NONE);
    memset(a.data - PAGE, GUARD, PAGE);
    memset(a.data + bytes, GUARD, a.after());
    if (bytes <= POISONED) memset(a.data, 0xFF, bytes);
    all[reinterpret_cast<uintptr_t>(a.data)] = a;
    if (device) used += bytes;
    return a.data;
}

bool release(void *address, std::string &message) {
    std::lock_guard<std::mutex> lock(mutex);
    const auto found = all.find(reinterpret_cast<uintptr_t>(address));
    if (found == all.end()) return false;
    const Allocation a = found->second;
    message = a.damage();
    if (a.device) used -= a.bytes;
    all.erase(found);
    munmap(a.base(), a.mapped);
    return true;
}

bool allocated(const void *address, size_t bytes) {
    std::lock_guard<std::mutex> lock(mutex);
    const uintptr_t at = reinterpret_cast<uintptr_t>(address);
    auto found = all.upper_bound(at);
    if (found == all.begin()) return false;
    --found;
    const size_t offset = at - found->first;
    return offset <= found->second.bytes && bytes <= found->second.bytes - offset;
}

bool allocation_of(uintptr_t at, uintptr_t &from, uintptr_t &to) {
    std::lock_guard<std::mutex> lock(mutex);
    auto found = all.upper_bound(at);
    if (found == all.begin()) return false;
    --found;
    from = found->first;
    to = from + found->second.bytes;
    // Beyond its end and its guards it is none of this allocation's business.
    if (at - from >= found->second.mapped) return from = to = 0, false;
    return true;
}

std::string look_at_guards() {
    std::lock_guard<std::mutex> lock(mutex);
    for (const auto &a : all) {
        std::string damage = a.second.damage();
        if (!damage.empty()) return damage;
    }
    return {};
}

size_t free_bytes() {
    std::lock_guard<std::mutex> lock(mutex);
    return settings().memory - used;
}

} // namespace emulated
