"""Starting point of the training: the reference layout with chosen values, so that a short training begins at a word-matching classifier.

Token rows: two sentence encoders' answers for the token's text (tokemb.npz), plus a few feature dimensions (token rarity, a constant, a marker for the
words STATE and SCHEMA of the prompt). Layer 0: one DeltaNet head keeps "the state text is running" (written at STATE, overwritten at SCHEMA). Full attention:
rare tokens of the state first, and tokens like the own one. Head: everything in one shared space.
"""
import math
import numpy as np
import torch
import torch.nn.functional as F
from common import HEAD, HID, TEXT, VOCAB
from jsm import SYSTEM_PROMPT

NA, NB = 80, 44                      # leading directions of the two encoders that come first
IDF, CONST, MARK, SIGN, FLAG = HID - 6, HID - 5, HID - 4, HID - 3, HID - 2


def ortho(n, m, g):
    q, _ = torch.linalg.qr(torch.randn(max(n, m), max(n, m), generator=g))
    return q[:n, :m]


def rows(idf, g):
    z = np.load("tokemb.npz"); A, B = torch.from_numpy(z["A"]).float(), torch.from_numpy(z["B"]).float(); script, idx = z["script"], z["idx"]
    ex = (HID - 8 - NA - NB) // 2
    na, nb = NA + ex + (ex // 3), NB + ex - (ex // 3)
    na, nb = min(na, A.shape[1]), min(nb, B.shape[1])
    A, B = A[:, :na], B[:, :nb]
    A = A / A.pow(2).mean(0).sqrt() ** .35; B = B / B.pow(2).mean(0).sqrt() ** .35
    lat = torch.from_numpy(script == 0).float()[:, None]
    A = F.normalize(A, dim=-1) * (.8 * lat + .1 * (1 - lat)); B = F.normalize(B, dim=-1) * (.6 * lat + .95 * (1 - lat))
    S = torch.cat([A[:, :NA], B[:, :NB], A[:, NA:], B[:, NB:]], 1)
    W = torch.zeros(VOCAB, HID); i = torch.from_numpy(np.pad(idx, (0, VOCAB - len(idx)), constant_values=-1))
    W[i >= 0, : S.shape[1]] = S[i[i >= 0]]
    W[i < 0, : S.shape[1]] = torch.randn(int((i < 0).sum()), S.shape[1], generator=g) * .25 / math.sqrt(S.shape[1])
    return W, i >= 0


@torch.no_grad()
def start(m, head, tok, idf, seed=1, c_full=.35, temp=.5, prior=12., a_lin=.04, a_mlp=.05):
    g = torch.Generator().manual_seed(seed); rn = lambda s: torch.randn(s, generator=g)
    lm = m.model.language_model
    for n, p in m.named_parameters():
        if "visual" in n:
            if p.ndim >= 2: p.copy_(rn(p.shape) * (.02 if "pos_embed" in n else 1 / math.sqrt(p[0].numel())))
        elif p.ndim >= 2 and "embed" not in n and "lm_head" not in n and "conv1d" not in n:
            p.copy_(rn(p.shape) / math.sqrt(p[0].numel()) * (a_mlp if "down_proj" in n else 1))
    w = torch.from_numpy(idf)                                  # 0 .. 1
    S, have = rows(w, g)
    E = S.clone()
    E[:, IDF] = (w - .55) * 1.2; E[:, CONST] = .4
    P = tok("<|im_start|>system\n%s<|im_end|>\n<|im_start|>user\nSTATE:\n" % SYSTEM_PROMPT).input_ids
    Q = tok("\n\nSCHEMA FIELDS:\n").input_ids
    st = [i for i in P if "STATE" in tok.t.id_to_token(i)][-1]; sc = [i for i in Q if "SCH" in tok.t.id_to_token(i)][0]
    for i, sg in ((st, 1), (sc, -1), (tok.t.token_to_id("<|im_start|>"), -1)):   # the first token of every record is one, so the flag is always set
        E[i] *= .1; E[i, CONST] = .4; E[i, MARK] = .8; E[i, SIGN] = .8 * sg
    lm.embed_tokens.weight.copy_(E)
    m.lm_head.weight.copy_(S * (.12 + .88 * w[:, None] ** 2) * .5)
    mg = m.model.visual.merger.linear_fc2
    mg.weight.mul_(.5); mg.weight[HID - 8:] = 0; mg.bias.zero_(); mg.bias[CONST] = .4; mg.bias[IDF] = .4
    HK, HV, DK, DV = TEXT["linear_num_key_heads"], TEXT["linear_num_value_heads"], TEXT["linear_key_head_dim"], TEXT["linear_value_head_dim"]
    for li, l in enumerate(lm.layers):
        if hasattr(l, "linear_attn"):
            a = l.linear_attn; kd = HK * DK; x = a.in_proj_qkv.weight; c = a.conv1d.weight
            c.copy_(rn(c.shape) * .02); c[:, 0, 3] += 1
            for h in range(HK):
                O = ortho(DK, HID, g) * 1.2
                x[h * DK: (h + 1) * DK] = O; x[kd + h * DK: kd + (h + 1) * DK] = O
                if (h + li) % 2 == 0:
                    sl = slice(kd + h * DK, kd + (h + 1) * DK); c[sl, 0, 3] -= 1; c[sl, 0, 2] += 1
            V = ortho(HV * DV, HID, g); x[2 * kd:] = V * 1.2
            a.out_proj.weight.copy_(V.T * a_lin + rn(a.out_proj.weight.shape) * .01 / math.sqrt(HID))
            a.in_proj_b.weight.mul_(.3); a.in_proj_a.weight.mul_(.3)
            a.A_log.copy_(torch.log(1 + 3 * torch.rand(a.A_log.shape, generator=g)))
            dt = torch.exp(torch.linspace(math.log(.001), math.log(.05), HV)); a.dt_bias.copy_(dt + torch.log(-torch.expm1(-dt)))
            if li == 0:                                        # the running flag: key head 0, value head 0
                for o in (0, kd):
                    x[o: o + DK] = rn((DK, HID)) * .002; x[o, CONST] = 1; c[o: o + DK] = 0; c[o: o + DK, 0, 3] = 1
                v0 = 2 * kd; x[v0: v0 + DV] = rn((DV, HID)) * .002; x[v0, SIGN], x[v0 + 1, SIGN] = 1, -1; c[v0: v0 + DV] = 0; c[v0: v0 + DV, 0, 3] = 1
                a.in_proj_b.weight[0] = 0; a.in_proj_b.weight[0, MARK], a.in_proj_b.weight[0, CONST] = 1.5, -1
                a.in_proj_a.weight[0] = 0; a.dt_bias[0] = -8; a.A_log[0] = 0
                a.in_proj_z.weight[:DV] = rn((DV, HID)) * .002; a.in_proj_z.weight[:2, CONST] = .3
                a.out_proj.weight[:, :DV] = rn((HID, DV)) * .002; a.out_proj.weight[FLAG, 0], a.out_proj.weight[FLAG, 1] = .03, -.03
            for nm in (CONST, IDF, MARK, SIGN) + (() if li == 0 else (FLAG,)): a.out_proj.weight[nm] *= .1
        else:
            a = l.self_attn; H, KV, Dh = TEXT["num_attention_heads"], TEXT["num_key_value_heads"], TEXT["head_dim"]; R = Dh // 4; per = H // KV
            last = li == len(lm.layers) - 1
            s = temp ** .5 - 1; a.q_norm.weight.fill_(s); a.k_norm.weight.fill_(s)
            eye = torch.eye(HID); nv = min(Dh, HID // KV)
            for kv in range(KV):
                k = a.k_proj.weight[kv * Dh: (kv + 1) * Dh]; k.copy_(rn(k.shape) * .02)
                O = ortho(Dh - R - 8, HID, g) * .25; O[:, HID - 8:] = 0
                k[R] = 0; k[R, IDF] = 1; k[R + 1] = 0; k[R + 1, FLAG] = 1; k[R + 2] = 0; k[R + 2, CONST] = 1; k[R + 8:] = O
                a.v_proj.weight[kv * Dh: kv * Dh + nv] = eye[kv * nv: (kv + 1) * nv]
                for j in range(per):
                    h = kv * per + j; q = a.q_proj.weight[h * 2 * Dh: h * 2 * Dh + Dh]; q.copy_(rn(q.shape) * .02)
                    if j % 2 == 0: q[R] = 0; q[R, CONST] = 1; q[R + 1] = 0; q[R + 1, CONST] = 1.5
                    else: q[R + 8:] = O * 4; q[R + 1] = 0; q[R + 1, CONST] = 1; q[R] = 0; q[R, CONST] = .5
                    a.q_proj.weight[h * 2 * Dh + Dh: (h + 1) * 2 * Dh] *= .1
                    cc = (c_full if j % 2 == 0 else c_full * .4) * (1 if last else .3)
                    a.o_proj.weight[:, h * Dh: (h + 1) * Dh] = rn((HID, Dh)) * .005; a.o_proj.weight[kv * nv: (kv + 1) * nv, h * Dh: h * Dh + nv] += torch.eye(nv) * cc
            a.o_proj.weight[HID - 8:] *= .1
    Wd = HEAD["width"]
    P = torch.zeros(Wd, HID); n = NA + NB; P[:n, :n] = torch.eye(n)
    for j, d in enumerate((FLAG, IDF, CONST)):
        if n + j < Wd: P[n + j, d] = .3
    if Wd > n + 3: P[n + 3:, n: n + Wd - n - 3] = torch.eye(Wd - n - 3)
    P = P + rn(P.shape) * .01
    for p in (head.memory_projection, head.question_projection, head.global_projection, head.option_context_projection): p.weight.copy_(P * .6)
    head.option_lexical_projection.weight.copy_(P * 16); head.option_question_projection.weight.mul_(.2)
    for l in head.evidence_layers:
        I = torch.eye(Wd); Qm = ortho(Wd, Wd, g)
        l.attention.in_proj_weight.copy_(torch.cat([Qm * 1.6, Qm * 1.6, I]) + .02 * rn((3 * Wd, Wd))); l.attention.in_proj_bias.zero_()
        l.attention.out_proj.weight.copy_(I * .4 + .02 * rn((Wd, Wd))); l.attention.out_proj.bias.zero_()
        l.feedforward[3].weight.mul_(.3); l.feedforward[3].bias.zero_()
    for l in head.layers:
        l.self_attn.out_proj.weight.mul_(.3); l.linear2.weight.mul_(.3); l.linear2.bias.zero_()
        l.multihead_attn.out_proj.weight.copy_(torch.eye(Wd) * .3 + .02 * rn((Wd, Wd))); l.multihead_attn.in_proj_weight[2 * Wd:] = torch.eye(Wd)
    head.residual_scorer[3].weight.mul_(.3)
    head.prior_logit_scale.fill_(math.log(prior)); head.joint_logit_scale.fill_(math.log(6)); head.residual_gate.fill_(-.5)
    return int(have.sum())
