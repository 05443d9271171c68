"""NumPy with the OpenBLAS of its wheel."""
import numpy as np

import common
from common import Search, Stored, load, mapped, picked, unit


def versions():
    return common.versions("numpy")


def w1(params):
    return common.tables(params, "NumPy sgemm", lambda c, q, out: np.matmul(unit(c), unit(q).T, out=out), ["sort", "partition", "percentile"])


def w2(params):
    return common.binned(params, "NumPy sgemm", lambda a, b, out: np.matmul(a, b.T, out=out))


def matrix(params):
    c, q = load(params["contexts"]), load(params["queries"])
    out = np.empty((len(c), len(q)), np.float32)
    return [Stored("sgemm", "NumPy sgemm", lambda _: np.matmul(c, q.T, out=out), picked(params), mode="bounded")]


def w3(params):
    x, queries = mapped(params["base"]), load(params["queries"])
    return [
        Search("max", "NumPy X@q, max", queries, lambda q: [(x @ q[0]).max()], 1),
        Search("max", "NumPy X@Q, max", queries, lambda q: (x @ q.T).max(0), params["batch"]),
    ]


def w4(params):
    x, queries, k = mapped(params["base"]), load(params["queries"]), params["k"]

    def top(q):
        return np.argpartition(q @ x.T, -k, axis=1)[:, -k:]

    return [Search("top", "NumPy Q@X, argpartition", queries, top, n) for n in (1, params["batch"])]
