package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/eval/preset"
)

const evalQueries = `{"id":"q1","context_id":"c1","text":"When does a deferred function run?","answers":["last in first out"]}
{"id":"q2","context_id":"c3","text":"Which plankton does the herring feed on?","answers":["northern"]}
{"id":"q3","context_id":"c4","text":"What do lighthouses warn ships of?","answers":["rocks"]}
`

// TestEval checks that the example's experiment writes its files, resumes from its journal, and reports missing items.
func TestEval(t *testing.T) {
	b := newBench(t)
	b.file("data/contexts.jsonl", contexts)
	b.file("data/queries.jsonl", evalQueries)
	example, err := os.ReadFile(filepath.Join("..", "..", "examples", "eval", "retrievers.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	file, out := b.file("experiment.yaml", "data: data\n"+string(example)), filepath.Join(b.dir, "out")
	for _, resumed := range []int{0, 8*3 + 3} {
		var said struct {
			Items, Resumed, Unscored int
			Report                   string
		}
		if err := json.Unmarshal([]byte(b.ok("eval", "run", file, "--out", out, "--json")), &said); err != nil {
			t.Fatal(err)
		}
		if said.Items != 8*3+3 || said.Resumed != resumed || said.Unscored != 3 || // the double cannot judge
			said.Report != filepath.Join(out, "report.html") {
			t.Errorf("%+v", said)
		}
	}
	for _, name := range []string{"report.html", "results.csv", "results.parquet", "results.md", "plot-1.svg"} {
		if info, err := os.Stat(filepath.Join(out, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if text, err := os.ReadFile(filepath.Join(out, "results.md")); err != nil || !strings.Contains(string(text),
		"| int8 | hybrid | 1.000 |") {
		t.Errorf("%s, %v", text, err)
	}
	ratings := filepath.Join(out, "ratings.jsonl")
	b.stdin = "5\n1\n"
	if said := b.ok("eval", "rate", out, "--ratings", ratings, "--rater", "ann"); strings.Count(said, "Answer:") != 3 {
		t.Error(said)
	}
	b.fails(exitFailure, `no answer of part "moon"`, "eval", "rate", out, "--ratings", ratings, "--rater", "ann",
		"--part", "moon")
	b.ok("eval", "run", file, "--out", out) // with the ratings
	b.fails(exitUsage, "--out must name", "eval", "run", file)
	for _, flag := range []string{"--model", "--encoder"} {
		b.fails(exitUsage, "unknown model", "eval", "run", file, "--out", out, flag, "/no/such")
	}
	if text := b.ok("eval", "show", "cag-tables"); !strings.HasPrefix(text, "name: cag-tables\n") {
		t.Errorf("%.100s", text)
	}
	b.fails(exitUsage, "there is no preset", "eval", "show", "none")
	b.fails(exitUsage, "field nme not found", "eval", "run", b.file("bad.yaml", "nme: x"), "--out", out)
	b.fails(exitUsage, "--data must name", "eval", preset.Names()[0], "--out", out)
	b.fails(exitFailure, "contexts.jsonl", "eval", preset.Names()[0], "--out", out, "--data", b.dir)
}

func TestEvalImport(t *testing.T) {
	b := newBench(t)
	squad := b.file("squad.json", `{"data":[{"title":"Sea","paragraphs":[{"context":"Herring swim.","qas":[`+
		`{"id":"1","question":"Who?","answers":[{"text":"Herring"}]},{"id":"1","question":"Twice?"}]}]}]}`)
	out := filepath.Join(b.dir, "set")
	if said := b.ok("eval", "import", squad, "--out", out); !strings.Contains(said, "1 contexts, 1 questions") {
		t.Error(said)
	}
	b.fails(exitFailure, "not usable", "eval", "import", squad, "--out", out, "--format", "crsb")
	b.fails(exitUsage, "--out must name", "eval", "import", squad)
}

// TestEvalRate checks the report of two raters, one at the terminal and one by a file.
func TestEvalRate(t *testing.T) {
	b := newBench(t)
	items := b.file("items.jsonl", `{"id":"1","question":"Who?","answers":{"CAR":"Herring.","RAG":"Cod."}}`)
	ratings, pairs := filepath.Join(b.dir, "ratings.jsonl"), filepath.Join(b.dir, "pairs.jsonl")
	b.stdin = "5\n4\n"
	if said := b.ok("eval", "rate", items, "--ratings", ratings, "--rater",
		"ann"); strings.Count(said, "Answer:") != 2 {
		t.Error(said)
	}
	b.ok("eval", "rate", items, "--write", pairs, "--rater", "bob")
	text, err := os.ReadFile(pairs)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(pairs, []byte(strings.ReplaceAll(string(text), `"rating":0`, `"rating":5`)),
		0o600); err != nil {
		t.Fatal(err)
	}
	b.ok("eval", "rate", items, "--read", pairs, "--rater", "bob", "--ratings", ratings)
	if said := b.ok("eval", "rate", items, "--ratings", ratings, "--report"); !strings.Contains(said, "ann and bob") ||
		!strings.Contains(said, "2 answers rated by both, agreement 0.500") {
		t.Error(said)
	}
	b.fails(exitUsage, "--rater must", "eval", "rate", items, "--ratings", ratings)
	b.fails(exitFailure, "line 1", "eval", "rate", ratings, "--ratings", ratings, "--rater", "ann")
}

func TestEvalBuildCRSB(t *testing.T) {
	b := newBench(t)
	out := filepath.Join(b.dir, "crsb")
	said := b.ok("eval", "build-crsb", b.file("contexts.jsonl", contexts), "--no-chunk", "--out", out, "--queries",
		b.file("questions.jsonl", questions))
	if !strings.Contains(said, "4 contexts in 2 topics, 5 questions, 5 positive and 10 negative pairs") {
		t.Error(said)
	}
	b.fails(exitUsage, "--out must", "eval", "build-crsb", b.dir)
}

// TestEvalReproduce: the paper's models are listed with what has to be fetched, and times go by an earlier run.
func TestEvalReproduce(t *testing.T) {
	b := newBench(t)
	if text := b.ok("eval", "reproduce", "keibel-matrix"); !strings.Contains(text, "zephyr-7b-beta") ||
		!strings.Contains(text, "Times: not known") || !strings.Contains(text, "sluice models pull") {
		t.Error(text)
	}
	journal := `{"sluice_experiment":1}` + "\n"
	for range 2 {
		journal += `{"cell":"c","id":"q","item":{"scores":{},"ms":{"generate":3000},"calls":1,"asked":{"part":"p","cell":"c",` +
			`"model":"SmolLM2-135M-Instruct","question":"Who?"}}}` + "\n"
	}
	results := filepath.Dir(b.file("results/journal.jsonl", journal))
	var said struct {
		Fetch  int64 `json:"fetch_bytes"`
		Models []struct {
			Role, Name string
			Bytes      int64
			Seconds    float64
		}
	}
	if err := json.Unmarshal([]byte(b.ok("eval", "reproduce", "cag-tables", "--results", results, "--json")),
		&said); err != nil {
		t.Fatal(err)
	}
	for _, m := range said.Models {
		// SmolLM2-135M-Instruct has about 0.1 GB: an answer of a file of 4.7 GB takes about 47 times 3 s.
		if m.Role == "generator" && (m.Bytes < 3e9 || m.Seconds < 96*3*30 || m.Seconds > 96*3*60) {
			t.Errorf("%+v", m)
		}
	}
	if len(said.Models) != 4 || said.Fetch < 10e9 {
		t.Errorf("%+v", said)
	}
	if text := b.ok("eval", "reproduce", "local-rag", "--yaml"); !strings.Contains(text, "model: Llama-3-8B-Instruct") {
		t.Errorf("%.200s", text)
	}
	b.fails(exitUsage, "there is no preset", "eval", "reproduce", "none")
	b.fails(exitUsage, "known is paper", "eval", "reproduce", "local-rag", "--models", "mine")
	b.fails(exitFailure, "no answer of a language model", "eval", "reproduce", "local-rag", "--results",
		filepath.Dir(b.file("other/journal.jsonl", `{"sluice_experiment":1}`+"\n")))
}

// TestEvalBook: an experiment is run on a document and a file of questions, and refuses where it needs contexts.
func TestEvalBook(t *testing.T) {
	b := newBench(t)
	book := b.file("book.md", "# Sea\n\nThe herring feeds on plankton. Lighthouses warn ships of rocks.\n")
	questions := b.file("questions.txt", "What does the herring feed on?\nWhat do lighthouses warn ships of?\n")
	out := filepath.Join(b.dir, "out")
	file := b.file("x.yaml", "name: x\nparts: [{name: p, base: {set: none, documents: true}, sample: {answerable: 9}, "+
		"chunkers: [64/2, 32/2], measures: [answer@1]}]")
	said := b.ok("eval", "run", file, "--book", book, "--questions", questions, "--out", out)
	if !strings.Contains(said, "4 items") {
		t.Error(said)
	}
	text, err := os.ReadFile(filepath.Join(out, "results.md"))
	if err != nil || !strings.Contains(string(text), "The base is book.md.") {
		t.Errorf("%s, %v", text, err)
	}
	b.fails(exitUsage, "needs contexts", "eval", "cag-tables", "--book", book, "--questions", questions, "--out", out)
	b.fails(exitUsage, "given together", "eval", "keibel-book", "--book", book, "--out", out)
}
