"""weight of each token: log of records over records that have it (idf.npy); also writes domains.json"""
import json
import numpy as np
import gen, gen2, setup
from batch import Packer, Shape
from common import Tok, VOCAB
setup.load("data.json.xz", "teacher.npz"); gen.R.seed(3); pk = Packer(Tok("tok/tokenizer.json"), Shape(), gen2.DOMAINS)
N = 4000; df = np.zeros(VOCAB)
for _ in range(N): df[np.unique(pk.encode(gen2.make())[0])] += 1
w = np.log((N + 1) / (df + 1)); w = w / w.max(); w[df == 0] = .9
np.save("idf.npy", w.astype(np.float32)); json.dump(gen2.DOMAINS, open("domains.json", "w")); print(sorted(w)[:5], np.mean(w))
