"""NumPy with the OpenBLAS of its wheel."""
import numpy as np

import common
import tables
from common import BLAS, Stored, blocks, load, mapped, merged, picked, search, threaded, top_k, unit


def versions():
    return common.versions("numpy")


def w1(params):
    return tables.w1(params, "NumPy sgemm", lambda c, q, out: np.matmul(unit(c), unit(q).T, out=out))


def w2(params):
    return tables.w2(params, "NumPy sgemm", lambda a, b, out: np.matmul(a, b.T, out=out))


def matrix(params):
    c, q = load(params["contexts"]), load(params["queries"])
    out = np.empty((len(c), len(q)), np.float32)
    return [Stored("sgemm", "NumPy sgemm", lambda _: np.matmul(c, q.T, out=out), picked(params), mode="bounded")]


def w3(params):
    x, queries, blas = mapped(params["base"]), load(params["queries"]), BLAS()

    def parts(q):
        with blas.single():
            return [max(threaded(lambda i, j: (x[i:j] @ q[0]).max(), len(x)))]

    def in_blocks(rows):
        def work(q):
            with blas.single():
                return np.max(blocks(lambda i, j, _: (x[i:j] @ q.T).max(0), len(x), rows, 0), axis=0)
        return work

    return [
        search("max", "NumPy X@q, max", queries,
               {"threads of OpenBLAS": lambda q: [(x @ q[0]).max()], "a part for each thread": parts}, 1),
        search("max", "NumPy X@Q, max", queries,
               {f"blocks of {rows} rows": in_blocks(rows) for rows in (4096, 16384, 65536)}, params["batch"]),
    ]


def w4(params):
    x, queries, k, blas = mapped(params["base"]), load(params["queries"]), params["k"], BLAS()

    def whole(q):
        return top_k(q @ x.T, k)[0]

    def in_blocks(rows):
        def part(q, i, j, out):
            places, scores = top_k(np.matmul(q, x[i:j].T, out=out), k)
            return places + i, scores

        def work(q):
            with blas.single():
                return merged(blocks(lambda i, j, out: part(q, i, j, out), len(x), rows, len(q)), k)
        return work

    settings = {"whole": whole} | {f"blocks of {rows} rows": in_blocks(rows) for rows in (16384, 65536, 250000)}
    return [search("top", "NumPy Q@X, argpartition in the best blocks", queries, settings, n)
            for n in (1, params["batch"])]
