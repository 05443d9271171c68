"""NumKong, with NumPy for the statistics; threads take rows."""
import numkong as nk
import numpy as np

import common
import tables
from common import Search, Stored, load, mapped, picked, threaded, unit

common.hold(nk)


def versions():
    return common.versions("numkong")


def packed(a, b, out):
    """out = a b^T; b is packed."""
    threaded(lambda i, j: nk.dots_packed(a, b, out=out, start_row=i, end_row=j), len(a))
    return out


def w1(params):
    rows = np.load(params["contexts"], mmap_mode="r").shape[0]
    wide = nk.empty((rows, rows * params["per"]), dtype="float64")  # it adds float32 products in float64
    view = np.asarray(wide)

    def product(c, q, out):
        packed(unit(c), nk.dots_pack(unit(q), dtype="f32"), wide)
        threaded(lambda i, j: np.copyto(out[i:j], view[i:j], casting="same_kind"), len(c))
        return out

    return tables.w1(params, "NumKong f32 packed", product)


def matrix(params):
    c, q = load(params["contexts"]), load(params["queries"])
    form = (len(c), len(q))
    sc, sq = np.abs(c).max() / 127, np.abs(q).max() / 127
    c8, q8 = np.round(c / sc).astype(np.int8), np.round(q / sq).astype(np.int8)
    cb, qb = nk.astype(c, "bfloat16"), nk.astype(q, "bfloat16")

    def competitor(name, a, b, kind, out_type, scale=1.0):
        right, out = nk.dots_pack(b, dtype=kind), nk.empty(form, dtype=out_type)
        work = lambda _: packed(a, right, out)
        return Stored(name, f"NumKong {name} packed", work, picked(params, scale), dtype=name, mode="bounded")

    return [
        competitor("f32", c, q, "f32", "float64"),
        competitor("bf16", cb, qb, "bf16", "float32"),
        competitor("i8", c8, q8, "int8", "int32", float(sc) * float(sq)),
    ]


def w3(params):
    x, queries = mapped(params["base"]), load(params["queries"])
    out = nk.empty((len(x), params["batch"]), dtype="float64")
    view = np.asarray(out)

    def one(q):
        def part(i, j):
            return float(np.asarray(nk.cdist(q, x[i:j], "dot", out_dtype="float32")).max())
        return [max(threaded(part, len(x)))]

    def many(q):
        right = nk.dots_pack(q, dtype="f32")

        def part(i, j):
            nk.dots_packed(x, right, out=out, start_row=i, end_row=j)
            return view[i:j].max(0)
        return np.max(threaded(part, len(x)), axis=0)

    return [
        Search("max", "NumKong cdist, max", queries, one, 1),
        Search("max", "NumKong f32 packed, max", queries, many, params["batch"]),
    ]
