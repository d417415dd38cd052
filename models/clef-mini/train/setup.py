"""fill gen.D from data.json.xz, teacher.npz and the own templates"""
import json, lzma, random
import numpy as np
import gen, own


def load(path, teacher=None):
    D = json.load(lzma.open(path, "rt"))
    rr = random.Random(4); o = {}
    for t, l, f, p in own.generate(rr): o.setdefault(f, []).append((t, l, f, p))
    D["own"] = o
    D["ownfams"] = ["topic"] * 4 + ["sentiment"] * 2 + ["support"] * 3 + ["emotion"] * 2 + ["intent"] * 3 + ["urgency", "spam", "spam", "act", "toxicity", "toxicity"]
    D["Ltext"] = [e for _, e in D["L"]]; D["L"] = [x for x, _ in D["L"]]
    gen.D.update(D)
    if teacher:
        z = np.load(teacher); f = lambda k: z["q" + k].astype(np.float16) * z["s" + k][:, None]
        gen.D.update(emb=(f("t"), f("l")), mu=z["mu"].astype(np.float32), sd=z["sd"].astype(np.float32), hub=z["hub"].astype(np.float32), top=z["top"])
    return gen.D
