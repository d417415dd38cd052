// One host thread's blocks: their fibers, barriers and collective operations.
#pragma once
#include "check.h"
#include "launch.h"

#include <csetjmp>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace emulated {

constexpr unsigned MOST_THREADS = 1024, MOST_WARPS = MOST_THREADS / 32, BARRIERS = 16, MOST_SHARED = 1 << 20;

// Lanes that are on their way to one operation.
struct Meeting {
    unsigned mask, arrived;
    const Collective *operation;
    void *operands[32];
};

struct Warp {
    unsigned alive, ready; // lanes that have not left; lanes that could run
    unsigned last;         // the lane that paused last: those after it go first
    unsigned meetings;     // in use, of the array
    Meeting meeting[32];
};

struct Barrier {
    unsigned count, arrived, votes, result; // threads it waits for, 0 for all living; came; came with true; votes of the last
    unsigned warps; // that came, as a mask
    unsigned waiting[MOST_WARPS];
};

// Runs blocks one after the other on the host thread that made it.
class Worker {
public:
    explicit Worker(uint64_t seed);
    ~Worker();
    Worker(const Worker &) = delete;

    // The block `index` of a launch.
    Outcome run(const Launch &launch, Index index);

    std::string message;

    // For fibers.
    void collective(unsigned mask, const Collective *operation, void *operands);
    unsigned barrier(unsigned id, unsigned count, bool value, bool wait, const char *name);
    void pause();
    [[noreturn]] void leave();
    [[noreturn]] void fail(Outcome outcome, const std::string &what);
    void entry();
    void check(const void *address, size_t bytes, bool write) {
        if (checker) checker->access(address, bytes, write);
    }
    // Bytes of shared memory, on behalf of a lane of the running warp.
    void check_shared(unsigned at, unsigned bytes, bool write, unsigned lane) {
        if (checker) checker->shared(at, bytes, write, (current->number & ~31u) + lane);
    }

private:
    void prepare(const Launch &launch, Index index);
    Fiber *next();
    void suspend();
    void work(Warp &warp, unsigned at);
    void release(Barrier &barrier);
    void deadlock();
    uint64_t random();

    Block block{};
    std::vector<Fiber> fibers;
    std::vector<Warp> warps;
    Barrier barriers[BARRIERS];
    const Launch *launch = nullptr;
    unsigned threads = 0, alive = 0, warp_count = 0, turn = 0;
    unsigned char *stacks, *shared;
    void *home = nullptr; // where run() waits
    Outcome outcome = Outcome::DONE;
    const bool random_order, guarded;
    uint64_t state;
    std::unique_ptr<Checker> checker;
};

// The worker of this host thread, while it runs a block.
extern thread_local Worker *worker;

} // namespace emulated
