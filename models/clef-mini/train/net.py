"""Packed forward of the Qwen3.5 text model, the vision tower and the joint schema head on plain tensors named as in the release, with static shapes only."""
import math
import torch
import torch.nn.functional as F
from common import FULL, HEAD, HID, TEXT, VISION

HK, HV, DK, DV = (TEXT["linear_" + k] for k in ("num_key_heads", "num_value_heads", "key_head_dim", "value_head_dim"))
H, KV, D = TEXT["num_attention_heads"], TEXT["num_key_value_heads"], TEXT["head_dim"]
RD = D // 4
LT = TEXT["layer_types"]
C = 64


def rms(x, w, eps=1e-6):
    return F.rms_norm(x.float(), (x.shape[-1],), 1 + w, eps)


class ConvSilu(torch.autograd.Function):
    """causal depthwise convolution of width 4 and SiLU over rows whose records are at least three zero rows apart; y [B, T, ch], w [ch, 4] -> float [B, T, ch]"""
    @staticmethod
    def forward(ctx, y, w):
        T = y.shape[1]; yp = F.pad(y.float(), (0, 0, 3, 0)); wt = w.t().contiguous()
        o = yp[:, 3:] * wt[3]
        for j in range(3): o.addcmul_(yp[:, j: j + T], wt[j])
        ctx.save_for_backward(yp, wt, o); ctx.dt = y.dtype
        return F.silu(o)

    @staticmethod
    def backward(ctx, g):
        yp, wt, o = ctx.saved_tensors; T = g.shape[1]
        g = torch.ops.aten.silu_backward(g.contiguous(), o); d = torch.zeros_like(yp)
        for j in range(4): d[:, j: j + T].addcmul_(g, wt[j])
        dw = torch.stack([(g * yp[:, j: j + T]).sum((0, 1)) for j in range(4)], 1)
        return d[:, 3:].to(ctx.dt), dw


