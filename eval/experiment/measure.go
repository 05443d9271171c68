package experiment

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/sluice-rag/sluice/eval/metric"
	"github.com/sluice-rag/sluice/eval/squad"
)

// measure lists what a measure needs.
type measure struct {
	cut    bool // "@k" follows the name
	answer bool // of a generator
	judge  bool
	embeds bool
}

// measures by name. Those of latencies ("ms") and calls stand in every item.
func measures() map[string]measure {
	return map[string]measure{
		"ndcg": {cut: true}, "recall": {cut: true}, "precision": {cut: true}, "mrr": {}, "map": {},
		"answer": {cut: true}, // a true answer is in one of the k best passages
		"open":   {}, "gate_right": {},
		"em": {answer: true}, "f1": {answer: true}, "bleu": {answer: true}, "rouge1": {answer: true},
		"rouge2": {answer: true}, "rougeL": {answer: true}, "rougeLsum": {answer: true},
		"csga":         {answer: true, embeds: true},
		"faithfulness": {answer: true, judge: true}, "answer_relevancy": {answer: true, judge: true, embeds: true},
		"context_relevancy": {answer: true, judge: true}, "correct": {answer: true, judge: true},
		"correct_by_context": {answer: true, judge: true},
	}
}

func parseMeasure(text string) (name string, k int, err error) {
	name, cut, has := strings.Cut(text, "@")
	m, known := measures()[name]
	if !known {
		return "", 0, fmt.Errorf("measure %q is not known", text)
	}
	if has {
		if k, err = strconv.Atoi(cut); err != nil || k < 1 {
			return "", 0, fmt.Errorf("measure %q: the number after @ must be at least 1", text)
		}
	}
	if has != m.cut {
		return "", 0, fmt.Errorf("measure %q: %s", text, map[bool]string{true: "it needs @k",
			false: "it takes no @k"}[m.cut])
	}
	return name, k, nil
}

// Judged reports whether a language model gives the values of a measure.
func Judged(measure string) bool { return measures()[before(measure)].judge }

func needsAnswer(measure string) bool  { return measures()[before(measure)].answer }
func needsVectors(measure string) bool { return measures()[before(measure)].embeds }

func before(text string) string {
	name, _, _ := strings.Cut(text, "@")
	return name
}

// texts returns the measures that compare an answer with the true ones.
func texts(name, answer string, truths []string) map[string]metric.Score {
	one := func(v float64) map[string]metric.Score { return map[string]metric.Score{name: metric.Of(v)} }
	prf := func(x metric.PRF) map[string]metric.Score {
		return map[string]metric.Score{name + ".p": metric.Of(x.Precision), name + ".r": metric.Of(x.Recall),
			name + ".f1": metric.Of(x.F1)}
	}
	if len(truths) == 0 && name != "em" && name != "f1" {
		values := prf(metric.PRF{})
		if name == "bleu" {
			values = one(0)
		}
		for n := range values {
			values[n] = metric.Score{Unscored: "there is no true answer"}
		}
		return values
	}
	switch name {
	case "em":
		return one(squad.ExactMatch(answer, truths))
	case "f1":
		return one(squad.F1(answer, truths))
	case "bleu":
		v, err := metric.SentenceBLEU(answer, truths)
		if err != nil {
			return map[string]metric.Score{name: {Unscored: err.Error()}}
		}
		return one(v / 100)
	}
	r := metric.BestROUGE(answer, truths)
	switch name {
	case "rouge1":
		return prf(r.One)
	case "rouge2":
		return prf(r.Two)
	case "rougeL":
		return prf(r.L)
	}
	return prf(r.LSum)
}

// contains reports whether a text contains a true answer, ignoring case and punctuation.
func contains(text string, truths []string) bool {
	plain := func(s string) string {
		return " " + strings.Join(strings.FieldsFunc(strings.ToLower(s), notWord), " ") + " "
	}
	t := plain(text)
	for _, a := range truths {
		if p := plain(a); strings.TrimSpace(p) != "" && strings.Contains(t, p) {
			return true
		}
	}
	return false
}
