"""Train clef-mini on one GPU (or slowly on a CPU). Worker processes write packed batches as files; the whole step is one captured CUDA graph.

python train.py --out OUT --seconds 330        (needs beside it: data.json.xz, teacher.npz, tok/, idf.npy, grids.npz, start.safetensors, own.py, jsm.py)
"""
import argparse, collections, glob, json, math, os, random, subprocess, sys, threading, time, traceback
os.environ.setdefault("OMP_NUM_THREADS", "1"); os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
HERE = os.path.dirname(os.path.abspath(__file__)); sys.path.insert(0, HERE)
import numpy as np

ap = argparse.ArgumentParser()
ap.add_argument("--out", required=True); ap.add_argument("--data", default=HERE); ap.add_argument("--seconds", type=float, default=330); ap.add_argument("--deadline", type=float, default=0); ap.add_argument("--steps", type=int, default=0)
ap.add_argument("--B", type=int, default=64); ap.add_argument("--L", type=int, default=512); ap.add_argument("--NI", type=int, default=24); ap.add_argument("--workers", type=int, default=14); ap.add_argument("--seed", type=int, default=1)
ap.add_argument("--lr", type=float, default=1.2e-3); ap.add_argument("--body", type=float, default=.8); ap.add_argument("--emb", type=float, default=.15); ap.add_argument("--wd", type=float, default=.05)
ap.add_argument("--warm", type=int, default=150); ap.add_argument("--log", type=int, default=200); ap.add_argument("--st", type=float, default=.3); ap.add_argument("--aux", type=float, default=.3); ap.add_argument("--pic", type=float, default=.4); ap.add_argument("--vis", type=float, default=1.); ap.add_argument("--fresh-vision", action="store_true")
ap.add_argument("--cpu", type=int, default=0); ap.add_argument("--profile", action="store_true"); ap.add_argument("--spool", default="/tmp/clef-spool"); ap.add_argument("--val", type=int, default=10)
ap.add_argument("--eval", default="", help="folder with eval.jsonl: scored at some points and at the end, never trained on and never used to choose"); ap.add_argument("--worker", type=int, default=-2)
a = ap.parse_args(); T0 = time.time()
log = lambda *x: print("%6.1fs" % (time.time() - T0), *x, flush=True)


def shape():
    from batch import Shape
    return Shape(a.B, a.L, NI=a.NI)


def worker(wid):
    """write batches into the spool; worker -1 writes the validation batches (other seed, held-out phrasings) and ends"""
    os.chdir(a.data)
    import gen, gen2, setup
    from batch import Packer
    from common import Tok
    setup.load(a.data + "/data.json.xz", a.data + "/teacher.npz")
    val = wid < 0; gen.R.seed(a.seed * 1000 + wid + 7); np.random.seed((a.seed * 7919 + wid + 7) % 2 ** 31); random.seed(a.seed * 31 + wid); gen2.HELD = val
    pk = Packer(Tok(a.data + "/tok/tokenizer.json"), shape(), gen2.DOMAINS); bad = [0]

    def src():
        while True:
            try: yield gen2.make()
            except Exception as e:
                bad[0] += 1
                if bad[0] < 4: print("generator", wid, repr(e)[:300], flush=True)
    it = src(); n = 0
    while True:
        buf, _, _ = pk.pack(it)
        f = "%s/%s%03d-%07d" % (a.spool, "v" if val else "t", max(0, wid), n); buf.tofile(f + ".tmp"); os.rename(f + ".tmp", f + ".bin"); n += 1
        if val and n == a.val: return
        while not val and len(glob.glob("%s/t%03d-*.bin" % (a.spool, wid))) > 24: time.sleep(.05)


if a.worker >= -1: worker(a.worker); sys.exit()

