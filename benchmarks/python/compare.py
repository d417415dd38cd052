"""Dikast and the reference package side by side, on one machine, in turns.

    python compare.py --dikast target/release/dikast --python VENV/bin/python --out compare.json

Each round gives every side one pass over the same requests, one at a time and 32 at a time, so that whatever else the
machine does falls on all of them. A side's figure is the median over the rounds of its median in a round. The model
is the one compiled into dikast; the package reads the same files.
"""

import argparse
import datetime
import json
import os
import pathlib
import statistics
import subprocess
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
MODEL = HERE.parent.parent / "models" / "gliclass-mini"
DTYPES = ["bfloat16", "float32"]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dikast", required=True, type=pathlib.Path)
    parser.add_argument("--python", required=True, type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--starts", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--note", default="", help="what else to say of the machine")
    parser.add_argument("--out", required=True, type=pathlib.Path)
    return parser.parse_args()


class Sides:
    def __init__(self, args):
        self.args = args
        self.requests = MODEL / "eval.jsonl"
        self.env = dict(
            os.environ,
            THREADS=str(args.threads),
            RAYON_NUM_THREADS=str(args.threads),
            OMP_NUM_THREADS=str(args.threads),
            HF_HUB_OFFLINE="1",
            PYTHONWARNINGS="ignore",
        )
        self.first = json.loads(self.requests.read_text(encoding="utf-8").splitlines()[0])

    def reference(self, mode, dtype="bfloat16"):
        command = [self.args.python, HERE / "reference.py", mode, MODEL, self.requests]
        return subprocess.Popen(
            command,
            env=dict(self.env, DTYPE=dtype),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def start_dikast(self):
        labels = ",".join(self.first["labels"])
        command = [self.args.dikast, "classify", "--text", self.first["text"], "--labels", labels, "--format", "jsonl"]
        return subprocess.Popen(command, env=self.env, stdout=subprocess.PIPE, text=True)

    def dikast(self):
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder, "out.json")
            subprocess.run(
                [self.args.dikast, "bench", "--requests", self.requests, "--batch", "1,32", "--runs", "1", "--json", out],
                env=self.env,
                stdout=subprocess.DEVNULL,
                check=True,
            )
            return json.loads(out.read_text())


def first_answer(start):
    """Seconds from the start of a process to its first line."""
    began = time.perf_counter()
    process = start()
    line = process.stdout.readline()
    seconds = time.perf_counter() - began
    process.communicate()
    assert line and process.returncode == 0, "no answer"
    return seconds


def file_bytes(paths):
    return sum(path.stat().st_size for path in paths if path.is_file() and not path.is_symlink())


def installed(python):
    """Bytes of the environment's packages, and of those that a machine without a GPU can use."""
    code = "import sysconfig; print(sysconfig.get_paths()['purelib'])"
    packages = pathlib.Path(subprocess.run([python, "-c", code], capture_output=True, text=True).stdout.strip())
    skipped = ("pip", "setuptools", "pkg_resources", "_distutils_hack")
    files = [p for p in packages.rglob("*") if not p.relative_to(packages).parts[0].startswith(skipped)]
    files = [p for p in files if p.suffix != ".pyc"]
    cuda = ("cuda", "nvshmem", "cublas", "cudnn", "nccl", "cusparse", "cufft", "nvrtc", "cusolver", "cupti", "cufile")
    lean = [p for p in files if p.parent.name != "lib" or not any(name in p.name for name in cuda)]
    return file_bytes(files), file_bytes(lean)


def spread(values):
    return {"median": statistics.median(values), "min": min(values), "max": max(values), "rounds": len(values)}


def main():
    args = arguments()
    sides = Sides(args)
    starts = {"dikast": [], "reference": []}
    for _ in range(args.starts):
        starts["dikast"].append(first_answer(sides.start_dikast))
        starts["reference"].append(first_answer(lambda: sides.reference("first")))

    workers = {dtype: sides.reference("serve", dtype) for dtype in DTYPES}
    for worker in workers.values():
        json.loads(worker.stdout.readline())
    names = ["dikast", *(f"reference-{dtype}" for dtype in DTYPES)]
    single, batched, peak, right = ({name: [] for name in names} for _ in range(4))
    for _ in range(args.rounds):
        report = sides.dikast()
        one, many = report["requests"]
        single["dikast"].append(one["call"]["median_ms"])
        batched["dikast"].append(many["requests_per_second"])
        peak["dikast"].append(report["peak_rss_bytes"])
        for dtype, worker in workers.items():
            worker.stdin.write("\n")
            worker.stdin.flush()
            measured = json.loads(worker.stdout.readline())
            name = f"reference-{dtype}"
            single[name].append(statistics.median(measured["single_ms"]))
            batched[name].append(len(measured["single_ms"]) / measured["batch_s"])
            peak[name].append(measured["peak_rss"])
            right[name].append(measured["right"])
    for worker in workers.values():
        worker.communicate()

    all_bytes, lean_bytes = installed(args.python)
    packages = ["gliclass", "transformers", "tokenizers", "torch", "numpy"]
    code = f"import platform, importlib.metadata as m; print(platform.python_version(), *map(m.version, {packages}))"
    versions = subprocess.run([args.python, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    result = {
        "schema": 1,
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "note": args.note,
        "machine": report["machine"],
        "dikast": report["dikast"],
        "python": dict(zip(["python", *packages], versions)),
        "threads": args.threads,
        "requests": one["requests"],
        "tokens": one["tokens"],
        "first_answer_s": {name: spread(values) for name, values in starts.items()},
        "request_ms": {name: spread(values) for name, values in single.items()},
        "batch32_requests_per_second": {name: spread(values) for name, values in batched.items()},
        "peak_rss_bytes": {name: max(values) for name, values in peak.items()},
        "right_answers": {name: values[0] for name, values in right.items() if values},
        "installed_bytes": {
            "dikast": args.dikast.stat().st_size,
            "reference": all_bytes + file_bytes(MODEL / n for n in ("config.json", "model.safetensors", "tokenizer.json")),
            "reference_without_cuda": lean_bytes,
        },
    }
    result["ratios"] = ratios(result)
    args.out.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))


def ratios(result):
    """How many times better dikast is; above 1 is better for it."""
    medians = {
        key: {name: value["median"] for name, value in result[key].items()}
        for key in ("first_answer_s", "request_ms", "batch32_requests_per_second")
    }
    rounded = lambda value: round(value, 2)
    others = [f"reference-{dtype}" for dtype in DTYPES]
    request, batch, peak = medians["request_ms"], medians["batch32_requests_per_second"], result["peak_rss_bytes"]
    size = result["installed_bytes"]
    return {
        "first_answer": rounded(medians["first_answer_s"]["reference"] / medians["first_answer_s"]["dikast"]),
        "request": {name: rounded(request[name] / request["dikast"]) for name in others},
        "batch32": {name: rounded(batch["dikast"] / batch[name]) for name in others},
        "peak_rss": {name: rounded(peak[name] / peak["dikast"]) for name in others},
        "installed": rounded(size["reference"] / size["dikast"]),
        "installed_without_cuda": rounded(size["reference_without_cuda"] / size["dikast"]),
    }


if __name__ == "__main__":
    main()
