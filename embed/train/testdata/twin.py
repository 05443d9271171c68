"""Twin of package train in NumPy float64: writes twin.json (python3 twin.py > twin.json; needs numpy).

A small random DistilBERT with a head is trained for 20 steps: forward and backward over padded batches with a mask,
every layer on all tokens, softmax cross-entropy with class weights, gradients cut at length 1, AdamW with warm-up and
linear decay. The Go code, which works on ragged batches and computes only the first token's row in the last layer, must
find the same losses and accuracies.
"""
import json
from math import erf, sqrt

import numpy as np

H, LAYERS, HEADS, INNER, VOCAB, POSITIONS, LABELS = 8, 2, 2, 16, 24, 8, 3
STEPS, BATCH, RATE, HEAD_RATE, DECAY, WARM_UP, CLIP = 20, 6, 3e-3, 1e-2, 0.01, 4, 1.0
WEIGHTS = np.array([1.0, 0.5, 2.0])
rng = np.random.default_rng(7)
W = {}


def add(name, mean, spread, *shape):
    W[name] = rng.normal(mean, spread, shape).astype(np.float32).astype(np.float64)


def add_linear(name, out, inner):
    add(name + ".weight", 0, 0.3, out, inner)
    add(name + ".bias", 0, 0.1, out)


def add_norm(name):
    add(name + ".weight", 1, 0.1, H)
    add(name + ".bias", 0, 0.1, H)


P = "distilbert."


def add_encoder():
    add(P + "embeddings.word_embeddings.weight", 0, 1, VOCAB, H)
    add(P + "embeddings.position_embeddings.weight", 0, 0.3, POSITIONS, H)
    add_norm(P + "embeddings.LayerNorm")
    for i in range(LAYERS):
        for n in ("q_lin", "k_lin", "v_lin", "out_lin"):
            add_linear(f"{P}transformer.layer.{i}.attention.{n}", H, H)
        add_norm(f"{P}transformer.layer.{i}.sa_layer_norm")
        add_linear(f"{P}transformer.layer.{i}.ffn.lin1", INNER, H)
        add_linear(f"{P}transformer.layer.{i}.ffn.lin2", H, INNER)
        add_norm(f"{P}transformer.layer.{i}.output_layer_norm")


def linear(x, name):
    return x @ W[name + ".weight"].T + W[name + ".bias"]


def linear_back(d, x, name, G):
    G[name + ".weight"] = d.reshape(-1, d.shape[-1]).T @ x.reshape(-1, x.shape[-1])
    G[name + ".bias"] = d.reshape(-1, d.shape[-1]).sum(0)
    return d @ W[name + ".weight"]


def norm(x, name):
    mean = x.mean(-1, keepdims=True)
    scale = 1 / np.sqrt(((x - mean) ** 2).mean(-1, keepdims=True) + 1e-12)
    hat = (x - mean) * scale
    return hat * W[name + ".weight"] + W[name + ".bias"], (hat, scale)


def norm_back(d, name, kept, G):
    hat, scale = kept
    G[name + ".weight"] = (d * hat).sum((0, 1))
    G[name + ".bias"] = d.sum((0, 1))
    d = d * W[name + ".weight"]
    return scale * (d - d.mean(-1, keepdims=True) - hat * (d * hat).mean(-1, keepdims=True))


