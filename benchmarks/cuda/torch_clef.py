"""PyTorch beside CLEF on the CUDA backend: the 27B's text backbone in BF16 by transformers' own classes.

    PYTHONPATH=FLA python3 benchmarks/cuda/torch_clef.py --out torch_clef.json [--layers 64] [--tokens 298 1502 2270]

Random weights, scaled_dot_product_attention, no cache, no head, no vision tower; times from token ids on the device to the
last hidden state, device synchronized, eagerly and as one CUDA graph. With flash-linear-attention on the path (the wheel
`fla-core`, unpacked) its kernels do the delta rule, else transformers' PyTorch code does; the result says which ran. Those
kernels need Triton, and Triton needs a C compiler, Python's headers and the driver's library: a second process tries it first,
with one remedy after another, and says what was missing. Fewer than 64 layers are three Gated DeltaNet layers and one of full
attention in turn, and the time of 64 is scaled from them (`scaled_ms`): embedding and last norm, which do not grow, are less
than a percent of it. `--warm` runs every length once and takes no times: kernels are compiled and chosen, and kept in `--cache`.
"""

import argparse
import ctypes
import functools
import glob
import json
import os
import shutil
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
import traceback

ALL_LAYERS = 64
# Set in the process whose surroundings were tried: the remedy that helped, or nothing when none did.
TRIED = "TORCH_CLEF_TRITON"
# Free bytes of the card that all layers need.
ROOM = 70 << 30


def probe():
    """Uses Triton and flash-linear-attention once, or fails as they fail."""
    import torch
    import triton
    import triton.language as tl

    @triton.jit
    def double(x, n, size: tl.constexpr):
        at = tl.program_id(0) * size + tl.arange(0, size)
        tl.store(x + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)

    print("target:", triton.runtime.driver.active.get_current_target())
    x = torch.arange(1000, device="cuda", dtype=torch.float32)
    double[(8,)](x, 1000, 128)
    if x.sum().item() != 999000.0:
        raise RuntimeError(f"a Triton kernel computed {x.sum().item()}")
    import fla
    from fla.ops.gated_delta_rule import chunk_gated_delta_rule
    from fla.utils import device

    if device != "cuda" or not callable(chunk_gated_delta_rule):
        raise RuntimeError(f"flash-linear-attention chose the device {device}")
    print("flash-linear-attention", fla.__version__)


def driver_folder():
    """Where the driver's library is that this process would load."""
    try:
        ctypes.CDLL("libcuda.so.1")
        with open("/proc/self/maps", encoding="utf-8") as maps:
            for line in maps:
                if "libcuda.so" in line:
                    return os.path.dirname(line.split()[-1])
    except OSError:
        pass
    places = ["/usr/local/nvidia/lib*", "/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/local/cuda/compat"]
    found = [path for place in places for path in glob.glob(f"{place}/libcuda.so.1")]
    return os.path.dirname(found[0]) if found else None


