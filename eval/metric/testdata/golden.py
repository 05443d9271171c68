"""Writes golden.json: cases with the values of pytrec_eval, scikit-learn, sacrebleu and rouge-score.

pip install pytrec_eval-terrier==0.5.11 scikit-learn==1.9.1 sacrebleu==2.6.0 rouge-score==0.1.2
python golden.py > golden.json
The texts are made here from a list of words, so that nobody's text is in the file.
"""
import collections, json, random, re, string
import pytrec_eval, sacrebleu
from rouge_score import rouge_scorer
from sklearn import metrics

rnd = random.Random(16)
WORDS = """the a an of and in to is was with on for by as at from gate gates opening opened opens retrieval retrieving
retrieved relational conditional rationalise rationality generalization oscillators nationalism decisiveness hopefulness
callousness formality sensitivity sensibility electrical electricity adjustable defensible irritant replacement adoption
homologous communism activate angularity effective bowdlerize probate rate cease controlling rolling flies dies dying
sky skies news innings happily happy enjoyed enjoying feed agreed plastered motoring sized failing filing hopping falling
hissing fizzed analogously apologies ties caresses ponies cats 3.14 1,000 U.S. e.g. state-of-the-art 10-12 can't Paris
Über naïve São 42 100% $5 #1 C++ (maybe) "quoted" [sic] x_y &amp; &quot;so&quot; A.M. end. yes, no; what? wow! it's
ally logically really fully usefully allies biology geology triplicate formative formalize goodness vietnamization
predication operator feudalism relativity sing bring string eed ied tied died owed bled used oed ion onion region
aye yes say saying played dyed eye eyes buzz buzzing tall controll""".split()

def text(n):
    words = [rnd.choice(WORDS) for _ in range(n)]
    for i in range(len(words)):
        if rnd.random() < .1: words[i] += rnd.choice([".", ",", "\n", " -\n", ";"])
        if rnd.random() < .05: words[i] = words[i].upper()
    return " ".join(words)

def near(t):
    words = t.split(" ")
    for i in range(len(words)):
        if rnd.random() < .3: words[i] = rnd.choice(WORDS)
    return " ".join(words[: rnd.randint(0, len(words))] if rnd.random() < .3 else words)

def ranking():
    ids = [f"d{i}" for i in range(rnd.randint(3, 30))]
    grades = {i: rnd.randint(0, 3) for i in rnd.sample(ids, rnd.randint(1, len(ids)))}
    grades["missing"] = rnd.randint(0, 2)
    found = rnd.sample(ids, rnd.randint(1, len(ids)))
    names = {"ndcg_cut.1,3,10", "recall.1,5,10", "recip_rank", "P.1,5", "map", "ndcg"}
    run = {"q": {d: float(len(found) - i) for i, d in enumerate(found)}}
    v = pytrec_eval.RelevanceEvaluator({"q": grades}, names).evaluate(run)["q"]
    return {"found": found, "grades": grades, "want": v}

def classes():
    n, k = rnd.randint(2, 60), rnd.randint(2, 6)
    truth = [f"c{rnd.randrange(k)}" for _ in range(n)]
    guess = [t if rnd.random() < .6 else f"c{rnd.randrange(k + 1)}" for t in truth]
    weighted = metrics.precision_recall_fscore_support(truth, guess, average="weighted", zero_division=0)[:3]
    import warnings; warnings.simplefilter("ignore")
    kappa = 1.0 if len(set(truth) | set(guess)) == 1 else float(metrics.cohen_kappa_score(truth, guess))
    return {"truth": truth, "guess": guess, "accuracy": float(metrics.accuracy_score(truth, guess)),
            "weighted": [float(x) for x in weighted], "kappa": kappa}

def auroc():
    p = [round(rnd.gauss(.6, .2), 1) for _ in range(rnd.randint(1, 30))]
    n = [round(rnd.gauss(.4, .2), 1) for _ in range(rnd.randint(1, 30))]
    return {"positive": p, "negative": n, "want": float(metrics.roc_auc_score([1] * len(p) + [0] * len(n), p + n))}

def bleu():
    n = rnd.randint(1, 6)
    texts, refs = [], []
    k = rnd.randint(1, 3)
    for _ in range(n):
        t = text(rnd.randint(1, 25)); texts.append(near(t)); refs.append([t] + [near(t) for _ in range(k - 1)])
    return {"texts": texts, "refs": refs,
            "sentence": [sacrebleu.sentence_bleu(t, r).score for t, r in zip(texts, refs)]}

def rouge():
    t = text(rnd.randint(0, 30)); c = near(t)
    s = rouge_scorer.RougeScorer(["rouge1", "rouge2", "rougeL", "rougeLsum"]).score(t, c)
    return {"text": c, "ref": t, "want": {k: [v.precision, v.recall, v.fmeasure] for k, v in s.items()}}

def normalize(s):  # SQuAD's evaluation script
    s = "".join(ch for ch in s.lower() if ch not in set(string.punctuation))
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", s).split())

def squad():
    t = text(rnd.randint(0, 6)); truths = [near(t) for _ in range(rnd.randint(1, 3))]
    if rnd.random() < .3: truths.append("The " + t.upper() + "!")
    def f1(a, b):
        x, y = normalize(a).split(), normalize(b).split()
        if not x or not y: return float(x == y)
        same = sum((collections.Counter(x) & collections.Counter(y)).values())
        return 2 * same / (len(x) + len(y))
    return {"text": t, "truths": truths, "exact": max(float(normalize(t) == normalize(u)) for u in truths), "f1": max(f1(t, u) for u in truths)}

print(json.dumps({"ranking": [ranking() for _ in range(60)], "classes": [classes() for _ in range(40)], "auroc": [auroc() for _ in range(20)],
    "bleu": [bleu() for _ in range(60)], "rouge": [rouge() for _ in range(80)], "squad": [squad() for _ in range(40)]},
    ensure_ascii=False, indent=0))
