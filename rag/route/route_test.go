package route

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/embed/identity"
	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/rag/route/learn"
)

// fake embeds a text by hashing its words' letters; its digest can be changed.
type fake struct{ digest string }

func (f fake) Info() embed.Info {
	return embed.Info{Encoder: identity.Encoder{Name: "fake", Digest: f.digest, Dim: 16}}
}

func (fake) CountTokens(text string) (int, error) { return len(strings.Fields(text)), nil }

func (fake) Embed(ctx context.Context, texts []string, _ embed.Role) (*embed.Embeddings, error) {
	out := &embed.Embeddings{Dim: 16, Data: make([]float32, 16*len(texts))}
	for i, text := range texts {
		for _, w := range learn.Words(text) {
			for j, r := range w {
				out.Row(i)[(int(r)+j)%16]++
			}
		}
		out.Row(i)[0] += .01
	}
	return out, ctx.Err()
}

// corpusOf makes labelled texts of words that belong to labels.
func corpusOf(n int, multi bool) *Examples {
	r := rand.New(rand.NewPCG(5, 5))
	words := map[string][]string{"bread": strings.Fields("dough oven crust flour yeast knead bake rye loaf"),
		"light": strings.Fields("lamp beam lens keeper tower fog signal night ship"),
		"music": strings.Fields("fugue violin choir organ tune voice chord score tempo")}
	labels := []string{"bread", "light", "music"}
	e := &Examples{Source: "made", Multi: multi}
	for i := range n {
		own := []string{labels[i%3]}
		if multi && i%4 == 0 {
			own = append(own, labels[(i+1)%3])
			slices.Sort(own)
		}
		var text []string
		for range 5 {
			for _, l := range own {
				text = append(text, words[l][r.IntN(len(words[l]))])
			}
		}
		e.List = append(e.List, Example{ID: fmt.Sprint(i), Text: strings.Join(text, " "), Labels: own})
	}
	return e
}

func trained(t testing.TB, s Settings, e *Examples) *Router {
	t.Helper()
	r, err := Train(t.Context(), Input{Examples: e, Settings: s, Engine: newEngine(t), Encoder: fake{"a"}})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestTrainedSavedAndLoaded(t *testing.T) {
	for _, c := range []struct {
		kind     learn.Kind
		features Features
		multi    bool
	}{{learn.LinearSVC, Both, false}, {learn.LinearSVC, Both, true}, {learn.LogisticRegression, TFIDF, true},
		{learn.GaussianNB, Embedding, false}, {learn.MultinomialNB, TFIDF, false},
		{learn.LogisticRegression, Both, false}} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			s := Defaults()
			s.Kind, s.Features = c.kind, c.features
			r := trained(t, s, corpusOf(90, c.multi))
			least := .9
			if c.features == Embedding {
				least = .5 // letters tell little
			}
			if r.HeldOut.Texts != 90 || r.HeldOut.Accuracy < least || r.HeldOut.Abstains > .06 {
				t.Errorf("held out: %+v", r.HeldOut)
			}
			dir := t.TempDir()
			if err := r.Save(dir); err != nil {
				t.Fatal(err)
			}
			back, err := Load(dir)
			if err != nil {
				t.Fatal(err)
			}
			texts := []string{"knead the dough", "the keeper of the lamp", "quarterly tax return 1040", ""}
			a, errA := r.DecideTexts(t.Context(), newEngine(t), fake{"a"}, texts)
			b, errB := back.DecideTexts(t.Context(), newEngine(t), fake{"a"}, texts)
			if err := errors.Join(errA, errB); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(a, b); diff != "" {
				t.Errorf("loaded, it decides otherwise: %s", diff)
			}
			if c.features != Embedding &&
				(a[0].Labels[0].Label != "bread" || c.features == TFIDF && a[1].Labels[0].Label != "light") {
				t.Errorf("%+v", a[:2])
			}
			if c.features == TFIDF && !a[2].Abstained {
				t.Errorf("a text of unknown words is not abstained from: %+v", a[2])
			}
			_, err = back.DecideTexts(t.Context(), newEngine(t), fake{"b"}, texts)
			if r.NeedsVectors() != errors.Is(err, ErrEncoder) {
				t.Errorf("another encoder: %v", err)
			}
		})
	}
}

