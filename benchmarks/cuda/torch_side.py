"""PyTorch beside the CUDA backend, on the same card and in the same run: the peers of NOTES.md.

    python3 benchmarks/cuda/torch_side.py --out torch.json [--quick] [--warm]

* The mT5-XL encoder (24 blocks, 2048/5120, 32 heads of 64; random weights, no heads), written here as leanly as PyTorch
  allows (q, k, v and both halves of the gate as one product each, scaled_dot_product_attention): BF16 eager, BF16 compiled
  and captured in a CUDA graph, FP8 with row scales (torch._scaled_mm), compiled and captured too. Times from token ids on
  the device to the last hidden state, device synchronized: median and 99th percentile. Where a compiled encoder cannot be
  captured here, it is timed with the graphs that the compiler makes itself ("reduce-overhead"), and the reason is printed.
  --warm only compiles, so that a later run in the same TORCHINDUCTOR_CACHE_DIR finds the kernels made.
* Its four FP8 products by cuBLASLt (torch._scaled_mm): with one scale a tensor and with row scales; captured graphs over
  weight copies of 256 MB together, so that weights come from memory.
"""

import argparse
import json
import statistics
import time
import traceback

import torch
from torch.nn import functional as F

SHAPES = {"qkv": (6144, 2048), "o": (2048, 2048), "wi": (10240, 2048), "wo": (2048, 5120)}
E4M3 = torch.float8_e4m3fn


def graph_of(work):
    """`work` captured after a few runs to warm up."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream), torch.no_grad():
        for _ in range(3):
            work()
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    # Threads of the compiler may talk to the device meanwhile.
    with torch.no_grad(), torch.cuda.graph(graph, capture_error_mode="thread_local"):
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


class Real(torch.nn.Module):
    """A BF16 product."""

    def __init__(self, n, k):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(n, k) / k**0.5, requires_grad=False)

    def forward(self, x):
        return F.linear(x, self.weight)


class Fp8(torch.nn.Module):
    """Row-wise dynamic FP8: quantizer of the compiler's, product of the library's."""

    def __init__(self, n, k):
        super().__init__()
        weight = torch.randn(n, k, dtype=torch.float32) / k**0.5
        scale = weight.abs().amax(1, keepdim=True) / 448
        self.register_buffer("weight", (weight / scale).to(E4M3))
        self.register_buffer("scale", scale.t().contiguous())

    def forward(self, x):
        flat = x.reshape(-1, x.shape[-1]).float()
        scale = flat.abs().amax(1, keepdim=True).clamp(min=1e-12) / 448
        codes = (flat / scale).to(E4M3)
        y = torch._scaled_mm(
            codes, self.weight.t(), scale_a=scale, scale_b=self.scale, out_dtype=torch.bfloat16, use_fast_accum=True
        )
        return y.reshape(*x.shape[:-1], -1)


def normed(x, weight):
    y = x.float()
    return (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * weight


class Block(torch.nn.Module):
    def __init__(self, product, d=2048, ff=5120, heads=32):
        super().__init__()
        self.heads, self.width = heads, d // heads
        self.qkv, self.o = product(3 * d, d), product(d, d)
        self.wi, self.wo = product(2 * ff, d), product(d, ff)
        self.norm1, self.norm2 = (torch.nn.Parameter(torch.ones(d), requires_grad=False) for _ in range(2))

    def forward(self, h, bias):
        count, tokens, d = h.shape
        qkv = self.qkv(normed(h, self.norm1)).view(count, tokens, 3, self.heads, self.width).permute(2, 0, 3, 1, 4)
        context = F.scaled_dot_product_attention(qkv[0], qkv[1], qkv[2], attn_mask=bias, scale=1.0)
        h = h + self.o(context.transpose(1, 2).reshape(count, tokens, d))
        gate, up = self.wi(normed(h, self.norm2)).chunk(2, -1)
        return h + self.wo(F.gelu(gate, approximate="tanh") * up)


class Encoder(torch.nn.Module):
    def __init__(self, product, vocabulary=32768, blocks=24, d=2048, ff=5120, heads=32):
        super().__init__()
        self.table = torch.nn.Parameter(torch.randn(vocabulary, d), requires_grad=False)
        self.relative = torch.nn.Parameter(torch.randn(32, heads), requires_grad=False)
        self.blocks = torch.nn.ModuleList(Block(product, d, ff, heads) for _ in range(blocks))
        self.norm = torch.nn.Parameter(torch.ones(d), requires_grad=False)

    def forward(self, ids, buckets):
        h = self.table[ids]
        bias = self.relative[buckets].permute(2, 0, 1).unsqueeze(0)
        for block in self.blocks:
            h = block(h, bias)
        return normed(h, self.norm)


def buckets_of(tokens, device):
    """T5's buckets of all distances between `tokens` places."""
    distance = torch.arange(tokens)[None, :] - torch.arange(tokens)[:, None]
    base, a = (distance > 0).long() * 16, distance.abs()
    far = 8 + (torch.log(a.clamp(min=1).float() / 8) / torch.log(torch.tensor(16.0)) * 8).long()
    return (base + torch.where(a < 8, a, far.clamp(max=15))).to(device)


