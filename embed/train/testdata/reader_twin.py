"""Twin of the training of readers in NumPy float64: writes reader_twin.json (python3 reader_twin.py > reader_twin.json).

A small random BERT with two token types and a span head is trained for 20 steps, with the encoder and the optimiser of
twin.py: padded batches with a mask, softmax cross-entropies of the first and the last token of the answer among the
tokens of the window, whose mean is the loss. A window without an answer has the first token as both.
"""
import json
from math import log

import numpy as np

from twin import BATCH, H, P, POSITIONS, STEPS, VOCAB, W, add, add_encoder, add_linear, encode, encode_back, linear
from twin import linear_back, padded, rng, settings, update

TYPES = "distilbert.embeddings.token_type_embeddings.weight"
NAMES = (("distilbert.", "bert."), ("transformer.layer", "encoder.layer"), ("q_lin", "self.query"),
         ("k_lin", "self.key"), ("v_lin", "self.value"), ("out_lin", "output.dense"),
         ("sa_layer_norm", "attention.output.LayerNorm"), ("ffn.lin1", "intermediate.dense"),
         ("ffn.lin2", "output.dense"), ("output_layer_norm", "output.LayerNorm"))


def bert(name):
    for old, new in NAMES:
        name = name.replace(old, new)
    return name


def step(windows, kinds, spans):
    x, tapes = encode(windows, W[TYPES][padded(kinds)])
    z = linear(x, "qa_outputs")
    z[padded([[0] * len(w) for w in windows], 1) == 1] = -1e30
    e = np.exp(z - z.max(1, keepdims=True))
    e /= e.sum(1, keepdims=True)
    d, loss = e.copy(), 0.0
    for i, span in enumerate(spans):
        for side, at in enumerate(span):
            loss -= log(e[i, at, side]) / 2 / len(windows)
            d[i, at, side] -= 1
    G = {}
    encode_back(linear_back(d / 2 / len(windows), x, "qa_outputs", G), tapes, G)
    return loss, G


add_encoder()
add(TYPES, 0, 0.3, 2, H)
add_linear("qa_outputs", 2, H)
start = {k: v.copy() for k, v in W.items()}
windows, kinds, spans = [], [], []
for _ in range(BATCH * STEPS):
    length = int(rng.integers(3, POSITIONS + 1))
    question = int(rng.integers(1, length - 1))
    ids = rng.integers(6, VOCAB, length)
    first = last = 0
    if rng.random() < 0.7:
        first = int(rng.integers(question, length))
        last = int(rng.integers(first, length))
        ids[first], ids[last] = 3, 4  # what the answer can be found by
    windows.append([int(i) for i in ids])
    kinds.append([0] * question + [1] * (length - question))
    spans.append([first, last])
M, V, out = {}, {}, []
for t in range(1, STEPS + 1):
    part = slice((t - 1) * BATCH, t * BATCH)
    loss, G = step(windows[part], kinds[part], spans[part])
    out.append({"loss": loss, "length": update(t, G, M, V)})
both = settings(start)
for key in ("weights", "sums"):
    both[key] = {bert(k): v for k, v in both[key].items()}
print(json.dumps(both | {"texts": windows, "types": kinds, "spans": spans, "steps": out}))
