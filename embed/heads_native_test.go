//go:build native

package embed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/test/race"
	"github.com/sluice-rag/sluice/internal/testmodels/checkpoint"
)

// headTolerance is how far a logit may lie from the float64 reference.
const headTolerance = 5e-6

// architectures are small random models of all that heads are known for.
func architectures() []checkpoint.Spec {
	return []checkpoint.Spec{
		{Family: "bert", Prefixed: true},
		{Family: "distilbert", Prefixed: true},
		{Family: "roberta", Prefixed: true},
		{Family: "xlm-roberta", Prefixed: true, Hidden: 48, Heads: 3},
		{Family: "camembert", Prefixed: true},
		{Family: "mpnet", Prefixed: true, Layers: 3},
		{Family: "deberta-v2", Prefixed: true}, // as DeBERTa-v3
		{Family: "deberta-v2", Prefixed: true, Deberta: checkpoint.Deberta{Embedding: 24, Biased: true, Types: 2,
			Buckets: 8, Farthest: 40, Separate: true}},
		{Family: "deberta-v2", Prefixed: true, Positions: 70, Deberta: checkpoint.Deberta{Buckets: -1, Plain: true,
			Kinds: []string{"c2p"}}},
		{Family: "deberta-v2", Prefixed: true, DType: "F16", Deberta: checkpoint.Deberta{Separate: true, Types: 2,
			Kinds: []string{"p2c"}}},
		{Family: "deberta-v2", Prefixed: true, Deberta: checkpoint.Deberta{Kinds: []string{}}},
	}
}

func writeCheckpoint(t testing.TB, s checkpoint.Spec) string {
	t.Helper()
	dir := t.TempDir()
	if err := checkpoint.Write(dir, s); err != nil {
		t.Fatal(err)
	}
	return dir
}

