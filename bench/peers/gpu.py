"""What the peers of `sluice bench gpu` share: one competitor that searches for rows of a file of queries. A peer sets
Index, with find(queries) -> ids; queries and ids are copied to and fro in the time that is taken."""
from importlib.metadata import version

import numpy as np

Index = None


def versions(*packages):
    return {p: version(p) for p in packages}


class Search:
    name = "search"

    def __init__(self, params):
        self.queries = np.load(params["queries"])
        self.index = Index(np.load(params["base"]), params["k"])
        self.answer = None

    def offer(self):
        return {"name": self.name, "impl": "exact", "dtype": "f32", "mode": "exact", "batch": 0}

    def query(self, batch):
        return np.ascontiguousarray(self.queries[batch])

    def work(self, query):
        return self.index.find(query)

    def keep(self, batch, answer):
        self.answer = answer

    def result(self):
        return np.asarray(self.answer).tolist()


def search(params):
    return [Search(params)]
