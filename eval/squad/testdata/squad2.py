"""Writes squad2.json: cases of SQuAD 2.0's measures (python3 squad2.py > squad2.json).

The measures are computed here as evaluate-v2.0.py is described to compute them, without its code: questions are keyed
by ids, scores are percentages, and the best threshold is looked for in the order of the no-answer scores.
"""
import json, random, re, string

rnd = random.Random(45)
WORDS = """the a an The An of in gate gates Paris Über naïve 3.14 1,000 U.S. e.g. state-of-the-art can't x_y $5 C++ "the"
(maybe) yes, no; opened a_b theory answer-the-call ÉTÉ 10–12 «la» theatre an's the. [a] İstanbul""".split()


def normal(text):
    kept = "".join(ch for ch in text.lower() if ch not in set(string.punctuation))
    return re.sub(r"\b(a|an|the)\b", " ", kept).split()


def exact(truth, guess):
    return int(normal(truth) == normal(guess))


def f1(truth, guess):
    t, g = normal(truth), normal(guess)
    if not t or not g:
        return float(t == g)
    left, same = list(t), 0
    for w in g:
        if w in left:
            left.remove(w)
            same += 1
    return 0.0 if same == 0 else 2 * (same / len(g)) * (same / len(t)) / (same / len(g) + same / len(t))


def text(n):
    return " ".join(rnd.choice(WORDS) for _ in range(n))


def best(order, scores, has, guesses, odds):
    now = sum(1 for k in has if not has[k])
    top, at = now, 0.0
    for k in order:
        if has[k]:
            now += scores[k]
        elif guesses[k] != "":
            now -= 1
        if now > top:
            top, at = now, odds[k]
    return 100.0 * top / len(scores), at


def case(i):
    n = rnd.randint(1, 40)
    ids = [f"q{j}" for j in range(n)]
    truths, guesses, odds = {}, {}, {}
    for k in ids:
        truths[k] = [text(rnd.randint(1, 4)) for _ in range(rnd.randint(1, 3))] if rnd.random() < .6 else []
        if truths[k] and rnd.random() < .1:
            truths[k][0] = rnd.choice(["the", "a.", "!?"])  # nothing is left of it
        if rnd.random() < .2:
            guesses[k] = ""
        elif truths[k] and rnd.random() < .6:
            words = rnd.choice(truths[k]).split()
            guesses[k] = " ".join(words[rnd.randint(0, 1):]) or "gate"
        else:
            guesses[k] = text(rnd.randint(1, 3))
        lean = -1.0 if truths[k] else 1.0
        odds[k] = round(lean * rnd.random() + rnd.gauss(0, .6), 1 if i % 2 else 4)  # one digit: many are equal
    has = {k: bool(truths[k]) for k in ids}
    ex, f = {}, {}
    for k in ids:
        gold = [t for t in truths[k] if normal(t)] or [""]
        ex[k] = max(exact(t, guesses[k]) for t in gold)
        f[k] = max(f1(t, guesses[k]) for t in gold)
    threshold = rnd.choice([1e9, 0.0, .3])
    shown = lambda s: {k: float(not has[k]) if odds[k] > threshold else s[k] for k in ids}
    mean = lambda s, part: 100.0 * sum(s[k] for k in part) / len(part) if part else 0.0
    want = {}
    for name, part in (("all", ids), ("has", [k for k in ids if has[k]]), ("no", [k for k in ids if not has[k]])):
        want[name] = [mean(shown(ex), part), mean(shown(f), part), len(part)]
    order = sorted(odds, key=lambda k: odds[k])
    want["best_exact"] = best(order, ex, has, guesses, odds)
    want["best_f1"] = best(order, f, has, guesses, odds)
    return {"questions": [{"truths": truths[k], "guess": guesses[k], "odds": odds[k]} for k in ids],
            "threshold": threshold, "want": want}


print(json.dumps([case(i) for i in range(60)], ensure_ascii=False))
