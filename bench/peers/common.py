"""What the peers share: competitors, files, threads, the choice between settings, versions of packages."""
import os
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version

import numpy as np
from threadpoolctl import ThreadpoolController, threadpool_info

THREADS = int(os.environ.get("SLUICE_BENCH_THREADS", "1"))
POOL = ThreadPoolExecutor(THREADS)


def versions(*packages):
    return {p: version(p) for p in packages} | openblas()


def openblas():
    """The version and the kernels of OpenBLAS, if the process has loaded it."""
    return {"OpenBLAS of " + os.path.basename(os.path.dirname(i["filepath"])).removesuffix(".libs"):
            f"{i['version']} {i['architecture']}" for i in threadpool_info() if i["internal_api"] == "openblas"}


def hold(module):
    """Disables kernels beyond the instruction set that the benchmark is held to."""
    capabilities = os.environ.get("SLUICE_BENCH_CAPABILITIES", "").split()
    for name, there in module.get_capabilities().items() if capabilities else ():
        if there and name not in capabilities:
            module.disable_capability(name)


class Competitor:
    """One implementation. work(query) is timed; query, keep and result are not."""

    def __init__(self, name, impl, work, result=None, dtype="f32", mode="exact", batch=0):
        self.name, self.impl, self.work, self.dtype, self.mode, self.batch = name, impl, work, dtype, mode, batch
        self.answer, self._result = None, result or (lambda answer: answer)

    def query(self, batch):
        return None

    def keep(self, batch, answer):
        self.answer = answer

    def result(self):
        return self._result(self.answer)

    def offer(self):
        return {"name": self.name, "impl": self.impl, "dtype": self.dtype, "mode": self.mode, "batch": self.batch}


class Stored(Competitor):
    """A competitor whose output others overwrite: its result is taken after every run."""

    def keep(self, batch, answer):
        self.answer = self._result(answer)

    def result(self):
        return self.answer


class Search(Competitor):
    """A competitor that searches for rows of a file of queries, batch of them at a time."""

    def __init__(self, name, impl, queries, work, batch, mode="exact"):
        super().__init__(f"{name} {batch}", impl, work, mode=mode, batch=batch)
        self.queries, self.answers = queries, {}

    def query(self, batch):
        return np.ascontiguousarray(self.queries[batch])

    def keep(self, batch, answer):
        for query, found in zip(batch, np.asarray(answer).tolist(), strict=True):
            self.answers[query] = found

    def result(self):
        return self.answers


def search(name, impl, queries, settings, batch):
    """The competitor with the fastest of several settings {text: work}, tried on the first queries."""
    text, work = fastest(settings, np.ascontiguousarray(queries[:batch]))
    return Search(name, f"{impl}, {text}" if text else impl, queries, work, batch)


def fastest(settings, query, rounds=4):
    """(text, work) of the fastest of {text: work}: each warms up, then all run in turns; the minimum counts. What is
    much slower than another one in the first round is left out of the others."""
    if len(settings) == 1:
        return next(iter(settings.items()))
    for work in settings.values():
        work(query)
    best = dict.fromkeys(settings, float("inf"))
    for _ in range(rounds):
        for text, work in settings.items():
            if best[text] == float("inf") or best[text] < 1.5 * min(best.values()):
                begin = time.perf_counter()
                work(query)
                best[text] = min(best[text], time.perf_counter() - begin)
    text = min(best, key=best.get)
    return text, settings[text]


def load(path):
    """The vectors in memory."""
    return np.load(path)


def mapped(path):
    """The vectors as a mapping that all processes share: 10^6 x 384 of them are 1.5 GB."""
    return np.asarray(np.load(path, mmap_mode="r"))


def bounds(n):
    """n rows in as many parts as there are threads."""
    return [(n * t // THREADS, n * (t + 1) // THREADS) for t in range(THREADS)]


def threaded(work, n):
    """The results of work(from, to) for each part of n rows, all parts at the same time."""
    return list(POOL.map(lambda part: work(*part), bounds(n)))


def blocks(work, n, rows, columns):
    """The results of work(from, to, out) for blocks of rows, each thread going through a part of them. out has room
    for columns x (to - from) scores."""
    def part(begin, end):
        out = np.empty((columns, min(rows, end - begin)), np.float32)
        return [work(i, min(i + rows, end), out[:, : min(rows, end - i)]) for i in range(begin, end, rows)]
    return [x for results in threaded(part, n) for x in results]


class BLAS:
    """The OpenBLAS in this process."""

    def __init__(self):
        self.control = ThreadpoolController().select(internal_api="openblas")

    def single(self):
        """A context in which a product takes one thread, for products in several threads of our own."""
        return self.control.limit(limits=1)


def unit(x):
    """x with rows of length 1."""
    out = np.empty_like(x)

    def scale(begin, end):
        part = x[begin:end]
        length = np.sqrt(np.einsum("...i,...i->...", part, part))
        np.divide(part, length[..., None], out=out[begin:end])

    threaded(scale, len(x))
    return out


def picked(params, scale=1.0, offset=None):
    """The sampled scores of a stored matrix, after subtracting offset[column] and scaling."""
    rows, columns = np.array(params["rows"]), np.array(params["columns"])

    def result(out):
        values = np.asarray(out)[rows, columns].astype(np.float64)
        if offset is not None:
            values = values - offset[columns]
        return (values * scale).tolist()

    return result


def top_k(scores, k, width=256):
    """Places and scores of the k best of each row of scores, in any order. Only the blocks of columns with the k best
    maxima can contain them, so that argpartition sees few values."""
    n, columns = scores.shape
    whole = columns // width * width
    place = np.arange(columns)
    if whole > k * width * 4:
        maxima = scores[:, :whole].reshape(n, -1, width).max(2)
        best = np.argpartition(maxima, -k, axis=1)[:, -k:]
        place = (best[:, :, None] * width + np.arange(width)).reshape(n, -1)
        if whole < columns:
            place = np.concatenate([place, np.broadcast_to(np.arange(whole, columns), (n, columns - whole))], axis=1)
        scores = np.take_along_axis(scores, place, 1)
    else:
        place = np.broadcast_to(place, scores.shape)
    best = np.argpartition(scores, -k, axis=1)[:, -k:]
    return np.take_along_axis(place, best, 1), np.take_along_axis(scores, best, 1)


def merged(parts, k):
    """The places of the k best of each row, of parts (places, scores)."""
    places, scores = (np.concatenate(x, axis=1) for x in zip(*parts))
    best = np.argpartition(scores, -k, axis=1)[:, -k:]
    return np.take_along_axis(places, best, 1)
