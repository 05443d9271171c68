"""JAX on the CPU."""
import jax
import jax.numpy as jnp
import numpy as np

import common
from common import BINS, Competitor, Search, Stored, bin_of, load, mapped, own_scores, picked, type7, unit


def versions():
    return common.versions("jax", "jaxlib")


def w1(params):
    c, q = load(params["contexts"]), load(params["queries"])
    n, k = len(c), params["per"]
    percent = jnp.array([100 * p for p in params["quantiles"]])

    @jax.jit
    def full(c, q):
        c, q = (x / jnp.linalg.norm(x, axis=-1, keepdims=True) for x in (c, q))
        own = jnp.einsum("fj,fkj->fk", c, q.reshape(n, k, -1)).ravel()
        scores = jnp.where(jnp.eye(n, dtype=bool)[:, :, None], jnp.nan, (c @ q.T).reshape(n, n, k))
        return jnp.percentile(own, percent), jnp.nanpercentile(scores, percent), jnp.nanmean(scores)

    c, q = jnp.asarray(c), jnp.asarray(q)

    def result(answer):
        return {"positive": np.asarray(answer[0]).tolist(), "negative": np.asarray(answer[1]).tolist(), "mean": float(answer[2])}

    return [Competitor("full", "JAX jit, nanpercentile", lambda _: jax.block_until_ready(full(c, q)), result)]


def w2(params):
    c, q = load(params["contexts"]), load(params["queries"])
    k, height, width = params["per"], min(512, len(c)), min(6000, len(q))

    @jax.jit
    def count(a, b):
        scores = a @ b.T
        places = ((scores + 1) * (BINS / 2)).astype(jnp.int32)
        return jnp.bincount(places.ravel(), length=BINS + 1), scores.min(), scores.max(), scores.sum()

    def work(_):
        histogram = np.zeros(BINS + 1, np.int64)
        contexts, queries = unit(c), unit(q)
        for i in range(0, len(c), height):
            for j in range(0, len(q), width):
                histogram += np.asarray(count(contexts[i : i + height], queries[j : j + width])[0])
        return histogram - np.bincount(bin_of(own_scores(contexts, queries, k)).ravel(), minlength=BINS + 1)

    def result(histogram):
        own = np.sort(own_scores(unit(c), unit(q), k), axis=None)
        return {"positive": type7(own, params["quantiles"]), "histogram": histogram[:BINS].tolist()}

    return [Competitor("bins", "JAX jit matmul + bincount", work, result, mode="interval")]


def matrix(params):
    c, q = jnp.asarray(load(params["contexts"])), jnp.asarray(load(params["queries"]))
    cb, qb = c.astype(jnp.bfloat16), q.astype(jnp.bfloat16)
    product = jax.jit(lambda a, b: jax.lax.dot_general(a, b, (((1,), (1,)), ((), ())), preferred_element_type=jnp.float32))
    return [
        Stored("f32", "JAX matmul", lambda _: product(c, q).block_until_ready(), picked(params), mode="bounded"),
        Stored("bf16", "JAX bf16 matmul", lambda _: product(cb, qb).block_until_ready(), picked(params), dtype="bf16", mode="bounded"),
    ]


def w3(params):
    x, queries = jnp.asarray(mapped(params["base"])), load(params["queries"])
    best = jax.jit(lambda x, q: jnp.max(x @ q.T, axis=0))
    published = jax.jit(lambda x, q: jnp.max(jnp.sum(x * q, axis=1)))
    return [
        Search("max", "JAX X@q, max", queries, lambda q: best(x, q).block_until_ready(), 1),
        Search("sum", "JAX sum(X*q), max (the gate's published form)", queries, lambda q: [published(x, q[0]).block_until_ready()], 1),
        Search("max", "JAX X@Q, max", queries, lambda q: best(x, q).block_until_ready(), params["batch"]),
    ]


def w4(params):
    x, queries, k = jnp.asarray(mapped(params["base"])), load(params["queries"]), params["k"]
    top = jax.jit(lambda x, q: jax.lax.top_k(q @ x.T, k)[1])
    return [Search("top", "JAX Q@X, lax.top_k", queries, lambda q: top(x, q).block_until_ready(), n) for n in (1, params["batch"])]
