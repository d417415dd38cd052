"""The evaluation set as batches of the training forward: only ever scored, after or between training steps, never trained on; its images need no resizing."""
import json
import numpy as np
from batch import Packer


def records(folder):
    """records of eval.jsonl with pictures as arrays and the expected answers as targets in encoder order"""
    from PIL import Image
    o = []
    for line in open(folder + "/eval.jsonl", encoding="utf-8"):
        r = json.loads(line); f = r.get("image_files"); assert len(f or []) < 2
        x = {"id": r["id"], "kind": r["domain"], "state": r["state"], "questions": r["questions"], "targets": {}, "image": np.asarray(Image.open(folder + "/eval_images/" + f[0]).convert("RGB")) if f else None}
        for k, q in r["questions"].items():
            names = {"noul": ["true", "false"], "choice": sorted(q.get("criteria") or []), "score": [str(i) for i in range(len(q.get("criteria") or []))]}[q["type"]]
            x["targets"][k] = [float(n == r["expected"][k]) for n in names]; assert sum(x["targets"][k]) == 1
        o.append(x)
    return o


def batches(folder, tok, shape):
    """[(byte buffer, where)], one record a row; where as Packer.collate gives it"""
    pk = Packer(tok, shape, []); rs = [(r, pk.encode(r)) for r in records(folder)]; o = []
    while rs:
        take, ni = [], 0
        for x in rs:
            if len(take) == shape.B or (x[0]["image"] is not None and ni == shape.NI): break
            assert len(x[1][0]) < shape.L and len(x[1][1]) <= shape.Qb and sum(len(q[1]) for q in x[1][1]) <= shape.Ob, x[0]["id"]
            take.append(x); ni += x[0]["image"] is not None
        rs = rs[len(take):]; buf, _, where = pk.collate([[x] for x in take] + [[] for _ in range(shape.B - len(take))]); o.append((buf, where))
    return o


def score(results):
    """results: [(logits [B, Ob], where)] -> (one line of figures, list of misses)"""
    from collections import defaultdict
    st = defaultdict(lambda: [0, 0, 0.]); miss = []
    for lg, where in results:
        for row, _, r, _, no in where:
            for k, q in r["questions"].items():
                t = r["targets"][k]; l = lg[row][no: no + len(t)]; no += len(t); g, w = int(np.argmax(l)), int(np.argmax(t)); d = "pictures" if r["kind"] == "picture" else "text+JSON"
                for z in ("all", d, r["kind"], q["type"]):
                    if z != "pictures" or d == z: s = st[z]; s[0] += g == w; s[1] += 1; s[2] += 1 / len(t)
                if g != w: p = np.exp(l - np.max(l)); miss.append((r["id"], k, q["type"], q.get("instructions"), "said", g, "right", w, [round(float(x), 2) for x in p / p.sum()]))
    return " | ".join("%s %d/%d %.1f%% (chance %.1f)" % (k, c, n, 100 * c / n, 100 * h / n) for k, (c, n, h) in st.items() if k != "picture"), miss
