"""USearch, exact search."""
import numpy as np
from usearch.index import search as exact_search

import common
from common import THREADS, Search, load, mapped


def versions():
    return common.versions("usearch")


def found(params, k, pick):
    x, queries = mapped(params["base"]), load(params["queries"])

    def work(q):
        return pick(exact_search(x, q, k, "ip", exact=True, threads=THREADS), len(q))

    return [Search("exact", f"USearch exact k={k}", queries, work, n) for n in (1, params["batch"])]


def w3(params):
    return found(params, 1, lambda m, n: 1 - np.asarray(m.distances).reshape(n))


def w4(params):
    return found(params, params["k"], lambda m, n: np.asarray(m.keys).reshape(n, -1))
