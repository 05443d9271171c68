"""Makes golden.json: canonical scores and type-7 quantiles from NumPy, an implementation of its own.

    python3 make_golden.py > golden.json      (NumPy 2.x)

Floats are written as the hexadecimal bits of float64 (scores, quantiles) and float32 (vectors).
"""
import json
import numpy as np

rng = np.random.default_rng(42)


def bits32(v):
    return [f"{x:08x}" for x in np.asarray(v, np.float32).view(np.uint32)]


def bits64(v):
    return [f"{x:016x}" for x in np.atleast_1d(np.asarray(v, np.float64)).view(np.uint64)]


def lanes(terms):
    """Eight float64 lanes in order, then the tree. NumPy never fuses a product and a sum."""
    padded = np.zeros((len(terms) + 7) // 8 * 8)
    padded[: len(terms)] = terms
    lane = np.zeros(8)
    for eight in padded.reshape(-1, 8):
        lane = lane + eight
    four = lane[:4] + lane[4:]
    two = four[:2] + four[2:]
    return two[0] + two[1]


def scores(a, b):
    x, y = a.astype(np.float64), b.astype(np.float64)
    dot, diff = lanes(x * y), x - y
    norms = np.sqrt(lanes(x * x)) * np.sqrt(lanes(y * y))
    cosine = 0.0 if norms == 0 else np.clip(dot / norms, -1.0, 1.0)
    return [cosine, dot, np.sqrt(lanes(diff * diff))]


pairs = []
for dim in [1, 7, 8, 9, 31, 32, 33, 100, 384]:
    for kind in ["normal", "wide", "huge", "denormal", "zero", "equal"]:
        a, b = rng.standard_normal((2, dim)).astype(np.float32)
        if kind == "wide":
            b = (b * 10.0 ** rng.integers(-30, 30, dim)).astype(np.float32)
        elif kind == "huge":
            a = (a * np.float32(3e37)).astype(np.float32)
            b = (b * np.float32(-3e37)).astype(np.float32)
        elif kind == "denormal":
            a = (a * np.float32(1e-44)).astype(np.float32)
        elif kind == "zero":
            b = np.zeros(dim, np.float32)
        elif kind == "equal":
            b = a.copy()
        pairs.append({"kind": kind, "a": bits32(a), "b": bits32(b), "scores": bits64(scores(a, b))})

quantiles = []
levels = [0.0, 0.01, 0.05, 0.25, 1 / 3, 0.5, 0.75, 0.9, 0.95, 0.999, 1.0]
for n in [1, 2, 3, 10, 101, 1000]:
    for values in [rng.standard_normal(n), rng.integers(0, 5, n).astype(float)]:
        quantiles.append({"values": bits64(values), "levels": levels,
                          "quantiles": bits64(np.quantile(values, levels))})

moments = []
for values in [rng.standard_normal(1000), 1e6 + rng.standard_normal(1000), np.full(77, 0.1)]:
    moments.append({"values": bits64(values), "mean": bits64(values.mean())[0], "std": bits64(values.std())[0]})

print(json.dumps({"numpy": np.__version__, "pairs": pairs, "quantiles": quantiles, "moments": moments}))
