// What a compiled kernel and the emulated driver share: threads, blocks, kernels' entries, and the calls between them.
#pragma once

typedef unsigned long emulated_size;

#pragma GCC visibility push(default)
namespace emulated {

struct Index {
    unsigned x, y, z;
};

struct Block;
struct Warp;

// A copy to shared memory that has been asked for and may arrive from now on.
struct Copy {
    unsigned to, bytes, group; // offset in shared memory; bytes written; commit group
    const void *from;          // null: zeros
    unsigned read;             // bytes read, zeros after them
};

// One thread of a block: a fiber with a stack of its own.
struct Fiber {
    void *stack_pointer;
    Index thread;
    unsigned lane, number;
    Block *block;
    Warp *warp;
    unsigned copies, copy_room, open_group; // copies under way, and the group that the next commit closes
    Copy *copy;
    const char *waits_for; // what it stands at, for reports
    unsigned cluster_phase; // of the cluster's barrier, when it arrived there
    bool abroad; // an arrival at another block's barrier, not yet ordered before that block's end
};

constexpr unsigned MOST_CLUSTER = 8;

// A block that a host thread runs at the moment, and the others of its cluster by rank.
struct Block {
    Index index, size, grid;
    unsigned char *shared; // static variables first, then the dynamic part
    unsigned shared_bytes, dynamic_at;
    unsigned rank, ranks;
    Block *const *cluster;
};
// Addresses in another block's shared memory have its rank from this bit on, plus one.
constexpr unsigned RANK_BIT = 24;

// The fiber that runs on this host thread.
extern thread_local Fiber *current __attribute__((tls_model("initial-exec")));

// An operation of a whole warp: lanes leave their operands, the last one to come works for all.
struct Collective {
    const char *name;
    void (*work)(void *const *lanes, unsigned participants);
};

// A kernel as its module registers it.
struct Kernel {
    const char *name;
    void (*call)(void *const *parameters);
    const emulated_size *parameter_bytes;
    unsigned parameters, most_threads;
    const Kernel *next;
};

// What a module tells the driver when it is loaded.
struct Module {
    const Kernel *kernels;
    unsigned static_shared;
    const char *image_begin, *image_end;
};

extern "C" {
// Waits until every living lane of `mask` has come to the same operation.
void emulated_collective(unsigned mask, const Collective *operation, void *operands);
// Waits at a barrier of the block: for `count` threads, or 0 for all living. Returns how many came with a true `value`.
unsigned emulated_barrier(unsigned id, unsigned count, bool value, const char *name);
// Announces an arrival without waiting.
void emulated_arrive(unsigned id, unsigned count);
// Ends the launch with a message.
[[noreturn]] void emulated_fault(const char *format, ...) __attribute__((format(printf, 1, 2)));
// cp.async: what was asked for, and its end.
void emulated_copy(unsigned to, const void *from, unsigned bytes, unsigned read);
void emulated_finish_copies(unsigned groups_left);
// Gives other threads a turn.
void emulated_pause();
// For `check`: an arrival at a barrier in shared memory, or bytes that it counts; a phase found complete.
void emulated_announce(unsigned barrier);
void emulated_learn(unsigned barrier);
// A bulk copy to the block's own shared memory.
void emulated_bulk(unsigned to, const void *from, unsigned bytes);
// The barrier of the cluster: an arrival, which may release what the thread did before, and the wait that belongs to it.
void emulated_cluster_arrive(bool release);
void emulated_cluster_wait();
}

// Warp matrix products: d += a b, operands as a thread holds them.
struct Product {
    float *d[4];
    float c[4];
    unsigned a[4], b[2];
};
struct IntegerProduct {
    unsigned *d[4];
    int c[4];
    unsigned a[4], b[2];
};
extern const Collective product_bf16, product_f16, product_e4m3, product_e5m2, product_s8;

// Matrices of eight rows of sixteen bytes in shared memory; lane l of every eight names row l.
struct Matrices {
    unsigned address;
    unsigned *r[4];
};
extern const Collective load_matrices_1, load_matrices_2, load_matrices_4;
extern const Collective load_transposed_1, load_transposed_2, load_transposed_4;
extern const Collective store_matrices_1, store_matrices_2, store_matrices_4;
extern const Collective store_transposed_1, store_transposed_2, store_transposed_4;

// A place in shared memory of the running block or of another of its cluster.
inline unsigned char *shared_place(unsigned address, unsigned bytes, const char *name) {
    const Block *block = current->block;
    if (const unsigned other = address >> RANK_BIT) {
        if (other > block->ranks) emulated_fault("%s: block %u of a cluster of %u", name, other - 1, block->ranks);
        block = block->cluster[other - 1];
        address &= (1u << RANK_BIT) - 1;
    }
    if (address % bytes != 0) emulated_fault("%s: shared address %u is no multiple of %u", name, address, bytes);
    if (address > block->shared_bytes || bytes > block->shared_bytes - address) {
        emulated_fault("%s: shared address %u of %u bytes", name, address, block->shared_bytes);
    }
    return block->shared + address;
}

} // namespace emulated
#pragma GCC visibility pop
