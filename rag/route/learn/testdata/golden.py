"""Writes golden.json: what scikit-learn 1.9 computes for a few texts. Needs scikit-learn and numpy."""
import json
import pathlib

import numpy as np
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB, MultinomialNB
from sklearn.svm import LinearSVC

texts = {
    "light": ["The lamp of the LIGHTHOUSE burns at night", "a keeper trims the lamp_wick, twice", "fog horn & light",
              "the lens of the lighthouse turns in the night", "ships see the light from 20 miles"],
    "bread": ["Knead the dough for ten minutes", "the oven bakes bread at 230 degrees", "rye bread, sour dough",
              "Salt, flour, water: the dough rests the night", "a crust of bread from the oven"],
    "music": ["The fugue has four voices", "a violin tunes to 440 Hz", "voices of the choir at night",
              "ΟΔΥΣΣΕΥΣ sings; İstanbul dances", "the organ plays a fugue from Leipzig in ½ hour"],
}
x = [t for list_ in texts.values() for t in list_]
y = np.array([k for k, list_ in texts.items() for _ in list_])
new = ["the lamp in the fog", "bread without dough", "a fugue for violin and oven at night", "", "unseen words only", "Straße"]
rng = np.random.default_rng(7)
dense = rng.standard_normal((len(x) + len(new), 5)).astype(np.float32)
for i, label in enumerate(y):
    dense[i, sorted(texts).index(label)] += 1.5
dense /= np.linalg.norm(dense, axis=1, keepdims=True)

out = {"texts": x, "labels": y.tolist(), "new": new, "dense": dense.tolist(), "tfidf": {}, "scores": {}}
for n in (1, 2):
    v = TfidfVectorizer(ngram_range=(1, n))
    out["tfidf"][str(n)] = {"fit": v.fit_transform(x).toarray().tolist(), "new": v.transform(new).toarray().tolist(),
                            "terms": v.get_feature_names_out().tolist(), "idf": v.idf_.tolist()}
v = TfidfVectorizer()
a, b = v.fit_transform(x), v.transform(new)
d, e = dense[: len(x)].astype(np.float64), dense[len(x):].astype(np.float64)
features = {"tfidf": (a.toarray(), b.toarray()), "embedding": (d, e),
            "both": (np.hstack([a.toarray(), d]), np.hstack([b.toarray(), e]))}


def columns(z):
    return z.tolist() if z.ndim == 2 else np.stack([-z, z], 1).tolist()


for name, (train, test) in features.items():
    for classes, rows in (("3", np.arange(len(x))), ("2", np.where(y != "music")[0])):
        t, of = train[rows], y[rows]
        if name == "tfidf":
            out["scores"][f"mnb {name} {classes}"] = MultinomialNB().fit(t, of)._joint_log_likelihood(test).tolist()
        out["scores"][f"gnb {name} {classes}"] = GaussianNB().fit(t, of)._joint_log_likelihood(test).tolist()
        lr = LogisticRegression(tol=1e-12, max_iter=100000).fit(t, of)
        out["scores"][f"lr {name} {classes}"] = lr.predict_proba(test).tolist()
        svc = LinearSVC(dual=False, tol=1e-12, max_iter=100000).fit(t, of)
        out["scores"][f"svc {name} {classes}"] = columns(svc.decision_function(test))
pathlib.Path(__file__).with_name("golden.json").write_text(json.dumps(out) + "\n")