def headers():
    """Where Python.h is."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    places = [sysconfig.get_paths()["include"], f"{sys.base_prefix}/include/{version}"]
    places += [f"/usr/include/{version}", f"/usr/local/include/{version}"]
    return next((p for p in places if os.path.exists(f"{p}/Python.h")), None)


def compiler():
    for name in ("gcc", "cc", "clang", "g++", "clang++"):
        found = shutil.which(name) or shutil.which(name, path="/usr/bin:/usr/local/bin:/bin")
        if found:
            return found
    found = glob.glob("/usr/bin/*-linux-gnu-gcc*") + glob.glob("/usr/bin/gcc-[0-9]*") + glob.glob("/usr/bin/clang-[0-9]*")
    return found[0] if found else None


def remedies(cache):
    """Surroundings to try: as they are, then with one thing after another put right."""
    env = dict(os.environ, TRITON_CACHE_DIR=cache)
    # An empty entry is the folder that this runs in, whose subfolders would be taken for packages.
    env["PYTHONPATH"] = os.pathsep.join(p for p in env.get("PYTHONPATH", "").split(os.pathsep) if p)
    yield "nothing", env
    bare = {k: v for k, v in env.items() if k not in ("LD_LIBRARY_PATH", "LD_PRELOAD", "CC", "CXX", "CFLAGS", "TMPDIR")}
    yield "without library paths and compilers of its own", bare
    if folder := driver_folder():
        bare = dict(bare, TRITON_LIBCUDA_PATH=folder)
        yield f"TRITON_LIBCUDA_PATH={folder}", bare
    tools = {}
    if cc := compiler():
        tools["CC"] = cc
    if include := headers():
        tools["CPATH"] = include
    if tools:
        bare = dict(bare, **tools)
        yield f"and {tools}", bare
    home = tempfile.mkdtemp(prefix="torch-clef-")
    bare = dict(bare, HOME=home, TMPDIR=home, TRITON_BACKENDS_IN_TREE="1")
    yield f"and HOME={home}, TRITON_BACKENDS_IN_TREE=1", bare


def surroundings(cache):
    """The first surroundings in which Triton works, and what they are called; those of now and nothing without any."""
    facts = {
        "compiler": compiler(),
        "Python.h": headers(),
        "driver": driver_folder(),
        "ldconfig": shutil.which("ldconfig") or os.path.exists("/sbin/ldconfig"),
        "free in the temporary folder": shutil.disk_usage(tempfile.gettempdir()).free,
    }
    print("Triton's needs:", facts, flush=True)
    first = None
    for name, env in remedies(cache):
        first = first or env
        try:
            tried = subprocess.run(
                [sys.executable, os.path.abspath(__file__), "--probe"], env=env, capture_output=True, text=True, timeout=90
            )
            said = (tried.stdout + tried.stderr).strip().splitlines()
            good = tried.returncode == 0
        except subprocess.TimeoutExpired:
            said, good = ["no answer within 90 s"], False
        print(f"Triton with {name}: {'works' if good else 'FAILS'}", flush=True)
        for line in said[-2:] if good else said[-14:]:
            print("   ", line[:300], flush=True)
        if good:
            return env, name
    return first, ""


def backbone(layers):
    import torch
    from transformers.models.qwen3_5 import modeling_qwen3_5 as modeling
    from transformers.models.qwen3_5.configuration_qwen3_5 import Qwen3_5TextConfig

    config = Qwen3_5TextConfig(
        vocab_size=4096,
        hidden_size=5120,
        intermediate_size=17408,
        num_hidden_layers=layers,
        num_attention_heads=24,
        num_key_value_heads=4,
        head_dim=256,
        linear_num_key_heads=16,
        linear_num_value_heads=48,
        linear_key_head_dim=128,
        linear_value_head_dim=128,
        linear_conv_kernel_dim=4,
        rope_parameters={
            "rope_type": "default",
            "rope_theta": 10_000_000,
            "partial_rotary_factor": 0.25,
            "mrope_section": [11, 11, 10],
            "mrope_interleaved": True,
        },
    )
    config._attn_implementation = "sdpa"
    # The layers' own first values will do; drawing them again takes longer than the measurement.
    modeling.Qwen3_5PreTrainedModel._init_weights = lambda self, module: None
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        model = modeling.Qwen3_5TextModel(config).eval()
    torch.set_default_dtype(torch.float32)
    return model


class Calls:
    """Counts calls of flash-linear-attention's delta rule; transformers takes it from its module when it is imported."""

    def __init__(self):
        self.count = 0
        self.name = "PyTorch code of transformers"
        if not os.environ.get(TRIED):
            return
        try:
            import fla
            from fla.ops import gated_delta_rule

            real = gated_delta_rule.chunk_gated_delta_rule

            @functools.wraps(real)
            def counted(*args, **kwargs):
                self.count += 1
                return real(*args, **kwargs)

            gated_delta_rule.chunk_gated_delta_rule = counted
            self.name = f"flash-linear-attention {fla.__version__}"
        except Exception:  # whatever is missing, it is not there
            traceback.print_exc()

    def who(self):
        return self.name if self.count else "PyTorch code of transformers"


def graph_of(work):
    import torch

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            work()
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph


