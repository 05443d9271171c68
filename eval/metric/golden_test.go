package metric

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"testing"

	"github.com/sluice-rag/sluice/eval/squad"
)

// golden is the output of testdata/golden.py.
type golden struct {
	Ranking []struct {
		Found  []string
		Grades map[string]int
		Want   map[string]float64
	}
	Classes []struct {
		Truth, Guess    []string
		Accuracy, Kappa float64
		Weighted        [3]float64
	}
	AUROC []struct {
		Positive, Negative []float64
		Want               float64
	}
	BLEU []struct {
		Texts    []string
		Refs     [][]string
		Sentence []float64
	}
	Rouge []struct {
		Text, Ref string
		Want      map[string][3]float64
	}
	Squad []struct {
		Text      string
		Truths    []string
		Exact, F1 float64
	}
}

func read(t *testing.T) (g golden) {
	t.Helper()
	text, err := os.ReadFile("testdata/golden.json")
	if err == nil {
		err = json.Unmarshal(text, &g)
	}
	if err != nil {
		t.Fatal(err)
	}
	if n := len(g.Ranking) + len(g.Classes) + len(g.AUROC) + len(g.BLEU) + len(g.Rouge) + len(g.Squad); n < 200 {
		t.Fatalf("only %d cases", n)
	}
	return g
}

// near reports a value that is not the reference's within 1e-6.
func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if !(math.Abs(got-want) <= 1e-6) {
		t.Errorf("%s: %.9f, want %.9f", what, got, want)
	}
}

func (x PRF) list() [3]float64 { return [3]float64{x.Precision, x.Recall, x.F1} }

func nearAll(t *testing.T, what string, got PRF, want [3]float64) {
	t.Helper()
	for i, v := range got.list() {
		near(t, fmt.Sprintf("%s %s", what, []string{"precision", "recall", "F1"}[i]), v, want[i])
	}
}

func TestRankingsAreTrecEvals(t *testing.T) {
	for i, c := range read(t).Ranking {
		r := Ranking{c.Found, c.Grades}
		for name, got := range map[string]float64{
			"ndcg_cut_1": r.NDCG(1), "ndcg_cut_3": r.NDCG(3), "ndcg_cut_10": r.NDCG(10), "ndcg": r.NDCG(0),
			"recall_1": r.Recall(1), "recall_5": r.Recall(5), "recall_10": r.Recall(10),
			"recip_rank": r.ReciprocalRank(), "P_1": r.Precision(1), "P_5": r.Precision(5),
			"map": r.AveragePrecision(),
		} {
			want, ok := c.Want[name]
			if !ok {
				t.Fatalf("no %s", name)
			}
			near(t, fmt.Sprint(i, " ", name), got, want)
		}
	}
}

func TestClassesAreScikitLearns(t *testing.T) {
	g := read(t)
	for i, c := range g.Classes {
		got, err := Compare(c.Truth, c.Guess)
		if err != nil {
			t.Fatal(err)
		}
		near(t, fmt.Sprint(i, " accuracy"), got.Accuracy, c.Accuracy)
		near(t, fmt.Sprint(i, " kappa"), got.Kappa, c.Kappa)
		nearAll(t, fmt.Sprint(i, " weighted"), got.Weighted, c.Weighted)
	}
	for i, c := range g.AUROC {
		near(t, fmt.Sprint(i, " AUROC"), squad.AUROC(c.Positive, c.Negative), c.Want)
	}
}

func TestBLEUIsSacrebleus(t *testing.T) {
	for i, c := range read(t).BLEU {
		for j, text := range c.Texts {
			got, err := SentenceBLEU(text, c.Refs[j])
			if err != nil {
				t.Fatal(err)
			}
			near(t, fmt.Sprintf("%d sentence %d", i, j), got, c.Sentence[j])
		}
	}
}

func TestROUGEIsRougeScores(t *testing.T) {
	g := read(t)
	for i, c := range g.Rouge {
		got := ROUGE(c.Text, c.Ref)
		nearAll(t, fmt.Sprint(i, " ROUGE-1"), got.One, c.Want["rouge1"])
		nearAll(t, fmt.Sprint(i, " ROUGE-2"), got.Two, c.Want["rouge2"])
		nearAll(t, fmt.Sprint(i, " ROUGE-L"), got.L, c.Want["rougeL"])
		nearAll(t, fmt.Sprint(i, " ROUGE-Lsum"), got.LSum, c.Want["rougeLsum"])
	}
}

func TestAnswersAreComparedAsInSQuAD(t *testing.T) {
	for i, c := range read(t).Squad {
		near(t, fmt.Sprint(i, " exact match"), squad.ExactMatch(c.Text, c.Truths), c.Exact)
		near(t, fmt.Sprint(i, " F1"), squad.F1(c.Text, c.Truths), c.F1)
	}
	if squad.ExactMatch("", nil) != 1 || squad.ExactMatch("Paris", nil) != 0 || squad.F1("", nil) != 1 ||
		squad.F1("Paris", nil) != 0 {
		t.Error("an unanswerable question wants the empty answer")
	}
}
