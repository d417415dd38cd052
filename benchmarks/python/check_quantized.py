"""Reads a checkpoint that `dikast quantize` wrote with other people's readers, and compares it with its source.

pip install numpy safetensors ml_dtypes && python check_quantized.py SOURCE_DIR QUANTIZED_DIR

* safetensors opens every file (its own reader checks header, offsets and sizes);
* FP8: config.json has what compressed-tensors readers look for (quant_method, format, strategies), every matrix of
  F8_E4M3 has a BF16 weight_scale [rows, 1], and codes times scales are the source's numbers up to half a step;
* INT8: MODULE.comfy_quant is the ComfyUI marker, weight_scale is F32 [rows, 1], and codes times scales, rotated back by the
  regular Hadamard matrix written out here, are the source's numbers up to half a step.

Calibrated checkpoints (other codes on purpose) are compared loosely: --loose prints the error without a bound.
"""

import json
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
from safetensors import safe_open

TYPES = {"BF16": ml_dtypes.bfloat16, "F8_E4M3": ml_dtypes.float8_e4m3fn, "F32": np.float32, "F16": np.float16, "I8": np.int8, "U8": np.uint8}


def tensors(folder):
    """Every tensor of a folder: (type, shape, values). Header and bytes are read here too, as NumPy lacks two of the types."""
    found = {}
    for path in sorted(Path(folder).glob("*.safetensors")):
        with safe_open(path, framework="np") as f:
            names = set(f.keys())
        data = path.read_bytes()
        size = int.from_bytes(data[:8], "little")
        header = json.loads(data[8 : 8 + size])
        header.pop("__metadata__", None)
        assert names == set(header), path
        for name, about in header.items():
            start, end = (8 + size + o for o in about["data_offsets"])
            values = np.frombuffer(data[start:end], TYPES[about["dtype"]]).reshape(about["shape"])
            found[name if path.stem != "joint_head" else f"joint_head.{name}"] = (about["dtype"], values)
    return found


def hadamard(size):
    h4 = np.array([[1, 1, 1, -1], [1, 1, -1, 1], [1, -1, 1, 1], [-1, 1, 1, 1]], float)
    h = np.ones((1, 1))
    while len(h) < size:
        h = np.kron(h, h4)
    return h / np.sqrt(size)


def main(source, quantized, loose):
    before, after = tensors(source), tensors(quantized)
    config = json.loads((Path(quantized) / "config.json").read_text())
    worst, matrices, kept = 0.0, 0, 0
    for name, (kind, values) in before.items():
        new_kind, codes = after[name]
        if new_kind not in ("I8", "F8_E4M3"):
            assert loose or (new_kind == kind and codes.tobytes() == values.tobytes()), name
            kept += 1
            continue
        module = name.removesuffix(".weight")
        scale_kind, scale = after[f"{module}.weight_scale"]
        assert scale.shape == (values.shape[0], 1) and (scale.astype(float) > 0).all(), name
        w, s = values.astype(np.float64), scale.astype(np.float64)
        found = codes.astype(np.float64) * s
        if new_kind == "F8_E4M3":
            assert scale_kind == "BF16", name
            # Half a step: 1/16 of the value, or half of the smallest step; a little for the quotient rounded to BF16.
            bound = np.maximum(np.abs(w) / 16, s * 2.0**-10) * (1 + 2.0**-6) + np.abs(w) * 2.0**-8
        else:
            assert scale_kind == "F32", name
            marker = json.loads(bytes(after[f"{module}.comfy_quant"][1]))
            assert marker["format"] == "int8_tensorwise", marker
            if marker.get("convrot"):
                g = marker["convrot_groupsize"]
                r = hadamard(g)
                turn = lambda m: (m.reshape(len(m), -1, g) @ r).reshape(m.shape)
                w = turn(w)
                # Once there and back: the rotation is its own inverse.
                assert np.allclose(turn(w), values.astype(np.float64), atol=1e-6), name
            bound = 0.5 * s * (1 + 1e-4) + 1e-7
        error = np.abs(found - w)
        assert loose or (error <= bound).all(), (name, (error / bound).max())
        worst = max(worst, np.linalg.norm(found - w) / np.linalg.norm(w))
        matrices += 1
    assert matrices, "nothing is quantized"
    if any(k == "F8_E4M3" for k, _ in after.values()):
        q = config["quantization_config"]
        group = q["config_groups"]["group_0"]
        assert (q["quant_method"], q["format"], group["targets"]) == ("compressed-tensors", "float-quantized", ["Linear"])
        for part, strategy, dynamic in [("weights", "channel", False), ("input_activations", "token", True)]:
            p = group[part]
            assert (p["num_bits"], p["type"], p["strategy"], p["dynamic"], p["symmetric"]) == (8, "float", strategy, dynamic, True), part
        for module in q["ignore"]:
            assert after[f"{module}.weight"][0] != "F8_E4M3", module
    print(f"{matrices} matrices of codes, {kept} tensors as they were; largest relative error of a matrix {worst:.5f}")


if __name__ == "__main__":
    folders = [a for a in sys.argv[1:] if not a.startswith("--")]
    main(*folders, loose="--loose" in sys.argv)
