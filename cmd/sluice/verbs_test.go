package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-rag/sluice/internal/npy"
)

// objects parses JSON lines.
func objects(t *testing.T, text string) (list []map[string]any) {
	t.Helper()
	for line := range strings.Lines(text) {
		var v map[string]any
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		list = append(list, v)
	}
	return list
}

func keysOf(m map[string]any) []string {
	var k []string
	for name := range m {
		k = append(k, name)
	}
	slices.Sort(k)
	return k
}

func sameKeys(t *testing.T, what string, m map[string]any, want ...string) {
	t.Helper()
	slices.Sort(want)
	if diff := cmp.Diff(want, keysOf(m)); diff != "" {
		t.Errorf("%s: %s", what, diff)
	}
}

func TestIngestPrintsCommittedIDs(t *testing.T) {
	b := newBench(t)
	file := b.file("contexts.jsonl", contexts)
	lines := objects(t, b.ok("ingest", "--no-chunk", "--json", "--commit-every", "3", file))
	want := []map[string]any{{"committed": []any{"c1", "c2", "c3"}}, {"committed": []any{"c4"}}}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Error(diff)
	}
	before := b.embedder.Calls.Load()
	again := objects(t, b.ok("ingest", "--no-chunk", "--json", file))
	if diff := cmp.Diff([]map[string]any{{"committed": []any{"c1", "c2", "c3", "c4"}}}, again); diff != "" {
		t.Error(diff)
	}
	if n := b.embedder.Calls.Load() - before; n != 0 {
		t.Errorf("texts that are stored were embedded again (%d calls)", n)
	}
	ids := []string{}
	for _, c := range objects(t, b.ok("docs", "list", "--chunks", "--json")) {
		ids = append(ids, c["id"].(string))
	}
	if diff := cmp.Diff([]string{"c1", "c2", "c3", "c4"}, ids); diff != "" {
		t.Error(diff)
	}
}

func TestIngestEvents(t *testing.T) {
	b := newBench(t)
	b.file("kb/contexts.jsonl", contexts)
	folder := filepath.Dir(b.file("kb/odd.bin", "x"))
	kinds := map[string]int{}
	var last, summary map[string]any
	for _, l := range objects(t, b.ok("ingest", "--no-chunk", "--events", folder)) {
		for kind, v := range l {
			switch kinds[kind]++; kind {
			case "progress":
				last = v.(map[string]any)
			case "skipped":
				sameKeys(t, kind, v.(map[string]any), "source", "reason", "error")
			case "summary":
				summary = v.(map[string]any)
			}
		}
	}
	if kinds["committed"] != 1 || kinds["skipped"] != 1 || kinds["summary"] != 1 || kinds["progress"] == 0 {
		t.Errorf("%v", kinds)
	}
	if last["chunks"] != 4. || last["embedded"] != 4. || last["files_total"] != 2. || last["tokens"].(float64) < 4 {
		t.Errorf("%v", last)
	}
	if summary["documents"] != 4. || summary["skipped"] != 1. {
		t.Errorf("%v", summary)
	}
}

func TestChangedDocumentLosesItsOldChunks(t *testing.T) {
	b := newBench(t)
	long := strings.Repeat("A sentence of seven words is here. ", 60)
	file := b.file("docs/a.txt", long)
	b.ok("ingest", "--chunk", "32/0", "--commit-every", "4", filepath.Dir(file))
	n := len(objects(t, b.ok("docs", "list", "--chunks", "--json")))
	if n < 10 {
		t.Fatalf("only %d chunks: the document does not span commits", n)
	}
	b.file("docs/a.txt", "Only this is left.")
	b.ok("ingest", "--chunk", "32/0", filepath.Dir(file))
	left := objects(t, b.ok("docs", "list", "--chunks", "--json"))
	if len(left) != 1 || left[0]["text"] != "Only this is left." {
		t.Errorf("left are %v", left)
	}
}

