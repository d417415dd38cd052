"""The reference package's side of compare.py.

    python reference.py first MODEL REQUESTS     loads, prints the answer to the first request, ends
    python reference.py serve MODEL REQUESTS     loads, then measures one pass for each line of standard input

Requests are JSONL with `text`, `labels` and `expected`. The settings are those of a caller who follows the package's
README: one label is right, no gradients, no progress bar. DTYPE=float32 widens the weights first; DTYPE=bfloat16, the
default, computes in the type in which the model is stored. THREADS sets the threads.
"""

import contextlib
import json
import os
import resource
import sys
import time


def load(model):
    import torch
    from gliclass import GLiClassModel, ZeroShotClassificationPipeline
    from transformers import AutoTokenizer

    torch.set_num_threads(int(os.environ.get("THREADS", "2")))
    network = GLiClassModel.from_pretrained(model)
    network = network.to(getattr(torch, os.environ.get("DTYPE", "bfloat16")))
    tokenizer = AutoTokenizer.from_pretrained(model)
    return ZeroShotClassificationPipeline(
        network, tokenizer, classification_type="single-label", device="cpu", progress_bar=False
    )


def one(pipeline, request):
    return pipeline(request["text"], request["labels"])[0][0]["label"]


def main(mode, model, requests):
    with open(requests, encoding="utf-8") as file:
        requests = [json.loads(line) for line in file]
    # The package prints a load report; standard output is for the answers.
    with contextlib.redirect_stdout(sys.stderr):
        started = time.perf_counter()
        pipeline = load(model)
        loaded = time.perf_counter() - started
    if mode == "first":
        print(one(pipeline, requests[0]), flush=True)
        return

    texts, labels = [r["text"] for r in requests], [r["labels"] for r in requests]
    for request in requests[:10]:
        one(pipeline, request)
    pipeline(texts[:32], labels[:32], batch_size=32)
    print(json.dumps({"load_s": loaded}), flush=True)
    for _ in sys.stdin:
        single, right = [], 0
        for request in requests:
            start = time.perf_counter()
            answer = one(pipeline, request)
            single.append((time.perf_counter() - start) * 1e3)
            right += answer == request["expected"]
        start = time.perf_counter()
        pipeline(texts, labels, batch_size=32)
        batched = time.perf_counter() - start
        # Kibibytes on Linux.
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        print(json.dumps({"single_ms": single, "batch_s": batched, "right": right, "peak_rss": peak}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