import torch
import torch.nn.functional as F
dev = torch.device("cpu" if a.cpu else "cuda"); gpu = dev.type == "cuda"; torch.manual_seed(a.seed)
if a.cpu: torch.set_num_threads(a.cpu)
torch.set_float32_matmul_precision("high")
os.makedirs(a.spool, exist_ok=True); os.makedirs(a.out, exist_ok=True)
for f in glob.glob(a.spool + "/*"): os.remove(f)
ws = [subprocess.Popen([sys.executable, os.path.abspath(__file__), "--worker", str(i)] + sys.argv[1:]) for i in range(-1, a.workers)]
import net
import evalset
from batch import COLOURS, COUNTS, FORMS
from common import HID, VOCAB, Tok
from init import CONST, IDF
from safetensors.torch import load_file, save_file
DT = torch.bfloat16 if gpu else torch.float32
DOMAINS = json.load(open(a.data + "/domains.json"))


def load_start(path, idf):
    """starting weights; lm_head rows are the token rows without the feature dimensions, scaled by rarity"""
    x = {k: v.float() for k, v in load_file(path).items()}
    if "lm_head.weight" in x: return x                     # trained weights to continue from
    w = torch.from_numpy(np.load(idf)).float()
    e = x["model.language_model.embed_tokens.weight"].clone(); e[:, HID - 8:] = 0
    x["lm_head.weight"] = e * (.12 + .88 * w[:, None] ** 2) * .5
    return x


class Leaf:
    """some tensors as one flat float32 parameter with AdamW state; parts() gives views in the compute type"""
    def __init__(self, items, dt, f, wd):
        self.names = [n for n, _ in items]; self.shapes = [t.shape for _, t in items]; self.sizes = [t.numel() for _, t in items]; self.dt = dt
        self.w = torch.cat([t.reshape(-1) for _, t in items]).to(dev).requires_grad_()
        self.m, self.v = torch.zeros_like(self.w), torch.zeros_like(self.w)
        self.f = torch.cat([torch.full((k,), f(n)) for n, k in zip(self.names, self.sizes)]).to(dev) if len({f(n) for n in self.names}) > 1 else torch.tensor(f(self.names[0]), device=dev)
        self.wd = wd

    def parts(self):
        return {n: x.view(s) for n, s, x in zip(self.names, self.shapes, torch.split(self.w.to(self.dt), self.sizes))}

    def state(self):
        return {n: x.view(s).detach().to(torch.bfloat16).cpu() for n, s, x in zip(self.names, self.shapes, torch.split(self.w, self.sizes))}


x = load_start(a.data + "/start.safetensors", a.data + "/idf.npy")
W0 = x["lm_head.weight"].to(dev).clone()
if a.fresh_vision:
    # the first recipe's tower gave tokens of length 900 where a word's is 1: they drown what the layers add, and Adam moves them slowly
    for n, t in x.items():
        if "visual" not in n: continue
        if "pos_embed" in n: t.normal_(0, .3)
        elif t.ndim >= 2: t.normal_(0, t[0].numel() ** -.5 * (2 ** .5 if "patch_embed" in n else .15 if "merger.linear_fc2" in n else .5 if "attn.proj" in n or "linear_fc2" in n else 1))
        else: t.fill_(float("norm" in n and n.endswith("weight")))
    n = "model.visual.merger.linear_fc2."; x[n + "weight"][HID - 8:] = 0; x[n + "bias"][[CONST, IDF]] = .4
E0 = x["model.language_model.embed_tokens.weight"].clone(); E0[:, HID - 8:] = 0; tok = Tok(a.data + "/tok/tokenizer.json")


def words(ws):
    """directions of words among their kind, from the starting token rows: [n, HID], unit length"""
    e = torch.stack([torch.stack([E0[tok(s).input_ids].mean(0) for s in (w, " " + w)]).mean(0) for w in ws])
    return F.normalize(e - e.mean(0), dim=-1).to(dev)


