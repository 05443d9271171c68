//go:build native

package main

import (
	"errors"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/internal/models"
)

// nativeBench returns a bench with the real encoder and the real language model.
func nativeBench(t *testing.T) *bench {
	t.Helper()
	for _, name := range []string{sluice.DefaultEncoder, sluice.DefaultModel} {
		if _, err := models.Locate(name); errors.Is(err, models.ErrNotPulled) {
			t.Skipf("%v", err)
		} else if err != nil {
			t.Fatal(err)
		}
	}
	b := newBench(t)
	b.embedder, b.model = nil, nil
	return b
}

const handbook = `# Harbour handbook

## Pilots
Every ship longer than ninety metres takes a pilot aboard at the outer buoy. The pilot guides the ship through the
narrow channel and leaves it at the quay.

## Ice
From December to March the icebreaker Frosta keeps the channel open. Ships without an ice class wait outside until the
icebreaker has passed.

## Lamps
The lighthouse on Skerry Island shows a white flash every seven seconds. In fog its horn sounds twice a minute.

## Dues
Harbour dues are paid per ton of cargo. Fishing boats of the town pay nothing.
`

// TestNativeEndToEnd runs every step with real models: chunks of Markdown, calibration from written questions,
// decisions, retrieval, vectors and answers, in the formats that pipelines rely on.
func TestNativeEndToEnd(t *testing.T) {
	b := nativeBench(t)
	committed := objects(t, b.ok("ingest", "--json", "--chunk", "64/0", b.file("docs/handbook.md", handbook)))
	if len(committed) != 1 || len(committed[0]["committed"].([]any)) < 4 {
		t.Fatalf("%v", committed)
	}
	var pseudo strings.Builder
	for _, c := range objects(t, b.ok("docs", "list", "--chunks", "--json")) {
		for heading, q := range map[string]string{"Pilots": "Which ships take a pilot aboard?",
			"Ice": "Who keeps the channel open in winter?", "Lamps": "How often does the lighthouse flash?",
			"Dues": "Who pays harbour dues?"} {
			if strings.HasSuffix(c["heading"].(string), heading) {
				pseudo.WriteString(`{"context_id":"` + c["id"].(string) + `","text":"` + q + `"}` + "\n")
			}
		}
	}
	cal := objects(t,
		b.ok("calibrate", "--queries", b.file("q.jsonl", pseudo.String()), "--json", "--policy", "maximum:min",
			"--threshold", ".05", "--plot", filepath.Join(b.dir, "cal.png")))[0]
	if p := cal["positive"].(map[string]any); p["n"] != 4.0 || p["mean"].(float64) < .3 {
		t.Errorf("positive %v", p)
	}

	file := b.file("batch.jsonl",
		`{"id":"in","text":"How often does the lighthouse on the island flash?"}`+"\n"+
			`{"id":"out","text":"What is the capital of France?"}`+"\n")
	gated := objects(t, b.ok("gate", "--batch", file, "--json"))
	sameKeys(t, "gate", gated[0], "id", "retrieve", "score", "cutoff", "context_id", "warning")
	if gated[0]["retrieve"] != true || gated[1]["retrieve"] != false {
		t.Errorf("%v", gated)
	}
	retrieved := objects(t, b.ok("retrieve", "--batch", file, "--json", "--k", "1", "--mode", "dense"))
	top := retrieved[0]["results"].([]any)[0].(map[string]any)
	if top["id"] != gated[0]["context_id"] || top["score"] != gated[0]["score"] {
		t.Errorf("retrieve has %v, the gate %v", top, gated[0])
	}
	vectors := objects(t, b.ok("embed", "--batch", file, "--json"))
	var norm float64
	for _, x := range vectors[0]["vector"].([]any) {
		norm += x.(float64) * x.(float64)
	}
	if len(vectors[0]["vector"].([]any)) != 384 || math.Abs(norm-1) > 1e-5 {
		t.Errorf("%d values, squared norm %v", len(vectors[0]["vector"].([]any)), norm)
	}
	asked := objects(t, b.ok("ask", "--batch", file, "--json", "--k", "2", "--max-tokens", "24", "--style", "write"))
	for i, want := range []string{"context", "own knowledge"} {
		trace := asked[i]["trace"].(map[string]any)
		sameKeys(t, "ask", asked[i], "id", "answer", "retrieved", "citations", "trace")
		if asked[i]["retrieved"] != (i == 0) || trace["mode"] != want || asked[i]["answer"] == "" ||
			trace["prompt_tokens"].(float64) < 10 || trace["llm_calls"] != 1.0 || trace["finish"] == "" {
			t.Errorf("%v", asked[i])
		}
	}
	if cited := asked[0]["citations"].([]any); len(cited) != 2 ||
		!strings.HasSuffix(cited[0].(map[string]any)["source"].(string), "handbook.md") {
		t.Errorf("citations %v", cited)
	}
	if text := b.ok("doctor"); strings.Contains(text, "✗") || !strings.Contains(text, "golden vectors") {
		t.Error(text)
	}
}

func TestNativeModelWritesQuestions(t *testing.T) {
	b := nativeBench(t)
	b.ok("ingest", "--chunk", "64/0", b.file("docs/handbook.md", handbook))
	cal := objects(t, b.ok("calibrate", "--sample", "2", "--per-context", "2", "--questions", "written", "--json"))[0]
	queries := cal["queries"].(map[string]any)
	if queries["kind"] != "generated" || cal["positive"].(map[string]any)["n"].(float64) < 1 ||
		len(queries["model_sha256"].(string)) < 64 {
		t.Errorf("%v", cal)
	}
	again := objects(t, b.ok("calibrate", "--sample", "2", "--per-context", "2", "--questions", "written", "--json"))[0]
	if r := again["pseudo_queries"].(map[string]any); r["llm_calls"] != 0.0 || again["cutoff"] != cal["cutoff"] {
		t.Errorf("a second run asked the model again: %v", r)
	}
}

func TestNativeBadModels(t *testing.T) {
	b := nativeBench(t)
	notGGUF := b.file("model.gguf", "this is no GGUF")
	b.fails(exitFailure, "model.gguf", "ask", "x", "--gate", "closed", "--model", notGGUF)
	encoder, err := models.Locate(sluice.DefaultEncoder)
	if err != nil {
		t.Fatal(err)
	}
	b.fails(exitUsage, encoder, "ask", "x", "--gate", "closed", "--model", encoder)
	b.fails(exitFailure, "empty", "embed", "x", "--encoder", filepath.Dir(b.file("empty/readme.txt", "")))
	b.fails(exitFailure, "library", "embed", "x", "--config", b.file("lib.yaml", "onnxruntime: "+notGGUF+"\n"))
}
