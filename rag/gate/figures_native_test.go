//go:build native

package gate

import (
	"flag"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/internal/testmodels/datasets"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/rag/corpus/doc"
)

var figures = flag.Bool("figures", false, "print how well the gate decides (docs/adr/0018-gate.md); a minute")

// loads are questions with their vectors.
type loads struct {
	lines   []line
	vectors engine.Vectors
}

func (l loads) where(keep func(line) bool) (some loads) {
	some.vectors.Dim = l.vectors.Dim
	for i, x := range l.lines {
		if keep(x) {
			some.lines = append(some.lines, x)
			some.vectors.Data = append(some.vectors.Data, l.vectors.Data[i*l.vectors.Dim:][:l.vectors.Dim]...)
			some.vectors.Rows++
		}
	}
	return some
}

// TestGateFigures compares the rule of the paper, the similarity with the default policy, and the default: squad16 as
// base with questions of other data sets out of scope, squad16's halves as base and out of scope of each other, and
// German.
func TestGateFigures(t *testing.T) {
	if !*figures {
		t.Skip("SKIP: go test -tags native ./rag/gate -run Figures -figures -v")
	}
	enc := openMiniLM(t)
	load := func(name string, role embed.Role) loads {
		lines := datasets.Lines(t, name)
		return loads{lines, vectors(t, enc, lines, role)}
	}
	contexts, questions := load("squad16/contexts.jsonl", embed.Document), load("squad16/queries.jsonl", embed.Query)
	clinc, science := load("clinc150/test.jsonl", embed.Query), load("scibench/questions.jsonl", embed.Query)
	oos := clinc.where(func(l line) bool { return l.Intent == "oos" })
	served := clinc.where(func(l line) bool { return l.Intent != "oos" })
	gateFigures(t, "squad16", enc, contexts, questions, map[string]loads{"clinc150 oos": oos, "clinc150": served,
		"scibench": science})
	var topics []string
	for _, c := range contexts.lines {
		if !slices.Contains(topics, c.Topic) {
			topics = append(topics, c.Topic)
		}
	}
	slices.Sort(topics)
	for half, name := range []string{"first topics", "last topics"} {
		mine := func(l line) bool { return slices.Index(topics, l.Topic)/8 == half }
		other := func(l line) bool { return !mine(l) }
		gateFigures(t, name, enc, contexts.where(mine), questions.where(mine), map[string]loads{
			"other topics": questions.where(other)})
	}
	german := load("xquad-de/queries.jsonl", embed.Query)
	for i := range german.lines {
		german.lines[i].Answerable = true
	}
	gateFigures(t, "xquad-de", enc, load("xquad-de/contexts.jsonl", embed.Document), german,
		map[string]loads{"clinc150 oos": oos})
}

func gateFigures(t *testing.T, name string, enc *embed.Encoder, contexts, questions loads, out map[string]loads) {
	in := Input{Seed: 1, CorpusDigest: name, Tool: "test", Encoder: enc.Info().Encoder, Topics: true, Resamples: -1,
		Provenance: Provenance{Kind: "file", PerContext: 3}, Contexts: contexts.vectors}
	row, group, count := map[string]int32{}, map[string]int32{}, map[string]int{}
	for i, c := range contexts.lines {
		if _, ok := group[c.Topic]; !ok {
			group[c.Topic] = int32(len(group))
		}
		row[c.ID] = int32(i)
		in.ContextIDs, in.TextDigests, in.Groups = append(in.ContextIDs, c.ID),
			append(in.TextDigests, doc.TextDigest(c.Text)), append(in.Groups, group[c.Topic])
	}
	isPseudo := map[string]bool{}
	pseudo := questions.where(func(q line) bool {
		if count[q.ContextID] < 3 && q.Answerable {
			count[q.ContextID]++
			isPseudo[q.ID] = true
			return true
		}
		return false
	})
	inScope := questions.where(func(q line) bool { return q.Answerable && !isPseudo[q.ID] })
	for _, q := range pseudo.lines {
		in.Owner = append(in.Owner, row[q.ContextID])
	}
	in.Queries, in.Words = pseudo.vectors, &Words{Index: indexOf(t, contexts.lines), Queries: textsOf(pseudo.lines)}
	rules := []struct{ name, policy, score string }{{"paper", Paper, ""}, {"cosine maximum:p5", "maximum:p5", ""},
		{"pseudo-query", Auto, "pseudo-query"}, {"default", Auto, ""}}
	right := map[string][][2][]bool{} // of each rule, for each load: in scope, out of scope
	for _, rule := range rules {
		in.Policy, in.Score = rule.policy, rule.score
		c, positive, err := Calibrate(t.Context(), newEngine(t), in)
		if err != nil {
			t.Fatal(err)
		}
		g, err := New(c, positive, Use{Encoder: in.Encoder, Metric: kernels.Cosine})
		if err != nil {
			t.Fatal(err)
		}
		if rule.name == "default" {
			t.Logf("%s: %s, cut-off %.4f", name, c.Choice, c.Cutoff)
			for _, x := range c.Candidates {
				t.Logf("    %s %.2f: balanced %.4f (%.4f to %.4f), AUROC %.4f", x.Score, x.Weight, x.Balanced, x.Low,
					x.High,
					x.AUROC)
			}
		}
		inside := decide(t, g, in, inScope.vectors, inScope.lines)
		for _, what := range slices.Sorted(keys(out)) {
			outside := decide(t, g, in, out[what].vectors, out[what].lines)
			opens, keeps := opened(inside, true), opened(outside, false)
			right[rule.name] = append(right[rule.name], [2][]bool{opens, keeps})
			t.Logf("%s, %s out: %-18s AUROC %.4f, balanced accuracy %.4f (opens %.4f of %d, keeps out %.4f of %d)",
				name, what, rule.name, auroc(kernels.Cosine, scoresOf(inside), scoresOf(outside)),
				(part(opens)+part(keeps))/2, part(opens), len(opens), part(keeps), len(keeps))
		}
	}
	for i, what := range slices.Sorted(keys(out)) {
		low, high := pairedGain(right["default"][i], right["paper"][i])
		t.Logf("%s, %s out: gain over the paper's rule, 95 %% interval %.4f to %.4f", name, what, low, high)
	}
}

func keys(m map[string]loads) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

func scoresOf(d []Decision) (s []float64) {
	for _, x := range d {
		s = append(s, x.Score)
	}
	return s
}

func opened(d []Decision, want bool) (right []bool) {
	for _, x := range d {
		right = append(right, x.Retrieve == want)
	}
	return right
}

func part(b []bool) float64 {
	n := 0
	for _, x := range b {
		if x {
			n++
		}
	}
	return float64(n) / float64(len(b))
}

// pairedGain returns the percentile interval of the difference in balanced accuracy, of questions drawn with
// replacement.
func pairedGain(a, b [2][]bool) (low, high float64) {
	rng := rand.New(rand.NewPCG(1, 2))
	var gains []float64
	for range 2000 {
		gain := 0.
		for side := range a {
			n, sum := len(a[side]), 0
			for range n {
				i := rng.IntN(n)
				if a[side][i] {
					sum++
				}
				if b[side][i] {
					sum--
				}
			}
			gain += float64(sum) / float64(2*n)
		}
		gains = append(gains, gain)
	}
	slices.Sort(gains)
	return gains[50], gains[1949]
}
