package llm

import (
	"math"
	"testing"
)

func TestChoice(t *testing.T) {
	log := math.Log
	result := Result{Text: `{"grounded": "yes"}`,
		LogProbs: []TokenLogProb{{Text: `{"`}, {Text: "grounded"}, {Text: `":`},
			{Text: ` "`},
			{Text: "yes", Top: []TokenLogProb{{Text: "yes", LogProb: log(.3)}, {Text: "Yes", LogProb: log(.4)},
				{Text: "no", LogProb: log(.1)}}}, {Text: `"}`}}}
	p, ok := Choice(result, "yes", []string{"yes", "no"})
	if !ok || math.Abs(p["yes"]-.75) > 1e-12 || math.Abs(p["no"]-.25) > 1e-12 {
		t.Errorf("%v %v", p, ok)
	}
	if _, ok := Choice(result, "maybe", []string{"yes", "maybe"}); ok {
		t.Error("a value that was not written")
	}
	merged := Result{Text: `{"g":"no"}`, LogProbs: []TokenLogProb{{Text: `{"g":`}, {Text: `"no`,
		Top: []TokenLogProb{{Text: `"no`, LogProb: log(.2)}, {Text: `"yes`, LogProb: log(.6)},
			{Text: "no", LogProb: -1}}}}}
	if p, ok := Choice(merged, "no", []string{"yes", "no"}); !ok || math.Abs(p["no"]-.25) > 1e-12 {
		t.Errorf("a quote in the token: %v %v", p, ok)
	}
	both := Result{Text: "web", LogProbs: []TokenLogProb{{Text: "w", Top: []TokenLogProb{{Text: "w", LogProb: -1}}}}}
	if _, ok := Choice(both, "web", []string{"web", "world"}); ok {
		t.Error("a token that begins both values")
	}
}