func TestIngestCountsWhatItCutAndSkipped(t *testing.T) {
	b := newBench(t)
	file := b.file("c.jsonl",
		`{"id":"long","text":"`+strings.Repeat("word ",
			100)+`"}`+"\nnot json\n"+`{"id":"long","text":"again"}`+"\n"+`{"id":"nul","text":"a \u0000 b"}`+"\n")
	o := b.run("ingest", "--no-chunk", file)
	for _, want := range []string{"1 chunks were cut",
		"skipped 2 files or lines: 1 unreadable, 1 with an id seen before; the first is ", "c.jsonl:2",
		"--verbose lists them all"} {
		if o.code != exitOK || !strings.Contains(o.stderr, want) {
			t.Errorf("exit code %d, %q does not say %q", o.code, o.stderr, want)
		}
	}
	b.fails(exitFailure, "c.jsonl:2", "ingest", "--no-chunk", "--strict", file)
}

func TestDocs(t *testing.T) {
	b := filled(t)
	docs := objects(t, b.ok("docs", "list", "--json"))
	if len(docs) != 4 || docs[2]["id"] != "c3" || docs[2]["topic"] != "sea" || docs[2]["chunks"] != 1.0 {
		t.Errorf("%v", docs)
	}
	if text := b.ok("docs", "show", "c4"); !strings.Contains(text, "rotating lamp") {
		t.Error(text)
	}
	if text := b.ok("docs", "rm", "c4"); text != "removed 1 documents, 1 chunks\n" {
		t.Error(text)
	}
	b.fails(exitFailure, "c4", "docs", "show", "c4")
	b.fails(exitFailure, "c4", "docs", "rm", "c4")
	if text := b.ok("docs", "list"); strings.Contains(text, "c4") || !strings.Contains(text, "c3") {
		t.Error(text)
	}
}

const batch = `{"id":"q1","text":"In which order do deferred functions run when the function returns?"}
{"id":"q2"}

{"id":"q3","text":"Zebra xylophone quartz!"}
`

func TestBatchesKeepOrderAndGoOnAfterBadLines(t *testing.T) {
	b := calibrated(t)
	file := b.file("batch.jsonl", batch)
	check := func(verb string, extra ...string) []map[string]any {
		o := b.run(append([]string{verb, "--batch", file, "--json"}, extra...)...)
		if o.code != exitFailure || !strings.Contains(o.stderr, "batch.jsonl:2: bad line") ||
			!strings.Contains(o.stderr, "1 bad lines") {
			t.Errorf("%s: exit code %d, %q", verb, o.code, o.stderr)
		}
		lines := objects(t, o.stdout)
		if len(lines) != 2 || lines[0]["id"] != "q1" || lines[1]["id"] != "q3" {
			t.Fatalf("%s: %v", verb, lines)
		}
		return lines
	}
	gated := check("gate")
	sameKeys(t, "gate", gated[0], "id", "retrieve", "score", "cutoff", "context_id", "warning")
	if gated[0]["retrieve"] != true || gated[1]["retrieve"] != false || gated[0]["context_id"] != "c1" ||
		gated[0]["cutoff"] != gated[1]["cutoff"] {
		t.Errorf("%v", gated)
	}
	check("retrieve", "--sentences")
	retrieved := check("retrieve", "--k", "2", "--group", "1", "--mode", "dense")
	sameKeys(t, "retrieve", retrieved[0], "id", "results", "taken")
	best := retrieved[0]["results"].([]any)
	sameKeys(t, "result", best[0].(map[string]any), "id", "score", "document", "source", "topic", "start", "end",
		"text")
	if len(best) != 2 || best[0].(map[string]any)["id"] != "c1" ||
		best[0].(map[string]any)["score"] != gated[0]["score"] {
		t.Errorf("%v, the gate had %v", best, gated[0])
	}
	embedded := check("embed")
	sameKeys(t, "embed", embedded[0], "id", "vector")
	if len(embedded[0]["vector"].([]any)) != 256 {
		t.Error("vector of another length")
	}
	asked := check("ask")
	sameKeys(t, "ask", asked[0], "id", "answer", "retrieved", "citations", "trace")
	if asked[0]["retrieved"] != true || asked[1]["retrieved"] != false || len(asked[1]["citations"].([]any)) != 0 ||
		asked[0]["answer"] != "It says so [1]." {
		t.Errorf("%v", asked)
	}
	for _, verb := range []string{"gate", "retrieve", "embed", "ask"} {
		o := b.fails(exitFailure, "batch.jsonl:2", verb, "--batch", file, "--json", "--strict")
		if lines := objects(t, o.stdout); len(lines) != 1 || lines[0]["id"] != "q1" {
			t.Errorf("%s --strict: %v", verb, lines)
		}
	}
}

