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

constexpr unsigned MOST_THREADS = 1024, MOST_WARPS = MOST_THREADS / 32, BARRIERS = 16, MOST_SHARED = 1 << 18;

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

// A block of the cluster that runs.
struct Member {
    Block block;
    Barrier barriers[BARRIERS];
    unsigned alive, first_warp; // threads that have not left; its warps among all
};

// Runs blocks, or clusters of them, one after the other on the host thread that made it.
class Worker {
public:
    explicit Worker(uint64_t seed);
    ~Worker();
    Worker(const Worker &) = delete;

    // The block `index` of a launch, or the cluster that it is the first of.
    Outcome run(const Launch &launch, Index index);

    std::string message;

    // For fibers.
    void collective(unsigned mask, const Collective *operation, void *operands);
    unsigned barrier(unsigned id, unsigned count, bool value, bool wait, const char *name);
    void pause();
    void cluster_arrive(bool release);
    void cluster_wait();
    [[noreturn]] void leave();
    [[noreturn]] void fail(Outcome outcome, const std::string &what);
    void entry();
    void check(const void *address, size_t bytes, bool write) {
        if (checking()) checker->access(address, bytes, write);
    }
    // Bytes of shared memory, on behalf of a lane of the running warp.
    void check_shared(unsigned at, unsigned bytes, bool write, unsigned lane) {
        if (checking()) checker->shared(at, bytes, write, (current->number & ~31u) + lane);
    }
    // Of the block's own barriers, whichever way their address is written.
    void announce(unsigned barrier) {
        if (checking()) checker->announce(barrier & ((1u << RANK_BIT) - 1), current->number / 32);
    }
    void learn(unsigned barrier) {
        if (checking()) checker->learn(barrier & ((1u << RANK_BIT) - 1), current->number / 32);
    }

private:
    void prepare(const Launch &launch, Index index);
    void prepare_member(unsigned rank, Index index);
    void cluster_release();
    Fiber *next();
    void suspend();
    void work(Warp &warp, unsigned at);
    void release(Member &member, Barrier &barrier);
    void deadlock();
    uint64_t random();
    // Blocks of clusters see each other's shared memory: their accesses are not looked at.
    bool checking() const { return checker && launch->cluster == 1; }

    Member members[MOST_CLUSTER];
    Block *blocks[MOST_CLUSTER];
    std::vector<Fiber> fibers;
    std::vector<Warp> warps;
    const Launch *launch = nullptr;
    unsigned threads = 0, alive = 0, warp_count = 0, turn = 0; // threads of a block, of the rest all
    unsigned cluster_arrived = 0, cluster_phase = 0;
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
