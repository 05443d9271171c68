#!/usr/bin/env python3
"""Transformer encoders in NumPy float64, written from the model definitions: the reference of Sluice's graphs.

usage: reference.py IN.json OUT
IN.json: {"model": folder, "task": "embed"|"classify"|"label"|"tokens", "pooling": "mean"|"cls", "normalise": bool,
          "max_tokens": n, "texts": [...]} or
         {"model": folder, "task": "score"|"pairs"|"windows"|"read",
          "pairs": [{"A": text, "B": text, "Limit": n, "Stride": n}, ...]}
Writes OUT.json (token ids per text or pair, cut by the tokenizers library itself; for "pairs" with their types) and
OUT.f64 (rows, little-endian; for "label" a row per token).
For "windows" OUT.json has the windows of each pair, with the bytes of the second text that its tokens stand for; for
"read" the answer of each pair: [first byte, end, score, score of no answer].
"""
import json
import math
import struct
import sys

import numpy as np
from tokenizers import Tokenizer


def load(path):
    """All tensors of a safetensors file as float64."""
    with open(path, "rb") as f:
        raw = f.read()
    (n,) = struct.unpack("<Q", raw[:8])
    out = {}
    for name, t in json.loads(raw[8 : 8 + n]).items():
        if name == "__metadata__" or t["dtype"] not in ("F32", "F16", "BF16"):
            continue
        data = raw[8 + n + t["data_offsets"][0] : 8 + n + t["data_offsets"][1]]
        if t["dtype"] == "BF16":  # the upper half of a float32
            a = (np.frombuffer(data, "<u2").astype(np.uint32) << 16).view(np.float32)
        else:
            a = np.frombuffer(data, "<f4" if t["dtype"] == "F32" else "<f2")
        out[name] = a.astype(np.float64).reshape(t["shape"])
    return out


def erf_table(step=64, top=6, terms=7):
    """Taylor coefficients of erf about k/step. The derivatives of erf are Hermite polynomials times exp(-x^2)."""
    x = np.arange(-top * step, top * step + 1) / step
    rows = [np.array([math.erf(v) for v in x])]
    h0, h1 = np.ones_like(x), 2 * x
    for n in range(terms):
        rows.append(2 / math.sqrt(math.pi) * np.exp(-x * x) * (-1) ** n * h0 / math.factorial(n + 1))
        h0, h1 = h1, 2 * x * h1 - 2 * (n + 1) * h0
    return rows


ERF = erf_table()


def erf(x):
    """erf to about 1e-16 for all float64, without SciPy."""
    x = np.clip(x, -6, 6)  # 1 - erf(6) is 2e-17
    k = np.rint(x * 64)
    h = x - k / 64
    k = (k + 6 * 64).astype(np.intp)
    out = ERF[-1][k]
    for row in ERF[-2::-1]:
        out *= h
        out += row[k]
    return out


ACTIVATIONS = {
    "gelu": lambda x: x * 0.5 * (1 + erf(x / math.sqrt(2))),
    "gelu_new": lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "relu": lambda x: np.maximum(x, 0),
}

DISTIL = dict(layer="transformer.layer.", q="attention.q_lin", k="attention.k_lin", v="attention.v_lin",
              o="attention.out_lin", ln1="sa_layer_norm", up="ffn.lin1", down="ffn.lin2", ln2="output_layer_norm")
BERT = dict(layer="encoder.layer.", q="attention.self.query", k="attention.self.key", v="attention.self.value",
            o="attention.output.dense", ln1="attention.output.LayerNorm", up="intermediate.dense",
            down="output.dense", ln2="output.LayerNorm")
MPNET = dict(BERT, q="attention.attn.q", k="attention.attn.k", v="attention.attn.v", o="attention.attn.o",
             ln1="attention.LayerNorm")
DEBERTA = dict(BERT, q="attention.self.query_proj", k="attention.self.key_proj", v="attention.self.value_proj")


def bucket(relative, buckets=32, farthest=128):
    """T5's bidirectional relative position buckets; relative = key position - query position."""
    n = -relative
    buckets //= 2
    out = (n < 0) * buckets
    n = np.abs(n)
    exact = buckets // 2
    with np.errstate(divide="ignore"):
        log = np.log(n.astype(np.float32) / np.float32(exact)) / np.float32(math.log(farthest / exact))
    large = np.minimum(exact + (np.maximum(log, 0) * np.float32(buckets - exact)).astype(np.int64), buckets - 1)
    return out + np.where(n < exact, n, large)


def log_bucket(relative, buckets, farthest):
    """DeBERTa-v2's buckets of a distance, query position - key position: exact near, logarithmic far, odd."""
    mid = buckets // 2
    n = np.where(np.abs(relative) < mid, mid - 1, np.abs(relative))
    log = np.log(n.astype(np.float32) / np.float32(mid)) / np.log(np.float32((farthest - 1) / mid))
    far = np.ceil(log * np.float32(mid - 1)).astype(np.int64) + mid
    return np.where(n <= mid, relative, far * np.sign(relative))


