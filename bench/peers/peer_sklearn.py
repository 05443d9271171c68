"""scikit-learn's pairwise cosine similarity, with NumPy for the statistics."""
from sklearn.metrics.pairwise import cosine_similarity

import common
import tables


def versions():
    return common.versions("scikit-learn", "numpy")


def w1(params):
    return tables.w1(params, "scikit-learn cosine_similarity", lambda c, q, _: cosine_similarity(c, q))
