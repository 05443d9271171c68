"""Intel MKL through its C interface, with NumPy for the statistics."""
import ctypes
import os
import sys

import numpy as np

import common
import tables
from common import THREADS, Stored, blocks, load, mapped, merged, picked, search, threaded, top_k, unit

ROW_MAJOR, NO, YES, FIX_OFFSET = 101, 111, 112, 173


def library():
    folder = os.path.join(sys.prefix, "lib")
    ctypes.CDLL(os.path.join(folder, "libiomp5.so"), mode=ctypes.RTLD_GLOBAL)
    mkl = ctypes.CDLL(os.path.join(folder, "libmkl_rt.so.3"), mode=ctypes.RTLD_GLOBAL)
    mkl.MKL_Set_Num_Threads(THREADS)
    return mkl


MKL = library()


def versions():
    return common.versions("mkl", "numpy")


def pointer(a):
    return a.ctypes.data_as(ctypes.c_void_p)


def gemm(a, b, out, kind="s"):
    """out = a b^T; the operands are C-contiguous, out may be wider than its view."""
    integer, one, zero = ctypes.c_int, ctypes.c_float(1), ctypes.c_float(0)
    m, n, k, stride = (integer(x) for x in (len(a), len(b), a.shape[1], out.strides[0] // out.itemsize))
    pa, pb, po = pointer(a), pointer(b), pointer(out)
    if kind == "s":
        MKL.cblas_sgemm(ROW_MAJOR, NO, YES, m, n, k, one, pa, k, pb, k, zero, po, stride)
    elif kind == "bf16":
        MKL.cblas_gemm_bf16bf16f32(ROW_MAJOR, NO, YES, m, n, k, one, pa, k, pb, k, zero, po, stride)
    else:
        none, offset = ctypes.c_byte(0), np.zeros(1, np.int32)
        MKL.cblas_gemm_s8u8s32(ROW_MAJOR, NO, YES, FIX_OFFSET, m, n, k, one, pa, k, none, pb, k, none, zero,
                               po, stride, pointer(offset))
    return out


def bf16(x):
    u = np.ascontiguousarray(x).view(np.uint32)
    return ((u + 0x7FFF + ((u >> 16) & 1)) >> 16).astype(np.uint16)


def w1(params):
    return tables.w1(params, "MKL sgemm", lambda c, q, out: gemm(unit(c), unit(q), out))


def w2(params):
    return tables.w2(params, "MKL sgemm", gemm)


def matrix(params):
    c, q = load(params["contexts"]), load(params["queries"])
    out, cb, qb = np.empty((len(c), len(q)), np.float32), bf16(c), bf16(q)
    sc, sq = np.abs(c).max() / 127, np.abs(q).max() / 127
    # In row-major order the left operand of s8u8 is the unsigned one. It is 128 too large, which adds 128 times the
    # sum of a column.
    c8, q8 = (np.round(c / sc).astype(np.int16) + 128).astype(np.uint8), np.round(q / sq).astype(np.int8)
    whole, offset = np.empty(out.shape, np.int32), 128.0 * q8.sum(axis=1, dtype=np.int64)
    return [
        Stored("sgemm", "MKL sgemm", lambda _: gemm(c, q, out), picked(params), mode="bounded"),
        Stored("bf16", "MKL bf16 gemm", lambda _: gemm(cb, qb, out, "bf16"), picked(params), "bf16", "bounded"),
        Stored("i8", "MKL s8u8s32 gemm", lambda _: gemm(c8, q8, whole, "i8"),
               picked(params, float(sc) * float(sq), offset), "i8", "bounded"),
    ]


def alone(work):
    """work with one MKL thread in each calling thread."""
    def run(*args):
        MKL.MKL_Set_Num_Threads_Local(1)
        try:
            return work(*args)
        finally:
            MKL.MKL_Set_Num_Threads_Local(0)  # the number of the process
    return run


def gemv(x, q, out):
    (n, d), i, f = x.shape, ctypes.c_int, ctypes.c_float
    MKL.cblas_sgemv(ROW_MAJOR, NO, i(n), i(d), f(1), pointer(x), i(d), pointer(q), i(1), f(0), pointer(out), i(1))
    return out


def w3(params):
    x, queries = mapped(params["base"]), load(params["queries"])
    n, batch = len(x), params["batch"]
    one, many = np.empty(n, np.float32), np.empty((batch, n), np.float32)

    def parts(q):
        return [max(threaded(alone(lambda i, j: gemv(x[i:j], q, one[i:j]).max()), n))]

    def in_blocks(rows):
        work = alone(lambda q, i, j, out: gemm(q, x[i:j], out).max(1))
        return lambda q: np.max(blocks(lambda i, j, out: work(q, i, j, out), n, rows, len(q)), axis=0)

    return [
        search("max", "MKL sgemv, max", queries,
               {"threads of MKL": lambda q: [gemv(x, q, one).max()], "a part for each thread": parts}, 1),
        search("max", "MKL sgemm, max", queries, {"whole": lambda q: gemm(q, x, many[: len(q)]).max(1)}
               | {f"blocks of {rows} rows": in_blocks(rows) for rows in (4096, 65536)}, batch),
    ]


def w4(params):
    x, queries, k, batch = mapped(params["base"]), load(params["queries"]), params["k"], params["batch"]

    def in_blocks(rows):
        def part(q, i, j, out):
            places, scores = top_k(gemm(q, x[i:j], out), k)
            return places + i, scores
        work = alone(part)
        return lambda q: merged(blocks(lambda i, j, out: work(q, i, j, out), len(x), rows, len(q)), k)

    settings = {f"blocks of {rows} rows": in_blocks(rows) for rows in (16384, 65536, 250000)}
    return [search("top", "MKL sgemm, argpartition in the best blocks", queries, settings, batch)]
