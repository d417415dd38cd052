"""Stand-ins for the CUDA libraries that torch's Linux wheel links, for a machine without a GPU.

    python cuda_stubs.py VENV/lib/python3.11/site-packages/torch/lib

The wheel does not load without its CUDA libraries. Nothing on a CPU calls them, with one exception, the
small CUDA runtime, which stays the real one (`nvidia-cuda-runtime` in requirements.txt). For each of the others this
writes an empty library with the same name and symbol versions. Needs cc, nm and objdump.
"""

import collections
import pathlib
import re
import subprocess
import sys
import tempfile


def run(*args):
    return subprocess.run([str(a) for a in args], capture_output=True, text=True, check=True).stdout


def main(lib):
    libraries = sorted(lib.glob("*.so*"))
    there = {path.name for path in libraries}
    wanted, owner, undefined, defined = set(), {}, collections.defaultdict(set), set()
    for path in libraries:
        library = None
        for line in run("objdump", "-p", path).splitlines():
            if match := re.search(r"NEEDED\s+(lib(?:cu|nv|nccl)\S+)", line):
                if match[1] not in there and not match[1].startswith("libcudart."):
                    wanted.add(match[1])
            if match := re.search(r"required from (\S+):", line):
                library = match[1]
            elif match := re.match(r"\s+0x\S+ 0x\S+ \d+ (\S+)", line):
                owner[match[1]] = library
        for line in run("nm", "-D", path).splitlines():
            kind, symbol = line.split()[-2:]
            name, _, version = symbol.partition("@")
            if kind in "Uw":
                undefined[name].add(version)
            else:
                defined.add(name)

    symbols = collections.defaultdict(lambda: collections.defaultdict(set))
    # Symbols without a version may come from any library.
    any_library = min(wanted, default=None)
    for name, versions in undefined.items():
        for version in versions if name not in defined else ():
            if owner.get(version) in wanted:
                symbols[owner[version]][version].add(name)
            elif not version and re.match(r"(cu|nccl|nv)[A-Za-z]", name):
                symbols[any_library][""].add(name)

    for name in sorted(wanted):
        write(lib / name, symbols[name])
        print(f"{name}: {sum(map(len, symbols[name].values()))} symbols")


def write(path, versions):
    with tempfile.TemporaryDirectory() as folder:
        source, script = pathlib.Path(folder, "stub.c"), pathlib.Path(folder, "stub.map")
        names = sorted(name for group in versions.values() for name in group)
        source.write_text("".join(f"int {name}(void) {{ return 100; }}\n" for name in names) or "int nothing;\n")
        groups = {version: group for version, group in versions.items() if version}
        script.write_text("".join(f"{v} {{ global: {'; '.join(sorted(g))}; }};\n" for v, g in groups.items()))
        command = ["cc", "-w", "-shared", "-fPIC", "-fno-builtin", f"-Wl,-soname,{path.name}", "-o", path, source]
        run(*command, *([f"-Wl,--version-script={script}"] if groups else []))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
