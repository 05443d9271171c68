"""usage: openblas.py        prints {"kernels": name, "rate": operations a second of CPU time} of NumPy's OpenBLAS on
one thread.

The environment variable OPENBLAS_CORETYPE chooses its kernels; without it OpenBLAS chooses.
"""
import json
import time

import numpy as np
from threadpoolctl import threadpool_info

rng = np.random.default_rng(1)
a, b = (rng.standard_normal((n, 384), np.float32) for n in (512, 2048))
out, best = np.empty((len(a), len(b)), np.float32), float("inf")
for _ in range(15):
    begin = time.thread_time()  # a busy machine does not change it much
    np.matmul(a, b.T, out=out)
    best = min(best, time.thread_time() - begin)
kernels = [i["architecture"] for i in threadpool_info() if i["internal_api"] == "openblas"][0]
print(json.dumps({"kernels": kernels, "rate": 2 * a.shape[1] * out.size / best}))
