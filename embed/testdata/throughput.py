#!/usr/bin/env python3
"""The other side of TestThroughput: the same graph, weights and texts through Python onnxruntime and tokenizers.

usage: throughput.py TASK.json, where TASK.json = {"graph", "folder", "tokenizer", "max_tokens", "threads",
"batch_tokens", "texts"}. Each line on stdin ("unsorted", "sorted") is one pass over all texts; the answer is a
line of JSON with wall and CPU seconds, and at the end of each pass the sum of all components as a check.
"""
import json
import os
import sys
import time

import numpy as np
import onnxruntime
from tokenizers import Tokenizer


def main():
    task = json.load(open(sys.argv[1]))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = task["threads"]
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    options.add_session_config_entry("session.model_external_initializers_file_folder_path", task["folder"])
    session = onnxruntime.InferenceSession(open(task["graph"], "rb").read(), options, providers=["CPUExecutionProvider"])
    tokenizer = Tokenizer.from_file(task["tokenizer"])
    tokenizer.no_padding()
    tokenizer.enable_truncation(task["max_tokens"])
    texts = task["texts"]

    def run(ids):
        width = max(map(len, ids))
        tokens = np.zeros((len(ids), width), np.int64)
        mask = np.zeros_like(tokens)
        for row, i in enumerate(ids):
            tokens[row, : len(i)] = i
            mask[row, : len(i)] = 1
        return session.run(None, {"input_ids": tokens, "attention_mask": mask})[0]

    def unsorted():
        """Batches of 32 in input order, as they come."""
        parts = []
        for i in range(0, len(texts), 32):
            parts.append(run([e.ids for e in tokenizer.encode_batch(texts[i : i + 32])]))
        return np.concatenate(parts)

    def by_length():
        """All tokenised first, longest first, as many per batch as the token budget holds; rows back in order."""
        ids = [e.ids for e in tokenizer.encode_batch(texts)]
        order = sorted(range(len(ids)), key=lambda i: -len(ids[i]))
        out = None
        while order:
            n = max(task["batch_tokens"] // len(ids[order[0]]), 1)
            batch, order = order[:n], order[n:]
            rows = run([ids[i] for i in batch])
            if out is None:
                out = np.empty((len(ids), rows.shape[1]), np.float32)
            out[batch] = rows
        return out

    passes = {"unsorted": unsorted, "sorted": by_length}
    print(json.dumps({"version": onnxruntime.__version__}), flush=True)
    for line in sys.stdin:
        before, start = os.times(), time.perf_counter()
        out = passes[line.strip()]()
        wall, after = time.perf_counter() - start, os.times()
        cpu = after.user + after.system - before.user - before.system
        print(json.dumps({"wall": wall, "cpu": cpu, "sum": float(out.astype(np.float64).sum())}), flush=True)


main()
