// Spreads the blocks of a launch over host threads.
#include "launch.h"
#include "block.h"
#include "settings.h"

#include <atomic>
#include <condition_variable>
#include <csignal>
#include <memory>
#include <mutex>
#include <thread>

namespace emulated {
namespace {

struct sigaction before[NSIG];

// A bad address in a kernel ends the launch; elsewhere it is what it was before.
void on_signal(int signal, siginfo_t *info, void *context) {
    if (worker && current) {
        char text[100];
        snprintf(text, sizeof text, "%s at address %p", signal == SIGFPE ? "a division by zero" : "an illegal or misaligned access",
                 info->si_addr);
        worker->fail(Outcome::ILLEGAL_ADDRESS, text);
    }
    const struct sigaction &old = before[signal];
    if (old.sa_flags & SA_SIGINFO) {
        old.sa_sigaction(signal, info, context);
    } else if (old.sa_handler != SIG_DFL && old.sa_handler != SIG_IGN) {
        old.sa_handler(signal);
    } else {
        sigaction(signal, &old, nullptr); // happens again, and ends the process
    }
}

void catch_signals() {
    struct sigaction action = {};
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    for (int s : {SIGSEGV, SIGBUS, SIGFPE}) sigaction(s, &action, &before[s]);
}

// Blocks of one launch, or clusters of them, taken one by one.
class Pool {
public:
    Pool() {
        catch_signals();
        unsigned count = settings().threads ? settings().threads : std::thread::hardware_concurrency();
        if (count == 0) count = 1;
        for (unsigned i = 0; i < count; ++i) workers.emplace_back(new Worker(settings().seed + 0x9E3779B97F4A7C15u * (i + 1)));
        for (unsigned i = 1; i < count; ++i) std::thread([this, i] { help(i); }).detach();
    }

    Outcome run(const Launch &what, std::string &message) {
        std::unique_lock<std::mutex> lock(mutex);
        launch = &what;
        width = what.grid.x / what.cluster;
        blocks = uint64_t(width) * what.grid.y * what.grid.z;
        next = 0;
        outcome = Outcome::DONE;
        // Any odd step that shares no factor with the count visits all blocks.
        step = 1, start = 0;
        if (settings().random && blocks > 1) {
            seed = seed * 6364136223846793005u + 1442695040888963407u + settings().seed;
            start = (seed >> 20) % blocks;
            step = (seed >> 33) % blocks | 1;
            while (common(step, blocks) != 1) ++step;
        }
        const bool alone = blocks == 1;
        if (!alone) {
            ++round;
            busy = workers.size() - 1;
            wake.notify_all();
        }
        lock.unlock();
        take(*workers[0]);
        lock.lock();
        if (!alone) ended.wait(lock, [this] { return busy == 0; });
        launch = nullptr;
        message = failed;
        return outcome;
    }

private:
    static uint64_t common(uint64_t a, uint64_t b) {
        while (b) {
            const uint64_t rest = a % b;
            a = b, b = rest;
        }
        return a;
    }

    void take(Worker &own) {
        const Launch &what = *launch;
        for (;;) {
            const uint64_t i = next.fetch_add(1);
            if (i >= blocks) return;
            const uint64_t b = (uint64_t)(((unsigned __int128)i * step + start) % blocks);
            const Index index = {unsigned(b % width) * what.cluster, unsigned(b / width % what.grid.y),
                                 unsigned(b / width / what.grid.y)};
            const Outcome how = own.run(what, index);
            if (how == Outcome::DONE) continue;
            std::lock_guard<std::mutex> lock(mutex);
            if (outcome == Outcome::DONE) failed = own.message, outcome = how;
            next = blocks; // no more
            return;
        }
    }

    void help(unsigned i) {
        uint64_t seen = 0;
        std::unique_lock<std::mutex> lock(mutex);
        for (;;) {
            wake.wait(lock, [&] { return round != seen; });
            seen = round;
            lock.unlock();
            take(*workers[i]);
            lock.lock();
            if (--busy == 0) ended.notify_one();
        }
    }

    std::vector<std::unique_ptr<Worker>> workers;
    std::mutex mutex;
    std::condition_variable wake, ended;
    const Launch *launch = nullptr;
    std::atomic<uint64_t> next{0};
    unsigned width = 1; // of the grid, in clusters
    uint64_t blocks = 0, round = 0, step = 1, start = 0, seed = 1;
    size_t busy = 0;
    Outcome outcome = Outcome::DONE;
    std::string failed;
};

} // namespace

Outcome run(const Launch &launch, std::string &message) {
    // Never destroyed: its threads wait in it until the process ends.
    static Pool *pool = new Pool;
    return pool->run(launch, message);
}

} // namespace emulated
