"""Checksums of the evaluation set's instructions and text states (heldout.json): the generators refuse to make any of them word for word."""
import json, sys, gen2
o = set()
for l in open(sys.argv[1], encoding="utf-8"):
    r = json.loads(l)
    if isinstance(r["state"], str) and r["state"]: o.add(gen2.norm(r["state"]))
    o |= {gen2.norm(q["instructions"]) for q in r["questions"].values() if q.get("instructions")}
json.dump(sorted(o), open("heldout.json", "w")); print(len(o))
