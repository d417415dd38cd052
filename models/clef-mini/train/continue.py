"""A release folder (BF16, or INT8 ConvRot as shipped) as start.safetensors, to train on. python continue.py RELEASE

INT8 matrices are codes * scale of a row, in a basis that groups of 256 inputs were rotated into; the rotation is its own inverse.
"""
import sys
import torch
from safetensors.torch import load_file, save_file

H4 = .5 * torch.tensor([[1., 1, 1, -1], [1, 1, -1, 1], [1, -1, 1, 1], [-1, 1, 1, 1]])
ROT = H4
for _ in range(3): ROT = torch.kron(ROT, H4)
x = load_file(sys.argv[1] + "/model.safetensors"); codes = 0
for n in [n for n in x if n.endswith(".weight_scale")]:
    w = x[n[:-6]].float() * x.pop(n)
    x[n[:-6]] = (w.view(len(w), -1, 256) @ ROT).reshape(w.shape).to(torch.bfloat16); codes += 1
x = {k: v for k, v in x.items() if not k.endswith(".comfy_quant")}
x.update({"head." + k: v for k, v in load_file(sys.argv[1] + "/joint_head.safetensors").items()})
assert all(v.dtype == torch.bfloat16 for v in x.values())
save_file(x, "start.safetensors"); print(len(x), "tensors,", codes, "of them from INT8")
