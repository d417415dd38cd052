"""the packed training forward == the reference modules (random weights, float32, CPU); prints the largest difference of a logit, which must stay below 1e-4"""
import random
import numpy as np, torch, jsm, gen, gen2, setup
from batch import Packer, Shape
from common import HEAD, Tok, build
import net
torch.manual_seed(0); setup.load("data.json.xz", "teacher.npz"); gen.R.seed(5)
tok = Tok("tok/tokenizer.json"); cfg, m = build(tok.t.token_to_id); m = m.eval().float(); m.set_attn_implementation("eager")
torch.backends.mha.set_fastpath_enabled(False)
head = jsm.JointSchemaHead(**HEAD).eval()
with torch.no_grad():
    for n, p in m.named_parameters():
        if p.ndim >= 2 and "embed" not in n and "lm_head" not in n: p.normal_(0, 1 / p[0].numel() ** .5)
        elif p.ndim == 1 and "norm" in n: p.add_(torch.randn_like(p) * .1)
        elif "embed" in n or "lm_head" in n: p.normal_(0, .5)
    for p in head.parameters(): p.add_(torch.randn_like(p) * .02) if p.ndim else p.add_(.5)
sh = Shape(B=6, L=512, NI=5); pk = Packer(tok, sh, gen2.DOMAINS)
recs = [gen2.make(random.Random(i).choice([gen2.d_pic, gen.d_image]) if i % 4 == 0 else None) for i in range(40)]
for i, r in enumerate(recs): r["id"] = str(i)
buf, n, where = pk.pack(iter(recs))
TY = {"i4": torch.int32, "f4": torch.float32, "u1": torch.uint8}; flat = torch.from_numpy(buf)
b = {k: flat[o: o + z].view(TY[t]).view(s) for k, t, s, o, z in sh.fields}
P = {k: v for k, v in m.state_dict().items()}; hp = dict(head.state_dict()); hp["lm_head.weight"] = P["lm_head.weight"]
with torch.no_grad():
    run = net.Net(net.picture_tables()); hid = run.text(P, b, torch.float32); lg, *_ = run.head(hp, hid, b, torch.float32)
mod = jsm.ClefModel(m, head); worst = 0; spread = []; pics = 0
for row, c, rec, nq, no in where:
    ids, qs, pos, img, st = pk.encode(rec)
    e = jsm.EncodedRecord(tuple(ids), tuple(jsm.EncodedQuestion(qi, ty, sp, osp, tuple(map(str, range(len(osp))))) for sp, osp, ty, qi in qs), rec["id"], None)
    bt = jsm.collate_records([e], pk.pad, torch.device("cpu"))
    if img is not None:
        pics += 1; mm = torch.zeros(1, len(ids), dtype=torch.long); mm[0, img[2]: img[2] + img[3]] = 1
        px = np.repeat(img[0].reshape(-1, 3, 1, 256), 2, 2).reshape(len(img[0]), 1536)
        bt["media"] = {"pixel_values": (torch.from_numpy(px).float() / 255 - .5) / .5, "image_grid_thw": torch.tensor([[1, *img[1]]]), "mm_token_type_ids": mm}
    with torch.no_grad(): out = mod(bt)[0]
    for o in out:
        x = lg[row, no: no + len(o)]; worst = max(worst, float((o - x).abs().max())); spread.append(float(o.std())); no += len(o)
print("records", n, "with pictures", pics, "max |logit difference|", worst, "mean spread of logits in a question", np.nanmean(spread))
assert worst < 1e-4
