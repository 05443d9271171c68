"""What the peers share: competitors, files, the statistics around a product, versions of packages."""
import os
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version

import numpy as np

THREADS = int(os.environ.get("SLUICE_BENCH_THREADS", "1"))
POOL = ThreadPoolExecutor(THREADS)
BINS = 4096


def versions(*packages):
    return {p: version(p) for p in packages}


class Competitor:
    """One implementation. work(query) is timed; query, keep and result are not."""

    def __init__(self, name, impl, work, result=None, dtype="f32", mode="exact", batch=0):
        self.name, self.impl, self.work, self.dtype, self.mode, self.batch = name, impl, work, dtype, mode, batch
        self.answer, self._result = None, result or (lambda answer: answer)

    def query(self, batch):
        return None

    def keep(self, batch, answer):
        self.answer = answer

    def result(self):
        return self._result(self.answer)

    def offer(self):
        return {"name": self.name, "impl": self.impl, "dtype": self.dtype, "mode": self.mode, "batch": self.batch}


class Stored(Competitor):
    """A competitor whose output others overwrite: its result is taken after every run."""

    def keep(self, batch, answer):
        self.answer = self._result(answer)

    def result(self):
        return self.answer


class Search(Competitor):
    """A competitor that searches for rows of a file of queries, batch of them at a time."""

    def __init__(self, name, impl, queries, work, batch, mode="exact"):
        super().__init__(f"{name} {batch}", impl, work, mode=mode, batch=batch)
        self.queries, self.answers = queries, {}

    def query(self, batch):
        return np.ascontiguousarray(self.queries[batch])

    def keep(self, batch, answer):
        for query, found in zip(batch, np.asarray(answer).tolist(), strict=True):
            self.answers[query] = found

    def result(self):
        return self.answers


def load(path):
    """The vectors in memory."""
    return np.load(path)


def mapped(path):
    """The vectors as a mapping that all processes share: 10^6 x 384 of them are 1.5 GB."""
    return np.asarray(np.load(path, mmap_mode="r"))


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def ranks(n, quantiles):
    places = [q * (n - 1) for q in quantiles]
    return places, sorted({int(f(x)) for x in places for f in (np.floor, np.ceil)})


def type7(values, quantiles):
    """Quantiles of values that are partitioned at ranks()."""
    places, _ = ranks(len(values), quantiles)
    out = []
    for x in places:
        low, high = float(values[int(np.floor(x))]), float(values[int(np.ceil(x))])
        out.append(low + (x - np.floor(x)) * (high - low))
    return out


def split(scores, n, k):
    """Own pairs and all others of an n x n*k matrix whose query j belongs to row j // k. Leaving out k entries of
    each row is a reshape: between two rows' own entries lie exactly n*k others."""
    own = scores.reshape(n, n, k)[np.arange(n), np.arange(n)].ravel()
    others = scores.ravel()[k:][: (n - 1) * (n + 1) * k].reshape(n - 1, (n + 1) * k)[:, : n * k].ravel()
    return own, others


def table(scores, n, k, quantiles, how):
    own, others = split(scores, n, k)
    mean = float(others.mean(dtype=np.float64))
    if how == "sort":  # AVX-512 in NumPy 2
        others.sort()
        negative = type7(others, quantiles)
    elif how == "partition":
        others.partition(ranks(len(others), quantiles)[1])
        negative = type7(others, quantiles)
    else:
        negative = [float(x) for x in np.percentile(others, [100 * q for q in quantiles])]
    own.sort()
    return {"positive": type7(own, quantiles), "negative": negative, "mean": mean}


def tables(params, name, scores, hows, dtype="f32"):
    """W1 for a function that makes the matrix of cosines."""
    c, q = load(params["contexts"]), load(params["queries"])
    n, k = len(c), params["per"]
    out = np.empty((n, n * k), np.float32)
    def work(how):
        return lambda _: table(scores(c, q, out), n, k, params["quantiles"], how)
    label = {"sort": "np.sort", "partition": "np.partition", "percentile": "np.percentile"}
    return [Competitor(how, f"{name} + {label[how]}", work(how), dtype=dtype) for how in hows]


def share(n, params):
    """The rows of one of several processes."""
    return slice(n * params["part"] // params["of"], n * (params["part"] + 1) // params["of"])


def bin_of(scores):
    return ((scores + 1) * (BINS / 2)).astype(np.int32)


def own_scores(c, q, k):
    return np.einsum("id,ijd->ij", c, q.reshape(len(c), k, -1))


def binned(params, name, gemm):
    """W2 for a function gemm(a, b, out) = a b^T: blocks of products, 4,096 bins, minimum, maximum and sum."""
    c, q = load(params["contexts"]), load(params["queries"])
    k, rows = params["per"], share(len(c), params)
    height, width = min(512, len(c)), min(6000, len(q))
    out = np.empty((height, width), np.float32)

    def count(scores):
        return np.bincount(bin_of(scores).ravel(), minlength=BINS + 1), scores.min(), scores.max(), scores.sum(dtype=np.float64)

    def work(_):
        histogram = np.zeros(BINS + 1, np.int64)
        mine, all_queries = unit(c[rows]), unit(q)
        for i in range(0, len(mine), height):
            for j in range(0, len(q), width):
                a, b = mine[i : i + height], all_queries[j : j + width]
                scores = gemm(a, b, out[: len(a), : len(b)] if len(b) == width else np.empty((len(a), len(b)), np.float32))
                for part in POOL.map(count, np.array_split(scores, THREADS)):
                    histogram += part[0]
        own = own_scores(mine, all_queries[rows.start * k : rows.stop * k], k)
        histogram -= np.bincount(bin_of(own).ravel(), minlength=BINS + 1)
        return histogram

    def result(histogram):
        histogram[BINS - 1] += histogram[BINS]  # a cosine of exactly 1
        own = np.sort(own_scores(unit(c), unit(q), k), axis=None)
        return {"positive": type7(own, params["quantiles"]), "histogram": histogram[:BINS].tolist()}

    return [Competitor("bins", f"{name} + int32 + bincount", work, result, mode="interval")]


def picked(params, scale=1.0, offset=None):
    """The sampled scores of a stored matrix, after taking off offset[column] and scaling."""
    rows, columns = np.array(params["rows"]), np.array(params["columns"])

    def result(out):
        values = np.asarray(out)[rows, columns].astype(np.float64)
        if offset is not None:
            values = values - offset[columns]
        return (values * scale).tolist()

    return result
