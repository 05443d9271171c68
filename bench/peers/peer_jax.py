"""JAX on the CPU, with NumPy for statistics that XLA does slowly there."""
import jax
import jax.numpy as jnp
import numpy as np

import common
import tables
from common import Search, Stored, load, mapped, picked, search, threaded, unit


def versions():
    return common.versions("jax", "jaxlib")


def w1(params):
    product = jax.jit(lambda c, q: c @ q.T)

    def scores(c, q, out):
        cosines = np.asarray(product(unit(c), unit(q)))  # read-only
        threaded(lambda i, j: np.copyto(out[i:j], cosines[i:j]), len(c))
        return out

    return tables.w1(params, "JAX matmul", scores)


def w2(params):
    product = jax.jit(lambda a, b: a @ b.T)
    return tables.w2(params, "JAX matmul", lambda a, b, out: np.asarray(product(a, b)))


def matrix(params):
    c, q = jnp.asarray(load(params["contexts"])), jnp.asarray(load(params["queries"]))
    cb, qb = c.astype(jnp.bfloat16), q.astype(jnp.bfloat16)

    @jax.jit
    def product(a, b):
        return jax.lax.dot_general(a, b, (((1,), (1,)), ((), ())), preferred_element_type=jnp.float32)

    def stored(name, impl, a, b):
        work = lambda _: product(a, b).block_until_ready()
        return Stored(name, impl, work, picked(params), dtype=name, mode="bounded")

    return [stored("f32", "JAX matmul", c, q), stored("bf16", "JAX bf16 matmul", cb, qb)]


def w3(params):
    x, queries = jnp.asarray(mapped(params["base"])), load(params["queries"])
    best = jax.jit(lambda x, q: jnp.max(x @ q.T, axis=0))
    rows = jax.jit(lambda x, q: jnp.max(q @ x.T, axis=1))
    settings = {"X@Q": lambda q: best(x, q).block_until_ready(), "Q@X": lambda q: rows(x, q).block_until_ready()}
    published = jax.jit(lambda x, q: jnp.max(jnp.sum(x * q, axis=1)))
    return [
        search("max", "JAX product, max", queries, settings, 1),
        Search("sum", "JAX sum(X*q), max (the gate's published form)", queries,
               lambda q: [published(x, q[0]).block_until_ready()], 1),
        search("max", "JAX product, max", queries, settings, params["batch"]),
    ]


def w4(params):
    x, queries, k, width = jnp.asarray(mapped(params["base"])), load(params["queries"]), params["k"], 250

    @jax.jit
    def top(x, q):
        return jax.lax.top_k(q @ x.T, k)[1]

    @jax.jit
    def top_of_blocks(x, q):  # only the blocks of columns with the k best maxima can contain the k best
        scores = (q @ x.T).reshape(len(q), -1, width)
        best = jax.lax.top_k(scores.max(2), k)[1]
        some = jnp.take_along_axis(scores, best[:, :, None], 1).reshape(len(q), -1)
        place = jax.lax.top_k(some, k)[1]
        return jnp.take_along_axis(best, place // width, 1) * width + place % width

    settings = {"of all": lambda q: top(x, q).block_until_ready()}
    if len(x) % width == 0 and len(x) >= 4 * k * width:
        settings["of the best blocks"] = lambda q: top_of_blocks(x, q).block_until_ready()
    return [search("top", "JAX Q@X, lax.top_k", queries, settings, n) for n in (1, params["batch"])]
