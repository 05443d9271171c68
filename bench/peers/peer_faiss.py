"""FAISS, exact search with flat indices, and with FlatIPPanorama, which leaves out vectors by bounds of their first
coordinates."""
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


class Panorama:
    """FlatIPPanorama, an index for each thread. The rotation before it, which gathers the vectors' lengths in the first
    coordinates (PCA without the mean, so that inner products stay) or spreads them (random), and the number of levels
    are the fastest for the first query on a tenth of the vectors. The indices are built before anything is timed."""

    def __init__(self, x, queries, k):
        self.k, self.dim = k, x.shape[1]
        tenth = x[::10]
        rotations = {"no rotation": None, "PCA": self.principal(tenth), "random rotation": self.random()}
        choices = {f"{levels} levels, {name}": (rotation, levels)
                   for name, rotation in rotations.items() for levels in (4, 8, 16)}
        tried = {text: self.searching([(0, self.built(tenth, *choice))]) for text, choice in choices.items()}
        self.choice = common.fastest(tried, np.ascontiguousarray(queries[:1]))[0]
        tried.clear()
        self.parts = [(i, self.built(x[i:j], *choices[self.choice])) for i, j in bounds(len(x))]

    def principal(self, x):
        rows = x.astype(np.float64)
        rotation = faiss.LinearTransform(self.dim, self.dim, False)
        faiss.copy_array_to_vector(np.linalg.eigh(rows.T @ rows)[1][:, ::-1].T.astype(np.float32).ravel(), rotation.A)
        rotation.is_trained = rotation.is_orthonormal = True
        return rotation

    def random(self):
        rotation = faiss.RandomRotationMatrix(self.dim, self.dim)
        rotation.init(5)
        return rotation

    def built(self, x, rotation, levels):
        index = faiss.IndexFlatIPPanorama(self.dim, levels)
        if rotation is not None:
            index = faiss.IndexPreTransform(rotation, index)
        index.add(np.ascontiguousarray(x))
        return index

    def searching(self, parts, run=map):
        def one(part, q):
            faiss.omp_set_num_threads(1)  # of the calling thread
            scores, ids = part[1].search(q, self.k)
            return ids + part[0], scores

        def work(q):
            found = list(run(lambda part: one(part, q), parts))
            if self.k > 1:
                return merged(found, self.k), None
            return None, np.max([scores for _, scores in found], axis=0)
        return work

    def settings(self):
        choice = {f"{self.choice}, 1 thread": self.searching(self.parts)}
        if THREADS > 1:
            choice[f"{self.choice}, an index for each thread"] = self.searching(self.parts, common.POOL.map)
        return choice


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
    panorama = Panorama(x, queries, k).settings()
    return [search(name, f"{impl} k={k}", queries, {text: picked(work) for text, work in choice.items()}, n)
            for name, impl, choices in (("flat", "FAISS flat", (one, many)),
                                        ("panorama", "FAISS FlatIPPanorama", (panorama, panorama)))
            for choice, n in zip(choices, (1, params["batch"]))]


def w3(params):
    return found(params, 1, lambda ids, scores: scores[:, 0])


def w4(params):
    return found(params, params["k"], lambda ids, scores: ids)
