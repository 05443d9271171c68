"""Rankings of squad16 and xquad-de, computed without Sluice's search.

  sluice embed --batch contexts.jsonl --npy contexts.npy
  sluice embed --batch questions.jsonl --npy questions.npy --role query
  python3 rankings.py reference contexts.jsonl questions.jsonl english
  python3 rankings.py reference contexts.jsonl questions.jsonl german STOPWORD…
  sluice retrieve --store STORE --k 10 --batch questions.jsonl --json > results.jsonl
  python3 rankings.py score questions.jsonl results.jsonl

Lines of contexts.jsonl are {"id","text"}, those of questions.jsonl {"id","text","context_id"}; a question that says
"answerable": false is left out. It needs NumPy and snowballstemmer.
"""
import json
import re
import sys

import numpy as np

ENGLISH = ("a an and are as at be but by for if in into is it no not of on or such that the their then there these they "
           "this to was will with").split()
K1, B = 1.5, .75


def lines(name):
    with open(name) as f:
        return [x for x in map(json.loads, f) if x.get("answerable", True)]


def figures(ranks):
    """NDCG@10 and recall@1 of ranks from 0."""
    ranks = np.asarray(ranks)
    return np.where(ranks < 10, 1 / np.log2(ranks + 2), 0).mean(), (ranks == 0).mean()


def show(name, scores, gold):
    own = scores[np.arange(len(gold)), gold][:, None]
    before = np.arange(scores.shape[1])[None] < gold[:, None]
    print("%-28s %.4f %.4f" % (name, *figures((scores > own).sum(1) + ((scores == own) & before).sum(1))))


def min_max(scores):
    low, high = scores.min(1, keepdims=True), scores.max(1, keepdims=True)
    return (scores - low) / np.where(high > low, high - low, 1)


def reference(contexts, questions, language, stop):
    import snowballstemmer
    stemmer = snowballstemmer.stemmer(language)
    terms = lambda text: stemmer.stemWords([w for w in re.findall(r"\w+", text.lower()) if w not in stop])
    cs, qs = lines(contexts), lines(questions)
    c, q = (np.load(x.replace(".jsonl", ".npy")).astype(np.float64) for x in (contexts, questions))
    row = {x["id"]: i for i, x in enumerate(cs)}
    gold = np.array([row[x["context_id"]] for x in qs])
    number, n = {}, len(cs)
    texts = [terms(x["text"]) for x in cs]
    for t in texts:
        for w in t:
            number.setdefault(w, len(number))
    tf = np.zeros((n, len(number)))
    for i, t in enumerate(texts):
        for w in t:
            tf[i, number[w]] += 1
    length, df = tf.sum(1), (tf > 0).sum(0)
    idf, unknown = np.log(1 + (n - df + .5) / (df + .5)), np.log(1 + (n + .5) / .5)
    part = tf * (K1 + 1) / (tf + K1 * (1 - B + B * length / length.mean())[:, None])
    bm25, cover, share = (np.zeros((len(qs), n)) for _ in range(3))
    for i, x in enumerate(qs):
        words, ideal, mass = terms(x["text"]), 0, 0
        for w in words:
            ideal += (K1 + 1) * (idf[number[w]] if w in number else unknown)
            if w in number:
                bm25[i] += idf[number[w]] * part[:, number[w]]
        for w in dict.fromkeys(words):
            mass += idf[number[w]] if w in number else unknown
            if w in number:
                cover[i] += idf[number[w]] * (tf[:, number[w]] > 0)
        cover[i] /= max(mass, 1e-9)
        share[i] = bm25[i] / max(ideal, 1e-9)
    cosine = q @ c.T / np.linalg.norm(q, axis=1)[:, None] / np.linalg.norm(c, axis=1)
    show("dense", cosine, gold)
    show("bm25", bm25, gold)
    show("hybrid", min_max(cosine) + min_max(bm25), gold)
    show("cosine + cover", cosine + cover, gold)
    for a in (.5, .75, 1):
        for b in (0, .25, .5, .75):
            show("cosine + %g cover + %g share" % (a, b), cosine + a * cover + b * share, gold)


def score(questions, results):
    gold = {x["id"]: x["context_id"] for x in lines(questions)}
    ranks = []
    for x in lines(results):
        ids = [r["id"] for r in x["results"]]
        ranks.append(ids.index(gold[x["id"]]) if gold[x["id"]] in ids else 1e9)
    print("%.4f %.4f  (%d questions)" % (*figures(ranks), len(ranks)))


if __name__ == "__main__":
    if sys.argv[1] == "score":
        score(sys.argv[2], sys.argv[3])
    else:
        stop = ENGLISH if sys.argv[4] == "english" else sys.argv[5:]
        reference(*sys.argv[2:5], set(stop))