def host_ms(work, repeats):
    import torch

    times = []
    for _ in range(repeats + 3):
        start = time.perf_counter()
        work()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - start) * 1e3)
    times = sorted(times[3:])
    return {"median_ms": statistics.median(times), "p99_ms": times[len(times) * 99 // 100], "runs": repeats}


def measure(args, result, calls, began):
    import torch

    factor = ALL_LAYERS / result["layers"]
    # Graphs first: they are the peer.
    for kind in ["once"] if args.warm else ["CUDA graph", "eager"]:
        for tokens in args.tokens:
            if time.perf_counter() - began > args.seconds:
                print(f"{kind} {tokens}: out of time", flush=True)
                continue
            ids = torch.randint(2, 4000, (1, tokens), device="cuda")
            torch.cuda.reset_peak_memory_stats()

            def work(ids=ids):
                return model(input_ids=ids, use_cache=False).last_hidden_state

            model = result["model"]
            try:
                if kind == "once":
                    start = time.perf_counter()
                    finite = bool(work().isfinite().all())
                    print(f"{tokens} tokens once: {time.perf_counter() - start:.1f} s, finite {finite}", flush=True)
                    continue
                if kind == "eager":
                    found = host_ms(work, max(3, args.repeats // 4))
                else:
                    graph = graph_of(work)
                    found = host_ms(graph.replay, args.repeats)
                    del graph
            except Exception as error:  # a peer that does not run is no peer
                traceback.print_exc()
                print(f"{kind} {tokens}: {type(error).__name__}: {str(error)[:300]}", flush=True)
                failed = f"{type(error).__name__}: {str(error)[:300]}"
                result["times"].append({"what": kind, "tokens": tokens, "failed": failed})
                continue
            result["delta_rule"] = calls.who()
            found |= {
                "what": kind,
                "tokens": tokens,
                "scaled_ms": found["median_ms"] * factor,
                "peak_gib": torch.cuda.max_memory_allocated() / 2**30,
            }
            result["times"].append(found)
            scaled = "" if factor == 1 else f", {found['scaled_ms']:.1f} ms scaled to {ALL_LAYERS}"
            print(
                f"BF16 backbone, {kind}, {tokens} tokens: {found['median_ms']:.2f} ms for {result['layers']} layers{scaled}, "
                f"peak {found['peak_gib']:.1f} GiB ({result['delta_rule']})",
                flush=True,
            )
            save(args, result)


def save(args, result):
    with open(args.out, "w", encoding="utf-8") as out:
        json.dump({k: v for k, v in result.items() if k != "model"}, out, indent=1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", help="the result")
    parser.add_argument("--layers", type=int, default=64, help="a multiple of four; eight where the card has no room")
    parser.add_argument("--tokens", type=int, nargs="+", default=[298, 1502, 2270])
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=60, help="no new measurement begins after these")
    parser.add_argument("--cache", default=os.path.join(tempfile.gettempdir(), "torch-clef-triton"), help="Triton's")
    parser.add_argument("--warm", action="store_true", help="compile only")
    parser.add_argument("--probe", action="store_true", help="try Triton and say what it lacks")
    args = parser.parse_args()
    if args.probe:
        return probe()
    if not args.out and not args.warm:
        parser.error("--out is needed")
    if TRIED not in os.environ:
        env, name = surroundings(args.cache)
        env[TRIED] = name
        os.execve(sys.executable, [sys.executable, os.path.abspath(__file__), *sys.argv[1:]], env)
    began = time.perf_counter()
    import torch
    import transformers

    layers = args.layers
    if layers > 8 and torch.cuda.mem_get_info()[0] < ROOM * layers / ALL_LAYERS:
        print(f"{torch.cuda.mem_get_info()[0] >> 30} GiB free: eight layers", flush=True)
        layers = 8
    calls = Calls()
    result = {
        "what": "Qwen3.5-27B-shaped text backbone, BF16, transformers' classes, SDPA, no head",
        "card": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "delta_rule": None,
        "remedy": os.environ[TRIED],
        "layers": layers,
        "scaled_by": ALL_LAYERS / layers,
        "times": [],
    }
    with torch.no_grad():
        model = backbone(layers)
        result["model"] = model
        torch.cuda.synchronize()
        result["build_s"] = time.perf_counter() - began
        result["allocated_gib"] = torch.cuda.memory_allocated() / 2**30
        print(f"{layers} layers in {result['build_s']:.1f} s, {result['allocated_gib']:.1f} GiB", flush=True)
        measure(args, result, calls, began)


if __name__ == "__main__":
    main()
