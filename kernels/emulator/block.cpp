// Threads of a block as fibers. A fiber runs until it must wait: for its warp in a collective operation, or for the block
// at a barrier. Then the next that is ready runs, of the same warp if there is one.
#include "block.h"
#include "settings.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>

#if !defined(__x86_64__)
#error "the emulator switches stacks of x86-64"
#endif

// Saves what a call must preserve, on the stack; puts the stack's address to *from; continues at `to`.
extern "C" void emulated_switch(void **from, void *to);
asm(R"(
.text
.globl emulated_switch
.hidden emulated_switch
.type emulated_switch, @function
emulated_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size emulated_switch, .-emulated_switch
)");

namespace emulated {

thread_local Fiber *current = nullptr;
thread_local Worker *worker = nullptr;

namespace {

// Stacks of different threads must not fall on the same lines of the cache.
constexpr size_t STACK = 64 * 1024 + 320;
constexpr uint64_t CANARY = 0xD15A57E7'C0FFEE00;

void begin() {
    worker->entry();
}

} // namespace

Worker::Worker(uint64_t seed)
    : fibers(MOST_CLUSTER * MOST_THREADS), warps(MOST_CLUSTER * MOST_WARPS), random_order(settings().random), guarded(settings().guard),
      state(seed * 2 + 1) {
    auto map = [](size_t bytes) {
        void *p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (p == MAP_FAILED) abort();
        return static_cast<unsigned char *>(p);
    };
    stacks = map(STACK * MOST_THREADS * MOST_CLUSTER);
    shared = map(MOST_SHARED * MOST_CLUSTER);
    for (unsigned r = 0; r < MOST_CLUSTER; ++r) blocks[r] = &members[r].block;
    if (settings().check) checker.reset(new Checker);
}

Worker::~Worker() {
    munmap(stacks, STACK * MOST_THREADS * MOST_CLUSTER);
    munmap(shared, MOST_SHARED * MOST_CLUSTER);
    for (Fiber &f : fibers) free(f.copy);
}

uint64_t Worker::random() {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state >> 16;
}

void Worker::prepare(const Launch &what, Index index) {
    launch = &what;
    threads = what.size.x * what.size.y * what.size.z;
    alive = threads * what.cluster;
    warp_count = (threads + 31) / 32 * what.cluster;
    turn = 0;
    cluster_arrived = 0;
    outcome = Outcome::DONE;
    for (unsigned r = 0; r < what.cluster; ++r) prepare_member(r, {index.x + r, index.y, index.z});
}

void Worker::prepare_member(unsigned rank, Index index) {
    const Launch &what = *launch;
    Member &own = members[rank];
    Block &block = own.block;
    const unsigned own_warps = (threads + 31) / 32;
    own.alive = threads;
    own.first_warp = rank * own_warps;
    block.index = index;
    block.size = what.size;
    block.grid = what.grid;
    block.shared = shared + (size_t)rank * MOST_SHARED;
    block.dynamic_at = (what.static_shared + 1023) / 1024 * 1024;
    block.shared_bytes = block.dynamic_at + what.dynamic_shared;
    block.rank = rank;
    block.ranks = what.cluster;
    block.cluster = blocks;
    if (block.shared_bytes > MOST_SHARED - 4096) abort();
    // What nobody wrote is NaN; and so are bytes beyond, which are looked at in the end.
    memset(block.shared, 0xFF, block.shared_bytes + 1024);
    memset(own.barriers, 0, sizeof own.barriers);
    for (unsigned w = 0; w < own_warps; ++w) {
        const unsigned lanes = threads - w * 32 < 32 ? threads - w * 32 : 32;
        Warp &warp = warps[own.first_warp + w];
        warp.last = 31;
        warp.alive = warp.ready = lanes == 32 ? ~0u : (1u << lanes) - 1;
        for (unsigned m = 0; m < warp.meetings; ++m) warp.meeting[m].arrived = 0;
        warp.meetings = 0;
    }
    for (unsigned t = 0; t < threads; ++t) {
        const unsigned at = own.first_warp * 32 + t;
        Fiber &f = fibers[at];
        f.thread = {t % what.size.x, t / what.size.x % what.size.y, t / what.size.x / what.size.y};
        f.lane = t & 31;
        f.number = t;
        f.block = &block;
        f.warp = &warps[own.first_warp + t / 32];
        f.copies = 0;
        f.abroad = false;
        f.open_group = 0;
        f.waits_for = "its start";
        unsigned char *bottom = stacks + (size_t)at * STACK;
        if (guarded) memcpy(bottom, &CANARY, sizeof CANARY);
        void **top = reinterpret_cast<void **>(reinterpret_cast<uintptr_t>(bottom + STACK) & ~uintptr_t(15));
        *--top = nullptr; // so that the stack is aligned as after a call
        *--top = reinterpret_cast<void *>(&begin);
        for (int i = 0; i < 6; ++i) *--top = nullptr;
        f.stack_pointer = top;
    }
}

Outcome Worker::run(const Launch &what, Index index) {
    prepare(what, index);
    worker = this;
    current = &fibers[0];
    if (checking()) checker->begin(members[0].block, warp_count, what, stacks, STACK * MOST_THREADS);
    while (alive > 0 && outcome == Outcome::DONE) {
        Fiber *f = next();
        if (!f) {
            deadlock();
            break;
        }
        current = f;
        emulated_switch(&home, f->stack_pointer);
    }
    current = nullptr;
    worker = nullptr;
    if (outcome == Outcome::DONE) {
        for (unsigned i = 0; i < 1024 * what.cluster; ++i) {
            const Block &block = members[i / 1024].block;
            if (block.shared[block.shared_bytes + i % 1024] == 0xFF) continue;
            message = "shared memory was written " + std::to_string(i % 1024) + " bytes beyond its end";
            outcome = Outcome::FAULT;
            break;
        }
        for (unsigned t = 0; t < threads * what.cluster && guarded; ++t) {
            const size_t at = members[t / threads].first_warp * 32 + t % threads;
            if (memcmp(stacks + at * STACK, &CANARY, sizeof CANARY) == 0) continue;
            message = "the emulator's stack of a thread is too small";
            outcome = Outcome::FAULT;
            break;
        }
        if (outcome != Outcome::DONE) {
            char place[128];
            snprintf(place, sizeof place, " (block %u,%u,%u)", index.x, index.y, index.z);
            message += place;
        }
    }
    return outcome;
}

// The fiber to run; null when none can.
Fiber *Worker::next() {
    if (random_order) {
        unsigned first = random() % warp_count;
        for (unsigned i = 0; i < warp_count; ++i) {
            const unsigned w = (first + i) % warp_count, ready = warps[w].ready;
            if (!ready) continue;
            unsigned lane = random() & 31;
            while (!(ready >> lane & 1)) lane = (lane + 1) & 31;
            warps[w].ready &= ~(1u << lane);
            return &fibers[w * 32 + lane];
        }
        return nullptr;
    }
    for (unsigned i = 0; i < warp_count; ++i) {
        Warp &w = warps[turn];
        if (w.ready) {
            const unsigned later = w.ready & ~((2u << w.last) - 1);
            const unsigned lane = __builtin_ctz(later ? later : w.ready);
            w.ready &= ~(1u << lane);
            return &fibers[turn * 32 + lane];
        }
        turn = turn + 1 == warp_count ? 0 : turn + 1;
    }
    return nullptr;
}

void Worker::suspend() {
    Fiber *from = current, *to = next();
    if (to == from) return;
    current = to;
    emulated_switch(&from->stack_pointer, to ? to->stack_pointer : home);
}

void Worker::entry() {
    launch->kernel->call(launch->parameters);
    leave();
}

void Worker::leave() {
    Fiber *own = current;
    ++own->open_group;
    emulated_finish_copies(0);
    // On a device it may come to shared memory that has another owner by then.
    if (own->abroad) emulated_fault("an arrival at another block's barrier may come after that block's end");
    Warp &warp = *own->warp;
    Member &member = members[own->block->rank];
    warp.alive &= ~(1u << own->lane);
    --alive;
    --member.alive;
    // It may have been the last that others waited for.
    for (unsigned m = 0; m < warp.meetings;) {
        const unsigned before = warp.meetings;
        const Meeting &meeting = warp.meeting[m];
        if (meeting.arrived != 0 && meeting.arrived == (meeting.mask & warp.alive)) work(warp, m);
        if (warp.meetings == before) ++m;
    }
    for (Barrier &b : member.barriers) {
        if (b.arrived != 0 && b.count == 0 && b.arrived == member.alive) release(member, b);
    }
    if (cluster_arrived != 0 && cluster_arrived == alive) cluster_release();
    Fiber *to = next();
    current = to;
    void *gone;
    emulated_switch(&gone, to ? to->stack_pointer : home);
    abort();
}

// Does a collective operation that all have come to and lets the others go on. The meeting's place is free then.
void Worker::work(Warp &warp, unsigned at) {
    const Meeting &meeting = warp.meeting[at];
    const unsigned lanes = meeting.arrived;
    meeting.operation->work(meeting.operands, lanes);
    if (checking() && strcmp(meeting.operation->name, "__syncwarp") == 0) checker->meet_warp((unsigned)(&warp - warps.data()));
    warp.ready |= lanes;
    if (at != warp.meetings - 1) warp.meeting[at] = warp.meeting[warp.meetings - 1];
    --warp.meetings;
}

void Worker::collective(unsigned mask, const Collective *operation, void *operands) {
    Fiber *own = current;
    Warp &warp = *own->warp;
    const unsigned bit = 1u << own->lane;
    if (!(mask & bit)) emulated_fault("%s: the mask %08x is without the thread itself", operation->name, mask);
    unsigned at = 0;
    while (at < warp.meetings && warp.meeting[at].mask != mask) {
        if (warp.meeting[at].mask & bit & warp.meeting[at].arrived) emulated_fault("%s: already waits", operation->name);
        ++at;
    }
    Meeting &meeting = warp.meeting[at];
    if (at == warp.meetings) {
        if (warp.meetings == 32) emulated_fault("%s: too many masks at once", operation->name);
        ++warp.meetings;
        meeting.mask = mask;
        meeting.arrived = 0;
        meeting.operation = operation;
    } else if (meeting.operation != operation) {
        emulated_fault("%s: other lanes of the warp are at %s", operation->name, meeting.operation->name);
    }
    meeting.operands[own->lane] = operands;
    meeting.arrived |= bit;
    own->waits_for = operation->name;
    if (meeting.arrived == (mask & warp.alive)) {
        work(warp, at);
        if (random_order) {
            suspend();
        } else {
            warp.ready &= ~bit; // goes on itself
        }
        return;
    }
    suspend();
}

void Worker::release(Member &member, Barrier &barrier) {
    barrier.result = barrier.votes;
    if (checking()) checker->meet(barrier.warps, barrier.waiting, warp_count);
    barrier.arrived = barrier.votes = barrier.warps = 0;
    for (unsigned w = 0; w < (threads + 31) / 32; ++w) {
        warps[member.first_warp + w].ready |= barrier.waiting[w];
        barrier.waiting[w] = 0;
    }
}

void Worker::cluster_release() {
    cluster_arrived = 0;
    ++cluster_phase;
}

void Worker::cluster_arrive(bool release) {
    if (release) current->abroad = false;
    current->cluster_phase = cluster_phase;
    if (++cluster_arrived == alive) cluster_release();
}

void Worker::cluster_wait() {
    current->waits_for = "barrier.cluster";
    for (unsigned turns = 0; current->cluster_phase == cluster_phase; ++turns) {
        if (turns == 1u << 18) emulated_fault("barrier.cluster: %u of %u threads come", cluster_arrived, alive);
        pause();
    }
}

unsigned Worker::barrier(unsigned id, unsigned count, bool value, bool wait, const char *name) {
    if (id >= BARRIERS) emulated_fault("%s: there is no barrier %u", name, id);
    if (count % 32 != 0 || count > (threads + 31) / 32 * 32) emulated_fault("%s: barrier %u for %u threads", name, id, count);
    Fiber *own = current;
    Member &member = members[own->block->rank];
    Barrier &b = member.barriers[id];
    if (b.arrived == 0) b.count = count;
    if (b.count != count) emulated_fault("%s: barrier %u for %u threads, others want %u", name, id, count, b.count);
    ++b.arrived;
    b.votes += value;
    b.warps |= 1u << (own->number / 32);
    own->waits_for = name;
    if (wait) b.waiting[own->number / 32] |= 1u << own->lane;
    if (b.arrived == (count ? count : member.alive)) release(member, b);
    if (wait) suspend();
    return b.result;
}

void Worker::pause() {
    current->warp->ready |= 1u << current->lane;
    current->warp->last = current->lane;
    turn = turn + 1 == warp_count ? 0 : turn + 1;
    suspend();
}

void Worker::fail(Outcome how, const std::string &what) {
    char place[200];
    const Fiber *f = current;
    const Index index = f->block->index;
    snprintf(place, sizeof place, " (block %u,%u,%u thread %u,%u,%u)", index.x, index.y, index.z, f->thread.x, f->thread.y, f->thread.z);
    message = what + place;
    outcome = how;
    current = nullptr;
    void *gone;
    emulated_switch(&gone, home);
    abort();
}

void Worker::deadlock() {
    char text[200];
    const Index index = members[0].block.index;
    snprintf(text, sizeof text, "no thread can go on (block %u,%u,%u):", index.x, index.y, index.z);
    message = text;
    for (unsigned w = 0; w < warp_count; ++w) {
        unsigned left = warps[w].alive;
        while (left) {
            const char *what = fibers[w * 32 + __builtin_ctz(left)].waits_for;
            unsigned same = 0;
            for (unsigned l = 0; l < 32; ++l) {
                if ((left >> l & 1) && fibers[w * 32 + l].waits_for == what) same |= 1u << l;
            }
            left &= ~same;
            snprintf(text, sizeof text, " warp %u lanes %08x at %s;", w, same, what);
            message += text;
        }
    }
    outcome = Outcome::FAULT;
}

} // namespace emulated