func TestBatchFromStandardInput(t *testing.T) {
	b := filled(t)
	b.stdin = `{"id":"a","text":"lamp"}` + "\n" + `{"id":"b","text":""}` + "\n"
	if lines := objects(t, b.ok("embed", "--batch", "-", "--json")); len(lines) != 2 {
		t.Errorf("%v", lines)
	}
	b.fails(exitFailure, `-:2: bad line: "text" is empty`, "retrieve", "--batch", "-", "--json")
}

func TestEmbedNPY(t *testing.T) {
	b := newBench(t)
	out := filepath.Join(b.dir, "v.npy")
	file := b.file("batch.jsonl", batch)
	if o := b.run("embed", "--batch", file, "--npy", out, "--group", "1"); o.code != exitFailure || o.stdout != "" ||
		!strings.Contains(o.stderr, "wrote 2 × 256") {
		t.Errorf("%+v", o)
	}
	data, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	v, rows, cols, err := npy.ReadFloat32(bytes.NewReader(data))
	if err != nil || rows != 2 || cols != 256 {
		t.Fatal(err, rows, cols)
	}
	printed := objects(t, b.run("embed", "--batch", file, "--json").stdout)
	for i, line := range printed {
		for j, x := range line["vector"].([]any) {
			if float32(x.(float64)) != v[i*cols+j] {
				t.Fatalf("vector %d differs at %d", i, j)
			}
		}
	}
	if left, _ := filepath.Glob(filepath.Join(b.dir, ".v.npy*")); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
}

func TestGateOfOneQuery(t *testing.T) {
	b := calibrated(t)
	in, out := "When does a deferred function run, in which order?", "Zebra xylophone quartz!"
	if text := b.ok("gate", in); !strings.HasPrefix(text, "open  score 0.") {
		t.Error(text)
	}
	o := b.fails(exitGateClosed, "", "gate", out, "--explain")
	for _, want := range []string{"closed  score", "policy maximum:p5", "cut-off", "context     "} {
		if !strings.Contains(o.stdout, want) {
			t.Errorf("%q does not say %q", o.stdout, want)
		}
	}
	if !strings.HasPrefix(o.stderr, "sluice: warning: the gate rests on too little") ||
		strings.Count(o.stderr, "\n") != 1 {
		t.Errorf("a closed gate is no error: %q", o.stderr)
	}
	line := objects(t, b.ok("gate", in, "--json", "--explain"))[0]
	sameKeys(t, "gate", line, "retrieve", "score", "cutoff", "context_id", "warning", "explain")

	if text := b.ok("gate", in, "--no-score"); !strings.HasPrefix(text, "open  context ") {
		t.Error(text)
	}
	if o := b.fails(exitGateClosed, "", "gate", out, "--no-score"); !strings.HasPrefix(o.stdout, "closed  no context") {
		t.Error(o.stdout)
	}
	batch := b.file("q.jsonl", fmt.Sprintf("{\"id\":\"in\",\"text\":%q}\n{\"id\":\"out\",\"text\":%q}\n", in, out))
	lines := objects(t, b.ok("gate", "--batch", batch, "--no-score"))
	sameKeys(t, "gate --no-score", lines[0], "id", "retrieve", "context_id", "cutoff", "stale", "gone", "warning")
	if len(lines) != 2 || lines[0]["retrieve"] != true || lines[1]["retrieve"] != false {
		t.Errorf("%v", lines)
	}
}