class Model:
    def __init__(self, folder):
        self.c = c = json.load(open(folder + "/config.json"))
        self.w = load(folder + "/model.safetensors")
        self.kind = c["model_type"]
        self.names = {"distilbert": DISTIL, "mpnet": MPNET, "deberta-v2": DEBERTA}.get(self.kind, BERT)
        self.shifted = self.kind in ("roberta", "xlm-roberta", "camembert", "mpnet")
        distil = self.kind == "distilbert"
        self.layers, self.heads = (c["n_layers"], c["n_heads"]) if distil else (c["num_hidden_layers"], c["num_attention_heads"])
        self.eps = 1e-12 if distil else c.get("layer_norm_eps", 1e-7 if self.kind == "deberta-v2" else 1e-12)
        self.act = ACTIVATIONS[c.get("activation" if distil else "hidden_act", "gelu")]
        self.pad = c.get("pad_token_id", 1 if self.shifted else 0)
        self.prefix = next(k for k in self.w if k.endswith("embeddings.word_embeddings.weight"))[: -len("embeddings.word_embeddings.weight")]

    def get(self, name):
        return self.w[self.prefix + name] if self.prefix + name in self.w else self.w[name]

    def norm(self, x, name):
        weight, bias = ("gamma", "beta") if self.prefix + name + ".gamma" in self.w else ("weight", "bias")
        d = x - x.mean(-1, keepdims=True)
        return d / np.sqrt((d * d).mean(-1, keepdims=True) + self.eps) * self.get(name + "." + weight) + self.get(name + "." + bias)

    def linear(self, x, name):
        return x @ self.get(name + ".weight").T + self.get(name + ".bias")

    def hidden(self, ids, types=None):
        ids = np.array(ids)
        types = np.zeros(len(ids), np.int64) if types is None or self.shifted else np.array(types)
        if self.kind == "deberta-v2":
            return self.deberta(ids, types)
        n = len(ids)
        at = np.arange(n)
        if self.shifted:
            real = (ids != self.pad).astype(np.int64)
            at = np.cumsum(real) * real + self.pad
        x = self.get("embeddings.word_embeddings.weight")[ids] + self.get("embeddings.position_embeddings.weight")[at]
        if self.kind not in ("distilbert", "mpnet"):
            x = x + self.get("embeddings.token_type_embeddings.weight")[types]
        x = self.norm(x, "embeddings.LayerNorm")
        bias = 0
        if self.kind == "mpnet":
            table = self.get("encoder.relative_attention_bias.weight")
            place = np.arange(n)
            bias = table[bucket(place[None, :] - place[:, None], self.c.get("relative_attention_num_buckets", 32))].transpose(2, 0, 1)
        for i in range(self.layers):
            x = self.layer(x, bias, i)
        return x

    def deberta(self, ids, types):
        c, n = self.c, len(ids)
        x = self.get("embeddings.word_embeddings.weight")[ids]
        if c.get("position_biased_input", True):
            x = x + self.get("embeddings.position_embeddings.weight")[np.arange(n)]
        if c.get("type_vocab_size", 0) > 0:
            x = x + self.get("embeddings.token_type_embeddings.weight")[types]
        if c.get("embedding_size", c["hidden_size"]) != c["hidden_size"]:
            x = x @ self.get("embeddings.embed_proj.weight").T
        x = self.norm(x, "embeddings.LayerNorm")
        far, buckets = c.get("max_relative_positions", -1), c.get("position_buckets", -1)
        far = c["max_position_embeddings"] if far < 1 else far
        distance = np.arange(n)[:, None] - np.arange(n)[None, :]
        span = far
        if buckets > 0:
            span, distance = buckets, log_bucket(distance, buckets, far)
        table = self.get("encoder.rel_embeddings.weight")[: 2 * span]
        if "layer_norm" in c.get("norm_rel_ebd", "none").lower():
            table = self.norm(table, "encoder.LayerNorm")
        self.table, self.at = table, np.clip(distance + span, 0, 2 * span - 1)
        for i in range(self.layers):
            x = self.layer(x, 0, i)
        return x

    def disentangled(self, q, k, p):
        """softmax's argument of all heads, [heads, n, n]: content to content, to position, and position to content."""
        h, n, d = q.shape
        kinds = self.c.get("pos_att_type") or []
        kinds = kinds.split("|") if isinstance(kinds, str) else kinds
        shared = self.c.get("share_att_key", False)
        split = lambda name: self.linear(self.table, p + "attention.self." + name).reshape(-1, h, d).transpose(1, 0, 2)
        s = q @ k.transpose(0, 2, 1)
        if "c2p" in kinds:
            by_row = q @ split("key_proj" if shared else "pos_key_proj").transpose(0, 2, 1)
            s += np.take_along_axis(by_row, np.broadcast_to(self.at, (h, n, n)), 2)
        if "p2c" in kinds:
            by_row = k @ split("query_proj" if shared else "pos_query_proj").transpose(0, 2, 1)
            s += np.take_along_axis(by_row, np.broadcast_to(self.at.T, (h, n, n)), 2).transpose(0, 2, 1)
        return s / math.sqrt(d * (1 + len(kinds)))

    def layer(self, x, bias, i):
        p, k = self.names["layer"] + f"{i}.", self.names
        n, h = x.shape
        q, key, v = (self.linear(x, p + k[s]).reshape(n, self.heads, h // self.heads).transpose(1, 0, 2) for s in "qkv")
        if self.kind == "deberta-v2":
            s = self.disentangled(q, key, p)
        else:
            s = q @ key.transpose(0, 2, 1) / math.sqrt(h // self.heads) + bias
        s = np.exp(s - s.max(-1, keepdims=True))
        s /= s.sum(-1, keepdims=True)
        a = (s @ v).transpose(1, 0, 2).reshape(n, h)
        x = self.norm(self.linear(a, p + k["o"]) + x, p + k["ln1"])
        return self.norm(self.linear(self.act(self.linear(x, p + k["up"])), p + k["down"]) + x, p + k["ln2"])

    def label(self, ids):
        return self.linear(self.hidden(ids), "classifier")

    def classify(self, ids, types=None):
        x = self.hidden(ids, types)[0]
        if self.kind == "deberta-v2":
            return self.linear(ACTIVATIONS[self.c.get("pooler_hidden_act", "gelu")](self.linear(x, "pooler.dense")), "classifier")
        if self.kind == "distilbert":
            return self.linear(np.maximum(self.linear(x, "pre_classifier"), 0), "classifier")
        if self.kind == "bert":
            return self.linear(np.tanh(self.linear(x, "pooler.dense")), "classifier")
        return self.linear(np.tanh(self.linear(x, "classifier.dense")), "classifier.out_proj")

    def embed(self, ids, pooling, normalise):
        x = self.hidden(ids)
        x = x.mean(0) if pooling == "mean" else x[0]
        return x / np.linalg.norm(x) if normalise else x


def pair(tokenizer, p):
    tokenizer.enable_truncation(p["Limit"], strategy="longest_first")
    e = tokenizer.encode(p["A"], p["B"])
    return {"ids": e.ids, "types": e.type_ids}


def windows(tokenizer, p):
    """The question with each window of the passage, as the tokenizers library makes them."""
    tokenizer.enable_truncation(p["Limit"], stride=p["Stride"], strategy="only_second")
    e = tokenizer.encode(p["A"], p["B"])
    byte = [0]
    for c in p["B"]:
        byte.append(byte[-1] + len(c.encode()))
    out = []
    for w in [e] + e.overflowing:
        own = [i for i, s in enumerate(w.sequence_ids) if s == 1]
        out.append({"ids": w.ids, "types": w.type_ids, "first": own[0] if own else len(w.ids),
                    "at": [[byte[w.offsets[i][0]], byte[w.offsets[i][1]]] for i in own]})
    return out


def read(m, tokenizer, p, longest=30):
    best, null = [0, 0, None], math.inf
    for w in windows(tokenizer, p):
        z = m.linear(m.hidden(w["ids"], w["types"]), "qa_outputs")
        null = min(null, z[0].sum())
        for i, (start, _) in enumerate(w["at"]):
            for j in range(i, min(len(w["at"]), i + longest)):
                score = z[w["first"] + i, 0] + z[w["first"] + j, 1]
                if w["at"][j][1] > start and (best[2] is None or score > best[2]):
                    best = [start, w["at"][j][1], score]
    return best[:2] + [best[2] or 0, null]


def main():
    task = json.load(open(sys.argv[1]))
    t = Tokenizer.from_file(task["model"] + "/tokenizer.json")
    t.no_padding()
    t.no_truncation()
    if task["task"] == "pairs":
        json.dump([pair(t, p) for p in task["pairs"]], open(sys.argv[2] + ".json", "w"))
        return
    if task["task"] == "windows":
        json.dump([windows(t, p) for p in task["pairs"]], open(sys.argv[2] + ".json", "w"))
        return
    if task["task"] == "read":
        m = Model(task["model"])
        json.dump([read(m, t, p) for p in task["pairs"]], open(sys.argv[2] + ".json", "w"))
        return
    if task["task"] == "score":
        m, rows = Model(task["model"]), [pair(t, p) for p in task["pairs"]]
        json.dump([r["ids"] for r in rows], open(sys.argv[2] + ".json", "w"))
        np.array([m.classify(r["ids"], r["types"]) for r in rows], "<f8").tofile(sys.argv[2] + ".f64")
        return
    if task["max_tokens"]:
        t.enable_truncation(task["max_tokens"], strategy="longest_first")
    ids = [t.encode(s).ids for s in task["texts"]]
    json.dump(ids, open(sys.argv[2] + ".json", "w"))
    if task["task"] == "tokens":
        return
    m = Model(task["model"])
    if task["task"] == "label":  # a row per token of all texts
        np.concatenate([m.label(i) for i in ids]).astype("<f8").tofile(sys.argv[2] + ".f64")
        return
    if task["task"] == "classify":
        rows = [m.classify(i) for i in ids]
    else:
        rows = [m.embed(i, task["pooling"], task["normalise"]) for i in ids]
    np.array(rows, "<f8").tofile(sys.argv[2] + ".f64")


main()
