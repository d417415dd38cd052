"""Write the starting weights (start.safetensors) and what follows from the token vectors: runs init.py on the reference modules, CPU.
lm_head rows are derived from the token rows on loading (see train.load_start), to keep the file small."""
import numpy as np, torch
from safetensors.torch import save_file
import jsm
from common import HEAD, Tok, build
from init import start
tok = Tok("tok/tokenizer.json"); torch.manual_seed(1)
cfg, m = build(tok.t.token_to_id); m = m.float(); head = jsm.JointSchemaHead(**HEAD)
n = start(m, head, tok, np.load("idf.npy"), 1, c_full=.8, temp=.6, a_lin=.02, a_mlp=.02)
x = {k: v.detach().to(torch.bfloat16).contiguous() for k, v in m.state_dict().items() if k != "lm_head.weight"}
x.update({"head." + k: v.detach().to(torch.bfloat16).contiguous() for k, v in head.state_dict().items()})
save_file(x, "start.safetensors"); print(n, sum(v.numel() for v in x.values()))
