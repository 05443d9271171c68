package gate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/embed/identity"
	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/ref"
	"github.com/sluice-rag/sluice/rag/postings"
	"github.com/sluice-rag/sluice/rag/retrieve"
)

// subjects are words that only texts of one topic have.
func subjects(topic, word int) string { return fmt.Sprintf("subject%dx%d", topic, word) }

// wordsInput returns a base of topics × each contexts whose vectors say next to nothing and whose words say all, with
// two questions for each context. Its index has rows of deleted chunks between, if gaps is set.
func wordsInput(t testing.TB, topics, each int, gaps bool) Input {
	t.Helper()
	rng := rand.New(rand.NewPCG(7, 7))
	vector := func() (v []float32) {
		for range 8 {
			v = append(v, float32(rng.NormFloat64()))
		}
		return v
	}
	in := Input{Encoder: identity.Encoder{Name: "e", Digest: "d", TokenizerDigest: "t", Dim: 8}, Topics: true,
		Tool:         "test",
		CorpusDigest: "c", Seed: 3, Resamples: 50, Holdout: .2, Words: &Words{},
		Contexts: engine.Vectors{Dim: 8}, Queries: engine.Vectors{Dim: 8}, Provenance: Provenance{Kind: "file"}}
	var documents []postings.Document
	for topic := range topics {
		for i := range each {
			row := in.Contexts.Rows
			if gaps && i%2 == 0 {
				documents = append(documents, postings.Document{})
			}
			in.Words.Rows = append(in.Words.Rows, len(documents))
			text := fmt.Sprintf("%s %s common words of every text", subjects(topic, 2*i), subjects(topic, 2*i+1))
			documents = append(documents, postings.Document{Text: text, Language: "en"})
			in.Contexts.Rows++
			in.Contexts.Data = append(in.Contexts.Data, vector()...)
			in.ContextIDs = append(in.ContextIDs, fmt.Sprintf("c%d", row))
			in.TextDigests = append(in.TextDigests, fmt.Sprintf("%064x", row))
			in.Groups = append(in.Groups, int32(topic))
			for q := range 2 {
				in.Queries.Rows++
				in.Queries.Data = append(in.Queries.Data, vector()...)
				in.Owner = append(in.Owner, int32(row))
				in.Words.Queries = append(in.Words.Queries, "what of "+subjects(topic, 2*i+q)+" in words")
			}
		}
	}
	if !gaps {
		in.Words.Rows = nil
	}
	read := func(_ context.Context, from, to int) ([]postings.Document, error) { return documents[from:to], nil }
	var err error
	in.Words.Index, err = postings.New().With(t.Context(), len(documents), read,
		func(row int) bool { return documents[row].Text == "" }, nil)
	if err != nil {
		t.Fatal(err)
	}
	return in
}

