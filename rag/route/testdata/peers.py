"""Trains scikit-learn's classifiers, one for each line "KIND FEATURES" of standard input, and prints seconds and the accuracy.

usage: peers.py FOLDER, which has train.json and test.json ({"texts": [...], "labels": [...]}) and train.f32 and test.f32, their vectors.
The vocabulary of words is part of the training. Needs scikit-learn and numpy.
"""

import json
import sys
import time

import numpy as np
import scipy.sparse as sp
import sklearn
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB, MultinomialNB
from sklearn.svm import LinearSVC


def read(folder, name):
    with open(f"{folder}/{name}.json", encoding="utf-8") as f:
        data = json.load(f)
    vectors = np.fromfile(f"{folder}/{name}.f32", dtype=np.float32).reshape(len(data["texts"]), -1)
    return data["texts"], data["labels"], vectors


def main():
    folder = sys.argv[1]
    (texts, labels, vectors), (test_texts, test_labels, test_vectors) = read(folder, "train"), read(folder, "test")
    models = {"mnb": MultinomialNB, "gnb": GaussianNB, "lr": LogisticRegression, "svc": LinearSVC}
    print(sklearn.__version__, flush=True)
    for line in sys.stdin:
        kind, features = line.split()
        model, words = models[kind](), TfidfVectorizer()
        began = time.perf_counter()
        x = vectors if features == "embedding" else words.fit_transform(texts)
        if features == "both":
            x = sp.hstack([x, sp.csr_matrix(vectors)]).tocsr()
        if kind == "gnb":
            x = x.toarray()
        model.fit(x, labels)
        seconds = time.perf_counter() - began
        y = test_vectors if features == "embedding" else words.transform(test_texts)
        if features == "both":
            y = sp.hstack([y, sp.csr_matrix(test_vectors)]).tocsr()
        if kind == "gnb":
            y = y.toarray()
        print(json.dumps({"seconds": seconds, "accuracy": float(np.mean(model.predict(y) == np.array(test_labels)))}), flush=True)


main()