func openReranker(t testing.TB, dir string, o Options) *Reranker {
	t.Helper()
	needLibrary(t)
	r, err := OpenReranker(t.Context(), dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

func name(s checkpoint.Spec) string {
	if s.Family != "deberta-v2" {
		return s.Family
	}
	return fmt.Sprintf("%s%+v", s.Family, s.Deberta)
}

func TestRerankersAgainstNumPy(t *testing.T) {
	race.Skip(t)
	needLibrary(t)
	for _, s := range architectures() {
		s.Labels, s.Kind = []string{"LABEL_0"}, "reranker"
		t.Run(name(s), func(t *testing.T) {
			dir := writeCheckpoint(t, s)
			r := openReranker(t, dir, Options{MaxBatchTokens: 300})
			if s := r.Info(); s.Dim != 1 {
				t.Errorf("%+v", s)
			}
			checkScores(t, r, dir, "when is the gate open?", "", strings.Repeat("the knowledge base ", 30))
		})
	}
}

// TestEntailmentAgainstNumPy: the probability is the softmax of the reference's logits at the label of that name.
func TestEntailmentAgainstNumPy(t *testing.T) {
	race.Skip(t)
	needLibrary(t)
	for _, s := range architectures() {
		s.Labels, s.Kind = []string{"neutral", "Entailment", "contradiction"}, "entailment"
		t.Run(name(s), func(t *testing.T) {
			dir := writeCheckpoint(t, s)
			e, err := OpenEntailment(t.Context(), dir, Options{MaxBatchTokens: 300})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { e.Close() })
			premises := smallTexts()
			hypotheses := slices.Clone(premises)
			slices.Reverse(hypotheses)
			in := task{Model: dir, Task: "score"}
			for i := range premises {
				in.Pairs = append(in.Pairs, textPair{A: premises[i], B: hypotheses[i], Limit: e.Info().MaxTokens})
			}
			logits, _ := reference(t, in)
			got, err := e.Entails(t.Context(), premises, hypotheses)
			if err != nil {
				t.Fatal(err)
			}
			for i, row := range logits {
				var sum float64
				for _, v := range row {
					sum += math.Exp(v)
				}
				if want := math.Exp(row[1]) / sum; !(math.Abs(got[i]-want) <= headTolerance) {
					t.Errorf("pair %d: %v, %v expected", i, got[i], want)
				}
			}
			if _, err := e.Entails(t.Context(), premises, hypotheses[1:]); !errors.Is(err, ErrPairs) {
				t.Errorf("a hypothesis less: %v", err)
			}
		})
	}
	for _, labels := range [][]string{{"yes", "no"}, {"entailment"}} {
		dir := writeCheckpoint(t, checkpoint.Spec{Family: "bert", Labels: labels, Kind: "entailment"})
		if _, err := OpenEntailment(t.Context(), dir, Options{}); !errors.Is(err, ErrModel) ||
			!strings.Contains(err.Error(), "entailment") {
			t.Errorf("%q: %v", labels, err)
		}
	}
}

// checkScores compares the scores of queries with the reference's.
func checkScores(t *testing.T, r *Reranker, dir string, queries ...string) {
	t.Helper()
	documents := smallTexts()
	in := task{Model: dir, Task: "score"}
	for _, query := range queries {
		for _, d := range documents {
			in.Pairs = append(in.Pairs, textPair{A: "ask: " + query, B: d, Limit: r.Info().MaxTokens})
		}
	}
	want, ids := reference(t, in)
	for _, query := range queries {
		got, err := r.Score(context.Background(), query, documents)
		if err != nil {
			t.Fatal(err)
		}
		var worst, spread float64
		for i := range documents {
			if got.Tokens[i] != len(ids[i]) {
				t.Errorf("document %d: %d tokens, the reference has %d", i, got.Tokens[i], len(ids[i]))
			}
			worst = max(worst, math.Abs(float64(got.Logits[i])-want[i][0]))
			spread = max(spread, math.Abs(want[i][0]-want[0][0]))
		}
		want, ids = want[len(documents):], ids[len(documents):]
		t.Logf("max |d| %.3g, scores apart by %.3g; %d cut, %d queries", worst, spread, got.Truncated,
			got.QueryTruncated)
		if !(worst <= headTolerance) || spread < 1e-3 {
			t.Errorf("max |d| = %g, at most %g expected; the scores are apart by %g", worst, headTolerance, spread)
		}
		if long := len(query) > 100; got.Truncated == 0 || long != (got.QueryTruncated > 0) {
			t.Errorf("%d cut, of %d the query", got.Truncated, got.QueryTruncated)
		}
	}
}

// The second text of a pair has another token type, which a model that knows types reads.
func TestTypesAreRead(t *testing.T) {
	dir := writeCheckpoint(t, checkpoint.Spec{Family: "bert", Labels: []string{"x"}, Kind: "reranker"})
	score := func() float32 {
		s, err := openReranker(t, dir, Options{}).Score(t.Context(), "the gate", []string{"is open"})
		if err != nil {
			t.Fatal(err)
		}
		return s.Logits[0]
	}
	before := score()
	path := filepath.Join(dir, "tokenizer.json")
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(string(raw), `"type_id":1`, `"type_id":0`)),
		0o644); err != nil {
		t.Fatal(err)
	}
	if d := math.Abs(float64(score() - before)); d < 1e-4 {
		t.Errorf("without types the score differs by %g", d)
	}
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(string(raw), `"type_id":1`, `"type_id":2`)),
		0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenReranker(t.Context(), dir, Options{}); !errors.Is(err, ErrModel) ||
		!strings.Contains(err.Error(), "type_vocab_size") {
		t.Errorf("a type that the table lacks: %v", err)
	}
}