WC, WF = words(COLOURS), words(FORMS)
for n, t in (("aux_n.weight", torch.randn(COUNTS, HID) * .03), ("aux_n.bias", torch.zeros(COUNTS)), ("aux_t.weight", torch.randn(128, HID) * .06), ("aux_t.bias", torch.zeros(128)), ("aux_l.weight", torch.randn(128, HID) * .06), ("aux_l.bias", torch.zeros(128)), ("aux_s.weight", torch.eye(HID)), ("aux_s.bias", torch.zeros(HID))): x["aux." + n] = t
TABLES = ("model.language_model.embed_tokens.weight", "lm_head.weight")
ismat = lambda n, t: t.ndim >= 2 and "conv1d" not in n and "pos_embed" not in n and "type_embedding" not in n
fac = lambda n: a.vis if "visual" in n else a.body if "language_model.layers" in n else a.emb if n in TABLES else 1.
rest = [(n, t) for n, t in x.items() if n not in TABLES]
leaves = [Leaf([(n, t) for n, t in rest if ismat(n, t)], DT, fac, a.wd), Leaf([(n, t) for n, t in rest if not ismat(n, t)], torch.float32, fac, 0.)] + [Leaf([(n, x[n])], torch.float32, fac, 0.) for n in TABLES]
log("parameters", sum(t.numel() for n, t in x.items() if not n.startswith("aux.")), "backbone", sum(t.numel() for n, t in x.items() if not n.startswith(("aux.", "head."))))
SH = shape(); static = torch.zeros(SH.bytes, dtype=torch.uint8, device=dev)
TY = {"i4": torch.int32, "f4": torch.float32, "u1": torch.uint8}
b = {n: static[o: o + k].view(TY[t]).view(s) for n, t, s, o, k in SH.fields}
tab = net.picture_tables(dev, a.data + "/grids.npz")
z = np.load(a.data + "/teacher.npz"); q8 = lambda k: torch.from_numpy(z["q" + k]).to(dev).float() * torch.from_numpy(z["s" + k]).to(dev).float()[:, None]
ET, EL = q8("t"), q8("l")
run = net.Net(tab)
frac, lr = torch.zeros((), device=dev), torch.zeros((), device=dev)
ND = len(DOMAINS); acc = torch.zeros(2 * ND + 2, device=dev); met = torch.zeros(10, device=dev)


def forward():
    p = {}
    for l in leaves: p.update(l.parts())
    hp = {k[5:]: v for k, v in p.items() if k.startswith("head.")}; hp["lm_head.weight"] = p["lm_head.weight"]; vp = {k: v for k, v in p.items() if "visual" in k}
    run_text = run.text({**p, **vp}, b, DT)
    lg, member, oc, qv, gl = run.head(hp, run_text, b, DT)
    lp = lg.unsqueeze(1).masked_fill(~member, -1e9).log_softmax(-1)                   # B Qb Ob
    tg = b["tgt"].unsqueeze(1) * member
    okq = b["q_rec"] >= 0; nq = okq.sum().clamp(min=1)
    ce = -(tg * lp.masked_fill(~member, 0)).sum(-1); ent = -(tg * tg.clamp(min=1e-9).log()).sum(-1)
    best = (lp.argmax(-1) == tg.argmax(-1)) & okq; sharp = (tg.max(-1).values > .55) & okq
    return p, run_text, oc, qv, gl, (ce * okq).sum() / nq, ((ce - ent) * okq).sum() / nq, best & sharp, sharp, lg


def count(ok, sharp):
    d = torch.where(b["q_dom"] >= 0, b["q_dom"], ND).reshape(-1).long()
    acc.index_add_(0, d * 2, ok.float().reshape(-1)); acc.index_add_(0, d * 2 + 1, sharp.float().reshape(-1))


def aux_loss(p, hid, oc, qv, gl):
    """what the state says (mean of its starting token rows) must be readable at questions, options and the end; teacher vectors of texts and labels"""
    cosl = lambda x, y, w: ((1 - F.cosine_similarity(x.float(), y, dim=-1)) * w).sum() / w.sum().clamp(min=1)
    lin = lambda n, x: F.linear(x.to(DT), p["aux." + n + ".weight"], p["aux." + n + ".bias"].to(DT)).float()
    L = hid.shape[1]; M = net.spans(b["r_s"], b["r_e"], L, DT)
    sm = (M @ F.embedding(b["ids"], W0).to(DT)).float(); hm = (M @ hid.to(DT)).float()
    qr = b["q_rec"]; pick = lambda i: torch.gather(sm, 1, i.clamp(min=0).long().unsqueeze(-1).expand(-1, -1, HID))
    okq, oko = (qr >= 0).float(), (b["o_q"] >= 0).float()
    orec = torch.gather(qr, 1, b["o_q"].clamp(min=0).long())
    ls = cosl(lin("aux_s", gl), pick(qr), okq) + cosl(lin("aux_s", qv), pick(qr), okq) + .5 * cosl(lin("aux_s", oc), pick(orec), oko)
    t, l = b["r_txt"], b["o_lab"]
    la = cosl(lin("aux_t", hm), F.embedding(t.clamp(min=0), ET), (t >= 0).float()) + cosl(lin("aux_l", oc), F.embedding(l.clamp(min=0), EL), (l >= 0).float())
    return ls, la


