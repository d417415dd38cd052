"""PyTorch beside the CUDA backend, on the same card and in the same run: the peers of NOTES.md.

    python3 benchmarks/cuda/torch_side.py --out torch.json [--quick]

* The mT5-XL encoder (24 blocks, 2048/5120, 32 heads of 64; random weights, no heads) as transformers builds it: BF16
  eager, BF16 compiled and captured in a CUDA graph, FP8 with row scales (torch._scaled_mm) in a CUDA graph. Times from
  token ids on the device to the last hidden state, device synchronized: median and 99th percentile.
* Its four FP8 products by cuBLASLt (torch._scaled_mm): with one scale a tensor and with row scales; captured graphs over
  weight copies of 256 MB together, so that weights come from memory.
"""

import argparse
import json
import statistics
import time

import torch
import transformers

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
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph), torch.no_grad():
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


class Fp8Linear(torch.nn.Module):
    """Row-wise dynamic FP8, as a compiled function around the library's product."""

    def __init__(self, linear):
        super().__init__()
        weight = linear.weight.float()
        scale = weight.abs().amax(1, keepdim=True) / 448
        self.register_buffer("weight", (weight / scale).to(E4M3))
        self.register_buffer("scale", scale.t().contiguous())

    def forward(self, x):
        flat = x.reshape(-1, x.shape[-1])
        codes, scale = quantized(flat)
        y = torch._scaled_mm(codes, self.weight.t(), scale_a=scale, scale_b=self.scale, out_dtype=torch.bfloat16, use_fast_accum=True)
        return y.reshape(*x.shape[:-1], -1)


@torch.compile(dynamic=False)
def quantized(x):
    x = x.float()
    scale = x.abs().amax(1, keepdim=True).clamp(min=1e-12) / 448
    return (x / scale).to(E4M3), scale


def encoder(config):
    torch.manual_seed(0)
    with torch.device("cuda"):
        torch.set_default_dtype(torch.bfloat16)
        model = transformers.MT5EncoderModel(config).eval()
        torch.set_default_dtype(torch.float32)
    return model


def measure(label, sizes, step, results):
    for count, tokens in sizes:
        ids = torch.randint(2, 30000, (count, tokens), device="cuda")
        try:
            found = step(ids)
        except Exception as error:  # a peer that does not run is no peer
            print(f"{label} {count}x{tokens}: {type(error).__name__}: {str(error)[:200]}", flush=True)
            continue
        found |= {"what": label, "batch": count, "tokens": tokens, "requests_per_second": count / found["median_ms"] * 1e3}
        results.append(found)
        print(f"{label} {count}x{tokens}: {found['median_ms']:.3f} ms (p99 {found['p99_ms']:.3f})", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True)
    parser.add_argument("--quick", action="store_true", help="fewer sizes and repeats")
    args = parser.parse_args()
    torch._dynamo.config.cache_size_limit = 64
    sizes = [(1, 64), (1, 128), (1, 256), (32, 128)]
    result = {
        "card": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "products": products([64, 256, 4096] if args.quick else [64, 128, 256, 1024, 4096]),
        "encoder": [],
    }
    config = transformers.MT5Config(
        vocab_size=32768, d_model=2048, d_kv=64, d_ff=5120, num_layers=24, num_heads=32, feed_forward_proj="gated-gelu"
    )
    config.tie_word_embeddings = False
    repeats = 30 if args.quick else 100
    model = encoder(config)

    def run(ids):
        return model(input_ids=ids).last_hidden_state

    measure("BF16 eager", sizes[:1] if args.quick else sizes, lambda ids: host_ms(lambda: run(ids), 10), result["encoder"])

    def compiled_graph(ids):
        graph = graph_of(lambda: run(ids))
        return host_ms(graph.replay, repeats)

    # One block is compiled once a size and serves all 24.
    for block in model.encoder.block:
        block.compile(dynamic=False)
    measure("BF16 compiled, CUDA graph", sizes, compiled_graph, result["encoder"])
    torch.compiler.reset()
    del model

    model = encoder(config)
    for block in model.encoder.block:
        for module in list(block.modules()):
            for name, child in list(module.named_children()):
                if isinstance(child, torch.nn.Linear):
                    setattr(module, name, Fp8Linear(child))
    measure("FP8 rows, CUDA graph", sizes, compiled_graph, result["encoder"])
    result["peak_allocated_gib"] = torch.cuda.max_memory_allocated() / 2**30
    with open(args.out, "w", encoding="utf-8") as out:
        json.dump(result, out, indent=1)


if __name__ == "__main__":
    main()
