//go:build native

package gate

import (
	"context"
	"crypto/sha256"
	"math"
	"path/filepath"
	"testing"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/internal/language"
	"github.com/sluice-rag/sluice/internal/testmodels/datasets"
	"github.com/sluice-rag/sluice/internal/testmodels/minilm"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/rag/corpus/doc"
	"github.com/sluice-rag/sluice/rag/postings"
	"github.com/sluice-rag/sluice/rag/retrieve"
)

type line = datasets.Line

func openMiniLM(t *testing.T) *embed.Encoder { return minilm.Open(t, embed.Options{}) }

func vectors(t *testing.T, enc *embed.Encoder, lines []line, role embed.Role) engine.Vectors {
	t.Helper()
	texts := make([]string, len(lines))
	for i, l := range lines {
		texts[i] = l.Text
	}
	v, err := enc.Embed(t.Context(), texts, role)
	if err != nil {
		t.Fatal(err)
	}
	return engine.Vectors{Data: v.Data, Rows: len(lines), Dim: v.Dim}
}

// TestSquad16 calibrates on 646 Wikipedia contexts with their first three answerable questions and compares
// with an independent computation (fp32 encoder, texts cut at 256 tokens, type-7 quantiles); then it lets
// the default policy decide every third of the other 1,004 answerable questions and of the 1,200 utterances of
// CLINC150 that are out of scope; docs/adr/0018-gate.md has them all.
func TestSquad16(t *testing.T) {
	contexts, all := datasets.Lines(t, "squad16/contexts.jsonl"), datasets.Lines(t, "squad16/queries.jsonl")
	var utterances []line
	for _, part := range []string{"test", "validation", "train"} {
		for _, l := range datasets.Lines(t, "clinc150/"+part+".jsonl") {
			if l.Intent == "oos" {
				utterances = append(utterances, l)
			}
		}
	}
	enc := openMiniLM(t)
	info := enc.Info()
	in := Input{Holdout: .2, Seed: 1, CorpusDigest: "squad16", Tool: "test",
		Provenance: Provenance{Kind: "file", PerContext: 3},
		Encoder:    info.Encoder}
	row, group := map[string]int32{}, map[string]int32{}
	for i, c := range contexts {
		if _, ok := group[c.Topic]; !ok {
			group[c.Topic] = int32(len(group))
		}
		row[c.ID] = int32(i)
		in.ContextIDs, in.TextDigests, in.Groups = append(in.ContextIDs, c.ID),
			append(in.TextDigests, doc.TextDigest(c.Text)), append(in.Groups, group[c.Topic])
	}
	var pseudo, heldOut []line
	count := map[string]int{}
	for _, q := range all {
		if !q.Answerable {
			continue
		}
		if count[q.ContextID]++; count[q.ContextID] > 3 {
			heldOut = append(heldOut, q)
			continue
		}
		pseudo, in.Owner = append(pseudo, q), append(in.Owner, row[q.ContextID])
	}
	in.Contexts, in.Queries = vectors(t, enc, contexts, embed.Document), vectors(t, enc, pseudo, embed.Query)
	in.Words, in.Topics = &Words{Index: indexOf(t, contexts), Queries: textsOf(pseudo)}, true
	t.Run("parts", func(t *testing.T) { squad16Parts(t, in) })
	t.Run("partials", func(t *testing.T) { squad16Partials(t, in) })
	c, positive, err := Calibrate(t.Context(), newEngine(t), in)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []struct {
		name      string
		got, want Stats
	}{
		{"D+", c.Positive, Stats{1906, .060936, .313637, .476912, .555911, .574659, .652230, .743110, .857181}},
		{"D−", c.Negative, Stats{1229370, -.312169, -.088364, -.023218, .046792, .028095, .092446, .252203, .879625}},
	} {
		if d.got.N != d.want.N {
			t.Errorf("%s: n = %d, want %d", d.name, d.got.N, d.want.N)
		}
		got, want := values(d.got), values(d.want)
		for i := range got {
			if math.Abs(got[i]-want[i]) > 2e-5 {
				t.Errorf("%s: statistic %d is %.6f, want %.6f within 2e-5", d.name, i, got[i], want[i])
			}
		}
	}
	path := filepath.Join(t.TempDir(), "squad16.cal.json")
	if err := c.Save(path, positive); err != nil {
		t.Fatal(err)
	}
	if c, positive, err = Load(path); err != nil {
		t.Fatal(err)
	}
	live := func(yield func([sha256.Size]byte) bool) {
		for _, c := range contexts {
			if !yield(sha256.Sum256([]byte(c.Text))) {
				return
			}
		}
	}
	g, err := New(c, positive, Use{Encoder: in.Encoder, Metric: kernels.Cosine, TextDigests: live})
	if err != nil {
		t.Fatal(err)
	}
	if c.Score != "cosine+cover" || c.Cover.Weight != .5 || g.ScoredBy().Weight != .5 {
		t.Errorf("the score is %s (%s), the candidates are %+v", c.Score, c.Choice, c.Candidates)
	}
	open := func(lines []line) (share float64) {
		for _, d := range decide(t, g, in, vectors(t, enc, lines, embed.Query), lines) {
			if d.Retrieve {
				share += 1 / float64(len(lines))
			}
		}
		return share
	}
	heldOut, utterances = third(heldOut), third(utterances)
	inScope, outOfScope := open(heldOut), open(utterances)
	t.Logf("%s of %s = %.4f in [%.4f, %.4f]: open for %.1f %% of %d held-out questions, closed for %.1f %% of %d "+
		"out-of-scope utterances; AUROC %.4f, P(D+ > D−) %.4f",
		c.Policy, c.Choice, c.Cutoff, c.Bootstrap.Low, c.Bootstrap.High, 100*inScope, len(heldOut), 100*(1-outOfScope),
		len(utterances), *c.Holdout.AUROC, c.Separation)
	if inScope < .93 || outOfScope > .05 {
		t.Errorf("open for %.3f of the questions in scope and %.3f of those out of scope", inScope, outOfScope)
	}
}

// decide has a gate over in decide.
func decide(t *testing.T, g *Gate, in Input, queries engine.Vectors, lines []line) []Decision {
	t.Helper()
	var bias []kernels.Biases
	if g.ScoredBy().Words() {
		for _, l := range lines {
			b, err := g.Bias(in.Words.Index, l.Text)
			if err != nil {
				t.Fatal(err)
			}
			bias = append(bias, b)
		}
	}
	decisions, err := g.Decide(t.Context(), newEngine(t), retrieve.Contexts{Vectors: in.Contexts, IDs: in.ContextIDs},
		queries, bias)
	if err != nil {
		t.Fatal(err)
	}
	return decisions
}

func textsOf(lines []line) (texts []string) {
	for _, l := range lines {
		texts = append(texts, l.Text)
	}
	return texts
}

// indexOf returns the inverted index of contexts.
func indexOf(t *testing.T, lines []line) *postings.Index {
	t.Helper()
	language := language.New()
	read := func(_ context.Context, from, to int) (d []postings.Document, err error) {
		for _, l := range lines[from:to] {
			d = append(d, postings.Document{Text: l.Text, Language: language.Of(l.Text)})
		}
		return d, nil
	}
	x, err := postings.New().With(t.Context(), len(lines), read, func(int) bool { return false }, nil)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func third(lines []line) (some []line) {
	for i := 0; i < len(lines); i += 3 {
		some = append(some, lines[i])
	}
	return some
}

func values(s Stats) []float64 {
	return []float64{s.Min, s.P5, s.Q1, s.Mean, s.Median, s.Q3, s.P95, s.Max}
}