def encoder(product):
    torch.manual_seed(0)
    with torch.device("cuda"):
        torch.set_default_dtype(torch.bfloat16)
        model = Encoder(product).eval()
        torch.set_default_dtype(torch.float32)
    return model


def measure(label, sizes, step, results):
    """Whether any size ran."""
    done = False
    for count, tokens in sizes:
        try:
            ids = torch.randint(2, 30000, (count, tokens), device="cuda")
            found = step(ids, buckets_of(tokens, "cuda"))
        except Exception as error:  # a peer that does not run is no peer
            print(f"{label} {count}x{tokens}: {type(error).__name__}: {str(error)[:200]}", flush=True)
            traceback.print_exc()
            continue
        done = True
        found |= {"what": label, "batch": count, "tokens": tokens, "requests_per_second": count / found["median_ms"] * 1e3}
        results.append(found)
        print(f"{label} {count}x{tokens}: {found['median_ms']:.3f} ms (p99 {found['p99_ms']:.3f})", flush=True)
    return done


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True)
    parser.add_argument("--quick", action="store_true", help="fewer sizes and repeats")
    parser.add_argument("--warm", action="store_true", help="compile only")
    args = parser.parse_args()
    torch._dynamo.config.cache_size_limit = 64
    sizes = [(1, 64), (1, 128), (1, 256), (32, 128)]
    result = {
        "card": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "products": [],
        "encoder": [],
    }
    repeats = 30 if args.quick else 100
    if args.warm:
        for product in (Real, Fp8):
            model = encoder(product)
            for block in model.blocks:
                block.compile(dynamic=False, fullgraph=True)

            def once(ids, buckets, model=model):
                with torch.no_grad():
                    model(ids, buckets)
                return {"median_ms": 1.0, "p99_ms": 1.0}

            measure("compiled", sizes, once, [])
        return
    result["products"] = products([64, 256, 4096] if args.quick else [64, 128, 256, 1024, 4096])

    def save():
        with open(args.out, "w", encoding="utf-8") as out:
            json.dump(result, out, indent=1)

    save()
    model = encoder(Real)
    measure(
        "BF16 eager",
        sizes[:1] if args.quick else sizes,
        lambda ids, buckets: host_ms(lambda: model(ids, buckets), 10),
        result["encoder"],
    )
    save()

    measure(
        "BF16 eager, CUDA graph",
        sizes[:3],
        lambda ids, buckets: host_ms(graph_of(lambda: model(ids, buckets)).replay, repeats),
        result["encoder"],
    )
    save()

    def compiled(model):
        """The blocks' compiled forms: one program a size serves all 24."""
        for block in model.blocks:
            block.compile(dynamic=False, fullgraph=True)

    def compiled_graph(ids, buckets):
        return host_ms(graph_of(lambda: model(ids, buckets)).replay, repeats)

    def own_graph(ids, buckets):
        whole = torch.compile(model, mode="reduce-overhead", dynamic=False)
        return host_ms(lambda: whole(ids, buckets), repeats)

    for label, product in (("BF16", Real), ("FP8 rows", Fp8)):
        del model
        model = encoder(product)
        compiled(model)
        measured = measure(f"{label} compiled, CUDA graph", sizes, compiled_graph, result["encoder"])
        save()
        if not measured and product is Real:
            # Uncompiled blocks: the whole is compiled instead.
            model = encoder(product)
            measure(f"{label} compiled, the compiler's own graph", sizes[:3], own_graph, result["encoder"])
            save()


if __name__ == "__main__":
    main()