// TestOutsideTextsSetTheThreshold trains with texts of no domain.
func TestOutsideTextsSetTheThreshold(t *testing.T) {
	e := corpusOf(90, false)
	for i := range 20 {
		e.List = append(e.List, Example{Text: fmt.Sprintf("unrelated thing number%d", i), Labels: []string{"none"}})
	}
	s := Plain(learn.LinearSVC, TFIDF)
	s.Outside = "none"
	r := trained(t, s, e)
	if len(r.Labels) != 3 || r.HeldOut.Outside != 20 || r.HeldOut.AUROC < .95 || r.HeldOut.Refused < .9 {
		t.Errorf("%v %+v", r.Labels, r.HeldOut)
	}
	if r.Data.Counts["none"] != 0 || r.Data.Texts != 110 {
		t.Errorf("%+v", r.Data)
	}
}

func TestReportCountsByHand(t *testing.T) {
	p := func(x ...float64) []float64 { return x }
	all := []outcome{
		{want: []int32{0}, probabilities: p(.9, .1), familiar: .9},
		{want: []int32{0}, probabilities: p(.2, .8), familiar: .8},
		{want: []int32{1}, probabilities: p(.4, .6), familiar: .1},
		{outside: true, probabilities: p(.5, .5), familiar: .05},
		{outside: true, probabilities: p(.5, .5), familiar: .8},
	}
	r := report(all, []string{"a", "b"}, false, .5, .5)
	want := &Report{Texts: 3, Accuracy: 2. / 3, MacroF1: 2. / 3, Abstains: 1. / 3, Kept: .5, Outside: 2, Refused: .5,
		Confusion: [][]int{{1, 1}, {0, 1}}, AUROC: (3 + 1 + .5) / 6,
		Labels: []LabelReport{{"a", 1, .5, 2. / 3, 2}, {"b", .5, 1, 2. / 3, 1}}}
	want.LogLoss = -(math.Log(.9) + math.Log(.2) + math.Log(.6)) / 3
	want.ECE = (math.Abs(.9-1) + math.Abs(.8-0) + math.Abs(.6-1)) / 3
	for _, x := range []*float64{&r.LogLoss, &r.ECE, &want.LogLoss, &want.ECE, &r.Abstains, &want.Abstains} {
		*x = math.Round(*x*1e12) / 1e12
	}
	if diff := cmp.Diff(want, r); diff != "" {
		t.Error(diff)
	}
}

