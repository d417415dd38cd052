"""Cut the 24,576-entry tokenizer and its starting vectors to the first VOCAB entries (byte-pair merges are ordered, so the cut is itself a byte-pair tokenizer).

python cut_vocab.py --tok tok24 --emb tokemb24.npz --out tok --emb-out tokemb.npz
"""
import argparse, json
from pathlib import Path
import numpy as np
from common import VOCAB
ap = argparse.ArgumentParser()
for x in ("--tok", "--emb", "--out", "--emb-out"): ap.add_argument(x, required=True)
a = ap.parse_args()
t = json.load(open(a.tok + "/tokenizer.json", encoding="utf-8"))
added = t["added_tokens"]; n = VOCAB - len(added); old = len(t["model"]["vocab"])
t["model"]["vocab"] = {k: i for k, i in t["model"]["vocab"].items() if i < n}
have = t["model"]["vocab"]
pair = lambda m: m if isinstance(m, list) else m.split(" ")
t["model"]["merges"] = [m for m in t["model"]["merges"] if "".join(pair(m)) in have]
for x in added: x["id"] += n - old
Path(a.out).mkdir(exist_ok=True)
(Path(a.out) / "tokenizer.json").write_text(json.dumps(t, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
(Path(a.out) / "tokenizer_config.json").write_text(Path(a.tok, "tokenizer_config.json").read_text())
z = np.load(a.emb)
idx = np.concatenate([z["idx"][:n], np.full(len(added), -1, z["idx"].dtype)])
use = np.unique(idx[idx >= 0]); new = np.full(len(z["A"]), -1, np.int64); new[use] = np.arange(len(use))
np.savez(a.emb_out, A=z["A"][use], B=z["B"][use], script=z["script"][use], idx=np.where(idx >= 0, new[idx], -1))
print(n, "entries and", len(added), "added;", len(t["model"]["merges"]), "merges;", len(use), "vectors")
