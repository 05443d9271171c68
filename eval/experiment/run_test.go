package experiment_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/eval/dataset"
	"github.com/sluice-rag/sluice/eval/experiment"
	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const library = `{"id":"q1","context_id":"defer","text":"When does a deferred function run?","answers":["last in first out"]}
{"id":"q2","context_id":"close","text":"What does sending on a closed channel cause?","answers":["run time panic"]}
{"id":"q3","context_id":"herring","text":"Which plankton does the herring feed on?","answers":["northern"]}
{"id":"q4","context_id":"lights","text":"Why do lighthouses warn ships?","answerable":false}
{"id":"q5","context_id":"lights","text":"What do lighthouses warn ships of?","answers":["rocks and shallow water"]}
{"id":"q6","text":"How long should I boil an egg?"}
{"id":"q7","context_id":"defer","text":"In which order do deferred functions run?","answers":["last in first out"]}
`

const both = `name: both
parts:
  - name: search
    retrievers: [{mode: dense, k: 2}, {mode: auto, k: 2}]
    measures: [ndcg@2, recall@1, mrr, answer@1]
  - name: answers
    best: {of: search, by: ndcg@2}
    base: {pseudo: 1}
    generators: [{model: double, max_tokens: 20}]
    systems:
      - {name: RAG, gate: open}
      - {name: CAG, gate: calibrated, policy: p5, threshold: 0.3}
      - {name: adaptive, gate: model}
      - {name: supervisor, gate: supervisor, supervise: 2}
      - {name: none, gate: closed}
      - {name: asked, gate: open, mode: pseudo-query}
    measures: [em, f1, rouge1, bleu, csga, correct, faithfulness, context_relevancy, answer_relevancy, gate_right]
tables:
  - {title: Search, part: search, rows: [mode], measures: [ndcg@2, mrr], plot: true, published: [[mode, NDCG], [dense, "1"]], source: nobody}
  - {title: Answers, part: answers, rows: [system, group], measures: [f1, correct, llm_calls]}
`

