// What `check` looks at: every access of a kernel. Kernels are then compiled with the calls that GCC makes for its thread
// sanitizer, which end here.
#pragma once
#include "runtime.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace emulated {

struct Launch;

// Accesses of one block. Device memory: inside of an allocation. Shared memory: inside of the block's, and two threads'
// accesses to a byte, one of them a write, have a barrier or __syncwarp between them that both took part in (vector clocks,
// one component a warp; lanes of a warp are ordered by __syncwarp and barriers alone).
class Checker {
public:
    Checker();

    // A block begins; `stacks` is memory of its threads' own.
    void begin(const Block &block, unsigned warps, const Launch &launch, const unsigned char *stacks, size_t stack_bytes);
    // A barrier: what the warps that came know, those that waited there know too.
    void meet(unsigned came, const unsigned *waiting, unsigned warps);
    void meet_warp(unsigned warp);
    // A barrier in shared memory: what a warp knows when it arrives, or when bytes that it asked for come, those know that
    // find the barrier's phase complete later.
    void announce(unsigned barrier, unsigned warp);
    void learn(unsigned barrier, unsigned warp);

    void access(const void *address, size_t bytes, bool write);
    // A place in shared memory, by the running thread or on behalf of lane `lane` of its warp.
    void shared(unsigned at, unsigned bytes, bool write, unsigned thread);

private:
    struct Cell {
        uint32_t write_clock, readers; // readers: warps
        uint16_t writer, reader;       // threads; reader 0xFFFF: several
    };
    struct Range {
        uintptr_t from, to;
    };

    bool before(uint32_t clock, unsigned warp, unsigned own_warp) const;
    void device(uintptr_t at, size_t bytes, bool write);

    std::vector<Cell> cells;
    std::vector<uint32_t> read_clocks[32]; // of each warp's last read of each byte
    uint32_t time = 1, known[32][32];
    struct Announced {
        uint32_t clock[32];
    };
    std::map<unsigned, Announced> announced; // by the barrier's address
    const unsigned char *memory = nullptr, *stack = nullptr;
    unsigned memory_bytes = 0;
    size_t stack_length = 0;
    Range own[8], last[4]; // memory of the launch's own; allocations found last
    unsigned own_count = 0, turn = 0;
};

// The range of the allocation that holds an address; empty when there is none.
bool allocation_of(uintptr_t at, uintptr_t &from, uintptr_t &to);

} // namespace emulated