func TestStaleCalibrationIsSaidAndRefused(t *testing.T) {
	b := calibrated(t)
	b.ok("ingest", "--calibrate=false", "--no-chunk",
		b.file("more.jsonl", `{"id":"c5","text":"A fifth context about volcanoes."}`))
	if o := b.run("gate",
		"When does a deferred function run, in which order?"); !strings.Contains(o.stderr,
		"calibration is stale by 20 %") || o.code != exitOK {
		t.Errorf("%+v", o)
	}
	if o := b.run("calibrate", "--show", "--json"); !strings.Contains(o.stderr, "stale by 20 %") ||
		objects(t, o.stdout)[0]["stale"] != .2 {
		t.Errorf("%+v", o)
	}
	b.fails(exitFailure, "gate: the calibration is stale", "gate", "x", "--stale-tolerance", "0.1")
	b.fails(exitFailure, "stale", "ask", "x", "--stale-tolerance", "0")
	var volcanoes strings.Builder
	for i := range 5 {
		fmt.Fprintf(&volcanoes, `{"id":"v%d","text":"Volcano %d erupts every year."}`+"\n", i+1, i)
	}
	b.ok("ingest", "--calibrate=false", "--no-chunk", b.file("most.jsonl", volcanoes.String()))
	if o := b.run("ask", "Why do lighthouses warn ships of rocks?"); o.code != exitOK ||
		!strings.Contains(o.stderr, "stale by 60 %") {
		t.Errorf("%+v", o)
	}
	b.ok("docs", "rm", "v1", "v2", "v3", "v4", "v5")
	b.fails(exitUsage, "2 is not between 0 and 1", "gate", "x", "--stale-tolerance", "2")
	b.ok("docs", "rm", "c1")
	o := b.run("calibrate", "--show", "--json")
	if !strings.Contains(o.stderr, "25 % of the calibrated chunks are no longer") ||
		objects(t, o.stdout)[0]["gone"] != .25 {
		t.Errorf("%+v", o)
	}
}

func TestCalibrateJSON(t *testing.T) {
	b := filled(t)
	plot := filepath.Join(b.dir, "p.svg")
	file := b.file("questions.jsonl", questions+"\nbroken\n"+`{"context_id":"gone","text":"Who is that?"}`+"\n")
	o := b.run("calibrate", "--queries", file, "--per-context", "1", "--policy", "p5", "--threshold", ".1", "--json",
		"--plot", plot)
	if o.code != exitOK || !strings.Contains(o.stderr, "questions.jsonl:7: bad line") ||
		!strings.Contains(o.stderr, `the first "gone"`) {
		t.Fatalf("%+v", o)
	}
	lines := objects(t, o.stdout)
	if len(lines) != 1 {
		t.Fatalf("%d lines", len(lines))
	}
	c := lines[0]
	for _, name := range []string{"positive", "negative", "maximum"} {
		sameKeys(t, name, c[name].(map[string]any), "n", "min", "p5", "q1", "mean", "median", "q3", "p95", "max")
	}
	p := c["positive"].(map[string]any)
	if p["n"] != 4.0 || c["negative"].(map[string]any)["n"] != 12.0 || c["policy"] != "p5" || c["threshold"] != .1 ||
		c["cutoff"] != p["p5"].(float64)-.1 {
		t.Errorf("%v", c)
	}
	rejected := c["queries"].(map[string]any)["rejected"].(map[string]any)
	if rejected["bad_line"] != 1.0 || rejected["unknown_context"] != 1.0 {
		t.Errorf("rejected %v", rejected)
	}
	if c["context_digests"] != nil || c["negative_histogram"] != nil {
		t.Error("the bulky parts are printed")
	}
	if text, err := os.ReadFile(plot); err != nil || !strings.Contains(string(text), "<svg") {
		t.Errorf("plot: %v", err)
	}
	shown := objects(t, b.ok("calibrate", "--show", "--json"))[0]
	if shown["cutoff"] != c["cutoff"] || shown["file"] != c["file"] {
		t.Errorf("shown %v", shown)
	}
	reused := objects(t, b.ok("calibrate", "--reuse", "--policy", "max", "--json"))[0]
	if reused["cutoff"] != p["max"] || reused["threshold"] != 0.0 {
		t.Errorf("reused %v", reused)
	}
	b.fails(exitFailure, "line 7", "calibrate", "--queries", file, "--strict")
	b.fails(exitFailure, `"gone"`, "calibrate", "--queries",
		b.file("gone.jsonl", questions+`{"context_id":"gone","text":"Who?"}`), "--strict")
}

func TestCalibrateForPeople(t *testing.T) {
	b := filled(t)
	text := b.ok("calibrate", "--queries", b.file("questions.jsonl", questions), "--sample", "2")
	for _, want := range []string{"own passage", "similarity with the", "separation ", "maximum:p5", "cut-off",
		"about 2 contexts, from ",
		"default.cal.json"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q does not say %q", text, want)
		}
	}
}

