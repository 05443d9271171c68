package gate

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/ref"
	"github.com/sluice-rag/sluice/rag/postings"
	"github.com/sluice-rag/sluice/rag/retrieve"
)

// TestFit compares the regression with scikit-learn's (testdata/logistic.py).
func TestFit(t *testing.T) {
	text, err := os.ReadFile("testdata/logistic.json")
	if err != nil {
		t.Fatal(err)
	}
	var golden struct {
		Inside, Outside        [][5]float64
		Intercept              float64
		Weights, Probabilities []float64
	}
	if err := json.Unmarshal(text, &golden); err != nil {
		t.Fatal(err)
	}
	of := func(rows [][5]float64) (all []Features) {
		for _, x := range rows {
			all = append(all, Features{x[0], x[1], x[2], x[3], x[4]})
		}
		return all
	}
	inside, outside := of(golden.Inside), of(golden.Outside)
	m := fit(examples(inside, outside), Model{})
	again := fit(examples(inside, outside), Model{Intercept: 3, Weights: Features{Maximum: -2, Joint: 5}})
	for k, w := range again.Weights.row() {
		if math.Abs(w-m.Weights.row()[k]) > 1e-9 {
			t.Errorf("weight %d is %v, from another start %v", k, m.Weights.row()[k], w)
		}
	}
	got := m.Weights.row()
	if got[0] = m.Intercept; math.Abs(got[0]-golden.Intercept) > 1e-6 {
		t.Errorf("intercept %v, want %v", got[0], golden.Intercept)
	}
	for k, want := range golden.Weights {
		if math.Abs(got[k+1]-want) > 1e-6 {
			t.Errorf("weight %d is %v, want %v", k, got[k+1], want)
		}
	}
	for i, f := range append(slices.Clone(inside[:3]), outside[:3]...) {
		if p := m.Probability(f); math.Abs(p-golden.Probabilities[i]) > 1e-6 {
			t.Errorf("probability %d is %v, want %v", i, p, golden.Probabilities[i])
		}
	}
}

func examples(inside, outside []Features) (all []example) {
	for _, f := range inside {
		all = append(all, example{f.row(), true})
	}
	for _, f := range outside {
		all = append(all, example{f.row(), false})
	}
	return all
}

// TestFitOfWhatIsParted: questions that a single feature parts have finite weights.
func TestFitOfWhatIsParted(t *testing.T) {
	m := fit(examples([]Features{{Maximum: 1, PseudoQuery: 1}, {Maximum: .9, PseudoQuery: .8}},
		[]Features{{Maximum: -1}, none()}), Model{})
	if !m.finite() || m.Probability(Features{Maximum: 1, PseudoQuery: 1}) <= m.Probability(none()) {
		t.Errorf("%+v", m)
	}
	same := fit(examples([]Features{{}}, []Features{{}}), Model{})
	if !same.finite() || math.Abs(same.Probability(Features{})-.5) > 1e-9 {
		t.Errorf("%+v", same)
	}
}

// TestWinner: a regression wins where it is better by more than a standard error.
func TestWinner(t *testing.T) {
	all := []Candidate{{Score: "cosine", Balanced: .7, Low: .65, High: .75, AUROC: .8},
		{Score: "cosine+cover", Balanced: .8, Low: .75, High: .85, AUROC: .9},
		{Score: "pseudo-query", Balanced: .7, Low: .65, High: .75, AUROC: .99},
		{Score: "logistic", Balanced: .81, Low: .76, High: .86, AUROC: .95}}
	if got := winner(all); got != 1 {
		t.Errorf("%d wins, want the simpler one", got)
	}
	all[3].Balanced, all[3].Low, all[3].High = .9, .85, .95
	if got := winner(all); got != 3 {
		t.Errorf("%d wins, want the regression", got)
	}
}