func TestScore(t *testing.T) {
	dir := writeCheckpoint(t, checkpoint.Spec{Family: "bert", Labels: []string{"x"}, Kind: "reranker"})
	var seen []int
	r := openReranker(t, dir, Options{Progress: func(done, total int) { seen = append(seen, done, total) }})
	documents := append(smallTexts(), "bad \xff\x00 bytes", "bad \ufffd\ufffd bytes")
	all, err := r.Score(t.Context(), "the gate", documents)
	if err != nil {
		t.Fatal(err)
	}
	n := len(documents)
	if all.Repaired != 1 || all.Logits[n-2] != all.Logits[n-1] {
		t.Errorf("%d repaired, scores %v", all.Repaired, all.Logits)
	}
	if len(seen) == 0 || seen[len(seen)-2] != n || seen[len(seen)-1] != n {
		t.Errorf("progress %v", seen)
	}
	for i, d := range documents {
		one, err := r.Score(t.Context(), "the gate", []string{d})
		if err != nil || one.Logits[0] != all.Logits[i] { // the same bits alone and in a batch
			t.Errorf("document %d alone: %v, in the batch %g (%v)", i, one, all.Logits[i], err)
		}
	}
	order := all.Ranked(0)
	if len(order) != n || !slices.Equal(order[:2], all.Ranked(2)) {
		t.Errorf("%v", order)
	}
	for i := 1; i < n; i++ {
		a, b := all.Logits[order[i-1]], all.Logits[order[i]]
		if a < b || a == b && order[i-1] > order[i] {
			t.Errorf("%v is no order of %v", order, all.Logits)
		}
	}
	if none, err := r.Score(t.Context(), "the gate", nil); err != nil || len(none.Logits) != 0 {
		t.Errorf("no documents: %+v, %v", none, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Score(ctx, "the gate", documents); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	big := strings.Repeat("the gate opens when a context is near. ", 100_000/39)
	long, err := r.Score(t.Context(), big, []string{big, "near"})
	if err != nil || long.Truncated != 2 || long.QueryTruncated != 2 || long.Tokens[0] != 80 {
		t.Errorf("texts of 100 kB: %+v, %v", long, err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if _, err := r.Score(t.Context(), "the gate", documents); !errors.Is(err, ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

func TestRerankerRefuses(t *testing.T) {
	needLibrary(t)
	two := writeCheckpoint(t, checkpoint.Spec{Family: "bert", Labels: []string{"no", "yes"}, Kind: "reranker"})
	if _, err := OpenReranker(t.Context(), two, Options{}); !errors.Is(err, ErrModel) ||
		!strings.Contains(err.Error(), "2 labels") {
		t.Errorf("two labels: %v", err)
	}
	encoder := writeCheckpoint(t, checkpoint.Spec{Family: "bert", Kind: "reranker"})
	for kind, open := range map[string]func() error{
		"reranker":   func() error { _, err := OpenReranker(t.Context(), encoder, Options{}); return err },
		"classifier": func() error { _, err := OpenClassifier(t.Context(), encoder, Options{}); return err },
		"token-classifier": func() error {
			_, err := OpenTokenClassifier(t.Context(), encoder, Options{})
			return err
		},
	} {
		put(t, encoder, "model.yaml", "kind: "+kind)
		if err := open(); !errors.Is(err, ErrModel) ||
			!strings.Contains(err.Error(), `"classifier.weight" is missing`) {
			t.Errorf("%s without a head: %v", kind, err)
		}
	}
	one := writeCheckpoint(t, checkpoint.Spec{Family: "bert", Labels: []string{"x"}, Kind: "reranker"})
	raw, err := os.ReadFile(filepath.Join(one, "tokenizer.json"))
	if err != nil {
		t.Fatal(err)
	}
	var parts map[string]any
	readGolden(t, filepath.Join(one, "tokenizer.json"), &parts)
	parts["post_processor"] = nil
	without, err := json.Marshal(parts)
	if err != nil {
		t.Fatal(err)
	}
	put(t, one, "tokenizer.json", string(without))
	if _, err := OpenReranker(t.Context(), one, Options{}); !errors.Is(err, ErrModel) ||
		!strings.Contains(err.Error(), "two texts") {
		t.Errorf("no template: %v", err)
	}
	if e, err := OpenClassifier(t.Context(), one, Options{}); err == nil { // its kind is another
		e.Close()
		t.Error("a reranker opens as a classifier")
	}
	put(t, one, "tokenizer.json", string(raw))
	put(t, one, "model.yaml", "kind: reranker\nmax_tokens: 4")
	if _, err := OpenReranker(t.Context(), one, Options{}); !errors.Is(err, ErrModel) ||
		!strings.Contains(err.Error(), "max_tokens is 4") {
		t.Errorf("no room: %v", err)
	}
}

// put writes a file of a model's folder.
func put(t testing.TB, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func openClassifier(t testing.TB, dir string) *Classifier {
	t.Helper()
	needLibrary(t)
	c, err := OpenClassifier(t.Context(), dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestLabelsFromTheHead(t *testing.T) {
	for _, family := range []string{"bert", "distilbert", "roberta"} {
		dir := writeCheckpoint(t, checkpoint.Spec{Family: family, Labels: []string{"a", "b", "c"}, Unnamed: true})
		got, err := openClassifier(t, dir).Classify(t.Context(), []string{"the gate"})
		if err != nil || !slices.Equal(got.Labels, []string{"LABEL_0", "LABEL_1", "LABEL_2"}) {
			t.Errorf("%s: %+v, %v", family, got, err)
		}
	}
}

func TestMultiLabel(t *testing.T) {
	s := checkpoint.Spec{Family: "bert", Labels: []string{"a", "b", "c"}, Problem: "multi_label_classification"}
	got, err := openClassifier(t, writeCheckpoint(t, s)).Classify(t.Context(), []string{"the gate", "a query"})
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range got.Logits {
		if want := 1 / (1 + math.Exp(-float64(v))); math.Abs(float64(got.Probabilities[i])-want) > 1e-6 {
			t.Errorf("probability %g of logit %g, expected %g", got.Probabilities[i], v, want)
		}
	}
	for _, threshold := range []float64{0, .5, 1} {
		for _, j := range got.Ranked(0, 0, threshold) {
			if float64(got.Row(0)[j]) < threshold {
				t.Errorf("threshold %g: class %d with %g", threshold, j, got.Row(0)[j])
			}
		}
	}
	if r := got.Ranked(1, 0, 0); len(r) != 3 || r[0] != got.Best[1] || got.Row(1)[r[1]] < got.Row(1)[r[2]] {
		t.Errorf("%v of %v", r, got.Row(1))
	}
	if r := got.Ranked(1, 1, 0); !slices.Equal(r, got.Best[1:]) {
		t.Errorf("%v", r)
	}
}

// A folder as distilbert-base-uncased-finetuned-sst-2-english is published: a vocabulary, but neither tokenizer.json
// nor model.yaml.
func TestPublishedClassifierLoadsUnmodified(t *testing.T) {
	dir := writeCheckpoint(t,
		checkpoint.Spec{Family: "distilbert", Prefixed: true, Labels: []string{"NEGATIVE", "POSITIVE"},
			Bare: true})
	got, err := openClassifier(t, dir).Classify(t.Context(), smallTexts())
	if err != nil {
		t.Fatal(err)
	}
	put(t, dir, "tokenizer.json", tokenizerText(t, dir))
	want, ids := reference(t, task{Model: dir, Task: "classify", MaxTokens: 80, Texts: smallTexts()})
	for i := range want {
		if d := worst(got.Logits[2*i:2*i+2], want[i]); !(d <= headTolerance) || got.Tokens[i] != len(ids[i]) {
			t.Errorf("text %d: |d| %g, %d tokens of %d", i, d, got.Tokens[i], len(ids[i]))
		}
	}
	if got.Label(1) != got.Labels[got.Best[1]] || !strings.HasSuffix(got.Label(1), "TIVE") {
		t.Errorf("%q", got.Label(1))
	}
}

// tokenizerText returns the tokenizer.json of a folder that has none.
func tokenizerText(t testing.TB, dir string) string {
	t.Helper()
	raw, _, err := readTokenizer(dir)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestHeadsOfDamagedFiles(t *testing.T) {
	needLibrary(t)
	for want, change := range map[string]func(dir string){
		`id2label in`:      func(dir string) { replace(t, dir, "config.json", `"2":"c"`, `"2":"c","3":"d"`) },
		`id2label has the`: func(dir string) { replace(t, dir, "config.json", `"2":"c"`, `"7":"c"`) },
		`config.json wants`: func(dir string) {
			replace(t, dir, "config.json", `"hidden_size":32`,
				`"hidden_size":16`)
		},
		`"classifier.bias"`: func(dir string) {
			replace(t, dir, "model.safetensors", "classifier.bias",
				"classifier.bijs")
		},
		`"classifier.weig`: func(dir string) {
			replace(t, dir, "model.safetensors", "classifier.weight",
				"classifier.weihgt")
		},
		`pooler.dense.weigh`: func(dir string) {
			replace(t, dir, "model.safetensors", "pooler.dense.w",
				"puller.dense.w")
		},
	} {
		dir := writeCheckpoint(t, checkpoint.Spec{Family: "bert", Labels: []string{"a", "b", "c"}})
		change(dir)
		c, err := OpenClassifier(t.Context(), dir, Options{})
		if err == nil {
			c.Close()
		}
		if !errors.Is(err, ErrModel) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	// a tensor that nothing asks for does no harm
	dir := writeCheckpoint(t, checkpoint.Spec{Family: "bert", Prefixed: true, Labels: []string{"a", "b", "c"}})
	put(t, dir, "model.yaml", "kind: token-classifier")
	c, err := OpenTokenClassifier(t.Context(), dir, Options{})
	if err != nil {
		t.Fatalf("a pooler beside a head of tokens: %v", err)
	}
	c.Close()
	for _, kind := range []string{"reranker", "token-classifier"} {
		dir := writeCheckpoint(t, checkpoint.Spec{Family: "bert", Labels: []string{"x"}, Kind: kind})
		if err := checkpoint.SpoilWeights(dir); err != nil {
			t.Fatal(err)
		}
		if kind == "reranker" {
			_, err = openReranker(t, dir, Options{}).Score(t.Context(), "the gate", []string{"is open"})
		} else {
			_, err = openTokenClassifier(t, dir).Spans(t.Context(), []string{"the gate"})
		}
		if !errors.Is(err, ErrModel) || !strings.Contains(err.Error(), "damaged") {
			t.Errorf("%s of NaN: %v", kind, err)
		}
	}
}

func replace(t testing.TB, dir, name, from, to string) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil || !strings.Contains(string(raw), from) {
		t.Fatalf("%s lacks %q (%v)", name, from, err)
	}
	put(t, dir, name, strings.ReplaceAll(string(raw), from, to))
}
