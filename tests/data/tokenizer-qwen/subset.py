#!/usr/bin/env python3
"""Cut a full Qwen3.5 tokenizer.json down to what cases.jsonl touches.

    python subset.py FULL_TOKENIZER_JSON      writes tokenizer-subset.json beside this file

Byte-pair encoding always applies the applicable merge of the lowest rank. A file with all 256 bytes and every merge
that was applied to a text, in the same order, therefore gives that text the same ids as the full file. Needs the
Python package `tokenizers`.
"""
import json
import re
import sys
import unicodedata
from pathlib import Path

from tokenizers import Regex, pre_tokenizers

HERE = Path(__file__).parent
meta, *cases = [json.loads(line) for line in (HERE / "cases.jsonl").read_text("utf-8").splitlines()]
meta = meta["meta"]
full = json.loads(Path(sys.argv[1]).read_text("utf-8"))
merges = [tuple(m) if isinstance(m, list) else tuple(m.split(" ")) for m in full["model"]["merges"]]
ranks = {m: i for i, m in enumerate(merges)}
vocab = full["model"]["vocab"]
added = sorted(meta["added_tokens"], key=len, reverse=True)
split_added = re.compile("(" + "|".join(map(re.escape, added)) + ")")


def pieces(text, pattern):
    split = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(pattern), behavior="isolated", invert=False),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    for part in split_added.split(text):
        if part and part not in meta["added_tokens"]:
            yield from (piece for piece, _ in split.pre_tokenize_str(unicodedata.normalize("NFC", part)))


used = set()
for case in cases:
    for pattern in (meta["regex_ids"], meta["regex_ids_qwen2_split"]):
        for piece in pieces(case["text"], pattern):
            symbols = list(piece)
            while len(symbols) > 1:
                pairs = list(zip(symbols, symbols[1:]))
                best = min(pairs, key=lambda pair: ranks.get(pair, len(ranks)))
                if best not in ranks:
                    break
                used.add(best)
                i = pairs.index(best)
                symbols[i:i + 2] = ["".join(best)]

alphabet = pre_tokenizers.ByteLevel.alphabet()
keep = set(alphabet) | {"".join(m) for m in used}
full["model"]["merges"] = sorted(used, key=ranks.__getitem__)
# With holes in the ids the loader cannot count up to those of the added tokens, so the vocabulary names them too.
full["model"]["vocab"] = dict(sorted(((t, i) for t, i in vocab.items() if t in keep), key=lambda e: e[1])) | meta["added_tokens"]
full["decoder"] = full["post_processor"] = None
out = HERE / "tokenizer-subset.json"
out.write_text(json.dumps(full, ensure_ascii=True, separators=(",", ":")) + "\n", "utf-8")
print(len(keep), "base tokens,", len(used), "merges,", out.stat().st_size, "bytes")
