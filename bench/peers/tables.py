"""W1 and W2 for the peers that multiply matrices: the statistics around a product."""
import numpy as np

from common import POOL, THREADS, Competitor, fastest, load, threaded, unit

STRIP = 16  # rows whose statistics are computed at a time, so that they stay in a core's cache
BIN = 2 / 4096  # W2's quantiles are found in intervals of two bins


def ranks(n, quantiles):
    """The places of quantiles among n sorted values, and the ranks beside them."""
    places = [q * (n - 1) for q in quantiles]
    return places, sorted({int(f(x)) for x in places for f in (np.floor, np.ceil)})


def type7(at, places):
    """Quantiles of type 7 from the values at the ranks beside their places."""
    out = []
    for x in places:
        low, high = at[int(np.floor(x))], at[int(np.ceil(x))]
        out.append(low + (x - np.floor(x)) * (high - low))
    return out


def own_quantiles(own, quantiles):
    own = np.sort(own, axis=None)
    places, wanted = ranks(len(own), quantiles)
    return type7({r: float(own[r]) for r in wanted}, places)


def own_places(n, k):
    """The index of the own pairs in an n x n x k view of the scores: query j belongs to context j // k."""
    i = np.arange(n)
    return i, i


def by_sort(scores, k, quantiles):
    """The quantiles of all but the own pairs: the parts of all threads sorted at the same time, and the values at the
    wanted ranks found by bisection over the sorted parts. Overwrites scores."""
    n = len(scores)
    cube = scores.reshape(n, n, k)
    own = cube[own_places(n, k)]
    cube[own_places(n, k)] = np.inf  # after all others
    flat = scores.reshape(-1)
    threaded(lambda begin, end: flat[begin:end].sort(), flat.size)
    parts = [flat[flat.size * t // THREADS : flat.size * (t + 1) // THREADS] for t in range(THREADS)]
    places, wanted = ranks(flat.size - own.size, quantiles)
    return own, type7({r: kth(parts, r) for r in wanted}, places)


def kth(parts, rank):
    """The value of a rank over several sorted float32 arrays, by bisection on the order of their bits."""
    def number(x):
        bits = int(np.float32(x).view(np.int32))
        return bits if bits >= 0 else -(bits & 0x7FFFFFFF)

    def value(i):
        return np.int32(i).view(np.float32) if i >= 0 else -np.int32(-i).view(np.float32)

    low = number(min(p[0] for p in parts))
    high = number(max(p[min(len(p) - 1, rank)] for p in parts))
    while low < high:
        middle = (low + high) // 2
        if sum(int(np.searchsorted(p, value(middle), "right")) for p in parts) > rank:
            high = middle
        else:
            low = middle + 1
    return float(value(low))


def brackets(sample, quantiles):
    """For each inner quantile a low and a high value that contain it with near certainty, from a sample."""
    sample = np.sort(sample, axis=None)
    m, out = len(sample), []
    for q in quantiles:
        if 0 < q < 1:
            width = 6 * np.sqrt(q * (1 - q) * m) + 2
            out.append((sample[max(0, int(q * m - width))], sample[min(m - 1, int(q * m + width))]))
    return out


def by_brackets(scores, k, quantiles):
    """The same without sorting all: counts below brackets from a sample, and a sort of what lies in the brackets.
    Every thread goes through strips of its rows."""
    n = len(scores)
    cube = scores.reshape(n, n, k)
    own = cube[own_places(n, k)]
    found = brackets(scores[::7, ::11], quantiles)
    size = STRIP * scores.shape[1]

    def count(begin, end):
        below, kept = np.zeros(len(found), np.int64), []
        minimum, maximum = np.inf, -np.inf
        inside, a, b = (np.empty(size, bool) for _ in range(3))
        for i in range(begin, end, STRIP):
            j = np.arange(i, min(i + STRIP, end))
            x = scores[j[0] : j[-1] + 1].reshape(-1)
            cube[j, j] = -np.inf
            maximum = max(maximum, x.max())
            cube[j, j] = np.inf
            minimum = min(minimum, x.min())
            one, two, any_of = a[: x.size], b[: x.size], inside[: x.size]
            any_of[:] = False
            for f, (low, high) in enumerate(found):
                np.greater_equal(x, low, out=one)
                below[f] += x.size - np.count_nonzero(one)
                np.less_equal(x, high, out=two)
                one &= two
                any_of |= one
            kept.append(np.compress(any_of, x))
        return below, kept, minimum, maximum

    parts = threaded(count, n)
    below = sum(p[0] for p in parts)
    kept = np.sort(np.concatenate([x for p in parts for x in p[1]]))
    places, wanted = ranks(scores.size - own.size, quantiles)
    at = {0: float(min(p[2] for p in parts)), scores.size - own.size - 1: float(max(p[3] for p in parts))}
    for (low, high), first in zip(found, below):
        offset = int(np.searchsorted(kept, low)) - int(first)
        end = int(np.searchsorted(kept, high, "right"))
        at |= {r: float(kept[r + offset]) for r in wanted if first <= r and r + offset < end}
    if any(r not in at for r in wanted):  # a quantile outside its bracket
        return own, by_sort(scores, k, quantiles)[1]
    return own, type7(at, places)


def w1(params, name, product, dtype="f32"):
    """W1 for product(contexts, queries, out), which returns the matrix of cosines. The faster of two ways to the
    quantiles is chosen on this machine: np.sort is quick only where it has AVX-512."""
    c, q = load(params["contexts"]), load(params["queries"])
    out = np.empty((len(c), len(q)), np.float32)

    def work(quantiles_of):
        def run(_):
            own, negative = quantiles_of(product(c, q, out), params["per"], params["quantiles"])
            return {"positive": own_quantiles(own, params["quantiles"]), "negative": negative}
        return run

    text, run = fastest({"np.sort in threads": work(by_sort), "brackets from a sample": work(by_brackets)}, None)
    return [Competitor("table", f"{name}, {text}", run, dtype=dtype)]


def share(n, params):
    """The rows of one of several processes."""
    return slice(n * params["part"] // params["of"], n * (params["part"] + 1) // params["of"])


def own_scores(c, q, k):
    return np.einsum("id,ijd->ij", c, q.reshape(len(c), k, -1))


def thresholds(c, q, k, quantiles):
    """Two values around each inner quantile, a bin away from its value in a sample of all pairs."""
    step_c, step_q = max(1, len(c) // 2500), max(1, len(q) // 3300)
    sample = c[::step_c] @ q[::step_q].T
    owner = np.arange(0, len(q), step_q) // k
    mine = np.flatnonzero(owner % step_c == 0)
    sample[owner[mine] // step_c, mine] = np.inf  # after all others
    last, sample = sample.size - len(mine) - 1, sample.ravel()
    places = [int(p * last) for p in quantiles if 0 < p < 1]
    sample.partition(sorted(set(places)))
    middle = sample[places]
    return np.sort(np.concatenate([middle - BIN, middle + BIN])).astype(np.float32)


def w2(params, name, gemm):
    """W2 for gemm(a, b, out), which returns a b^T: blocks of products and, for each, how many scores are below the
    thresholds. A process has one thread and a part of the contexts."""
    c, q = load(params["contexts"]), load(params["queries"])
    k, rows = params["per"], share(len(c), params)
    height, width = min(1024, len(c)), min(6000, len(q))
    out, flags = np.empty((height, width), np.float32), np.empty((STRIP, width), bool)

    def work(_):
        contexts, queries = unit(c), unit(q)
        edges = thresholds(contexts, queries, k, params["quantiles"])
        below = np.zeros(len(edges), np.int64)
        mine = contexts[rows]
        for i in range(0, len(mine), height):
            for j in range(0, len(q), width):
                a, b = mine[i : i + height], queries[j : j + width]
                scores = gemm(a, b, out[: len(a), : len(b)])
                for s in range(0, len(a), STRIP):
                    x = scores[s : s + STRIP]
                    for e, edge in enumerate(edges):
                        below[e] += np.count_nonzero(np.less(x, edge, out=flags[: len(x), : len(b)]))
        own = own_scores(mine, queries[rows.start * k : rows.stop * k], k)
        return edges, below - np.array([np.count_nonzero(own < e) for e in edges])

    def result(answer):
        edges, below = answer
        own = own_scores(unit(c), unit(q), k)
        return {
            "positive": own_quantiles(own, params["quantiles"]), "thresholds": edges.tolist(), "below": below.tolist(),
            "pairs": (rows.stop - rows.start) * (len(q) - k),
        }

    return [Competitor("counts", f"{name}, counts below thresholds from a sample", work, result, mode="interval")]
