"""Records -> one fixed-size batch in one flat byte buffer: B rows of L tokens, each row packed with whole records, plus fixed numbers of question, option and
record slots a row and of pictures a batch. Nothing in a training step then depends on the data's sizes, so the step can be captured once and replayed."""
import numpy as np
from jsm import SYSTEM_PROMPT, encode_record, render

GRIDS = [(h, w) for h in (8, 10, 12) for w in (8, 10, 12)]     # patches high and wide
P = 144                                                        # patch slots a picture
COLOURS = "red green blue yellow orange purple black white gray brown pink cyan".split()
FORMS = "circle square triangle star cross rectangle diamond".split() + list("0123456789")
COUNTS = 8                                                     # a picture of 0 to 7 objects


GAP = 3                                                        # padding between records of a row: the convolution looks back three tokens


class Shape:
    """sizes of a batch and the layout of its byte buffer"""
    def __init__(self, B=64, L=512, Qb=8, Ob=32, Rb=4, NI=24):
        self.B, self.L, self.Qb, self.Ob, self.Rb, self.NI = B, L, Qb, Ob, Rb, NI
        f = [("ids", "i4", (B, L)), ("seg", "i4", (B, L)), ("pos", "i4", (3, B, L)),
             ("q_s", "i4", (B, Qb)), ("q_e", "i4", (B, Qb)), ("q_rec", "i4", (B, Qb)), ("q_type", "i4", (B, Qb)), ("q_dom", "i4", (B, Qb)),
             ("o_s", "i4", (B, Ob)), ("o_e", "i4", (B, Ob)), ("o_q", "i4", (B, Ob)), ("o_lab", "i4", (B, Ob)), ("tgt", "f4", (B, Ob)),
             ("r_s", "i4", (B, Rb)), ("r_e", "i4", (B, Rb)), ("r_end", "i4", (B, Rb)), ("r_txt", "i4", (B, Rb)),
             ("grid", "i4", (NI,)), ("img", "i4", (NI, P // 4)), ("cell_c", "i4", (NI, P // 4)), ("cell_f", "i4", (NI, P // 4)), ("pic_n", "i4", (NI,)), ("px", "u1", (NI, P, 768))]
        self.fields = []; o = 0
        for n, t, s in f:
            k = int(np.prod(s)) * (1 if t == "u1" else 4)
            self.fields.append((n, t, s, o, k)); o += -(-k // 256) * 256
        self.bytes = o

    def new(self):
        buf = np.zeros(self.bytes, np.uint8)
        v = {n: buf[o: o + k].view(t).reshape(s) for n, t, s, o, k in self.fields}
        return buf, v


def patches(a):
    """uint8 [H, W, 3] -> [h*w, 768] in the tower's patch order (one of the two equal frames), (h, w)"""
    H, W, _ = a.shape; h, w = H // 16, W // 16
    x = a.transpose(2, 0, 1).reshape(3, h // 2, 2, 16, w // 2, 2, 16)
    return x.transpose(1, 4, 2, 5, 0, 3, 6).reshape(h * w, 768), (h, w)


class Packer:
    def __init__(self, tok, shape, doms, max_len=500, max_state=300):
        self.tok, self.s, self.max_len, self.max_state = tok, shape, min(max_len, shape.L), max_state
        self.dom = {d: i for i, d in enumerate(doms)}
        T = lambda s: tok(s).input_ids
        self.pre = len(T("<|im_start|>system\n%s<|im_end|>\n<|im_start|>user\nSTATE:\n" % SYSTEM_PROMPT))
        g = tok.t.token_to_id
        self.vs, self.ve, self.ip, self.nl, self.pad = g("<|vision_start|>"), g("<|vision_end|>"), g("<|image_pad|>"), T("\n"), g("<|endoftext|>")

    def encode(self, r):
        e = encode_record(self.tok, r, max_length=8192, max_state_tokens=self.max_state)
        ids = list(e.input_ids); st = (self.pre, self.pre + min(self.max_state, len(self.tok(render(r["state"])).input_ids)))
        qs = [(q.question_span, q.option_spans, q.question_type, q.question_id) for q in e.questions]
        pos = None; img = None; n = len(ids)
        if r.get("image") is not None:
            p, grid = patches(r["image"]); k = len(p) // 4
            m = [self.vs] + [self.ip] * k + [self.ve] + self.nl; d = len(m)
            ids = ids[: self.pre] + m + ids[self.pre:]; n = len(ids)
            qs = [((a + d, b + d), tuple((x + d, y + d) for x, y in o), t, qi) for (a, b), o, t, qi in qs]
            st = (st[0] + d, st[1] + d)
            c = self.pre + 1; gh, gw = grid[0] // 2, grid[1] // 2
            pos = np.zeros((3, n), np.int32); pos[:, :c] = np.arange(c)
            pos[0, c: c + k] = c; pos[1, c: c + k] = c + np.repeat(np.arange(gh), gw); pos[2, c: c + k] = c + np.tile(np.arange(gw), gh)
            pos[:, c + k:] = c + max(gh, gw) + np.arange(n - c - k)
            img = (p, grid, c, k)
        else:
            pos = np.broadcast_to(np.arange(n), (3, n))
        return ids, qs, pos, img, st

    def pack(self, source):
        """take records from the source until forty in a row found no room; returns (byte buffer, number of records, list of (row, first token, record, encoding))"""
        s = self.s; room = [s.L] * s.B; room[-1] -= 1     # the very last token stays padding: unused picture slots write there
        rows = [[] for _ in range(s.B)]; cq, co = [0] * s.B, [0] * s.B; ni = 0; miss = 0
        for r in source:
            if r.get("image") is not None and ni == s.NI: continue
            e = self.encode(r); n = len(e[0]); nq = len(e[1]); no = sum(len(q[1]) for q in e[1])
            if n > self.max_len or nq > s.Qb or no > s.Ob: continue
            best = -1
            for i in range(s.B):
                if room[i] >= n and len(rows[i]) < s.Rb and cq[i] + nq <= s.Qb and co[i] + no <= s.Ob and (best < 0 or room[i] < room[best]): best = i
            if best < 0:
                miss += 1
                if miss > 40: break
                continue
            rows[best].append((r, e)); room[best] -= n + GAP; cq[best] += nq; co[best] += no; ni += e[3] is not None
        return self.collate(rows)

    def collate(self, rows):
        s = self.s; buf, v = s.new()
        v["ids"][:] = self.pad; v["o_q"][:] = -1; v["o_lab"][:] = -1; v["q_rec"][:] = -1; v["r_txt"][:] = -1; v["q_dom"][:] = -1; v["img"][:] = s.B * s.L - 1; v["cell_c"][:] = -1; v["cell_f"][:] = -1; v["pic_n"][:] = -1
        v["q_e"][:] = 1; v["o_e"][:] = 1; v["r_e"][:] = 1; v["r_end"][:] = 1; where = []; ni = 0
        for b, row in enumerate(rows):
            c = nq = no = 0
            for k, (r, (x, qs, p, img, st)) in enumerate(row):
                n = len(x); v["ids"][b, c: c + n] = x; v["seg"][b, c: c + n] = k + 1; v["pos"][:, b, c: c + n] = p
                where.append((b, c, r, nq, no))
                v["r_s"][b, k] = c + st[0]; v["r_e"][b, k] = max(c + st[1], c + st[0] + 1); v["r_end"][b, k] = c + n; v["r_txt"][b, k] = r.get("text_index", -1)
                if img is not None:
                    q, grid, o, m = img
                    v["px"][ni, : len(q)] = q; v["grid"][ni] = GRIDS.index(tuple(grid)); v["img"][ni, :m] = b * s.L + c + o + np.arange(m)
                    if r.get("cells"):
                        cells, v["pic_n"][ni] = r["cells"]
                        for x, (colour, form) in enumerate(cells):
                            if colour: v["cell_c"][ni, x] = COLOURS.index(colour)
                            if form: v["cell_f"][ni, x] = FORMS.index(form)
                    ni += 1
                lab = dict(r.get("aux") or [])
                for sp, osp, ty, qid in qs:
                    v["q_s"][b, nq], v["q_e"][b, nq] = c + sp[0], c + sp[1]; v["q_rec"][b, nq] = k; v["q_type"][b, nq] = ty; v["q_dom"][b, nq] = self.dom.get(r.get("domain"), -1)
                    for m, (y, z) in enumerate(osp):
                        v["o_s"][b, no], v["o_e"][b, no], v["o_q"][b, no], v["tgt"][b, no] = c + y, c + z, nq, r["targets"][qid][m]
                        if qid in lab: v["o_lab"][b, no] = lab[qid][m]
                        no += 1
                    nq += 1
                c += n + GAP
        return buf, len(where), where