using namespace emulated;

#pragma GCC visibility push(default)
extern "C" {

void emulated_collective(unsigned mask, const Collective *operation, void *operands) {
    worker->collective(mask, operation, operands);
}
unsigned emulated_barrier(unsigned id, unsigned count, bool value, const char *name) {
    return worker->barrier(id, count, value, true, name);
}
void emulated_arrive(unsigned id, unsigned count) { worker->barrier(id, count, false, false, "bar.arrive"); }
void emulated_pause() { worker->pause(); }
void emulated_announce(unsigned barrier) { worker->announce(barrier); }
void emulated_learn(unsigned barrier) { worker->learn(barrier); }
void emulated_bulk(unsigned to, const void *from, unsigned bytes) {
    worker->check_shared(to, bytes, true, current->lane);
    worker->check(from, bytes, false);
}
void emulated_cluster_arrive(bool release) { worker->cluster_arrive(release); }
void emulated_cluster_wait() { worker->cluster_wait(); }

void emulated_fault(const char *format, ...) {
    char text[512];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    worker->fail(Outcome::FAULT, text);
}

// A copy arrives when its thread waits for it; until then its place holds NaN.
void emulated_copy(unsigned to, const void *from, unsigned bytes, unsigned read) {
    Fiber *f = current;
    if (f->copies == f->copy_room) {
        f->copy_room = f->copy_room ? f->copy_room * 2 : 16;
        f->copy = static_cast<Copy *>(realloc(f->copy, f->copy_room * sizeof(Copy)));
    }
    f->copy[f->copies++] = {to, bytes, f->open_group, from, read};
    worker->check_shared(to, bytes, true, f->lane);
    if (read) worker->check(from, read, false);
    memset(f->block->shared + to, 0xFF, bytes);
}

void emulated_finish_copies(unsigned groups_left) {
    Fiber *f = current;
    // Groups are numbered from 0; those below `open_group` are closed. At a thread's end all arrive.
    unsigned done = 0;
    for (; done < f->copies; ++done) {
        const Copy &c = f->copy[done];
        if (c.group + groups_left >= f->open_group) break;
        unsigned char *to = f->block->shared + c.to;
        worker->check_shared(c.to, c.bytes, true, f->lane);
        memcpy(to, c.from, c.read);
        memset(to + c.read, 0, c.bytes - c.read);
    }
    f->copies -= done;
    memmove(f->copy, f->copy + done, f->copies * sizeof(Copy));
}

} // extern "C"
#pragma GCC visibility pop
