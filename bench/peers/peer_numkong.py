"""NumKong; threads take rows."""
import numkong as nk
import numpy as np

import common
from common import POOL, THREADS, Search, Stored, load, mapped, picked, unit


def versions():
    return common.versions("numkong")


def bounds(n):
    return [(n * t // THREADS, n * (t + 1) // THREADS) for t in range(THREADS)]


def packed(a, b, n, out, kind):
    """out = a b^T, b packed beforehand or here."""
    list(POOL.map(lambda r: nk.dots_packed(a, b, out=out, start_row=r[0], end_row=r[1]), bounds(n)))
    return out


def w1(params):
    rows = np.load(params["contexts"], mmap_mode="r").shape[0]
    wide = nk.empty((rows, rows * params["per"]), dtype="float64")  # it sums float32 products in float64
    view = np.asarray(wide)

    def scores(c, q, out):
        packed(unit(c), nk.dots_pack(unit(q), dtype="f32"), len(c), wide, "f32")
        return view

    return common.tables(params, "NumKong f32 packed", scores, ["sort"])


def matrix(params):
    c, q = load(params["contexts"]), load(params["queries"])
    n, form = len(c), (len(c), len(q))
    sc, sq = np.abs(c).max() / 127, np.abs(q).max() / 127
    c8, q8 = np.round(c / sc).astype(np.int8), np.round(q / sq).astype(np.int8)
    cb, qb = nk.astype(c, "bfloat16"), nk.astype(q, "bfloat16")

    def competitor(name, a, b, kind, dtype, out_type, scale=1.0):
        right, out = nk.dots_pack(b, dtype=kind), nk.empty(form, dtype=out_type)
        return Stored(name, f"NumKong {name} packed", lambda _: packed(a, right, n, out, kind), picked(params, scale), dtype=dtype, mode="bounded")

    return [
        competitor("f32", c, q, "f32", "f32", "float64"),
        competitor("bf16", cb, qb, "bf16", "bf16", "float32"),
        competitor("i8", c8, q8, "int8", "i8", "int32", float(sc) * float(sq)),
    ]


def w3(params):
    x, queries = mapped(params["base"]), load(params["queries"])

    def best(q):
        parts = POOL.map(lambda r: np.asarray(nk.cdist(q, x[r[0] : r[1]], "dot", out_dtype="float32")).max(), bounds(len(x)))
        return [max(float(p) for p in parts)]

    return [Search("max", "NumKong cdist, max", queries, best, 1)]
