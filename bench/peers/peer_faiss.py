"""FAISS, exact search with flat indices."""
import faiss
import numpy as np

import common
from common import THREADS, bounds, load, mapped, merged, search


def versions():
    return common.versions("faiss-cpu", "numpy")


class Settings:
    """Ways to search the same vectors. FAISS searches for one query on one thread, and other OpenMP threads then only
    slow it down; its BLAS path is chosen by itself for hundreds of queries only, and is faster from a few on."""

    def __init__(self, x, k):
        self.x, self.k, self.parts = x, k, []
        for i, j in bounds(len(x)):
            part = faiss.IndexFlatIP(x.shape[1])
            part.add(x[i:j])
            self.parts.append((i, part))
        self.usual = faiss.cvar.distance_compute_blas_threshold

    def path(self, rows):
        """rows of the base for each product of the BLAS path; 0 is without BLAS."""
        faiss.cvar.distance_compute_blas_threshold = 1 if rows else self.usual
        faiss.cvar.distance_compute_blas_database_bs = rows or 1024

    def whole(self, threads, rows=0):
        def work(q):
            self.path(rows)
            faiss.omp_set_num_threads(threads)
            return faiss.knn(q, self.x, self.k, metric=faiss.METRIC_INNER_PRODUCT)[::-1]
        return work

    def split(self, rows=0):
        """An index for each thread, and one OpenMP thread in each."""
        def one(part, q):
            faiss.omp_set_num_threads(1)  # of the calling thread
            scores, ids = part[1].search(q, self.k)
            return ids + part[0], scores

        def work(q):
            self.path(rows)
            parts = list(common.POOL.map(lambda part: one(part, q), self.parts))
            if self.k > 1:
                return merged(parts, self.k), None
            return None, np.max([scores for _, scores in parts], axis=0)
        return work


def found(params, k, pick):
    x, queries = mapped(params["base"]), load(params["queries"])
    settings = Settings(x, k)

    def picked(work):
        return lambda q: pick(*work(q))

    one = {"1 thread": settings.whole(1)}
    many = {f"BLAS, {THREADS} threads, {rows} rows": settings.whole(THREADS, rows) for rows in (1024, 4096)}
    if THREADS > 1:
        one |= {f"{THREADS} threads": settings.whole(THREADS), "an index for each thread": settings.split()}
        many |= {f"BLAS, an index for each thread, {rows} rows": settings.split(rows) for rows in (1024, 4096)}
    return [search("flat", f"FAISS flat k={k}", queries, {text: picked(work) for text, work in choice.items()}, n)
            for choice, n in ((one, 1), (many, params["batch"]))]


def w3(params):
    return found(params, 1, lambda ids, scores: scores[:, 0])


def w4(params):
    return found(params, params["k"], lambda ids, scores: ids)
