"""PyTorch beside the CUDA backend, on the same card and in the same run: the peers of NOTES.md.

    python3 benchmarks/cuda/torch_side.py --out torch.json [--quick] [--warm] [--seconds N]

* The mT5-XL encoder (24 blocks, 2048/5120, 32 heads of 64; random weights, no heads), written here as leanly as PyTorch
  allows (q, k, v and both halves of the gate as one product each, scaled_dot_product_attention): BF16 and FP8 with row scales
  (torch._scaled_mm), each eager in a CUDA graph and compiled in a CUDA graph; BF16 eager without one too. One block is
  compiled, as a function of its weights, so that all 24 share one program a size; the graph is that of the whole encoder.
  Times from token ids on the device to the last hidden state, device synchronized: median and 99th percentile.
  --warm only compiles, so that a later run in the same TORCHINDUCTOR_CACHE_DIR finds the programs made.
* Its four FP8 products by cuBLASLt (torch._scaled_mm): with one scale a tensor and with row scales; captured graphs over
  weight copies of 256 MB together, so that weights come from memory.

Every figure is printed and saved as it comes; none begins after --seconds. A peer that does not run is named with its error.
"""

import argparse
import json
import os
import statistics
import time
import traceback

# A block has a handful of kernels: processes that compile beside this one take longer to start than those take to compile.
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
START = time.perf_counter()

import torch  # noqa: E402
from torch.nn import functional as F  # noqa: E402

SHAPES = {"qkv": (6144, 2048), "o": (2048, 2048), "wi": (10240, 2048), "wo": (2048, 5120)}
E4M3 = torch.float8_e4m3fn


def graph_of(work):
    """`work` captured after a few runs to warm up, in one stream, with which compiled programs are then at home."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream), torch.no_grad():
        for _ in range(3):
            work()
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    # Threads of the compiler may talk to the device meanwhile.
    with torch.no_grad(), torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
        work()
    return graph


def device_us(work, repeats=15):
    """Median microseconds between events."""
    times = []
    for i in range(repeats + 3):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        work()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) * 1e3)
    return statistics.median(times[3:])


def host_ms(work, repeats):
    times = []
    with torch.no_grad():
        for _ in range(repeats + 5):
            start = time.perf_counter()
            work()
            torch.cuda.synchronize()
            times.append((time.perf_counter() - start) * 1e3)
    times = sorted(times[5:])
    return {"median_ms": statistics.median(times), "p99_ms": times[len(times) * 99 // 100], "runs": repeats}


def products(sizes):
    results = []
    for name, (n, k) in SHAPES.items():
        copies = max(2, min(32, -(-(256 << 20) // (n * k))))
        weights = [(torch.randn(n, k, device="cuda") * 50).to(E4M3) for _ in range(copies)]
        row = torch.rand(1, n, device="cuda") * 1e-3 + 1e-3
        one = torch.tensor(1e-3, device="cuda")
        for m in sizes:
            x = (torch.randn(m, k, device="cuda") * 50).to(E4M3)
            rows = torch.rand(m, 1, device="cuda") * 1e-3 + 1e-3
            found = {"product": name, "n": n, "k": k, "m": m}
            for kind, scales in {"scalar": (one, one), "row": (rows, row)}.items():

                def work(x=x, scales=scales):
                    for w in weights:
                        torch._scaled_mm(
                            x, w.t(), scale_a=scales[0], scale_b=scales[1], out_dtype=torch.bfloat16, use_fast_accum=True
                        )

                graph = graph_of(work)
                us = device_us(graph.replay) / copies
                found[kind] = {"us": us, "tflops": 2 * n * k * m / us / 1e6}
            results.append(found)
            line = "  ".join(f"{kind} {found[kind]['us']:.1f} us ({found[kind]['tflops']:.0f} T)" for kind in ("scalar", "row"))
            print(f"cuBLASLt {name:3} m={m:4} {line}", flush=True)
    return results


def real_weight(n, k):
    return (torch.randn(n, k, device="cuda", dtype=torch.bfloat16) / k**0.5,)


def real(x, weight):
    """A BF16 product."""
    return F.linear(x, weight)


def fp8_weight(n, k):
    weight = torch.randn(n, k, device="cuda") / k**0.5
    scale = weight.abs().amax(1, keepdim=True) / 448
    return (weight / scale).to(E4M3), scale.t().contiguous()


def fp8(x, weight, weight_scale):
    """Row-wise dynamic FP8: quantizer of the compiler's, product of the library's."""
    flat = x.reshape(-1, x.shape[-1]).float()
    scale = flat.abs().amax(1, keepdim=True).clamp(min=1e-12) / 448
    codes = (flat / scale).to(E4M3)
    y = torch._scaled_mm(
        codes, weight.t(), scale_a=scale, scale_b=weight_scale, out_dtype=torch.bfloat16, use_fast_accum=True
    )
    return y.reshape(*x.shape[:-1], -1)


def normed(x, weight):
    y = x.float()
    return (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * weight


def block_of(product, heads=32):
    """A block as a function of its weights."""

    def block(h, bias, qkv, o, wi, wo, norm1, norm2):
        count, tokens, d = h.shape
        parts = product(normed(h, norm1), *qkv).view(count, tokens, 3, heads, d // heads).permute(2, 0, 3, 1, 4)
        context = F.scaled_dot_product_attention(parts[0], parts[1], parts[2], attn_mask=bias, scale=1.0)
        h = h + product(context.transpose(1, 2).reshape(count, tokens, d), *o)
        gate, up = product(normed(h, norm2), *wi).chunk(2, -1)
        return h + product(F.gelu(gate, approximate="tanh") * up, *wo)

    return block


class Encoder:
    def __init__(self, product, weight, vocabulary=32768, blocks=24, d=2048, ff=5120, heads=32):
        torch.manual_seed(0)
        halves = {"device": "cuda", "dtype": torch.bfloat16}
        self.table = torch.randn(vocabulary, d, **halves)
        self.relative = torch.randn(32, heads, **halves)
        self.norm = torch.ones(d, **halves)
        self.blocks = [
            (weight(3 * d, d), weight(d, d), weight(2 * ff, d), weight(d, ff), torch.ones(d, **halves), torch.ones(d, **halves))
            for _ in range(blocks)
        ]
        self.block = block_of(product, heads)

    def compile(self):
        self.block = torch.compile(self.block, fullgraph=True, dynamic=False)

    def __call__(self, ids, buckets):
        h = self.table[ids]
        bias = self.relative[buckets].permute(2, 0, 1).unsqueeze(0)
        for weights in self.blocks:
            h = self.block(h, bias, *weights)
        return normed(h, self.norm)


def buckets_of(tokens, device):
    """T5's buckets of all distances between `tokens` places."""
    distance = torch.arange(tokens)[None, :] - torch.arange(tokens)[:, None]
    base, a = (distance > 0).long() * 16, distance.abs()
    far = 8 + (torch.log(a.clamp(min=1).float() / 8) / torch.log(torch.tensor(16.0)) * 8).long()
    return (base + torch.where(a < 8, a, far.clamp(max=15))).to(device)


