"""PyTorch beside CLEF on the CUDA backend: the 27B's text backbone in BF16 by transformers' own classes.

    PYTHONPATH=FLA python3 benchmarks/cuda/torch_clef.py --out torch_clef.json [--layers 8] [--tokens 298 1502 2270]

Random weights, scaled_dot_product_attention, no cache, no head, no vision tower; times from token ids on the device to the
last hidden state, device synchronized, eagerly and as one CUDA graph. With flash-linear-attention on the path (wheels
`flash-linear-attention` and `fla-core`, unpacked) its kernels do the delta rule, else transformers' PyTorch code does; the
result says which. Fewer than 64 layers are three Gated DeltaNet layers and one of full attention in turn, and the time of 64 is
scaled from them (`scaled_ms`): embedding and last norm, which do not grow, are less than a percent of it.
"""

import argparse
import json
import statistics
import time

import torch
import transformers

ALL_LAYERS = 64


def backbone(layers):
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


def delta_rule():
    try:
        import fla

        return f"flash-linear-attention {getattr(fla, '__version__', '?')}"
    except Exception as error:  # whatever is missing, it is not there
        return f"PyTorch code of transformers ({type(error).__name__}: {str(error)[:80]})"


def graph_of(work):
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
    times = []
    for _ in range(repeats + 3):
        start = time.perf_counter()
        work()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - start) * 1e3)
    times = sorted(times[3:])
    return {"median_ms": statistics.median(times), "p99_ms": times[len(times) * 99 // 100], "runs": repeats}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True)
    parser.add_argument("--layers", type=int, default=8, help="of 64; a multiple of four")
    parser.add_argument("--tokens", type=int, nargs="+", default=[298, 1502, 2270])
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=60, help="no new measurement begins after these")
    args = parser.parse_args()
    began = time.perf_counter()
    factor = ALL_LAYERS / args.layers
    result = {
        "what": "Qwen3.5-27B-shaped text backbone, BF16, transformers' classes, SDPA, no head",
        "card": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "delta_rule": delta_rule(),
        "layers": args.layers,
        "scaled_by": factor,
        "times": [],
    }
    with torch.no_grad():
        model = backbone(args.layers)
        result["build_s"] = time.perf_counter() - began
        result["allocated_gib"] = torch.cuda.memory_allocated() / 2**30
        print(f"{args.layers} layers in {result['build_s']:.1f} s, {result['delta_rule']}", flush=True)
        for tokens in args.tokens:
            for kind in ("CUDA graph", "eager"):
                if time.perf_counter() - began > args.seconds:
                    print(f"{kind} {tokens}: out of time", flush=True)
                    continue
                ids = torch.randint(2, 4000, (1, tokens), device="cuda")
                torch.cuda.reset_peak_memory_stats()

                def work(ids=ids):
                    return model(input_ids=ids, use_cache=False).last_hidden_state

                try:
                    if kind == "eager":
                        found = host_ms(work, max(3, args.repeats // 4))
                    else:
                        graph = graph_of(work)
                        found = host_ms(graph.replay, args.repeats)
                        del graph
                except Exception as error:  # a peer that does not run is no peer
                    print(f"{kind} {tokens}: {type(error).__name__}: {str(error)[:300]}", flush=True)
                    result["times"].append({"what": kind, "tokens": tokens, "failed": f"{type(error).__name__}: {str(error)[:300]}"})
                    continue
                found |= {
                    "what": kind,
                    "tokens": tokens,
                    "scaled_ms": found["median_ms"] * factor,
                    "peak_gib": torch.cuda.max_memory_allocated() / 2**30,
                }
                result["times"].append(found)
                print(
                    f"BF16 backbone, {kind}, {tokens} tokens: {found['median_ms']:.2f} ms for {args.layers} layers, "
                    f"{found['scaled_ms']:.1f} ms scaled to {ALL_LAYERS}",
                    flush=True,
                )
            with open(args.out, "w", encoding="utf-8") as out:
                json.dump(result, out, indent=1)


if __name__ == "__main__":
    main()
