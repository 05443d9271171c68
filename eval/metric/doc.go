// Package metric has the measures of an evaluation: rankings (NDCG, recall, reciprocal rank), classes (precision,
// recall, F1, agreement), texts (BLEU, ROUGE, exact match, token F1), and those of RAGAS, which a language model grades
// under a grammar. Input are texts, ids, labels and vectors; output are numbers in [0, 1] unless a function says
// otherwise. Nothing here yields NaN: what has no value says so, or is counted apart (Score, Summary).
//
// Values agree with trec_eval, scikit-learn, sacrebleu and rouge-score to 1e-6; testdata/golden.json holds theirs.
package metric
