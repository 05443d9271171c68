# Writes logistic.json: features of two kinds of questions and scikit-learn's regression of them (1.9.1, float64).
import json, numpy as np
from sklearn.linear_model import LogisticRegression
rng = np.random.default_rng(4)
n = 120
inside = np.clip(rng.normal([.6, .7, .35, .7, .5], .12, (n, 5)), 0, 1)
outside = np.clip(rng.normal([.35, .4, .15, .45, .3], .15, (n, 5)), 0, 1)
m = LogisticRegression(C=1, tol=1e-14, max_iter=100000, solver="newton-cholesky").fit(
    np.vstack([inside, outside]), np.r_[np.ones(n), np.zeros(n)])
p = m.predict_proba(np.vstack([inside[:3], outside[:3]]))[:, 1]
json.dump({"inside": inside.tolist(), "outside": outside.tolist(), "intercept": m.intercept_[0],
           "weights": m.coef_[0].tolist(), "probabilities": p.tolist()}, open("logistic.json", "w"))