def split(x):
    return x.reshape(*x.shape[:2], HEADS, H // HEADS).transpose(0, 2, 1, 3)


def join(x):
    return x.transpose(0, 2, 1, 3).reshape(x.shape[0], x.shape[2], H)


PHI = np.vectorize(lambda v: 0.5 * (1 + erf(v / sqrt(2))))


def layer(x, bias, i):
    p = f"{P}transformer.layer.{i}."
    q, k, v = (split(linear(x, p + "attention." + n)) for n in ("q_lin", "k_lin", "v_lin"))
    s = q @ k.transpose(0, 1, 3, 2) / sqrt(H // HEADS) + bias
    s = np.exp(s - s.max(-1, keepdims=True))
    s /= s.sum(-1, keepdims=True)
    c = join(s @ v)
    y, n1 = norm(linear(c, p + "attention.out_lin") + x, p + "sa_layer_norm")
    u = linear(y, p + "ffn.lin1")
    phi = PHI(u)
    g = u * phi
    out, n2 = norm(linear(g, p + "ffn.lin2") + y, p + "output_layer_norm")
    return out, (x, q, k, v, s, c, n1, y, u, phi, g, n2)


def layer_back(d, kept, i, G):
    x, q, k, v, s, c, n1, y, u, phi, g, n2 = kept
    p = f"{P}transformer.layer.{i}."
    d = norm_back(d, p + "output_layer_norm", n2, G)
    du = linear_back(d, g, p + "ffn.lin2", G) * (phi + u * np.exp(-u * u / 2) / np.sqrt(2 * np.pi))
    d = norm_back(d + linear_back(du, y, p + "ffn.lin1", G), p + "sa_layer_norm", n1, G)
    dc = split(linear_back(d, c, p + "attention.out_lin", G))
    dv = s.transpose(0, 1, 3, 2) @ dc
    ds = dc @ v.transpose(0, 1, 3, 2)
    ds = s * (ds - (ds * s).sum(-1, keepdims=True)) / sqrt(H // HEADS)
    for t, n in ((ds @ k, "q_lin"), (ds.transpose(0, 1, 3, 2) @ q, "k_lin"), (dv, "v_lin")):
        d = d + linear_back(join(t), x, p + "attention." + n, G)
    return d


def padded(rows, fill=0):
    T = max(map(len, rows))
    return np.array([t + [fill] * (T - len(t)) for t in rows])


def encode(batch, types=None):
    """Returns the last layer's rows, and what encode_back needs. types are the embeddings of the token types, if any."""
    ids = padded(batch)
    mask = padded([[1.0] * len(t) for t in batch])
    x = W[P + "embeddings.word_embeddings.weight"][ids] + W[P + "embeddings.position_embeddings.weight"][:ids.shape[1]]
    x, _ = norm(x if types is None else x + types, P + "embeddings.LayerNorm")
    tapes = []
    for i in range(LAYERS):
        x, tape = layer(x, ((1 - mask) * -1e30)[:, None, None, :], i)
        tapes.append(tape)
    return x, tapes


def encode_back(dx, tapes, G):
    for i in reversed(range(LAYERS)):
        dx = layer_back(dx, tapes[i], i, G)


def step(batch, labels):
    x, tapes = encode(batch)
    pre = linear(x[:, 0], "pre_classifier")
    h = np.maximum(pre, 0)
    z = linear(h, "classifier")
    e = np.exp(z - z.max(1, keepdims=True))
    e /= e.sum(1, keepdims=True)
    rows = np.arange(len(labels))
    w = WEIGHTS[labels]
    loss = -(w * np.log(e[rows, labels])).sum() / w.sum()
    right = float((z.argmax(1) == labels).mean())
    G = {}
    d = e.copy()
    d[rows, labels] -= 1
    d *= (w / w.sum())[:, None]
    d = linear_back(d, h, "classifier", G) * (pre > 0)
    dx = np.zeros_like(x)
    dx[:, 0] = linear_back(d, x[:, 0], "pre_classifier", G)
    encode_back(dx, tapes, G)
    return loss, right, G


def update(t, G, M, V):
    """Takes step t, counted from 1, and returns the length of the gradient."""
    length = sqrt(sum((g * g).sum() for g in G.values()))
    factor = t / WARM_UP if t <= WARM_UP else (STEPS - t + 1) / (STEPS - WARM_UP)
    for n, g in G.items():
        g = g * min(1, CLIP / length)
        M[n] = 0.9 * M.get(n, 0) + 0.1 * g
        V[n] = 0.999 * V.get(n, 0) + 0.001 * g * g
        rate = (RATE if n.startswith(P) else HEAD_RATE) * factor
        decay = rate * DECAY if W[n].ndim == 2 else 0
        W[n] = W[n] * (1 - decay) - rate * M[n] / (1 - 0.9**t) / (np.sqrt(V[n] / (1 - 0.999**t)) + 1e-8)
    return length


def settings(start):
    """Returns what both twins write. start are the weights before the first step."""
    return {
        "hidden": H, "layers": LAYERS, "heads": HEADS, "inner": INNER, "vocab": VOCAB, "positions": POSITIONS,
        "labels": LABELS, "batch": BATCH, "rate": RATE, "head_rate": HEAD_RATE, "decay": DECAY,
        "warm_up": WARM_UP / STEPS, "clip": CLIP,
        "weights": {k: [float(np.float32(x)) for x in v.ravel()] for k, v in start.items()},
        "sums": {k: float(v.sum()) for k, v in W.items()},
    }


def main():
    add_encoder()
    add_linear("pre_classifier", H, H)
    add_linear("classifier", LABELS, H)
    start = {k: v.copy() for k, v in W.items()}
    texts, targets = [], []
    for _ in range(BATCH * STEPS):
        label = int(rng.integers(LABELS))
        ids = rng.integers(6, VOCAB, rng.integers(1, POSITIONS + 1))
        ids[rng.integers(len(ids))] = 3 + label  # what the label can be learned from
        texts.append([int(i) for i in ids])
        targets.append(label)
    M, V, out = {}, {}, []
    for t in range(1, STEPS + 1):
        part = slice((t - 1) * BATCH, t * BATCH)
        loss, right, G = step(texts[part], np.array(targets[part]))
        out.append({"loss": loss, "accuracy": right, "length": update(t, G, M, V)})
    print(json.dumps(settings(start) | {"class_weights": list(WEIGHTS), "texts": texts, "targets": targets,
                                        "steps": out}))


if __name__ == "__main__":
    main()
