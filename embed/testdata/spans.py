#!/usr/bin/env python3
"""Spans as the token-classification pipeline of transformers groups them (aggregation "first"), for random logits.

usage: spans.py > golden-spans.json      (needs transformers, not PyTorch)
"""
import json
import types

import numpy as np
from transformers.pipelines.token_classification import AggregationStrategy, TokenClassificationPipeline

SCHEMES = [["O", "B-PER", "I-PER", "B-LOC", "I-LOC"], ["I-A", "O", "I-B"], ["LABEL_0", "LABEL_1"], ["B-X", "I-X", "O", "Y"]]


def main():
    r, cases = np.random.default_rng(15), []
    for number in range(48):
        labels = SCHEMES[number % len(SCHEMES)]
        p = object.__new__(TokenClassificationPipeline)
        p.tokenizer = types.SimpleNamespace(convert_tokens_to_string=" ".join)
        p.model = types.SimpleNamespace(config=types.SimpleNamespace(id2label=dict(enumerate(labels))))
        tokens, entities, at = [], [], 0
        for i in range(number % 13):
            subword = bool(i and r.random() < 0.3)
            at += 0 if subword else 1
            logits = np.round(r.normal(size=len(labels)) * 3, 1)
            scores = np.exp(logits - logits.max())
            size = int(r.integers(1, 6))
            tokens.append({"start": at, "end": at + size, "begins": not subword, "logits": logits.tolist()})
            entities.append({"word": "w", "scores": scores / scores.sum(), "start": at, "end": at + size, "index": i,
                             "is_subword": subword})
            at += size
        spans = [{"Label": g["entity_group"], "Start": g["start"], "End": g["end"], "Probability": float(g["score"])}
                 for g in p.aggregate(entities, AggregationStrategy.FIRST) if g["entity_group"] != "O"] if entities else []
        cases.append({"labels": labels, "tokens": tokens, "spans": spans})
    print("[" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "]")


main()