type bench struct {
	data, out string
	encoder   *doubles.Encoder
	model     *doubles.Model
	judge     *doubles.Model
	stopAfter int // items
	items     int
	notes     []string
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{data: t.TempDir(), out: t.TempDir(), encoder: doubles.NewEncoder(),
		model: doubles.NewModel("It runs last in first out."), judge: doubles.NewModel("not JSON")}
	for name, text := range map[string]string{dataset.ContextsFile: doubles.Contexts, dataset.QueriesFile: library} {
		if err := os.WriteFile(filepath.Join(b.data, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

func (b *bench) run(t *testing.T, text string) (*experiment.Result, error) {
	t.Helper()
	f, err := experiment.Parse([]byte(text))
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	return experiment.Run(ctx, experiment.Options{File: f, Data: b.data, Out: b.out, Judge: b.judge,
		Config: sluice.Config{Embedder: b.encoder, Generator: b.model},
		Progress: func(string, int, int) {
			if b.items++; b.items == b.stopAfter {
				stop()
			}
		},
		Note: func(text string) { b.notes = append(b.notes, text) },
	})
}

func value(t *testing.T, r *experiment.Result, part, system, group, measure string) experiment.Row {
	t.Helper()
	for _, x := range r.Rows {
		if x.Part == part && (system == "" || x.System == system) && x.Group == group && x.Measure == measure {
			return x
		}
	}
	t.Fatalf("no %s of %s %s %s", measure, part, system, group)
	return experiment.Row{}
}

// TestRun checks the values of both parts, that ungradable answers are counted, and that nothing is computed twice.
func TestRun(t *testing.T) {
	b := newBench(t)
	r, err := b.run(t, both)
	if err != nil {
		t.Fatal(err)
	}
	if x := value(t, r, "search", "", experiment.Answerable, "ndcg@2"); x.Mean != 1 || x.N != 5 || x.Unscored != 0 {
		t.Errorf("%+v", x)
	}
	if x := value(t, r, "search", "", experiment.OutOfScope, "mrr"); x.N != 0 || x.Unscored != 1 {
		t.Errorf("a question without a context has no rank: %+v", x)
	}
	if x := value(t, r, "answers", "RAG", experiment.Answerable, "f1"); x.N != 1 || x.Mean < .5 {
		t.Errorf("the first question of each context is a pseudo-query: %+v", x)
	}
	if x := value(t, r, "answers", "RAG", "all", "rouge1.f1"); x.N != 1 || x.Unscored != 2 {
		t.Errorf("a question without a true answer has no ROUGE: %+v", x)
	}
	if x := value(t, r, "answers", "RAG", "all", "correct"); x.N != 0 || x.Unscored != 3 {
		t.Errorf("a judge's garbage is unscored: %+v", x)
	}
	for system, want := range map[string]float64{"RAG": 1, "adaptive": 2, "supervisor": 3, "none": 1, "CAG": 1,
		"asked": 1} {
		if x := value(t, r, "answers", system, "all", "llm_calls"); x.Mean != want {
			t.Errorf("%s: %g calls, want %g", system, x.Mean, want)
		}
	}
	if x := value(t, r, "answers", "CAG", "all", "gate_right"); x.Mean != 1 {
		t.Errorf("the gate: %+v", x)
	}
	if r.Items != 7*2+3*6 || r.Resumed != 0 {
		t.Errorf("%d items, %d resumed", r.Items, r.Resumed)
	}
	calls, asked := b.encoder.Calls.Load(), len(b.model.Requests())
	again, err := b.run(t, both)
	if err != nil || again.Resumed != again.Items || b.encoder.Calls.Load() != calls ||
		len(b.model.Requests()) != asked {
		t.Errorf("again: %d of %d resumed, %v", again.Resumed, again.Items, err)
	}
	if len(again.Rows) != len(r.Rows) {
		t.Fatalf("%d rows, %d again", len(r.Rows), len(again.Rows))
	}
	for i := range r.Rows {
		if r.Rows[i] != again.Rows[i] {
			t.Errorf("row %+v, again %+v", r.Rows[i], again.Rows[i])
		}
	}
}

// TestReadAnswers: the journal says what was asked and answered, also where its last line is torn.
func TestReadAnswers(t *testing.T) {
	b := newBench(t)
	if _, err := b.run(t, both); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(b.out, experiment.Journal))
	if err != nil {
		t.Fatal(err)
	}
	got, unnamed, err := experiment.ReadAnswers(bytes.NewReader(append(text, `{"cell":"torn`...)))
	if err != nil || unnamed != 0 || len(got) != 3*6 || !experiment.IsJournal(text) {
		t.Fatalf("%d answers, %d unnamed, %v", len(got), unnamed, err)
	}
	for _, a := range got[:3] {
		if a.Part != "answers" || !strings.HasPrefix(a.Cell, "RAG, double") ||
			!strings.HasPrefix(a.Answer, "It runs last in first out.") ||
			!strings.Contains(library, a.Question) || len(a.MS) == 0 || len(a.Judged) != 0 { // all is unscored
			t.Errorf("%+v", a)
		}
	}
	older := bytes.ReplaceAll(text, []byte(`"asked"`), []byte(`"other"`))
	if got, unnamed, err := experiment.ReadAnswers(bytes.NewReader(older)); err != nil || len(got) != 0 ||
		unnamed != 18 {
		t.Errorf("%d answers, %d unnamed, %v", len(got), unnamed, err)
	}
	second := bytes.IndexByte(text, '\n') + 20 // within the second line
	for _, bad := range []string{"", "{}\n", string(text[:second]) + "\n"} {
		if _, _, err := experiment.ReadAnswers(strings.NewReader(bad)); !errors.Is(err, experiment.ErrJournal) {
			t.Errorf("%.40q: %v", bad, err)
		}
	}
}

// TestRunGoesOn checks that after an interrupt, and after a kill that truncated the journal's last line, finished
// items are not computed again and the values equal those of one run.
func TestRunGoesOn(t *testing.T) {
	whole := newBench(t)
	want, err := whole.run(t, both)
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(t)
	b.stopAfter, b.items = 20, 0
	if _, err := b.run(t, both); !errors.Is(err, context.Canceled) {
		t.Fatalf("%v", err)
	}
	path := filepath.Join(b.out, "journal.jsonl")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text[:len(text)-9], 0o600); err != nil { // the 20th item is truncated
		t.Fatal(err)
	}
	b.stopAfter = 0
	got, err := b.run(t, both)
	if err != nil || got.Resumed != 19 {
		t.Fatalf("%+v, %v", got, err)
	}
	for i, x := range want.Rows {
		if y := got.Rows[i]; !strings.HasPrefix(x.Measure, "ms.") && x != y {
			t.Errorf("%+v, in one run %+v", y, x)
		}
	}
	// Only a changed question is asked again.
	changed := strings.Replace(library, "Why do lighthouses warn ships?", "Why do lighthouses warn boats?", 1)
	if err := os.WriteFile(filepath.Join(b.data, dataset.QueriesFile), []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err = b.run(t, both); err != nil || got.Resumed != got.Items-2-6 {
		t.Errorf("%d of %d resumed, %v", got.Resumed, got.Items, err)
	}
}

// TestFollowUps: questions of conversations are searched with the question before, or without it where a system ignores
// it, and the model reads the conversation.
func TestFollowUps(t *testing.T) {
	b := newBench(t)
	const talk = `{"id":"q1","context_id":"herring","topic":"sea","text":"Where does the Herring swim?","answers":["north"]}
{"id":"q2","context_id":"herring","topic":"sea","text":"What does the Herring eat?","answers":["plankton"]}
{"id":"q3","context_id":"defer","topic":"go","text":"When does a deferred function run?","answers":["last"]}
{"id":"q4","text":"How long should I boil an egg?"}
`
	if err := os.WriteFile(filepath.Join(b.data, dataset.QueriesFile), []byte(talk), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := b.run(t, `name: f
parts:
  - name: search
    base: {follow_ups: true}
    systems: [{name: alone, history: ignored}, {name: together}]
    retrievers: [{mode: bm25, k: 4}]
    measures: [recall@4]
  - name: answers
    base: {follow_ups: true}
    sample: {follow-up: 1}
    generators: [{model: double}]
    measures: [f1]
`)
	if err != nil {
		t.Fatal(err)
	}
	// "What does it eat?" has no word of the context, the question before has.
	for system, want := range map[string]float64{"alone": 0, "together": 1} {
		if x := value(t, r, "search", system, experiment.FollowUp, "recall@4"); x.N != 1 || x.Mean != want {
			t.Errorf("%s: %+v", system, x)
		}
	}
	if x := value(t, r, "search", "alone", experiment.Change, "recall@4"); x.N < 1 {
		t.Errorf("%+v", x)
	}
	if x := value(t, r, "search", "alone", experiment.OutOfScope, "recall@4"); x.N+x.Unscored != 1 {
		t.Errorf("%+v", x)
	}
	requests := fmt.Sprint(b.model.Requests())
	if !strings.Contains(requests, "Where does the Herring swim?") ||
		!strings.Contains(requests, "What does it eat?") {
		t.Errorf("the model read %s", requests)
	}
	for text, says := range map[string]string{
		"base: {follow_ups: true}, group_by: question_type": "groups of its own",
		"systems: [{history: kept}]":                        `history "kept"`} {
		_, err := experiment.Parse([]byte("name: f\nparts: [{name: p, measures: [mrr], " + text + "}]"))
		if !errors.Is(err, experiment.ErrFile) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestBook: questions about a document without contexts are asked, judged and not ranked; a changed document is another
// base.
func TestBook(t *testing.T) {
	b := newBench(t)
	put := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(b.data, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("book.md", "# Sea\n\nThe herring feeds on plankton.\n\n# Go\n\nA deferred function runs last in first out.\n")
	put("questions.txt", "What does the herring feed on?\n\n  When does a deferred function run?  \n")
	put("questions.jsonl", `{"text":"What does the herring feed on?","answers":["plankton"]}`+"\n{\n{}\n")
	const text = `name: b
parts:
  - name: search
    base: {files: [book.md], questions: questions.jsonl}
    chunkers: [64/2]
    measures: [answer@1, recall@1]
  - name: answers
    base: {files: [book.md], questions: questions.txt}
    sample: {answerable: 28}
    chunkers: [64/2]
    generators: [{model: double}]
    measures: [correct_by_context, correct]
`
	r, err := b.run(t, text)
	if err != nil {
		t.Fatal(err)
	}
	if x := value(t, r, "search", "", experiment.Answerable, "answer@1"); x.N != 1 || x.Mean != 1 {
		t.Errorf("%+v", x)
	}
	if x := value(t, r, "search", "", experiment.Answerable, "recall@1"); x.N != 0 || x.Unscored != 1 {
		t.Errorf("%+v", x)
	}
	if x := value(t, r, "answers", "", experiment.Answerable, "correct_by_context"); x.N+x.Unscored != 2 {
		t.Errorf("%+v", x)
	}
	if !strings.Contains(strings.Join(b.notes, "; "), "questions.jsonl: 2 bad lines") || r.Items != 3 {
		t.Errorf("%d items, %q", r.Items, b.notes)
	}
	put("book.md", "# Sea\n\nThe herring feeds on small plankton.\n")
	if r, err = b.run(t, text); err != nil || r.Resumed != 0 {
		t.Errorf("%d items resumed with another book, %v", r.Resumed, err)
	}
	for base, says := range map[string]string{"files: [book.md]": "given together",
		"files: [book.md], questions: q.txt, pseudo: 1": "stand for the set"} {
		_, err := experiment.Parse([]byte("name: b\nparts: [{name: p, measures: [mrr], base: {" + base + "}}]"))
		if !errors.Is(err, experiment.ErrFile) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", base, err)
		}
	}
	if _, err := b.run(t, strings.ReplaceAll(text, "book.md", "none.md")); !errors.Is(err, dataset.ErrData) {
		t.Errorf("%v", err)
	}
}

// TestJournalRefuses checks that another file, a damaged line and a second run are reported as errors.
func TestJournalRefuses(t *testing.T) {
	b := newBench(t)
	path := filepath.Join(b.out, "journal.jsonl")
	for text, says := range map[string]string{"dear diary": "not the journal", "{}\n": "version 1",
		"{\"sluice_experiment\":2}\n": "version 1", "{\"sluice_experiment\":1}\n{\n": ":2 is damaged"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := b.run(t, both); !errors.Is(err, experiment.ErrJournal) || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", text, err)
		}
		if after, _ := os.ReadFile(path); string(after) != text {
			t.Errorf("%q became %q", text, after)
		}
	}
}

// TestDistribution checks the calibration's table, also when read from the journal.
func TestDistribution(t *testing.T) {
	const text = "name: d\nparts: [{name: table, kind: distribution, base: {pseudo: 1}}]\n"
	b := newBench(t)
	for range 2 {
		r, err := b.run(t, text)
		if err != nil {
			t.Fatal(err)
		}
		low, high := value(t, r, "table", "", "negative", "median"), value(t, r, "table", "", "positive", "median")
		if len(r.Rows) != 16 || low.Mean >= high.Mean || high.N != 4 {
			t.Errorf("%d rows, %+v, %+v", len(r.Rows), low, high)
		}
	}
}

// TestDocuments checks that topics become documents, which the chunkers divide, and that questions have types.
func TestDocuments(t *testing.T) {
	b := newBench(t)
	r, err := b.run(t, `name: d
parts:
  - name: chunks
    base: {documents: true}
    chunkers: [32/2, none, semantic 32/2]
    group_by: question_type
    sample: {"*": 60}
    measures: [answer@1, ndcg@1]
`)
	if err != nil {
		t.Fatal(err)
	}
	if x := value(t, r, "chunks", "", "factual, sparse", "answer@1"); x.N != 4 || x.Mean != 1 {
		t.Errorf("%+v", x)
	}
	if x := value(t, r, "chunks", "", "factual, sparse", "ndcg@1"); x.Unscored != 4 {
		t.Errorf("%+v", x)
	}
}

func TestFilesAreChecked(t *testing.T) {
	for text, says := range map[string]string{
		"":                     "it is empty",
		"nme: x":               "field nme not found",
		"name: x":              "at least one part",
		"name: x\nparts: [{}]": "a name of its own",
		"name: x\nparts: [{name: a, measures: [mrr]}, {name: a, measures: [mrr]}]": "a name of its own",
		"name: x\nparts: [{name: a}]":                                                     "measures nothing",
		"name: x\nparts: [{name: a, measures: [ndcg]}]":                                   "needs @k",
		"name: x\nparts: [{name: a, measures: [mrr@3]}]":                                  "takes no @k",
		"name: x\nparts: [{name: a, measures: [ndcg@0]}]":                                 "at least 1",
		"name: x\nparts: [{name: a, measures: [bertscore]}]":                              "not known",
		"name: x\nparts: [{name: a, measures: [f1]}]":                                     "needs a generator",
		"name: x\nparts: [{name: a, kind: magic}]":                                        "kind \"magic\"",
		"name: x\nparts: [{name: a, measures: [mrr], group_by: moon}]":                    "group_by",
		"name: x\nparts: [{name: a, measures: [mrr], systems: [{gate: calibrated}]}]":     "base.pseudo",
		"name: x\nparts: [{name: a, measures: [mrr], systems: [{gate: half}]}]":           "gate \"half\"",
		"name: x\nparts: [{name: a, measures: [mrr], best: {of: b, by: mrr}}]":            "no earlier part",
		"name: x\nparts: [{name: a, measures: [mrr]}]\ntables: [{part: b}]":               "no part \"b\"",
		"name: x\nparts: [{name: a, measures: [mrr]}]\ntables: [{part: a, rows: [moon]}]": "dimension \"moon\"",
		"name: x\nparts: [{name: a, measures: [mrr], sample: {answerable: -1}}]":          "a sample of -1",
		"name: x\n---\nname: y":                                                           "",
	} {
		if _, err := experiment.Parse([]byte(text)); !errors.Is(err, experiment.ErrFile) ||
			!strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", text, err)
		}
	}
	b := newBench(t)
	for text, want := range map[string]error{
		"name: x\nparts: [{name: a, measures: [mrr], sample: {moon: 3}}]":               experiment.ErrMissing,
		"name: x\nparts: [{name: a, measures: [mrr], retrievers: [{mode: telepathy}]}]": experiment.ErrFile,
	} {
		if _, err := b.run(t, text); !errors.Is(err, want) {
			t.Errorf("%q: %v", text, err)
		}
	}
	b.data = t.TempDir()
	if _, err := b.run(t, both); !errors.Is(err, dataset.ErrData) {
		t.Errorf("no data: %v", err)
	}
}

// FuzzParse checks that a file is refused with ErrFile, or that every cell of it has a distinct digest.
func FuzzParse(f *testing.F) {
	f.Add([]byte(both))
	f.Add([]byte("name: x\nparts: [{name: a, measures: [ndcg@10], sample: {'*': 3}}]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		file, err := experiment.Parse(text)
		if err != nil {
			if !errors.Is(err, experiment.ErrFile) {
				t.Fatal(err)
			}
			return
		}
		file.Scale(10)
		if file.Name == "" || len(file.Parts) == 0 {
			t.Fatalf("%+v", file)
		}
	})
}

func TestUse(t *testing.T) {
	file := experiment.File{Parts: []experiment.Part{
		{Encoders: []experiment.Encoder{{Name: "a"}, {Name: "b"}}, Generators: []experiment.Generator{
			{Model: "x"}, {Model: "y"},
			{Model: "y", MaxTokens: 9}}},
		{Best: &experiment.Best{Of: "first"}}, // takes its encoder from another part
	}}
	file.Use("", "")
	if len(file.Parts[0].Encoders) != 2 || len(file.Parts[0].Generators) != 3 {
		t.Errorf("%+v", file)
	}
	file.Use("e", "m")
	want := experiment.Part{Encoders: []experiment.Encoder{{Name: "e"}},
		Generators: []experiment.Generator{{Model: "m"}, {Model: "m", MaxTokens: 9}}}
	if !reflect.DeepEqual(want, file.Parts[0]) || len(file.Parts[1].Encoders) > 0 {
		t.Errorf("%+v", file)
	}
}

// TestRouting checks that classifiers learn the topics of questions, and that a routed search returns contexts of the
// topic only.
func TestRouting(t *testing.T) {
	b := newBench(t)
	var queries, contexts strings.Builder
	for i := range 12 {
		for topic, words := range map[string]string{"go": "channel panic function", "sea": "herring plankton ship"} {
			for _, kind := range []string{"pseudo", "asked"} {
				fmt.Fprintf(&queries, `{"id":"%[1]s%[2]d%[4]s","context_id":"%[1]s%[2]d","topic":"%[1]s",`+
					`"text":"what of %[3]s number %[2]d","answers":["%[3]s"]}`+"\n", topic, i, words, kind)
			}
			fmt.Fprintf(&contexts, `{"id":"%[1]s%[2]d","topic":"%[1]s","text":"%[3]s number %[2]d"}`+"\n", topic, i,
				words)
		}
	}
	for name, text := range map[string]string{dataset.ContextsFile: contexts.String(),
		dataset.QueriesFile: queries.String()} {
		if err := os.WriteFile(filepath.Join(b.data, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r, err := b.run(t, `name: r
parts:
  - name: classifiers
    kind: classifiers
    base: {draws: 2}
    systems: [{classifier: mnb, features: tfidf}, {classifier: default}]
  - name: search
    base: {pseudo: 1}
    retrievers: [{mode: dense, k: 20, routed: true}]
    measures: [recall@1, recall@20]
`)
	if err != nil {
		t.Fatal(err)
	}
	for _, system := range []string{"mnb tfidf", "default"} {
		if x := value(t, r, "classifiers", system, "test", "test accuracy"); x.Mean != 1 || x.N != 10 {
			t.Errorf("%+v", x)
		}
	}
	if x := value(t, r, "search", "", experiment.Answerable, "recall@20"); x.Mean != 1 || x.N != 24 {
		t.Errorf("%+v", x)
	}
	for _, stage := range []string{"ms.embed", "ms.route", "ms.retrieve"} { // each apart, as in the trace of an answer
		if x := value(t, r, "search", "", experiment.Answerable, stage); x.N != 24 {
			t.Errorf("%+v", x)
		}
	}
	all := value(t, r, "search", "", experiment.Answerable, "routed_to_all")
	text, err := os.ReadFile(filepath.Join(b.out, "journal.jsonl"))
	if err != nil || all.Mean > .2 {
		t.Fatalf("%+v, %v", all, err)
	}
	mixed := 0
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, `"retrieved":["go`) && strings.Contains(line, `,"sea`) {
			mixed++
		}
	}
	if float64(mixed) > all.Mean*24 {
		t.Errorf("%d searches left their partition, %+v", mixed, all)
	}
}