class Figures:
    """What was measured, saved as it comes."""

    def __init__(self, path, seconds):
        self.path, self.seconds = path, seconds
        self.result = {"card": torch.cuda.get_device_name(), "torch": torch.__version__, "products": [], "encoder": []}

    def late(self):
        return self.seconds and time.perf_counter() - START > self.seconds

    def save(self):
        with open(self.path, "w", encoding="utf-8") as out:
            json.dump(self.result, out, indent=1)

    def measure(self, label, sizes, step):
        for count, tokens in sizes:
            at = time.perf_counter() - START
            if self.late():
                print(f"{label} {count}x{tokens}: not run, {at:.0f} s are over", flush=True)
                continue
            try:
                with torch.no_grad():
                    ids = torch.randint(2, 30000, (count, tokens), device="cuda")
                    found = step(ids, buckets_of(tokens, "cuda"))
            except Exception as error:  # a peer that does not run is no peer
                print(f"{label} {count}x{tokens}: {type(error).__name__}: {str(error)[:200]}", flush=True)
                traceback.print_exc()
                continue
            took = time.perf_counter() - START - at
            found |= {"what": label, "batch": count, "tokens": tokens, "requests_per_second": count / found["median_ms"] * 1e3}
            self.result["encoder"].append(found | {"took_s": took})
            self.save()
            print(f"{label} {count}x{tokens}: {found['median_ms']:.3f} ms (p99 {found['p99_ms']:.3f}), took {took:.1f} s", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True)
    parser.add_argument("--quick", action="store_true", help="fewer sizes and repeats")
    parser.add_argument("--warm", action="store_true", help="compile only")
    parser.add_argument("--seconds", type=float, default=0, help="begin no figure later than this")
    args = parser.parse_args()
    # Eight programs of one function: four sizes of two kinds.
    for name in ("recompile_limit", "cache_size_limit"):
        if hasattr(torch._dynamo.config, name):
            setattr(torch._dynamo.config, name, 64)
            break
    print(f"PyTorch {torch.__version__} after {time.perf_counter() - START:.1f} s", flush=True)
    figures = Figures(args.out, args.seconds)
    repeats = 30 if args.quick else 100
    kinds = {"BF16": (real, real_weight), "FP8 rows": (fp8, fp8_weight)}
    single, full = [(1, 64), (1, 128), (1, 256)], [(32, 128)]

    def run(model):
        return lambda ids, buckets: host_ms(lambda: model(ids, buckets), 10)

    def graph(model):
        return lambda ids, buckets: host_ms(graph_of(lambda: model(ids, buckets)).replay, repeats)

    def once(model):
        def step(ids, buckets):
            start = time.perf_counter()
            model(ids, buckets)
            torch.cuda.synchronize()
            ms = (time.perf_counter() - start) * 1e3
            return {"median_ms": ms, "p99_ms": ms}

        return step

    if args.warm:
        for label, kind in kinds.items():
            model = Encoder(*kind)
            model.compile()
            figures.measure(f"{label} compiling", single + full, once(model))
        return
    # What matters most comes first.
    for label, kind in kinds.items():
        try:
            model = Encoder(*kind)
        except Exception:
            traceback.print_exc()
            continue
        figures.measure(f"{label} eager, CUDA graph", single + full, graph(model))
        if label == "BF16":
            figures.measure("BF16 eager", single[:1] if args.quick else single + full, run(model))
        model.compile()
        figures.measure(f"{label} compiled, CUDA graph", single + full, graph(model))
        del model
        torch.cuda.empty_cache()
    for size in [64, 256, 4096] if args.quick else [64, 128, 256, 1024, 4096]:
        if figures.late():
            print("products: not run, no time left", flush=True)
            break
        figures.result["products"] += products([size])
        figures.save()


if __name__ == "__main__":
    main()
