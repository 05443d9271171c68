package gate

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/ref"
	"github.com/sluice-rag/sluice/rag/retrieve"
)

// TestWinner: a score that needs the pseudo-queries wins where it is better by more than a standard error.
func TestWinner(t *testing.T) {
	all := []Candidate{{Score: "cosine", Balanced: .7, Low: .65, High: .75, AUROC: .8},
		{Score: "cosine+cover", Balanced: .8, Low: .75, High: .85, AUROC: .9},
		{Score: "pseudo-query", Balanced: .81, Low: .76, High: .86, AUROC: .95}}
	if got := winner(all); got != 1 {
		t.Errorf("%d wins, want the simpler one", got)
	}
	all[2].Balanced, all[2].Low, all[2].High = .9, .85, .95
	if got := winner(all); got != 2 {
		t.Errorf("%d wins, want the better one", got)
	}
}

// TestScoresByQuestions: pseudo-query can be asked for; a pseudo-query is not compared with itself; the decisions are
// what was calibrated, and survive being saved.
func TestScoresByQuestions(t *testing.T) {
	const score = "pseudo-query"
	for _, gaps := range []bool{false, true} {
		in := wordsInput(t, 5, 12, gaps)
		in.Score = score
		c, positive, err := Calibrate(t.Context(), newEngine(t), in)
		if err != nil {
			t.Fatal(err)
		}
		s := c.Chosen()
		if c.Score != score || c.Choice != "asked for" || c.Policy != "maximum:p5" || s == nil ||
			len(c.Candidates) != 2 || c.Candidates[1].Score != score || c.Candidates[1].Low > c.Candidates[1].High {
			t.Fatalf("%s: %s, %s, %+v", score, c.Score, c.Choice, c.Candidates)
		}
		for j := range in.Queries.Rows {
			mine := func(i int) bool { return in.Groups[i] == in.Groups[in.Owner[j]] }
			best, other := naiveQuestion(&in, j, func(int) bool { return true }),
				naiveQuestion(&in, j, func(i int) bool { return !mine(i) })
			if s.scores.maximum[j] != best || s.scores.other[j] != other {
				t.Fatalf("%s, question %d: %v and %v, want %v and %v", score, j, s.scores.maximum[j],
					s.scores.other[j], best, other)
			}
		}
		path := filepath.Join(t.TempDir(), "a.cal.json")
		if err := c.Save(path, positive); err != nil {
			t.Fatal(err)
		}
		loaded, _, err := Load(path)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(loaded, c) {
			t.Errorf("%s: loaded %+v, saved %+v", score, loaded, c)
		}
		if !gaps {
			decidesByQuestions(t, loaded, positive, in)
		}
		damageQuestions(t, path, loaded.QuestionsFile)
	}
}

// decidesByQuestions asks a gate, all in the three ways, about questions that the calibration has not seen.
func decidesByQuestions(t *testing.T, c *Calibration, positive []float64, in Input) {
	t.Helper()
	gone := in.ContextIDs[3] // and its questions
	live := func(yield func(string) bool) {
		for _, id := range in.ContextIDs {
			if id != gone && !yield(id) {
				return
			}
		}
	}
	g, err := New(c, positive, Use{Encoder: in.Encoder, LiveIDs: live})
	if err != nil {
		t.Fatal(err)
	}
	asked := engine.Vectors{Dim: in.Queries.Dim, Rows: 20}
	var texts []string
	var bias []kernels.Biases
	for j := range asked.Rows {
		for k, x := range row(in.Queries, j) {
			asked.Data = append(asked.Data, x+float32(k%3)/4)
		}
		texts = append(texts, strings.Replace(in.Words.Queries[j], "what of", "why is", 1))
		b, err := g.Bias(in.Words.Index, texts[j])
		if err != nil {
			t.Fatal(err)
		}
		bias = append(bias, b)
	}
	e, contexts := newEngine(t), retrieve.Contexts{Vectors: in.Contexts, IDs: in.ContextIDs}
	decisions, err := g.Decide(t.Context(), e, contexts, asked, bias)
	if err != nil {
		t.Fatal(err)
	}
	verdicts, err := g.Any(t.Context(), e, contexts, asked, bias)
	if err != nil {
		t.Fatal(err)
	}
	for j := range in.Owner {
		if in.ContextIDs[in.Owner[j]] == gone {
			in.Owner[j] = -1
		}
	}
	for j, d := range decisions {
		want, best := -1., -1
		for i, o := range in.Owner {
			if s := ref.Score(kernels.Cosine, row(asked, j), row(in.Queries, i)); o >= 0 && s > want {
				want, best = s, int(o)
			}
		}
		if d.ContextID != in.ContextIDs[best] {
			t.Errorf("question %d: %s, want %s", j, d.ContextID, in.ContextIDs[best])
		}
		if math.Abs(d.Score-want) > 1e-9 || d.Retrieve != (d.Score > c.Cutoff) || d.ScoredBy != c.Score ||
			verdicts[j].Retrieve != d.Retrieve {
			t.Fatalf("question %d: %+v, want %v", j, d, want)
		}
	}
	one := engine.Vectors{Data: row(asked, 0), Rows: 1, Dim: asked.Dim}
	each, err := g.Each(t.Context(), e, contexts, []int{3, 5}, one, bias[0])
	if err != nil || len(each) != 2 || each[0].ContextID != "c3" || each[1].ContextID != "c5" ||
		each[1].Score > decisions[0].Score {
		t.Errorf("%+v, %v", each, err)
	}
}

// naiveQuestion returns the largest cosine of pseudo-query j with another one of some contexts.
func naiveQuestion(in *Input, j int, among func(i int) bool) float64 {
	best := -1.
	for i, o := range in.Owner {
		if i != j && among(int(o)) {
			best = max(best, ref.Score(kernels.Cosine, row(in.Queries, j), row(in.Queries, i)))
		}
	}
	return best
}

func damageQuestions(t *testing.T, path, name string) {
	t.Helper()
	file := filepath.Join(filepath.Dir(path), name)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text[len(text)-1] ^= 1
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Load(path); !errors.Is(err, ErrArtifact) {
		t.Errorf("changed vectors of pseudo-queries are accepted: %v", err)
	}
}

// TestQuestionsWithoutWords: pseudo-query needs no texts, and is for cosines.
func TestQuestionsWithoutWords(t *testing.T) {
	in := wordsInput(t, 5, 12, false)
	in.Words, in.Score = nil, "pseudo-query"
	c, _, err := Calibrate(t.Context(), newEngine(t), in)
	if err != nil || c.Score != "pseudo-query" || c.PseudoQuery == nil || c.Cover != nil {
		t.Fatalf("%+v, %v", c, err)
	}
	for _, score := range []string{"pseudo-query:1", "pseudo", "logistic"} {
		if _, err := ParseScore(score, kernels.Cosine); !errors.Is(err, ErrPolicy) {
			t.Errorf("%s: %v", score, err)
		}
	}
	if _, err := ParseScore("pseudo-query", kernels.L2); !errors.Is(err, ErrPolicy) {
		t.Error(err)
	}
}
