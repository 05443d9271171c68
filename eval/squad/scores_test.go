package squad

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"testing"
)

// TestScores compares with testdata/squad2.json, which testdata/squad2.py makes.
func TestScores(t *testing.T) {
	raw, err := os.ReadFile("testdata/squad2.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Questions []struct {
			Truths []string
			Guess  string
			Odds   float64
		}
		Threshold float64
		Want      struct {
			All, Has, No [3]float64
			BestExact    [2]float64 `json:"best_exact"`
			BestF1       [2]float64 `json:"best_f1"`
		}
	}
	if err := json.Unmarshal(raw, &cases); err != nil {
		t.Fatal(err)
	}
	if len(cases) < 60 {
		t.Fatalf("%d cases", len(cases))
	}
	for i, c := range cases {
		var list []Extracted
		for _, q := range c.Questions {
			list = append(list, Extracted{q.Guess, q.Odds, q.Truths})
		}
		s := Score(list, c.Threshold)
		for name, p := range map[string]struct {
			got  Part
			want [3]float64
		}{"all": {s.Part, c.Want.All}, "HasAns": {s.HasAns, c.Want.Has}, "NoAns": {s.NoAns, c.Want.No}} {
			near(t, fmt.Sprint(i, " ", name, " exact"), 100*p.got.Exact, p.want[0])
			near(t, fmt.Sprint(i, " ", name, " F1"), 100*p.got.F1, p.want[1])
			near(t, fmt.Sprint(i, " ", name, " total"), float64(p.got.Total), p.want[2])
		}
		near(t, fmt.Sprint(i, " best exact"), 100*s.BestExact, c.Want.BestExact[0])
		near(t, fmt.Sprint(i, " best exact's threshold"), s.ExactThreshold, c.Want.BestExact[1])
		near(t, fmt.Sprint(i, " best F1"), 100*s.BestF1, c.Want.BestF1[0])
		near(t, fmt.Sprint(i, " best F1's threshold"), s.F1Threshold, c.Want.BestF1[1])
	}
}

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if !(math.Abs(got-want) <= 1e-6) {
		t.Errorf("%s: %.9f, want %.9f", what, got, want)
	}
}