// naiveFeatures are the definition: those of the best contexts by cosine + ½·cover among some.
func naiveFeatures(t *testing.T, in *Input, text string, vector []float32, but int, among func(i int) bool) Features {
	t.Helper()
	cover, err := in.Words.Index.Query(text, postings.Scoring{Kind: postings.Cover})
	if err != nil {
		t.Fatal(err)
	}
	bm25, err := in.Words.Index.Query(text, postings.Scoring{Kind: postings.BM25})
	if err != nil {
		t.Fatal(err)
	}
	type context struct {
		row, at int
		score   float64
	}
	var all []context
	for i := range in.Contexts.Rows {
		at := i
		if in.Words.Rows != nil {
			at = in.Words.Rows[i]
		}
		if among(i) {
			all = append(all, context{i, at, ref.Score(kernels.Cosine, vector, row(in.Contexts, i)) +
				float64(float32(.5)*float32(cover.Score(at)))})
		}
	}
	slices.SortStableFunc(all, func(a, b context) int {
		switch {
		case a.score > b.score:
			return -1
		case a.score < b.score:
			return 1
		}
		return 0
	})
	f := none()
	for _, c := range all[:min(16, len(all))] {
		cosine, question := ref.Score(kernels.Cosine, vector, row(in.Contexts, c.row)), -1.
		for j, o := range in.Owner {
			if int(o) == c.row && j != but {
				question = max(question, ref.Score(kernels.Cosine, vector, row(in.Queries, j)))
			}
		}
		f.Maximum, f.PseudoQuery = max(f.Maximum, cosine), max(f.PseudoQuery, question)
		f.BM25, f.Cover = max(f.BM25, bm25.Score(c.at)/bm25.Ideal()), max(f.Cover, cover.Score(c.at))
		f.Joint = max(f.Joint, min(cosine, cover.Score(c.at)))
	}
	return f
}

func near(a, b Features) bool {
	for k, x := range a.row() {
		if math.Abs(x-b.row()[k]) > 1e-6 {
			return false
		}
	}
	return true
}

// TestScoresByQuestions: pseudo-query and logistic can be asked for; a pseudo-query is not compared with itself; their
// decisions are what was calibrated, and survive being saved.
func TestScoresByQuestions(t *testing.T) {
	for _, gaps := range []bool{false, true} {
		for _, score := range []string{"pseudo-query", "logistic"} {
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
				if score == "logistic" {
					of := func(among func(int) bool) float64 {
						return s.Model.Probability(naiveFeatures(t, &in, in.Words.Queries[j], row(in.Queries, j), j,
							among))
					}
					best, other = of(func(int) bool { return true }), of(func(i int) bool { return !mine(i) })
				}
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
		if c.Score == "logistic" {
			f := naiveFeatures(t, &in, texts[j], row(asked, j), -1, func(int) bool { return true })
			if want = c.Logistic.Model.Probability(f); d.Features == nil || !near(*d.Features, f) {
				t.Fatalf("question %d: %+v, want %+v", j, d.Features, f)
			}
		} else if d.ContextID != in.ContextIDs[best] {
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
		each[1].Score > decisions[0].Score && c.Score == "pseudo-query" {
		t.Errorf("%+v, %v", each, err)
	}
}

// naiveQuestion is the largest cosine of pseudo-query j with another one of some contexts.
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

// TestQuestionsWithoutWords: pseudo-query needs no texts, logistic does; without anything to leave out there is no
// regression; both are for cosines.
func TestQuestionsWithoutWords(t *testing.T) {
	in := wordsInput(t, 5, 12, false)
	in.Words, in.Score = nil, "pseudo-query"
	c, _, err := Calibrate(t.Context(), newEngine(t), in)
	if err != nil || c.Score != "pseudo-query" || c.PseudoQuery == nil || c.Cover != nil {
		t.Fatalf("%+v, %v", c, err)
	}
	if _, err := c.WithPolicy("", "logistic", 0); !errors.Is(err, ErrPolicy) {
		t.Error(err)
	}
	if in.Score = "logistic"; !errors.Is(calibrateError(t, in), ErrPolicy) {
		t.Error("logistic without words is accepted")
	}
	few := wordsInput(t, 2, 3, false)
	few.Topics, few.Groups, few.Score = false, nil, "logistic"
	if err := calibrateError(t, few); !errors.Is(err, ErrPolicy) || !strings.Contains(err.Error(), "too few contexts") {
		t.Error(err)
	}
	for _, score := range []string{"pseudo-query:1", "logistic:2", "pseudo"} {
		if _, err := ParseScore(score, kernels.Cosine); !errors.Is(err, ErrPolicy) {
			t.Errorf("%s: %v", score, err)
		}
	}
	for _, score := range []string{"pseudo-query", "logistic"} {
		if _, err := ParseScore(score, kernels.L2); !errors.Is(err, ErrPolicy) {
			t.Errorf("%s: %v", score, err)
		}
	}
}
