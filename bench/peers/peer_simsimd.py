"""SimSIMD, with NumPy for the statistics."""
import numpy as np
import simsimd

import common
import tables
from common import THREADS, Search, load, mapped, unit

common.hold(simsimd)


def versions():
    return common.versions("simsimd")


def w1(params):
    def product(c, q, out):
        c, q = unit(c), unit(q)  # a dot product takes less than a cosine
        for i in range(0, len(q), 300):  # queries that stay in a core's cache
            out[:, i : i + 300] = simsimd.cdist(c, q[i : i + 300], "dot", threads=THREADS, out_dtype="float32")
        return out

    return tables.w1(params, "SimSIMD cdist", product)


def w3(params):
    x, queries = mapped(params["base"]), load(params["queries"])

    def best(q):  # each vector is read once, for all queries
        return np.asarray(simsimd.cdist(x, q, "dot", threads=THREADS, out_dtype="float32")).max(0)

    return [Search("max", "SimSIMD cdist, max", queries, best, n) for n in (1, params["batch"])]