def inv_block(A):
    """A strictly lower [..., C, C] -> (I + A)^-1: 16-blocks by the finite Neumann product, then merged"""
    n = A.shape[-1]; sh = A.shape[:-2]; s = 16
    def diag(s): return A.view(*sh, n // s, s, n // s, s).diagonal(0, -4, -2).movedim(-1, -3)
    a = diag(s); eye = torch.eye(s, device=A.device, dtype=A.dtype)
    x = eye - a; p = a @ a
    x = x @ (eye + p); p = p @ p
    x = x @ (eye + p); p = p @ p
    x = x @ (eye + p)
    while s < n:
        b = diag(2 * s)[..., s:, :s]
        x11, x22 = x[..., 0::2, :, :], x[..., 1::2, :, :]
        x21 = -(x22 @ b @ x11)
        x = torch.cat([torch.cat([x11, torch.zeros_like(x11)], -1), torch.cat([x21, x22], -1)], -2)
        s *= 2
    return x.squeeze(-3)


def delta(q, k, v, beta, g):
    """gated delta rule, chunked, float32; q, k [B, T, HK, DK], v [B, T, HV, DV], beta, g [B, T, HV]; T a multiple of C"""
    B, T = q.shape[:2]; N = T // C
    r = lambda x: x.view(B, N, C, x.shape[2], -1).permute(0, 3, 1, 2, 4)
    unit = torch.full((DK,), DK ** -.5, device=q.device)
    q = F.rms_norm(q, (DK,), unit * DK ** -.5, 1e-6 / DK)                # unit length, and the scale of the scores
    k = F.rms_norm(k, (DK,), unit, 1e-6 / DK)
    q, k, v = r(q), r(k), r(v)
    beta, g = r(beta.unsqueeze(-1)), r(g.unsqueeze(-1)).squeeze(-1)
    if HV != HK: q, k = (x.repeat_interleave(HV // HK, 1) for x in (q, k))
    kb = k * beta
    kk, qk = kb @ k.transpose(-1, -2), q @ k.transpose(-1, -2)
    G = g.cumsum(-1)
    low = torch.ones(C, C, dtype=torch.bool, device=q.device).tril()
    dec = (G.unsqueeze(-1) - G.unsqueeze(-2)).masked_fill(~low, -1e4).exp()
    Ti = inv_block((kk * dec).tril(-1))
    eG = G.exp().unsqueeze(-1)
    U = Ti @ (v * beta); W = Ti @ (kb * eG)
    qk = qk * dec; qe = q * eG
    Gl = G[..., -1:]; ke = k * (Gl - G).exp().unsqueeze(-1); el = Gl.exp().unsqueeze(-1)
    S = torch.zeros(B, HV, DK, DV, device=q.device, dtype=q.dtype); out = []
    for u, w, a, b, c, d in zip(*(x.unbind(2) for x in (U, W, qe, qk, ke.transpose(-1, -2), el))):   # (indexing would cost a full-size fill per chunk in backward)
        vn = u - w @ S
        out.append(a @ S + b @ vn)
        S = S * d + c @ vn
    return torch.stack(out, 2).permute(0, 2, 3, 1, 4).reshape(B, T, HV, DV)


def mlp(h, nw, wgu, wd):
    x = rms(h, nw).to(wd.dtype)
    g, u = F.linear(x, wgu).chunk(2, -1)
    return h + F.linear(F.silu(g) * u, wd)


def lin_layer(h, keep, rst, nw, w_in, conv, alog, dtb, gw, wo, pw, wgu, wd):
    B, T, _ = h.shape; kd, vd = HK * DK, HV * DV
    y, z, b, a = F.linear(rms(h, nw).to(wo.dtype) * keep, w_in).split([2 * kd + vd, vd, HV, HV], -1)
    q, k, v = ConvSilu.apply(y, conv[:, 0]).split([kd, kd, vd], -1)
    beta = b.float().sigmoid(); g = -alog.exp() * F.softplus(a.float() + dtb) + rst
    o = delta(q.reshape(B, T, HK, DK), k.reshape(B, T, HK, DK), v.reshape(B, T, HV, DV), beta, g)
    o = F.rms_norm(o, (DV,), gw, 1e-6).to(wo.dtype) * F.silu(z).view(B, T, HV, DV)
    h = h + F.linear(o.reshape(B, T, vd), wo)
    return mlp(h, pw, wgu, wd)


def rot(x, cos, sin):
    a, b = x[..., :RD], x[..., RD:]
    r = torch.cat([-a[..., RD // 2:], a[..., : RD // 2]], -1)
    return torch.cat([a * cos + r * sin, b], -1)


def full_layer(h, mask, cos, sin, nw, wq, wk, wv, wo, qn, kn, pw, wgu, wd):
    B, T, _ = h.shape; dt = wo.dtype
    x = F.linear(rms(h, nw).to(dt), torch.cat([wq, wk, wv]))
    qg, k, v = x.split([2 * H * D, KV * D, KV * D], -1)
    q, gate = qg.view(B, T, H, 2 * D).split(D, -1)
    k, v = k.view(B, T, KV, D), v.view(B, T, KV, D)
    q, k = rot(rms(q, qn).transpose(1, 2), cos, sin), rot(rms(k, kn).transpose(1, 2), cos, sin)
    k, v = k.repeat_interleave(H // KV, 1), v.transpose(1, 2).repeat_interleave(H // KV, 1)
    o = F.scaled_dot_product_attention(q.to(dt), k.to(dt), v, attn_mask=mask.expand(B, H, T, T))
    o = o.transpose(1, 2).reshape(B, T, H * D) * gate.reshape(B, T, H * D).sigmoid()
    h = h + F.linear(o, wo)
    return mlp(h, pw, wgu, wd)


def ln(x, p, n, eps=1e-5):
    return F.layer_norm(x.float(), (x.shape[-1],), p[n + ".weight"], p[n + ".bias"], eps)


def lin(x, p, n):
    w = p[n + ".weight"]; b = p.get(n + ".bias")
    return F.linear(x.to(w.dtype), w.reshape(w.shape[0], -1), None if b is None else b.to(w.dtype))


def mha(xq, xk, p, n, mask):
    """multi-head attention with packed projections; mask [B, 1, Lq, Lk] additive"""
    w, b = p[n + ".in_proj_weight"], p[n + ".in_proj_bias"].to(p[n + ".in_proj_weight"].dtype); E = w.shape[1]; nh = HEAD["heads"]
    hd = lambda t: t.view(t.shape[0], t.shape[1], nh, -1).transpose(1, 2)
    q = F.linear(xq.to(w.dtype), w[:E], b[:E]); k, v = F.linear(xk.to(w.dtype), w[E:], b[E:]).chunk(2, -1)
    o = F.scaled_dot_product_attention(hd(q), hd(k), hd(v), attn_mask=mask.expand(-1, nh, -1, -1))
    return lin(o.transpose(1, 2).reshape(xq.shape), p, n + ".out_proj").float()


def spans(s, e, L, dt):
    """[B, n] starts and ends -> rows of averaging weights [B, n, L]"""
    ar = torch.arange(L, device=s.device)
    m = (ar >= s.unsqueeze(-1)) & (ar < e.unsqueeze(-1))
    return (m.float() / (e - s).clamp(min=1).unsqueeze(-1)).to(dt)


def vision(p, b, tab, dt):
    """b: px [NI, P, 768] uint8, grid [NI]; tab: tables per grid. -> [NI * P/4, HID] float"""
    nh = VISION["num_heads"]; hd = VISION["hidden_size"]; g = b["grid"]; pre = "model.visual."
    w = p[pre + "patch_embed.proj.weight"].view(hd, 3, 2, 256).float().sum(2).reshape(hd, 768).to(dt)     # both frames are the same picture
    x = F.linear(((b["px"].float() / 255 - .5) / .5).to(dt), w).float() + p[pre + "patch_embed.proj.bias"]
    x = x + (F.embedding(tab["idx"][g], p[pre + "pos_embed.weight"]) * tab["wt"][g].unsqueeze(-1)).sum(2)
    cos, sin = tab["cos"][g].unsqueeze(1), tab["sin"][g].unsqueeze(1); mask = tab["mask"][g][:, None, None].to(dt)
    hf = lambda t: torch.cat([-t[..., t.shape[-1] // 2:], t[..., : t.shape[-1] // 2]], -1)
    n, m = x.shape[:2]
    for i in range(VISION["depth"]):
        s = pre + "blocks.%d." % i
        q, k, v = lin(ln(x, p, s + "norm1", 1e-6), p, s + "attn.qkv").view(n, m, 3, nh, -1).permute(2, 0, 3, 1, 4).unbind(0)
        q, k = q.float() * cos + hf(q.float()) * sin, k.float() * cos + hf(k.float()) * sin
        o = F.scaled_dot_product_attention(q.to(v.dtype), k.to(v.dtype), v, attn_mask=mask.expand(n, nh, m, m))
        x = x + lin(o.transpose(1, 2).reshape(n, m, hd), p, s + "attn.proj").float()
        x = x + lin(F.gelu(lin(ln(x, p, s + "norm2", 1e-6), p, s + "mlp.linear_fc1"), approximate="tanh"), p, s + "mlp.linear_fc2").float()
    y = ln(x, p, pre + "merger.norm", 1e-6).reshape(n * m // 4, 4 * hd)
    return lin(F.gelu(lin(y, p, pre + "merger.linear_fc1")), p, pre + "merger.linear_fc2").float()


def rope(pos):
    inv = 1.0 / (1e7 ** (torch.arange(0, RD, 2, device=pos.device, dtype=torch.float32) / RD))
    f = pos[..., None].float() * inv                       # 3 B T 16
    ax = [0] * (RD // 2)
    for d in (1, 2):
        for i in range(d, TEXT["rope_parameters"]["mrope_section"][d] * 3, 3): ax[i] = d
    f = torch.stack([f[a, ..., i] for i, a in enumerate(ax)], -1)
    f = torch.cat([f, f], -1).unsqueeze(1)
    return f.cos(), f.sin()


class Rows(torch.autograd.Function):
    """table rows by index; the gradient is added row by row on the device (no sorting, so it can be captured)"""
    @staticmethod
    def forward(ctx, w, ids):
        ctx.save_for_backward(ids); ctx.shape = w.shape
        return w[ids.long()]

    @staticmethod
    def backward(ctx, g):
        ids, = ctx.saved_tensors
        return g.new_zeros(ctx.shape).index_add_(0, ids.reshape(-1), g.reshape(-1, ctx.shape[1])), None


class Net:
    """forward over a batch (plain functions: compiling them took longer than it saved, the captured graph removes the launch cost)"""
    def __init__(self, tab):
        self.tab = tab; self.lin, self.full, self.head, self.vis = lin_layer, full_layer, score, vision

    def text(self, p, b, dt):
        pre = "model.language_model."
        ids, seg = b["ids"], b["seg"]; B, T = ids.shape
        h = Rows.apply(p[pre + "embed_tokens.weight"], ids)
        v = self.vis(p, b, self.tab, dt)
        self.seen = v
        h = h.reshape(-1, HID).index_copy(0, b["img"].reshape(-1).long(), v).view(B, T, HID)
        keep = (seg > 0).to(dt).unsqueeze(-1)
        st = torch.cat([torch.ones_like(seg[:, :1], dtype=torch.bool), seg[:, 1:] != seg[:, :-1]], 1)
        rst = -60.0 * st.float()[..., None]
        ok = (seg[:, :, None] == seg[:, None, :]) & torch.ones(T, T, dtype=torch.bool, device=ids.device).tril()
        mask = torch.zeros(B, 1, T, T, device=ids.device, dtype=dt).masked_fill_(~ok.unsqueeze(1), -3e4)
        cos, sin = rope(b["pos"])
        for i, t in enumerate(LT):
            s = pre + "layers.%d." % i; w = lambda n: p[s + n + ".weight"]
            mp = (w("post_attention_layernorm"), torch.cat([w("mlp.gate_proj"), w("mlp.up_proj")]), w("mlp.down_proj"))
            if t == FULL:
                h = self.full(h, mask, cos, sin, w("input_layernorm"), *(w("self_attn." + n) for n in ("q_proj", "k_proj", "v_proj", "o_proj", "q_norm", "k_norm")), *mp)
            else:
                wi = torch.cat([w("linear_attn.in_proj_" + n) for n in ("qkv", "z", "b", "a")])
                h = self.lin(h, keep, rst, w("input_layernorm"), wi, w("linear_attn.conv1d"), p[s + "linear_attn.A_log"], p[s + "linear_attn.dt_bias"], w("linear_attn.norm"), w("linear_attn.out_proj"), *mp)
        return rms(h, p[pre + "norm.weight"])


def score(p, hid, b, dt):
    """p: head tensors and lm_head.weight; hid [B, L, HID] float -> logits [B, Ob] (padding slots hold anything), membership [B, Qb, Ob] bool, option means [B, Ob, HID], question means"""
    B, L, _ = hid.shape; neg = -3e4; gelu = F.gelu
    n = ln(hid, p, "hidden_norm"); nd = n.to(dt)
    oq = b["o_q"]; Qb, Ob = b["q_s"].shape[1], oq.shape[1]
    member = oq.unsqueeze(1) == torch.arange(Qb, device=oq.device)[None, :, None]                      # B Qb Ob
    qrec = b["q_rec"]; toq = member.float().transpose(1, 2)                                           # option row -> its question
    oseg = torch.where(oq >= 0, torch.gather(qrec, 1, oq.clamp(min=0).long()) + 1, 0)
    last = torch.gather(b["r_end"], 1, qrec.clamp(min=0).long())
    Mq, Mo, Mg = spans(b["q_s"], b["q_e"], L, dt), spans(b["o_s"], b["o_e"], L, dt), spans(last - 1, last, L, dt)
    qv, oc, gl = (Mq @ nd).float(), (Mo @ nd).float(), (Mg @ nd).float()
    lex = (Mo @ F.embedding(b["ids"], p["lm_head.weight"]).to(dt)).float()
    mem = lin(nd, p, "memory_projection").float()                                                      # B L W
    seg = b["seg"]
    cmask = lambda s: torch.zeros(B, 1, s.shape[1], L, device=s.device, dtype=dt).masked_fill_((s[:, None, :, None] != seg[:, None, None, :]), neg)
    mo, mq = cmask(oseg), cmask(qrec + 1)
    X = (lin(oc, p, "option_context_projection") + lin(lex, p, "option_lexical_projection")).float() + toq @ lin(qv, p, "option_question_projection").float()
    for i in range(HEAD["routing_layers"]):
        s = "evidence_layers.%d." % i
        X = X + mha(ln(X, p, s + "query_norm"), ln(mem, p, s + "memory_norm"), p, s + "attention", mo)
        X = X + lin(gelu(lin(ln(X, p, s + "feedforward_norm"), p, s + "feedforward.0")), p, s + "feedforward.3").float()
    base = lin(qv, p, "question_projection").float()
    w = (base @ X.transpose(1, 2) / math.sqrt(X.shape[-1])).masked_fill(~member, -1e9).softmax(-1)
    f = base + ln(w @ X, p, "option_summary_norm") + lin(gl, p, "global_projection").float() + F.embedding(b["q_type"], p["type_embedding.weight"])
    ms = torch.zeros(B, 1, Qb, Qb, device=f.device, dtype=dt).masked_fill_((qrec[:, None, :, None] != qrec[:, None, None, :]), neg)
    for i in range(HEAD["layers"]):
        s = "layers.%d." % i
        x = ln(f, p, s + "norm1"); f = f + mha(x, x, p, s + "self_attn", ms)
        f = f + mha(ln(f, p, s + "norm2"), mem, p, s + "multihead_attn", mq)
        f = f + lin(gelu(lin(ln(f, p, s + "norm3"), p, s + "linear1")), p, s + "linear2").float()
    f = ln(f, p, "field_norm"); on = ln(X, p, "option_norm")
    anchor = F.normalize(qv + gl, dim=-1, eps=1e-6)
    prior = p["prior_logit_scale"].clamp(max=math.log(100.0)).exp() * (F.normalize(lex, dim=-1, eps=1e-6) * (toq @ anchor)).sum(-1)
    fo = toq @ f
    cosn = (F.normalize(fo, dim=-1, eps=1e-6) * F.normalize(on, dim=-1, eps=1e-6)).sum(-1)
    res = lin(gelu(lin(torch.cat([fo, on, fo * on, (fo - on).abs()], -1), p, "residual_scorer.0")), p, "residual_scorer.3").float().squeeze(-1)
    joint = p["joint_logit_scale"].clamp(max=math.log(100.0)).exp() * cosn + res
    return prior + torch.sigmoid(p["residual_gate"]) * joint, member, oc, qv, gl


def picture_tables(device="cpu", path="grids.npz"):
    import numpy as np
    z = np.load(path); t = {k: torch.from_numpy(z[k]).to(device) for k in z.files}
    t["idx"] = t["idx"].long()
    return t
