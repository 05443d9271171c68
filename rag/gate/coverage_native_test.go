//go:build native

package gate

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/internal/testmodels/datasets"
	"github.com/sluice-rag/sluice/internal/testmodels/minilm"
	"github.com/sluice-rag/sluice/rag/corpus/doc"
)

// TestCoverageFigures splits contexts at random into calibration and test, one answerable question of each, and
// compares the share of test questions that the conformal cut-off keeps out with what is promised: the mean over 1,000
// splits within [A − 1/(n+1), A], and the share of splits above A with confidence 1 − D, each within three standard
// errors. The base holds all contexts in every split.
func TestCoverageFigures(t *testing.T) {
	if !*figures {
		t.Skip("SKIP: go test -tags native ./rag/gate -run CoverageFigures -figures -v")
	}
	for _, x := range []struct {
		set       string
		precision embed.Precision
	}{{"squad16", embed.F32}, {"xquad-de", embed.F32}, {"squad16", embed.Int8}} {
		set, enc := x.set, minilm.Open(t, embed.Options{Precision: x.precision})
		contexts, questions := datasets.Lines(t, set+"/contexts.jsonl"), datasets.Lines(t, set+"/queries.jsonl")
		in := Input{Seed: 1, CorpusDigest: set, Tool: "test", Encoder: enc.Info().Encoder, Resamples: -1,
			Provenance: Provenance{Kind: "file", PerContext: 1}, Policy: "conformal:0.05"}
		in.Topics = true
		row, group := map[string]int32{}, map[string]int32{}
		for i, c := range contexts {
			row[c.ID] = int32(i)
			if _, ok := group[c.Topic]; !ok {
				group[c.Topic] = int32(len(group))
			}
			in.Groups = append(in.Groups, group[c.Topic])
			in.ContextIDs = append(in.ContextIDs, c.ID)
			in.TextDigests = append(in.TextDigests, doc.TextDigest(c.Text))
		}
		random := rand.New(rand.NewPCG(46, 0))
		random.Shuffle(len(questions), func(i, j int) { questions[i], questions[j] = questions[j], questions[i] })
		var asked []line
		seen := map[string]bool{}
		for _, q := range questions {
			if (q.Answerable || set != "squad16") && !seen[q.ContextID] {
				seen[q.ContextID] = true
				asked, in.Owner = append(asked, q), append(in.Owner, row[q.ContextID])
			}
		}
		in.Contexts, in.Queries = vectors(t, enc, contexts, embed.Document), vectors(t, enc, asked, embed.Query)
		in.Words = &Words{Index: indexOf(t, contexts), Queries: textsOf(asked)}
		c, _, err := Calibrate(t.Context(), newEngine(t), in)
		if err != nil {
			t.Fatal(err)
		}
		covered(t, set+" "+string(x.precision), c, 46)
		if set == "squad16" {
			streams(t, c, asked, random)
		}
	}
}

// streams shows what a promise and the martingale do where questions change: calibrated by the questions of all topics
// but one, and asked those of the other one; and with streams that do not change.
func streams(t *testing.T, c *Calibration, questions []line, random *rand.Rand) {
	const level, delta, times = .05, .01, 1000
	all := c.lists().maximum
	cutOf := func(scores []float64) float64 {
		x := &Calibration{Metric: c.Metric, Score: c.Metric.String()}
		for i, score := range scores {
			x.scores.maximum, x.scores.owner = append(x.scores.maximum, score), append(x.scores.owner, int32(i))
		}
		cut, _, err := x.promise(promised{closed: level})
		if err != nil {
			t.Fatal(err)
		}
		return cut
	}
	opened := func(scores []float64, cut float64) (open []float64) {
		for _, score := range scores {
			if score > cut {
				open = append(open, score)
			}
		}
		return open
	}
	topics := map[string][]float64{}
	for i, q := range questions {
		topics[q.Topic] = append(topics[q.Topic], all[i])
	}
	names := slices.Sorted(maps.Keys(topics))
	for _, name := range names {
		var rest []float64
		for _, other := range names {
			if other != name {
				rest = append(rest, topics[other]...)
			}
		}
		cut := cutOf(rest)
		t.Logf("%s, calibrated without it: keeps out %.3f of %d, %.2f are promised", name,
			1-float64(len(opened(topics[name], cut)))/float64(len(topics[name])), len(topics[name]), level)
	}
	cut, other := cutOf(all), c.lists().other // the same questions of a base without the contexts of their topic
	m, asked := NewMartingale(opened(all, cut), 1), 0
	for _, i := range random.Perm(len(other)) {
		if asked++; other[i] > cut {
			m.Add(other[i])
		}
		if m.Alarms(delta) {
			break
		}
	}
	t.Logf("questions of topics that the base lacks: keeps out %.3f of %d; alarm %t after %d questions that open the "+
		"gate, of %d in all", 1-float64(len(opened(other, cut)))/float64(len(other)), len(other), m.Alarms(delta),
		m.Questions(), asked)
	alarms := 0
	for seed := range uint64(times) {
		order := random.Perm(len(all))
		scores := make([]float64, len(all))
		for i, at := range order {
			scores[i] = all[at]
		}
		cut := cutOf(scores[:100])
		m := NewMartingale(opened(scores[:100], cut), seed)
		for _, score := range opened(scores[100:], cut) {
			if m.Add(score); m.Alarms(delta) {
				alarms++
				break
			}
		}
	}
	share := float64(alarms) / times
	t.Logf("of %d streams that do not change %.3f raise an alarm, %.2f are promised", times, share, delta)
	if share > delta+3*math.Sqrt(delta*(1-delta)/times) {
		t.Errorf("%.3f false alarms", share)
	}
}

// covered compares what is promised with what splits show.
func covered(t *testing.T, set string, c *Calibration, seed uint64) {
	s := Splits{Levels: []float64{.01, .05, .1, .2}, Confident: []float64{.05, .1, .2}, Delta: .05, Times: 1000,
		Seed: seed}
	for _, n := range []int{38, 100, 300} {
		if n < len(c.ownScores()) {
			s.Contexts = append(s.Contexts, n)
		}
	}
	all, err := c.Coverage(s)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range all {
		if x.Refused {
			t.Logf("%s, n %d, %s: refused, %d are needed", set, x.Contexts, x.Policy, x.Needed)
			continue
		}
		t.Logf("%s, n %d, %s: kept out %.4f ± %.4f on average (promised at most %.2f, expected %.4f), above in %.3f "+
			"(expected %.3f)", set, x.Contexts, x.Policy, x.Closed, x.Error, x.Level, x.Expected, x.Above,
			x.AboveExpected)
		off := math.Abs(x.Above - x.AboveExpected)
		if !x.Holds || math.Abs(x.Closed-x.Expected) > 3*x.Error+.001 || // ties are let through
			off > 3*math.Sqrt(x.AboveExpected*(1-x.AboveExpected)/float64(s.Times))+1e-9 {
			t.Errorf("%+v is not what is promised", x)
		}
	}
}