func TestBadDataAndSettings(t *testing.T) {
	read := func(text string) (*Examples, error) { return ReadExamples(strings.NewReader(text), "x", "") }
	for name, c := range map[string]struct{ text, want string }{
		"no JSON":  {"{\n", "x:1"},
		"no text":  {`{"label":"a"}`, `"text" is missing`},
		"no label": {`{"text":"a"}`, "is missing"},
		"both":     {`{"text":"a","label":"b","labels":[]}`, "one of them"},
		"mixed": {"{\"text\":\"a\",\"label\":\"b\"}\n{\"text\":\"a\",\"labels\":[\"b\"]}",
			"a file has one kind"},
		"empty label":   {`{"text":"a","label":" "}`, "a label is empty"},
		"number":        {`{"text":"a","label":3}`, "neither a string"},
		"null":          {`{"text":null,"label":"b"}`, "no string"},
		"only empty":    {`{"text":"  ","label":"b"}`, "no labelled texts"},
		"nothing":       {"", "no labelled texts"},
		"invalid UTF-8": {"{\"text\":\"\xff\",\"label\":\"b\"}", "UTF-8"},
	} {
		if _, err := read(c.text); !errors.Is(err, ErrData) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	e, err := read(`{"id":"1","text":"a b","label":"b"}
{"id":"1","text":"c d","label":"b"}
{"id":"2","text":" ","label":"c"}
{"text":"e f","label":"c"}`)
	if err != nil || len(e.List) != 2 || e.Left != (Left{Empty: 1, Duplicates: 1}) {
		t.Errorf("%+v %v", e, err)
	}
	one := &Examples{Source: "x",
		List: []Example{{Text: "aa bb", Labels: []string{"z"}}, {Text: "cc", Labels: []string{"z"}}}}
	_, err = Train(t.Context(), Input{Examples: one, Settings: Plain(learn.LinearSVC, TFIDF), Engine: newEngine(t)})
	if !errors.Is(err, ErrData) || !strings.Contains(err.Error(), "1 labels") {
		t.Errorf("a single label: %v", err)
	}
	for _, s := range []Settings{{}, Plain("knn", TFIDF), Plain(learn.MultinomialNB, Both),
		Plain(learn.LinearSVC, "words")} {
		_, err = Train(t.Context(), Input{Examples: corpusOf(30, false), Settings: s, Engine: newEngine(t)})
		if !errors.Is(err, ErrOption) {
			t.Errorf("%+v: %v", s, err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := Train(ctx,
		Input{Examples: corpusOf(30, false), Settings: Defaults(), Engine: newEngine(t),
			Encoder: fake{}}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// TestASingleTextOfALabelIsTrainedOn keeps it out of the measuring, and warns.
func TestASingleTextOfALabelIsTrainedOn(t *testing.T) {
	e := corpusOf(60, false)
	e.List = append(e.List, Example{Text: "a solitary heron", Labels: []string{"bird"}})
	var said string
	r, err := Train(t.Context(), Input{Examples: e, Settings: Plain(learn.LinearSVC, TFIDF), Engine: newEngine(t),
		Warn: func(text string) { said += text }})
	if err != nil || !strings.Contains(said, `"bird" has a single text`) || r.HeldOut.Texts != 60 {
		t.Fatalf("%v %q", err, said)
	}
	d, err := r.DecideTexts(t.Context(), newEngine(t), nil, []string{"the solitary heron"})
	if err != nil || d[0].Labels[0].Label != "bird" {
		t.Errorf("%+v %v", d, err)
	}
}

func TestSameSeedSameBits(t *testing.T) {
	a, b := trained(t, Defaults(), corpusOf(60, false)), trained(t, Defaults(), corpusOf(60, false))
	x, _ := a.numbers()
	y, _ := b.numbers()
	if string(x) != string(y) || a.Abstain != b.Abstain || a.Temperature != b.Temperature {
		t.Error("two trainings with the same seed differ")
	}
}

func TestDamagedRoutersAreRefused(t *testing.T) {
	r := trained(t, Defaults(), corpusOf(60, false))
	dir := t.TempDir()
	if err := r.Save(dir); err != nil {
		t.Fatal(err)
	}
	about, err := os.ReadFile(filepath.Join(dir, AboutFile))
	if err != nil {
		t.Fatal(err)
	}
	change := func(from, to string) string { return strings.Replace(string(about), from, to, 1) }
	for name, text := range map[string]string{
		"version":       change(`"schema": 1`, `"schema": 9`),
		"kind":          change(`"kind": "router"`, `"kind": "calibration"`),
		"unknown field": change(`"schema": 1`, `"schema": 1, "extra": 2`),
		"label order":   change(`"bread"`, `"zzz"`),
		"more":          string(about) + "{}",
		"temperature":   change(fmt.Sprintf(`"temperature": %v`, r.Temperature), `"temperature": -1`),
		"classifier":    change(`"kind": "svc"`, `"kind": "gnb"`),
		"features":      change(`"features": "both"`, `"features": "embedding"`),
		"no object":     "[]",
	} {
		if err := os.WriteFile(filepath.Join(dir, AboutFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(dir); !errors.Is(err, ErrArtifact) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []string{numbersFile, vocabularyFile} {
		if err := r.Save(dir); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, name)
		data, _ := os.ReadFile(path)
		data[len(data)/2] ^= 1
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(dir); !errors.Is(err, ErrArtifact) || !strings.Contains(err.Error(), "was changed") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzParse feeds any router.json beside files of a router: it loads, or fails with ErrArtifact.
func FuzzParse(f *testing.F) {
	r := trained(f, Plain(learn.LinearSVC, Both), corpusOf(30, false))
	dir := f.TempDir()
	if err := r.Save(dir); err != nil {
		f.Fatal(err)
	}
	about, _ := os.ReadFile(filepath.Join(dir, AboutFile))
	words, _ := os.ReadFile(filepath.Join(dir, vocabularyFile))
	numbers, _ := os.ReadFile(filepath.Join(dir, numbersFile))
	f.Add(about, words, numbers)
	f.Add([]byte(`{"kind":"router","schema":1}`), []byte("a\n"), []byte{})
	f.Fuzz(func(t *testing.T, about, words, numbers []byte) {
		var a aboutFile
		if json.Unmarshal(about, &a) == nil && a.Files != nil { // reach what is behind the digests
			a.Files = map[string]string{vocabularyFile: digest(words), numbersFile: digest(numbers)}
			if text, err := json.Marshal(a); err == nil {
				about = text
			}
		}
		r, err := parse(about, func(name string, _ int64) ([]byte, error) {
			return map[string][]byte{vocabularyFile: words, numbersFile: numbers}[name], nil
		})
		if err != nil {
			if !errors.Is(err, ErrArtifact) {
				t.Fatalf("not an artifact error: %v", err)
			}
			return
		}
		v := engine.Vectors{Rows: 1, Dim: 16, Data: make([]float32, 16)}
		if _, err := r.Decide(t.Context(), newEngine(t), []string{"dough"}, v); err != nil && r.Encoder != nil &&
			r.Encoder.Dim == 16 {
			t.Fatal(err)
		}
	})
}
