"""What the encoder peers of `sluice bench embed` share: the texts, batches of similar length, the choice of settings.

A peer module has embed(params), which returns its competitors. params: model and export (folders), texts (a file: a JSON
list), sample (places of texts to try settings with), max_tokens, out (folder for vectors). A competitor of batch 0 gets
all texts of a load at once, one of batch 1 a single text. It answers result with the file of its vectors.
"""
import json
import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from common import THREADS, Competitor, fastest
from tokenizers import Tokenizer

BATCH = 32


class Encoder(Competitor):
    """A competitor that embeds texts of a list; the vectors of all that it embedded are kept by place."""

    def __init__(self, impl, work, dtype, batch, params, texts):
        super().__init__(f"{impl} {dtype} {batch}", impl, work, dtype=dtype, mode="one" if batch else "batch", batch=batch)
        self.texts, self.rows, self.out = texts, {}, params["out"]

    def query(self, batch):
        return [self.texts[i] for i in batch]

    def keep(self, batch, answer):
        self.rows.update(zip(batch, np.asarray(answer, np.float32), strict=True))

    def result(self):
        places = sorted(self.rows)
        path = os.path.join(self.out, self.name.replace(" ", "-").replace("/", "-") + ".npy")
        np.save(path, np.stack([self.rows[i] for i in places]))
        return {"places": places, "path": path}


def competitors(params, impl, settings, dtype="f32"):
    """Two competitors, each with the fastest of its settings. settings(single) is {text: work}, work(texts) -> rows."""
    texts = json.load(open(params["texts"]))
    sample = [texts[i] for i in params["sample"]]
    out = []
    for batch, query in ((0, sample), (1, sample[:1])):
        text, work = fastest(settings(batch == 1), query, rounds=20 if batch else 4)
        out.append(Encoder(f"{impl}, {text}" if text else impl, work, dtype, batch, params, texts))
    return out


def tokenizer(params):
    t = Tokenizer.from_file(params["model"] + "/tokenizer.json")
    t.no_padding()
    t.enable_truncation(params["max_tokens"])
    return t


def padded(ids):
    """ids in rows of equal length, and which of them are real."""
    width = max(map(len, ids))
    tokens, mask = np.zeros((len(ids), width), np.int64), np.zeros((len(ids), width), np.int64)
    for row, i in enumerate(ids):
        tokens[row, : len(i)] = i
        mask[row, : len(i)] = 1
    return tokens, mask


def by_length(tokenize, run, workers=1):
    """work(texts): all are tokenised first and run longest first, BATCH at a time, each worker with a batch of its own.
    run(tokens, mask) -> rows."""
    pool = ThreadPoolExecutor(workers) if workers > 1 else None

    def work(texts):
        ids = [e.ids for e in tokenize.encode_batch(texts)]
        order = sorted(range(len(ids)), key=lambda i: -len(ids[i]))
        parts = [order[i : i + BATCH] for i in range(0, len(order), BATCH)]
        rows = list((pool.map if pool else map)(lambda part: run(*padded([ids[i] for i in part])), parts))
        out = np.empty((len(ids), rows[0].shape[1]), np.float32)
        for part, r in zip(parts, rows, strict=True):
            out[part] = r
        return out

    return work


def sorted_batches(run):
    """work(texts) for a library that tokenises by itself: it gets the texts longest first."""

    def work(texts):
        order = sorted(range(len(texts)), key=lambda i: -len(texts[i]))
        rows = np.asarray(run([texts[i] for i in order]), np.float32)
        out = np.empty_like(rows)
        out[order] = rows
        return out

    return work


def threads():
    """Ways to use the threads: {text: (threads of a run, runs at the same time)}."""
    return {f"1 x {THREADS} threads": (THREADS, 1), f"{THREADS} x 1 thread": (1, THREADS)} if THREADS > 1 else {"": (1, 1)}