ce_of = lambda l, t: -l.log_softmax(-1).gather(-1, t.unsqueeze(-1)).squeeze(-1)


def picture_loss(p):
    """a picture token must point to the words for what its cell shows (colour; form or digit), the mean of a picture's tokens must tell the number of objects; also returns how often they do"""
    v = F.normalize(run.seen.view(SH.NI, -1, HID), dim=-1); loss = []; right = []
    for w, t in ((WC, b["cell_c"]), (WF, b["cell_f"])):
        l = 14 * v @ w.T; ok = (t >= 0).float(); n = ok.sum().clamp(min=1); t = t.clamp(min=0).long()
        loss.append((ce_of(l, t) * ok).sum() / n); right.append(((l.argmax(-1) == t) * ok).sum() / n)
    real = (b["img"] < SH.B * SH.L - 1).float().unsqueeze(-1); t = b["pic_n"]; ok = ((t >= 0) & (t < COUNTS)).float(); n = ok.sum().clamp(min=1)
    l = F.linear((v * real).sum(1), p["aux.aux_n.weight"].float(), p["aux.aux_n.bias"]); t = t.clamp(0, COUNTS - 1).long()
    loss.append((ce_of(l, t) * ok).sum() / n); right.append(((l.argmax(-1) == t) * ok).sum() / n)
    return loss[0] + loss[1] + .3 * loss[2], torch.stack(right)


def adam(w, g, m, v, f, lr, wd: float, scale, c1, c2):
    g = torch.nan_to_num(g * scale, 0., 0., 0.)
    m.lerp_(g, .1); v.lerp_(g * g, .02)
    w.sub_(lr * f * ((m / c1) / ((v / c2).sqrt() + 1e-9) + wd * w))


tstep = torch.zeros((), device=dev)


def step_fn():
    p, hid, oc, qv, gl, ce, kl, ok, sharp, _ = forward()
    ls, la = aux_loss(p, hid, oc, qv, gl)
    lv, rv = picture_loss(p)
    loss = ce + a.pic * (1 - .8 * frac) * lv + a.aux * (1 - frac) * la + a.st * (1 - 1.5 * frac).clamp(min=.1) * ls
    gs = torch.autograd.grad(loss, [l.w for l in leaves])
    with torch.no_grad():
        gn = torch.sqrt(sum(g.pow(2).sum() for g in gs)); scale = torch.where(torch.isfinite(gn), (1. / (gn + 1e-6)).clamp(max=1.), 0.)
        tstep.add_(1); c1, c2 = 1 - .9 ** tstep, 1 - .98 ** tstep
        for l, g in zip(leaves, gs): adam(l.w.detach(), g, l.m, l.v, l.f, lr, l.wd, scale, c1, c2)
        count(ok, sharp)
        met.add_(torch.cat([torch.stack([kl, ce, ls, la, gn, torch.ones_like(kl), lv]), rv]).detach())


def eval_fn():
    """counts as in a step; returns the logits of the option slots"""
    p, _, _, _, _, ce, kl, ok, sharp, lg = forward()
    with torch.no_grad():
        lv, rv = picture_loss(p)
        count(ok, sharp); met.add_(torch.cat([torch.stack([kl, ce, kl * 0, kl * 0, kl * 0, torch.ones_like(kl), lv]), rv]).detach())
    return lg.detach()


