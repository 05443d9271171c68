"""FAISS, exact search over the mapped vectors (faiss.knn, the same code as IndexFlatIP without its copy)."""
import faiss

import common
from common import THREADS, Search, load, mapped


def versions():
    return common.versions("faiss-cpu", "numpy")


def found(params, k, pick):
    faiss.omp_set_num_threads(THREADS)
    x, queries = mapped(params["base"]), load(params["queries"])
    usual = faiss.cvar.distance_compute_blas_threshold

    def knn(blas):
        def work(q):
            # By itself FAISS takes the BLAS path for hundreds of queries only, and is slower without it from a few on.
            faiss.cvar.distance_compute_blas_threshold = 1 if blas else usual
            return pick(*faiss.knn(q, x, k, metric=faiss.METRIC_INNER_PRODUCT))
        return work

    batch = params["batch"]
    return [
        Search("flat", f"FAISS flat k={k}", queries, knn(False), 1),
        Search("flat", f"FAISS flat k={k}", queries, knn(False), batch),
        Search("blas", f"FAISS flat k={k}, BLAS path forced", queries, knn(True), batch),
    ]


def w3(params):
    return found(params, 1, lambda scores, ids: scores[:, 0])


def w4(params):
    return found(params, params["k"], lambda scores, ids: ids)
