#include "settings.h"

#include <cstdio>
#include <cstdlib>
#include <string>

namespace emulated {
namespace {

Settings parse() {
    Settings s;
    const char *text = getenv("DIKAST_EMULATOR");
    std::string rest = text ? text : "";
    while (!rest.empty()) {
        const size_t end = rest.find(',');
        const std::string item = rest.substr(0, end);
        rest = end == std::string::npos ? "" : rest.substr(end + 1);
        const size_t equals = item.find('=');
        const std::string name = item.substr(0, equals);
        const uint64_t value = equals == std::string::npos ? 0 : strtoull(item.c_str() + equals + 1, nullptr, 10);
        if (name == "threads") s.threads = (unsigned)value;
        else if (name == "memory") s.memory = (size_t)value << 20;
        else if (name == "random") s.random = true, s.seed = value;
        else if (name == "check") s.check = true;
        else if (name == "guard") s.guard = true;
        else if (name == "trace") s.trace = true;
        else if (name == "capability") s.capability = (unsigned)value;
        else if (name == "driver") s.driver = (unsigned)value;
        else if (name == "processors") s.processors = (unsigned)value;
        else if (!name.empty()) fprintf(stderr, "emulator: DIKAST_EMULATOR has an unknown word: %s\n", name.c_str());
    }
    return s;
}

} // namespace

const Settings &settings() {
    static const Settings all = parse();
    return all;
}

} // namespace emulated
