"""Writes statistics.json: small random answers and what scikit-learn and SciPy say of them.

pip install numpy scipy scikit-learn && python statistics.py > statistics.json
"""

import json

import numpy as np
import scipy
import sklearn
from scipy.stats import binomtest, bootstrap
from sklearn.calibration import calibration_curve
from sklearn.metrics import accuracy_score, brier_score_loss, f1_score

rng = np.random.default_rng(7)
n, classes = 80, 4


def model(gold, strength):
    logits = rng.normal(size=(n, classes))
    logits[np.arange(n), gold] += strength
    p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    return np.round(p / p.sum(1, keepdims=True), 6)


def single(gold, p):
    chosen = p.argmax(1)
    right, confidence = chosen == gold, p.max(1)
    share, mean = calibration_curve(right, confidence, n_bins=10, strategy="uniform")
    counts = np.histogram(confidence, bins=np.linspace(0, 1, 11))[0]
    counts = counts[counts > 0]
    onehot = np.eye(classes)[gold]
    by_sklearn = brier_score_loss(gold, p, labels=list(range(classes)), scale_by_half=False)
    assert abs(by_sklearn - ((p - onehot) ** 2).sum(1).mean()) < 1e-12
    interval = bootstrap((right.astype(float),), np.mean, n_resamples=200_000, method="percentile", rng=1)
    return {
        "probabilities": p.tolist(),
        "chosen": chosen.tolist(),
        "accuracy": accuracy_score(gold, chosen),
        "macro_f1": f1_score(gold, chosen, average="macro"),
        "brier": by_sklearn,
        "bins": [{"count": int(c), "confidence": m, "accuracy": s} for c, m, s in zip(counts, mean, share)],
        "ece": float((counts * np.abs(mean - share)).sum() / n),
        "accuracy_interval": list(interval.confidence_interval),
    }


gold = rng.integers(0, classes, n)
first, second = model(gold, 2.2), model(gold, 1.5)
a, b = single(gold, first), single(gold, second)
right = [np.array(m["chosen"]) == gold for m in (a, b)]


def f1_difference(i):
    i = i.astype(int)
    scores = [f1_score(gold[i], np.array(m["chosen"])[i], average="macro") for m in (a, b)]
    return scores[0] - scores[1]


difference = bootstrap(
    tuple(r.astype(float) for r in right),
    lambda x, y, axis=-1: x.mean(axis) - y.mean(axis),
    paired=True, n_resamples=200_000, method="percentile", rng=2,
)
f1 = bootstrap((np.arange(n),), f1_difference, vectorized=False, n_resamples=5000, method="percentile", rng=3)
only = [int((right[0] & ~right[1]).sum()), int((~right[0] & right[1]).sum())]

many_gold = rng.random((50, 5)) < 0.35
many_chosen = many_gold ^ (rng.random((50, 5)) < 0.15)


def sets(rows):
    return [np.flatnonzero(r).tolist() for r in rows]


json.dump(
    {
        "made_by": f"statistics.py, scikit-learn {sklearn.__version__}, SciPy {scipy.__version__}, NumPy {np.__version__}",
        "gold": gold.tolist(),
        "models": [a, b],
        "accuracy_difference_interval": list(difference.confidence_interval),
        "macro_f1_difference_interval": list(f1.confidence_interval),
        "only": only,
        "mcnemar": binomtest(only[0], sum(only), 0.5).pvalue,
        "mcnemar_cases": [[k, m, binomtest(k, k + m, 0.5).pvalue] for k, m in [(0, 1), (3, 3), (2, 9), (0, 12), (400, 460)]],
        "wilson": [
            [k, m, *binomtest(k, m).proportion_ci(0.95, "wilson")] for k, m in [(48, 48), (0, 10), (31, 32), (977, 1000)]
        ],
        "multi_label": {
            "gold": sets(many_gold),
            "chosen": sets(many_chosen),
            "accuracy": accuracy_score(many_gold, many_chosen),
            "macro_f1": f1_score(many_gold, many_chosen, average="macro"),
        },
        "quantiles": [[q, float(np.quantile(first[:, 0], q))] for q in (0.0, 0.025, 0.3, 0.5, 0.975, 1.0)],
    },
    __import__("sys").stdout,
    indent=1,
)
