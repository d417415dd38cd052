"""Teacher scores for a subset of the texts and all labels, on the CPU, stored small.

Writes data.json.xz again with only the chosen texts, and teacher.npz: the teacher's vectors in 128 principal directions as int8 with a scale a row, and what
the topic records need (mean and spread of a text's scores, how often a label wins, the best 32 labels of every text).
python embed.py --data data-all.json.xz --out .
"""
import argparse, json, lzma, random, time
import numpy as np, torch, torch.nn.functional as F
from tokenizers import Tokenizer
from teachers import Bert

ap = argparse.ArgumentParser(); ap.add_argument("--data", required=True); ap.add_argument("--out", default="."); ap.add_argument("--en", type=int, default=38000); ap.add_argument("--other", type=int, default=14000)
a = ap.parse_args(); torch.set_num_threads(2)
D = json.load(lzma.open(a.data, "rt")); rr = random.Random(21)
T = [t for t in D["T"] if 10 < len(t["t"]) < 200 and len(t["e"] or "") < 200]
en = [t for t in T if t["l"] == "en"]; xx = [t for t in T if t["l"] != "en"]
T = rr.sample(en, min(a.en, len(en))) + rr.sample(xx, min(a.other, len(xx))); rr.shuffle(T); L = D["L"]


def deq(q, d):
    q = torch.from_numpy(q); return (torch.cat([q & 15, q >> 4], 1).float() - 8) * torch.from_numpy(d.astype(np.float32))[:, None]


z = np.load("minilm.npz"); sd = {}
for k in z.files:
    if k.startswith("q."): sd[k[2:]] = deq(z[k], z["d." + k[2:]]).view(*z["s." + k[2:]].tolist())
    elif k.startswith("h."): sd[k[2:]] = torch.from_numpy(z[k].astype(np.float32))
te = Bert(sd["word.weight"].shape[0], 384, 6, 12, 1536, 512, 1e-12); te.load_state_dict(sd); te.eval()
mt = Tokenizer.from_file("minilm-tokenizer.json"); mt.no_padding(); mt.no_truncation()


@torch.no_grad()
def embed(xs):
    ids = [e.ids[:48] for e in mt.encode_batch(xs, add_special_tokens=False)]; n = np.array([len(i) for i in ids])
    order = np.argsort(n, kind="stable"); out = torch.zeros(len(xs), 384); t0 = time.time()
    for i in range(0, len(order), 128):
        o = order[i: i + 128]; m = int(n[o].max()) + 2; x = np.zeros((len(o), m), np.int64); mk = np.zeros((len(o), m), np.int64)
        for r, s in enumerate(o): x[r, 0] = 101; x[r, 1: n[s] + 1] = ids[s]; x[r, n[s] + 1] = 102; mk[r, : n[s] + 2] = 1
        out[torch.from_numpy(o)] = te(torch.from_numpy(x), torch.from_numpy(mk)).float()
    print(len(xs), "in", time.time() - t0, flush=True)
    return out


el = embed([l[1] for l in L]); et = embed([t["e"] or t["t"] for t in T])
et, el = F.normalize(et - .7 * et.mean(0), dim=-1), F.normalize(el - .7 * el.mean(0), dim=-1)
P = torch.linalg.eigh(et.T @ et / len(et) + el.T @ el / len(el))[1].flip(1)[:, :128]


def pack(x):
    x = F.normalize(x @ P, dim=-1); s = x.abs().amax(1, keepdim=True) / 127
    return torch.round(x / s).to(torch.int8), s[:, 0]


(qt, st), (ql, sl) = pack(et), pack(el); et, el = qt.float() * st[:, None], ql.float() * sl[:, None]
mu, sdv, top = torch.empty(len(T)), torch.empty(len(T)), torch.empty(len(T), 32, dtype=torch.int16); rl = torch.randperm(len(L))[:3000]
for i in range(0, len(T), 2000):
    s = et[i: i + 2000] @ el[rl].T; mu[i: i + 2000] = s.mean(1); sdv[i: i + 2000] = s.std(1).clamp(min=1e-4)
r = torch.randperm(len(T))[:6000]; hub = ((et[r] @ el.T - mu[r, None]) / sdv[r, None]).mean(0)
for i in range(0, len(T), 2000): top[i: i + 2000] = ((et[i: i + 2000] @ el.T - mu[i: i + 2000, None]) / sdv[i: i + 2000, None] - .8 * hub).topk(32, 1).indices.to(torch.int16)
np.savez(a.out + "/teacher.npz", qt=qt, st=st.half(), ql=ql, sl=sl.half(), mu=mu.half(), sd=sdv.half(), hub=hub.half(), top=top)
D["T"] = T
with lzma.open(a.out + "/data.json.xz", "wt", encoding="utf-8", preset=4) as f: json.dump(D, f, ensure_ascii=False, separators=(",", ":"))
for i in (5, 800, 9500, 12000): print(T[i]["t"][:60], "->", [L[j][0] for j in top[i, :5].tolist()])
