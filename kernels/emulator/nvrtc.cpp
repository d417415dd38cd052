// libnvrtc: compiles a kernel with the host's C++ compiler. Its "cubin" is a shared library after a mark of its own.
#include "image.h"
#include "rewrite.h"
#include "settings.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

// Where the sources of the emulator and its libraries are: given when it is built.
#ifndef EMULATOR_SOURCES
#error "EMULATOR_SOURCES and EMULATOR_LIBRARIES are folders"
#endif

namespace {

enum { SUCCESS = 0, OUT_OF_MEMORY = 1, INVALID_INPUT = 3, INVALID_PROGRAM = 4, COMPILATION = 6 };

struct Program {
    std::string source, name, log, image;
    std::map<std::string, std::string> headers;
};

std::string contents(const std::string &path) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
}
void write(const std::string &path, const std::string &text) { std::ofstream(path, std::ios::binary) << text; }

std::vector<std::string> compiler() {
    const char *chosen = getenv("CXX");
    return {chosen && *chosen ? chosen : "g++"};
}

// Runs a program; its output goes to a file.
int run(const std::vector<std::string> &arguments, const std::string &log) {
    std::vector<char *> list;
    for (const std::string &a : arguments) list.push_back(const_cast<char *>(a.c_str()));
    list.push_back(nullptr);
    const pid_t child = fork();
    if (child == 0) {
        const int out = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
        dup2(out, 1);
        dup2(out, 2);
        execvp(list[0], list.data());
        _exit(127);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child) return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int compile(Program &p, const std::string &folder, unsigned arch) {
    const std::string log = folder + "/log", sources = EMULATOR_SOURCES;
    const std::string file = p.name.empty() ? "kernel.cu" : p.name;
    for (const auto &h : p.headers) write(folder + "/" + h.first, h.second);
    write(folder + "/source.cu", "# 1 \"" + file + "\"\n" + p.source);
    auto fail = [&](const char *what) {
        p.log = contents(log) + what;
        return COMPILATION;
    };
    std::vector<std::string> command = compiler();
    auto with = [&](std::initializer_list<std::string> more) {
        std::vector<std::string> all = command;
        all.insert(all.end(), more);
        return all;
    };
    if (run(with({"-E", "-x", "c++", "-std=c++17", "-undef", "-D__cplusplus=201703L", "-D__x86_64__", "-D__CUDACC__", "-D__CUDACC_RTC__",
                  "-D__CUDA_ARCH__=" + std::to_string(arch * 10), "-I", folder, "-o", folder + "/plain.cpp", folder + "/source.cu"}),
            log) != 0) {
        return fail("the preprocessor failed (is there a g++?)\n");
    }
    write(folder + "/kernel.cpp",
          "#include \"device.h\"\n" + emulated::rewritten(contents(folder + "/plain.cpp"), contents(sources + "/ptx.h") + contents(sources + "/hopper.h")));
    const char *keep = getenv("DIKAST_EMULATOR_KEEP");
    if (keep) write(std::string(keep) + "/" + file + ".cpp", contents(folder + "/kernel.cpp"));
    const char *checks = emulated::settings().check ? "-fsanitize=thread" : "-O2";
    if (run(with({"-std=c++17", "-O2", checks, "-c", "-ffp-contract=off", "-fno-strict-aliasing", "-fno-math-errno", "-fno-exceptions", "-fno-rtti",
                  "-fno-stack-protector", "-fno-plt", "-fPIC", "-fvisibility=hidden", "-w", "-I", sources, "-o", folder + "/kernel.o", folder + "/kernel.cpp"}),
            log) != 0 ||
        run(with({"-shared", "-Wl,-Bsymbolic", "-Wl,-z,defs", "-o", folder + "/kernel.so", folder + "/kernel.o", "-L",
                  EMULATOR_LIBRARIES, "-l:libcuda.so.1", "-lm"}),
            log) != 0) {
        return fail("the compiler failed\n");
    }
    const std::string library = contents(folder + "/kernel.so");
    p.image.assign(emulated::IMAGE_MARK, sizeof emulated::IMAGE_MARK);
    const uint64_t size = library.size();
    p.image.append(reinterpret_cast<const char *>(&size), sizeof size);
    p.image += library;
    p.log = contents(log);
    return SUCCESS;
}

} // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

// The minor number is made of the emulator's own sources, so that whatever keeps compiled kernels by compiler version
// never takes an old one, nor one for a real device.
EXPORT int nvrtcVersion(int *major, int *minor) {
    uint32_t hash = emulated::settings().check ? 2166136261u : 2166136267u;
    for (const char *name : {"runtime.h", "device.h", "ptx.h", "hopper.h", "rewrite.cpp", "nvrtc.cpp"}) {
        for (unsigned char c : contents(std::string(EMULATOR_SOURCES) + "/" + name)) hash = (hash ^ c) * 16777619u;
    }
    *major = 12;
    *minor = 1000 + (int)(hash % 100000000u);
    return SUCCESS;
}

EXPORT int nvrtcCreateProgram(Program **program, const char *source, const char *name, int headers, const char *const *texts,
                              const char *const *names) {
    if (!program || !source) return INVALID_INPUT;
    *program = new Program;
    (*program)->source = source;
    (*program)->name = name ? name : "";
    for (int i = 0; i < headers; ++i) (*program)->headers[names[i]] = texts[i];
    return SUCCESS;
}

EXPORT int nvrtcDestroyProgram(Program **program) {
    if (!program || !*program) return INVALID_PROGRAM;
    delete *program;
    *program = nullptr;
    return SUCCESS;
}

EXPORT int nvrtcCompileProgram(Program *program, int count, const char *const *options) {
    if (!program) return INVALID_PROGRAM;
    unsigned arch = 89;
    for (int i = 0; i < count; ++i) {
        const char *number = strstr(options[i], "arch");
        while (number && *number && !isdigit((unsigned char)*number)) ++number;
        if (number && *number) arch = (unsigned)strtoul(number, nullptr, 10);
    }
    char folder[] = "/tmp/dikast-emulator-XXXXXX";
    if (!mkdtemp(folder)) return OUT_OF_MEMORY;
    const int status = compile(*program, folder, arch);
    run({"rm", "-rf", folder}, "/dev/null");
    if (status != SUCCESS) fprintf(stderr, "emulator: %s does not compile:\n%s\n", program->name.c_str(), program->log.c_str());
    return status;
}

EXPORT int nvrtcGetCUBINSize(Program *program, size_t *size) {
    if (!program) return INVALID_PROGRAM;
    *size = program->image.size();
    return SUCCESS;
}
EXPORT int nvrtcGetCUBIN(Program *program, char *image) {
    if (!program) return INVALID_PROGRAM;
    memcpy(image, program->image.data(), program->image.size());
    return SUCCESS;
}
EXPORT int nvrtcGetPTXSize(Program *program, size_t *size) { return nvrtcGetCUBINSize(program, size); }
EXPORT int nvrtcGetPTX(Program *program, char *image) { return nvrtcGetCUBIN(program, image); }
EXPORT int nvrtcGetProgramLogSize(Program *program, size_t *size) {
    if (!program) return INVALID_PROGRAM;
    *size = program->log.size() + 1;
    return SUCCESS;
}
EXPORT int nvrtcGetProgramLog(Program *program, char *log) {
    if (!program) return INVALID_PROGRAM;
    memcpy(log, program->log.c_str(), program->log.size() + 1);
    return SUCCESS;
}
EXPORT const char *nvrtcGetErrorString(int) { return "emulated"; }
