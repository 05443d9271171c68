"""usage: openblas.py numpy|faiss        prints {"kernels": name, "rate": operations a second of CPU time}

of the library's own OpenBLAS on one thread. The environment variable OPENBLAS_CORETYPE chooses its kernels; without it
OpenBLAS chooses.
"""
import json
import sys
import time

import numpy as np
from threadpoolctl import threadpool_info

rng = np.random.default_rng(1)
a, b = (rng.standard_normal((n, 384), np.float32) for n in (512, 2048))
if sys.argv[1] == "faiss":
    import faiss
    faiss.omp_set_num_threads(1)
    faiss.cvar.distance_compute_blas_threshold = 1

    def work():
        faiss.knn(a, b, 1, metric=faiss.METRIC_INNER_PRODUCT)
else:
    out = np.empty((len(a), len(b)), np.float32)

    def work():
        np.matmul(a, b.T, out=out)

best = float("inf")
for _ in range(15):
    begin = time.thread_time()  # a busy machine does not change it much
    work()
    best = min(best, time.thread_time() - begin)
mine = [i["architecture"] for i in threadpool_info() if i["internal_api"] == "openblas" and sys.argv[1] in i["filepath"]]
print(json.dumps({"kernels": mine[0], "rate": 2 * a.size * len(b) / best}))
