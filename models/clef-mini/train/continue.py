"""Trained weights (model.safetensors, joint_head.safetensors of a release folder) as start.safetensors, to train on. python continue.py RELEASE"""
import sys
from safetensors.torch import load_file, save_file
x = load_file(sys.argv[1] + "/model.safetensors"); x.update({"head." + k: v for k, v in load_file(sys.argv[1] + "/joint_head.safetensors").items()})
save_file(x, "start.safetensors"); print(len(x))
