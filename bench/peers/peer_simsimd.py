"""SimSIMD."""
import numpy as np
import simsimd

import common
from common import THREADS, Search, load, mapped


def versions():
    return common.versions("simsimd")


def w1(params):
    def scores(c, q, _):
        return 1 - np.asarray(simsimd.cdist(c, q, "cosine", threads=THREADS, out_dtype="float32")).astype(np.float32)

    return common.tables(params, "SimSIMD cdist", scores, ["sort"])


def w3(params):
    x, queries = mapped(params["base"]), load(params["queries"])

    def best(q):
        return np.asarray(simsimd.cdist(q, x, "dot", threads=THREADS, out_dtype="float32")).max(1)

    return [Search("max", "SimSIMD cdist, max", queries, best, n) for n in (1, params["batch"])]