func TestAsk(t *testing.T) {
	b := calibrated(t)
	open := b.ok("ask", "When does a deferred function run, in which order?", "--trace", "--k", "2")
	for _, want := range []string{"It says so [1].\n", "\nSources:\n  [1] ", "mode        context",
		"gate        open: score", "template context", "generate ", "      > A deferred function runs when",
		"sentences "} {
		if !strings.Contains(open, want) {
			t.Errorf("%q does not say %q", open, want)
		}
	}
	off := b.ok("ask", "When does a deferred function run?", "--sentences=false")
	if strings.Contains(off, "      > ") {
		t.Errorf("switched off: %q", off)
	}
	if found := b.ok("retrieve", "When does a deferred function run?"); strings.Count(found, "    > ") != 4 {
		t.Errorf("retrieve without a sentence for each: %q", found)
	}
	results := objects(t, b.ok("retrieve", "When does a deferred function run?", "--json"))[0]["results"].([]any)
	sameKeys(t, "retrieve", results[0].(map[string]any), "id", "score", "document", "source", "topic", "start", "end",
		"text", "sentence")
	sameKeys(t, "sentence", results[0].(map[string]any)["sentence"].(map[string]any), "text", "start", "end", "score")
	closed := b.ok("ask", "Zebra xylophone quartz!", "--trace")
	for _, want := range []string{"[answered from the model's own knowledge; the knowledge base was not used]\n",
		"gate        closed: score", "mode        own knowledge", "template own/few-shot"} {
		if !strings.Contains(closed, want) {
			t.Errorf("%q does not say %q", closed, want)
		}
	}
	if strings.Contains(closed, "Sources") {
		t.Error("sources of an answer without any")
	}
	forced := objects(t, b.ok("ask", "Zebra xylophone quartz!", "--gate", "open", "--json"))[0]
	trace := forced["trace"].(map[string]any)
	if forced["retrieved"] != true || trace["gate"] != nil || trace["gate_mode"] != "open" ||
		trace["llm_calls"] != 1.0 || len(forced["citations"].([]any)) != 4 {
		t.Errorf("%v", forced)
	}
}

func TestAskWithoutStoreOrCalibration(t *testing.T) {
	b := newBench(t)
	if o := objects(t, b.ok("ask", "Anything?", "--gate", "closed", "--json"))[0]; o["retrieved"] != false {
		t.Errorf("%v", o)
	}
	b.fails(exitFailure, "store: not found", "ask", "Anything?")
	b = filled(t)
	for _, args := range [][]string{{"gate", "Anything?"}, {"calibrate", "--show"}, {"calibrate", "--reuse"}} {
		b.fails(exitFailure, "the store is not calibrated", args...)
	}
	if len(b.model.Requests()) != 0 {
		t.Error("the model was asked")
	}
	o := objects(t, b.ok("ask", "Anything?", "--json"))[0]
	trace := o["trace"].(map[string]any)
	if o["retrieved"] != true || trace["no_gate"] != true ||
		!strings.Contains(trace["notice"].(string), "no gate yet") {
		t.Errorf("%v", o)
	}
}

func TestInterruptedIngestSaysWhatIsKept(t *testing.T) {
	b := newBench(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	calls := 0
	b.embedder.After = func([]string) {
		if calls++; calls == 3 {
			cancel()
		}
	}
	var text strings.Builder
	for i := range 40 {
		fmt.Fprintf(&text, `{"id":"x%d","text":"Text number %d."}`+"\n", i, i)
	}
	file := b.file("many.jsonl", text.String())
	o := b.runContext(ctx, "ingest", "--no-chunk", "--json", "--commit-every", "8", file)
	if o.code != exitInterrupted || !strings.Contains(o.stderr, "committed so far are kept") ||
		!strings.Contains(o.stderr, "interrupted") {
		t.Errorf("%+v", o)
	}
	promised := 0
	for _, l := range objects(t, o.stdout) {
		promised += len(l["committed"].([]any))
	}
	if held := len(objects(t, b.ok("docs", "list", "--chunks", "--json"))); held < promised || promised < 16 ||
		held > 24 {
		t.Errorf("%d promised, %d held", promised, held)
	}
	b.embedder.After = nil
	if o := b.run("ingest", "--no-chunk", file); o.code != exitOK || !strings.Contains(o.stderr, "40 chunks") {
		t.Errorf("%+v", o)
	}
}
