"""Position tables of the vision tower for every picture size used in training (grids.npz), from the reference code."""
import numpy as np, torch
from batch import GRIDS, P
from common import build
from transformers.vision_utils import get_vision_interpolation_indices_and_weights as interp, get_vision_position_ids as vpos
_, m = build(lambda t: 0); v = m.model.visual; N = len(GRIDS); hd = v.config.hidden_size // v.config.num_heads
o = {"idx": np.zeros((N, P, 4), np.int32), "wt": np.zeros((N, P, 4), np.float32), "cos": np.zeros((N, P, hd), np.float32), "sin": np.zeros((N, P, hd), np.float32), "mask": np.full((N, P), -3e4, np.float32)}
for i, (h, w) in enumerate(GRIDS):
    g = torch.tensor([[1, h, w]]); n = h * w
    ii, ww = interp(g, num_grid_per_side=v.num_grid_per_side, mode="bilinear", align_corners=True, spatial_merge_size=2, kwargs={})
    c, s = v.rotary_pos_emb(torch.zeros(n, 1), vpos(g, 2, kwargs={}))
    o["idx"][i, :n], o["wt"][i, :n], o["cos"][i, :n], o["sin"][i, :n], o["mask"][i, :n] = ii, ww, c.float(), s.float(), 0
np.savez_compressed("grids.npz", **o); print({k: x.shape for k, x in o.items()})