def report(title):
    c = acc.view(-1, 2).tolist(); acc.zero_(); h = met.tolist(); met.zero_(); n = max(h[5], 1)
    log(title, "kl %.3f ce %.3f st %.2f aux %.2f gn %.2f" % tuple(v / n for v in h[:5]), "cells %.2f: colour %.2f form %.2f count %.2f" % tuple(v / n for v in h[6:]), "acc %.3f |" % (sum(x for x, _ in c[:-1]) / max(1, sum(y for _, y in c[:-1]))), " ".join("%s %.2f" % (d, x / y) for d, (x, y) in zip(DOMAINS, c) if y))


def save(step):
    s = {}
    for l in leaves: s.update(l.state())
    m = {k: v.contiguous() for k, v in s.items() if not k.startswith(("aux.", "head."))}
    save_file(m, a.out + "/whole.tmp", metadata={"format": "pt"}); raw = open(a.out + "/whole.tmp", "rb").read(); os.remove(a.out + "/whole.tmp")
    for i in range(0, len(raw), 15 << 20): open("%s/model.part%d" % (a.out, i // (15 << 20)), "wb").write(raw[i: i + (15 << 20)])
    save_file({k[5:]: v.contiguous() for k, v in s.items() if k.startswith("head.")}, a.out + "/joint_head.safetensors", metadata={"format": "pt"})
    log("saved", len(raw), "bytes at step", step)


pool, ready, halt, hold, idle = [], collections.deque(), threading.Event(), threading.Event(), threading.Event(); seen = [0, 0]
side = torch.cuda.Stream() if gpu else None


def feed():
    """file -> pinned memory -> GPU, ahead of the step; an empty spool repeats an earlier batch"""
    pin = [torch.empty(SH.bytes, dtype=torch.uint8, pin_memory=True) for _ in range(2)] if gpu else None; k = 0; r = random.Random(5)
    while not halt.is_set():
        if hold.is_set(): idle.set(); time.sleep(.005); continue      # no other CUDA call while a graph is captured
        if len(ready) >= 4: time.sleep(.002); continue
        fs = sorted(glob.glob(a.spool + "/t*.bin"), key=lambda f: f.rsplit("-", 1)[1])[:24]
        if not fs:
            if len(pool) >= 200 and len(ready) < 2: ready.append((pool[r.randrange(len(pool))], None)); seen[1] += 1
            else: time.sleep(.01)
            continue
        for f in fs:
            while len(ready) >= 6 and not hold.is_set() and not halt.is_set(): time.sleep(.002)
            if hold.is_set() or halt.is_set(): break
            x = torch.from_numpy(np.fromfile(f, np.uint8)); os.remove(f)
            if gpu:
                p = pin[k % 2]; p.copy_(x)
                with torch.cuda.stream(side):
                    g = p.to(dev, non_blocking=True); ev = torch.cuda.Event(); ev.record(); ev.synchronize()
            else: g = x
            k += 1; seen[0] += 1; ready.append((g, None))
            if len(pool) < 6000: pool.append(g)


threading.Thread(target=feed, daemon=True).start()


def take():
    t = time.time()
    while not ready:
        if time.time() - t > 90: raise RuntimeError("no batch for 90 s")
        time.sleep(.001)
    static.copy_(ready.popleft()[0]); return time.time() - t


EVAL = [(torch.from_numpy(b_).to(dev), w_) for b_, w_ in evalset.batches(a.eval, tok, SH)] if a.eval else []


def evaluation(misses=False):
    """score the evaluation set (for the log only); whatever goes wrong here must not end the training"""
    try:
        keep = acc.clone(), met.clone(); o = []
        for v, where in EVAL:
            static.copy_(v)
            if gpu: ge.replay(); l = lge
            else:
                with torch.no_grad(): l = eval_fn()
            o.append((l.float().cpu().numpy(), where))
        acc.copy_(keep[0]); met.copy_(keep[1])
        if o:
            s, m = evalset.score(o); log("   evaluation set:", s)
            for x in m if misses else []: log("      miss", *x)
    except Exception: traceback.print_exc()


def validation():
    if not VAL: return
    keep = acc.clone(), met.clone(); acc.zero_(); met.zero_()
    for v in VAL:
        static.copy_(v); (ge.replay if gpu else eval_fn)()
    report("   validation (fresh seed, held-out phrasings):"); acc.copy_(keep[0]); met.copy_(keep[1])


wait = take(); log("first batch after", round(wait, 1), "s; bytes a batch", SH.bytes)
if gpu:
    s = torch.cuda.Stream(); s.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(s):
        for i in range(3): step_fn(); torch.cuda.synchronize(); log("warm-up step", i)
        eval_fn()
    torch.cuda.current_stream().wait_stream(s); torch.cuda.synchronize()
    gt, ge = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph(); hold.set(); idle.wait()
    with torch.cuda.graph(gt, capture_error_mode="thread_local"): step_fn()
    with torch.cuda.graph(ge, pool=gt.pool(), capture_error_mode="thread_local"): lge = eval_fn()
    torch.cuda.synchronize(); hold.clear(); log("captured; memory %.1f GB" % (torch.cuda.max_memory_allocated() / 1e9))
    acc.zero_(); met.zero_()
if gpu and a.profile:
    with torch.no_grad(): ck = [l.w.clone() for l in leaves]
    for i in range(2):
        take(); torch.cuda.synchronize(); t = time.time()
        for _ in range(20): gt.replay()
        torch.cuda.synchronize(); log("replayed step: %.1f ms, %.0fk tokens/s" % ((time.time() - t) * 50, a.B * a.L * 20 / (time.time() - t) / 1e3))
    t = time.time()
    for _ in range(20): ge.replay()
    torch.cuda.synchronize(); log("forward alone: %.1f ms" % ((time.time() - t) * 50))
    from torch.profiler import profile, ProfilerActivity
    with profile(activities=[ProfilerActivity.CUDA]) as pf: gt.replay(); torch.cuda.synchronize()
    ka = pf.key_averages(); log("kernels a step", sum(k.count for k in ka))
    for k in sorted(ka, key=lambda k: -k.self_device_time_total)[:40]: log("  %8.2f ms %5d %s" % (k.self_device_time_total / 1e3, k.count, k.key[:110]))
    met.zero_(); acc.zero_()
lag = collections.deque(); VAL = []; step = 0; marks = [.1, .2, .3, .4, .5, .6, .7, .8, .9]; Tt = time.time(); a.seconds = a.deadline - (Tt - T0) if a.deadline else a.seconds; twait = 0; last = Tt
try:
    evaluation()
    while True:
        if not VAL and len(glob.glob(a.spool + "/v*.bin")) >= a.val: VAL = [torch.from_numpy(np.fromfile(f, np.uint8)).to(dev) for f in sorted(glob.glob(a.spool + "/v*.bin"))]
        fr = step / a.steps if a.steps else (time.time() - Tt) / a.seconds
        if fr >= 1: break
        if marks and fr > marks[0]:
            m = marks.pop(0); validation()
            if m in (.2, .4, .6, .8): save(step); evaluation()
        frac.fill_(fr); lr.fill_(a.lr * min(1, (step + 1) / a.warm) * (.5 * (1 + math.cos(math.pi * fr)) * .98 + .02))
        twait += take()
        if gpu:
            gt.replay()
            e = torch.cuda.Event(); e.record(); lag.append(e)
            if len(lag) > 3: lag.popleft().synchronize()          # the clock of the schedule must not run ahead of the device
        else: step_fn()
        step += 1
        if step % a.log == 0:
            report("step %d lr %.1e %.1f ms %.0fk tok/s wait %.1f new %d again %d |" % (step, float(lr), (time.time() - last) / a.log * 1e3, a.B * a.L * a.log / (time.time() - last) / 1e3, twait, *seen)); last = time.time()
    if gpu: torch.cuda.synchronize()
    validation(); evaluation(True); failed = 0
except BaseException:                                       # what is there is worth keeping
    traceback.print_exc(); failed = 1
try:
    log("done", step, "steps;", seen[0], "batches made,", seen[1], "repeated; prior, joint, gate", [round(float(leaves[1].parts()["head." + k].detach()), 3) for k in ("prior_logit_scale", "joint_logit_scale", "residual_gate")])
    save(step)
except BaseException: traceback.print_exc(); failed = 1
halt.set()
for w in ws: w.kill()
os._exit(failed)
