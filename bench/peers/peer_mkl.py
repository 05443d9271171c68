"""Intel MKL through its C interface, with NumPy for the statistics."""
import ctypes
import os
import sys

import numpy as np

import common
from common import THREADS, Search, Stored, load, mapped, picked, unit

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
    (m, k), n, stride = a.shape, len(b), out.strides[0] // out.itemsize
    i, one, zero = ctypes.c_int, ctypes.c_float(1), ctypes.c_float(0)
    if kind == "s":
        MKL.cblas_sgemm(ROW_MAJOR, NO, YES, i(m), i(n), i(k), one, pointer(a), i(k), pointer(b), i(k), zero, pointer(out), i(stride))
    elif kind == "bf16":
        MKL.cblas_gemm_bf16bf16f32(ROW_MAJOR, NO, YES, i(m), i(n), i(k), one, pointer(a), i(k), pointer(b), i(k), zero, pointer(out), i(stride))
    else:
        none, offset = ctypes.c_byte(0), np.zeros(1, np.int32)
        MKL.cblas_gemm_s8u8s32(ROW_MAJOR, NO, YES, FIX_OFFSET, i(m), i(n), i(k), one, pointer(a), i(k), none, pointer(b), i(k), none, zero,
                               pointer(out), i(stride), pointer(offset))
    return out


def bf16(x):
    u = np.ascontiguousarray(x).view(np.uint32)
    return ((u + 0x7FFF + ((u >> 16) & 1)) >> 16).astype(np.uint16)


def w1(params):
    return common.tables(params, "MKL sgemm", lambda c, q, out: gemm(unit(c), unit(q), out), ["sort", "partition"])


def w2(params):
    return common.binned(params, "MKL sgemm", gemm)


def matrix(params):
    c, q = load(params["contexts"]), load(params["queries"])
    out, cb, qb = np.empty((len(c), len(q)), np.float32), bf16(c), bf16(q)
    sc, sq = np.abs(c).max() / 127, np.abs(q).max() / 127
    # In row-major order the left operand of s8u8 is the unsigned one; its 128 too much is 128 times the sum of a column.
    c8, q8 = (np.round(c / sc).astype(np.int16) + 128).astype(np.uint8), np.round(q / sq).astype(np.int8)
    whole, offset = np.empty(out.shape, np.int32), 128.0 * q8.sum(axis=1, dtype=np.int64)
    return [
        Stored("sgemm", "MKL sgemm", lambda _: gemm(c, q, out), picked(params), mode="bounded"),
        Stored("bf16", "MKL bf16 gemm", lambda _: gemm(cb, qb, out, "bf16"), picked(params), dtype="bf16", mode="bounded"),
        Stored("i8", "MKL s8u8s32 gemm", lambda _: gemm(c8, q8, whole, "i8"), picked(params, float(sc) * float(sq), offset), dtype="i8", mode="bounded"),
    ]


def w3(params):
    x, queries = mapped(params["base"]), load(params["queries"])
    n, d = x.shape
    one = np.empty(n, np.float32)
    many = np.empty((params["batch"], n), np.float32)

    def gemv(q):
        i, f = ctypes.c_int, ctypes.c_float
        MKL.cblas_sgemv(ROW_MAJOR, NO, i(n), i(d), f(1), pointer(x), i(d), pointer(q), i(1), f(0), pointer(one), i(1))
        return [one.max()]

    return [
        Search("max", "MKL sgemv, max", queries, gemv, 1),
        Search("max", "MKL sgemm, max", queries, lambda q: gemm(q, x, many).max(1), params["batch"]),
    ]