// TestCalibrationChoosesTheScore: where words tell questions apart and vectors do not, the default weighs words; its
// distributions are the scores that decisions have, and they survive being saved.
func TestCalibrationChoosesTheScore(t *testing.T) {
	for _, gaps := range []bool{false, true} {
		in := wordsInput(t, 5, 20, gaps)
		c, positive, err := Calibrate(t.Context(), newEngine(t), in)
		if err != nil {
			t.Fatal(err)
		}
		if c.Score != "cosine+cover" || c.Policy != "maximum:p5" || len(c.Candidates) != 6 ||
			!strings.Contains(c.Choice, "topic is left out") || !strings.Contains(c.Choice, "% of all pairs") ||
			strings.Contains(c.Choice, "AUROC") || c.Cover.Queries != in.Queries.Rows {
			t.Fatalf("%s, %s, %s, %+v", c.Score, c.Policy, c.Choice, c.Candidates)
		}
		if first, best := c.Candidates[0], c.Candidates[winner(c.Candidates)]; first.Score != "cosine" ||
			best.Balanced <= first.Balanced || best.Low > best.Balanced || best.High < best.Balanced {
			t.Errorf("%+v", c.Candidates)
		}
		for j := range in.Queries.Rows {
			own, best, other := naiveScores(t, &in, j, c.Cover.Weight)
			if s := c.Cover.scores; s.positive[j] != own || s.maximum[j] != best || s.other[j] != other ||
				s.owner[j] != in.Owner[j] {
				t.Fatalf("question %d: %v %v %v, want %v %v %v", j, s.positive[j], s.maximum[j], s.other[j], own, best,
					other)
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
			t.Errorf("loaded %+v, saved %+v", loaded.Cover, c.Cover)
		}
		if gaps {
			continue
		}
		g, err := New(loaded, positive, Use{Encoder: in.Encoder})
		if err != nil {
			t.Fatal(err)
		}
		bias := make([]kernels.Biases, in.Queries.Rows)
		for j, text := range in.Words.Queries {
			if bias[j], err = g.Bias(in.Words.Index, text); err != nil {
				t.Fatal(err)
			}
		}
		contexts := retrieve.Contexts{Vectors: in.Contexts, IDs: in.ContextIDs}
		decisions, err := g.Decide(t.Context(), newEngine(t), contexts, in.Queries, bias)
		if err != nil {
			t.Fatal(err)
		}
		verdicts, err := g.Any(t.Context(), newEngine(t), contexts, in.Queries, bias)
		if err != nil {
			t.Fatal(err)
		}
		for j, d := range decisions {
			if d.Score != c.Cover.scores.maximum[j] || d.Retrieve != (d.Score > c.Cutoff) ||
				d.ScoredBy != "cosine+cover" ||
				verdicts[j].Retrieve != d.Retrieve {
				t.Fatalf("question %d: %+v, calibrated %v", j, d, c.Cover.scores.maximum[j])
			}
			if math.Abs(*d.Similarity+d.CoverWeight**d.Cover-d.Score) > 1e-12 || *d.Cover < 0 || *d.Cover > 1+1e-6 {
				t.Fatalf("the parts of %v: %v + %v · %v", d.Score, *d.Similarity, d.CoverWeight, *d.Cover)
			}
		}
	}
}

// naiveScores returns the scores by definition: similarity plus weighted cover of each context.
func naiveScores(t *testing.T, in *Input, j int, weight float64) (own, best, other float64) {
	t.Helper()
	q, err := in.Words.Index.Query(in.Words.Queries[j], postings.Scoring{Kind: postings.Cover})
	if err != nil {
		t.Fatal(err)
	}
	b := q.Biases(weight)
	best, other = math.Inf(-1), math.Inf(-1)
	for i := range in.Contexts.Rows {
		at := i
		if in.Words.Rows != nil {
			at = in.Words.Rows[i]
		}
		s := ref.Score(kernels.Cosine, row(in.Queries, j), row(in.Contexts, i)) + float64(b.At(at))
		if i == int(in.Owner[j]) {
			own = s
		}
		if best = max(best, s); in.Groups[i] != in.Groups[in.Owner[j]] {
			other = max(other, s)
		}
	}
	return own, best, other
}

// TestTheBestScoreIsKept: among the covers alone another weight would win, because the standard error is then that of
// the best cover, not that of the similarity.
func TestTheBestScoreIsKept(t *testing.T) {
	var all []candidate
	compared := []Candidate{
		{Score: "cosine", Balanced: .60, Low: .59, High: .61, AUROC: .70},
		{Score: string(Cover), Weight: .25, Balanced: .597, Low: .57, High: .62, AUROC: .75},
		{Score: string(Cover), Weight: .5, Balanced: .59, Low: .57, High: .61, AUROC: .80},
	}
	for _, c := range compared {
		kind := Kind("")
		if c.Weight > 0 {
			kind = Cover
		}
		all = append(all, candidate{score: Score{Metric: kernels.Cosine, Kind: kind, Weight: c.Weight}})
	}
	if got := bestOf(Cover, all, compared); got.score.Weight != compared[winner(compared)].Weight {
		t.Errorf("weight %g is kept, %+v won", got.score.Weight, compared[winner(compared)])
	}
	compared[0].AUROC = .9 // now the similarity wins, and the best cover is kept beside it
	if got := bestOf(Cover, all, compared); got.score.Weight != .5 {
		t.Errorf("weight %g is kept beside the similarity", got.score.Weight)
	}
}

// TestScoresThatNeedQuestions: a score that searches the pseudo-queries is compared where most contexts have some;
// asked for, it is made all the same.
func TestScoresThatNeedQuestions(t *testing.T) {
	few := wordsInput(t, 5, 20, false) // questions about 40 of 100 contexts
	n := slices.IndexFunc(few.Owner, func(o int32) bool { return o >= 40 })
	few.Owner, few.Words.Queries = few.Owner[:n], few.Words.Queries[:n]
	few.Queries.Rows, few.Queries.Data = n, few.Queries.Data[:n*few.Queries.Dim]
	for _, x := range []struct {
		name string
		in   Input
		want []string
	}{
		{"60 contexts", wordsInput(t, 5, 12, false), []string{string(PseudoQuery)}},
		{"100 contexts", wordsInput(t, 5, 20, false), []string{string(PseudoQuery)}},
		{"40 of 100 contexts", few, nil},
	} {
		var compared []string
		c, _, err := Calibrate(t.Context(), newEngine(t), x.in)
		if err != nil {
			t.Fatal(err)
		}
		for _, y := range c.Candidates {
			if !y.simple() {
				compared = append(compared, y.Score)
			}
		}
		if !slices.Equal(compared, x.want) || len(c.Candidates) != 5+len(x.want) {
			t.Errorf("%s: %v of %+v", x.name, compared, c.Candidates)
		}
		x.in.Score = string(PseudoQuery)
		if c, _, err = Calibrate(t.Context(), newEngine(t), x.in); err != nil || c.Score != string(PseudoQuery) {
			t.Errorf("%s: %s, %v", x.name, c.Score, err)
		}
	}
}

// TestScoresThatAreAskedFor: a policy alone means similarities, a score is taken as it is named, and both can be had
// from distributions that were computed before.
func TestScoresThatAreAskedFor(t *testing.T) {
	in := wordsInput(t, 5, 20, false)
	calibrate := func(policy, score string) *Calibration {
		t.Helper()
		in := in
		in.Policy, in.Score = policy, score
		c, _, err := Calibrate(t.Context(), newEngine(t), in)
		if err != nil {
			t.Fatalf("%s %s: %v", policy, score, err)
		}
		return c
	}
	for _, x := range []struct{ policy, score, wantPolicy, wantScore string }{
		{"p5", "", "p5", "cosine"}, {"paper", "", "density:95", "cosine"}, {"auto", "cosine", "maximum:p5", "cosine"},
		{"", "cosine+cover:0.4", "maximum:p5", "cosine+cover"},
		{"maximum:p10", "cosine+cover", "maximum:p10", "cosine+cover"},
		{"maximum:p10", "auto", "maximum:p10", "cosine+cover"},
	} {
		c := calibrate(x.policy, x.score)
		if c.Policy != x.wantPolicy || c.Score != x.wantScore || x.score == "cosine+cover:0.4" && c.Cover.Weight != .4 {
			t.Errorf("%s %s: %s %s %+v", x.policy, x.score, c.Policy, c.Score, c.Cover)
		}
	}
	auto := calibrate("", "")
	for _, x := range []struct{ policy, score, want string }{
		{"maximum:p10", "", "cosine+cover"}, {"paper", "", "cosine"}, {"", "cosine", "cosine"},
		{"", "", "cosine+cover"},
	} {
		c, err := auto.WithPolicy(x.policy, x.score, 0)
		if err != nil || c.Score != x.want {
			t.Errorf("%s %s: %v, not by %s", x.policy, x.score, err, x.want)
			continue
		}
		back, err := c.WithPolicy(Auto, "", 0)
		if err != nil || back.Score != "cosine+cover" || back.Cutoff != auto.Cutoff {
			t.Errorf("not back from %s %s: %v", x.policy, x.score, err)
		}
	}
	for _, score := range []string{"cosine+cover:0", "cosine+cover:-1", "cosine+cover:NaN", "cosine:1", "ip",
		"ip+cover", "x"} {
		in := in
		if in.Score = score; !errors.Is(calibrateError(t, in), ErrPolicy) {
			t.Errorf("%s is accepted", score)
		}
	}
	in.Words = nil
	if in.Score = "cosine+cover"; !errors.Is(calibrateError(t, in), ErrPolicy) {
		t.Error("words without texts are accepted")
	}
	if _, err := calibrate("p5", "cosine").WithPolicy("", "cosine+cover", 0); !errors.Is(err, ErrPolicy) {
		t.Error(err)
	}
}

func calibrateError(t *testing.T, in Input) error {
	t.Helper()
	_, _, err := Calibrate(t.Context(), newEngine(t), in)
	return err
}

// Bases without topics are parted by their vectors; those with few contexts go by the similarity.
func TestWithoutTopics(t *testing.T) {
	in := wordsInput(t, 5, 12, false)
	in.Topics, in.Groups = false, nil
	c, _, err := Calibrate(t.Context(), newEngine(t), in)
	if err != nil || len(c.Candidates) == 0 || !strings.Contains(c.Choice, "cluster of contexts is left out") {
		t.Errorf("%+v, %v", c, err)
	}
	few := wordsInput(t, 2, 3, false)
	few.Topics, few.Groups = false, nil
	c, _, err = Calibrate(t.Context(), newEngine(t), few)
	if err != nil || c.Score != "cosine" || c.Cover != nil || !strings.Contains(c.Choice, "too few contexts") {
		t.Errorf("%+v, %v", c, err)
	}
	few.Score = "cosine+cover"
	c, _, err = Calibrate(t.Context(), newEngine(t), few)
	if err != nil || c.Score != "cosine+cover" || c.Cover.Weight != unmeasuredWeight || c.Choice != "asked for" {
		t.Errorf("asked for without a comparison: %+v, %v", c, err)
	}
}

// TestWordsThatDoNotHelp: where the vectors say all, the similarity alone is taken; a score with words can still be
// had, with the best of its weights.
func TestWordsThatDoNotHelp(t *testing.T) {
	in := wordsInput(t, 5, 12, false)
	for j, own := range in.Owner {
		copy(row(in.Queries, j), row(in.Contexts, int(own)))
		in.Words.Queries[j] = "common words of every text" // and none of its own
	}
	c, _, err := Calibrate(t.Context(), newEngine(t), in)
	if err != nil {
		t.Fatal(err)
	}
	if c.Score != "cosine" || !strings.HasPrefix(c.Choice, "cosine alone") {
		t.Errorf("%s: %s", c.Score, c.Choice)
	}
	if want := c.Candidates[1+winner(c.Candidates[1:5])].Weight; c.Cover == nil || c.Cover.Weight != want {
		t.Errorf("the weight that is kept is %+v, want %v", c.Cover, want)
	}
}

// TestCluster: vectors around centres that are far from each other are parted by them, the same way each time.
func TestCluster(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	in := Input{Seed: 5, Contexts: engine.Vectors{Dim: 4, Rows: 80}}
	for i := range 80 {
		v := []float32{0, 0, 0, 0}
		v[i%4] = 1
		for j := range v {
			v[j] += .05 * float32(rng.NormFloat64())
		}
		in.Contexts.Data = append(in.Contexts.Data, v...)
	}
	of, err := in.cluster(t.Context(), newEngine(t), 4, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range of {
		if of[i] != of[i%4] {
			t.Fatalf("context %d is in cluster %d, context %d in %d", i, of[i], i%4, of[i%4])
		}
	}
	again, err := in.cluster(t.Context(), newEngine(t), 4, nil)
	if err != nil || !slices.Equal(of, again) {
		t.Error("another run has other clusters", err)
	}
}

// TestScoresOfAllWeights: the shortcut over contexts that can be the best at no weight leaves none out that is, with
// and without groups, whatever the largest weight.
func TestScoresOfAllWeights(t *testing.T) {
	for _, gaps := range []bool{false, true} {
		for _, weights := range [][]float64{{0, .25, .5, .75, 1}, {0, .003}, {0, maxCoverWeight}} {
			in := wordsInput(t, 6, 9, gaps)
			sample := in.coverSample()
			for _, groups := range [][]int32{in.Groups, make([]int32, in.Contexts.Rows), nil} {
				r := rater{in: &in, sample: sample, groups: groups}
				for _, w := range weights {
					r.all = append(r.all, candidate{score: Score{Kind: Cover, Weight: w}})
				}
				in := in
				if in.Groups = groups; groups == nil {
					in.Groups = make([]int32, in.Contexts.Rows)
				}
				r.in = &in
				if err := r.rate(t.Context(), newEngine(t)); err != nil {
					t.Fatal(err)
				}
				for w, weight := range weights {
					for j := range sample {
						own, best, other := naiveScores(t, &in, j, weight)
						switch {
						case groups == nil: // not asked for
							if other = 0; r.all[w].scores.other == nil {
								r.all[w].scores.other = make([]float64, len(sample))
							}
						case math.IsInf(other, -1):
							other = -1 // no context of another topic exists
						}
						if s := r.all[w].scores; s.positive[j] != own || s.maximum[j] != best || s.other[j] != other {
							t.Fatalf("weight %v, question %d: %v %v %v, want %v %v %v", weight, j, s.positive[j],
								s.maximum[j], s.other[j], own, best, other)
						}
					}
				}
			}
		}
	}
}
