package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// tickets returns labelled texts as JSON lines.
func tickets() string {
	var b strings.Builder
	for i := range 12 {
		fmt.Fprintf(&b,
			`{"id":"a%d","text":"the parcel %d has not come, where is the courier","label":"shipping"}`+"\n", i, i)
		fmt.Fprintf(&b, `{"id":"b%d","text":"my card was charged twice on invoice %d","label":"payment"}`+"\n", i, i)
	}
	return b.String()
}

func TestTrainRouterAndClassify(t *testing.T) {
	b := newBench(t)
	data, out := b.file("tickets.jsonl", tickets()), filepath.Join(b.dir, "router")
	line := objects(t, b.ok("train", "router", "--data", data, "--out", out, "--json"))[0]
	held, _ := line["held_out"].(map[string]any)
	if held["accuracy"] != 1. || line["out"] != out || line["encoder"] == nil {
		t.Errorf("%v", line)
	}
	one := objects(t,
		b.ok("classify", "--classifier", out, "--json", "the parcel 70 has not come, where is the courier"))[0]
	sameKeys(t, "a line of a router", one, "labels", "given", "abstained", "familiarity")
	if given, _ := one["given"].([]any); len(given) != 1 || given[0] != "shipping" {
		t.Errorf("%v", one)
	}
	batch := b.file("q.jsonl", `{"id":"x","text":"charged twice"}`+"\n"+`{"id":"y","text":"zebra quagga okapi"}`+"\n")
	lines := objects(t, b.ok("classify", "--classifier", out, "--json", "--batch", batch))
	if len(lines) != 2 || lines[0]["id"] != "x" || lines[1]["abstained"] != true {
		t.Errorf("%v", lines)
	}
	if o := b.ok("classify", "--classifier", out,
		"the parcel 70 has not come, where is the courier"); !strings.HasPrefix(o, "> ") ||
		!strings.Contains(o, "shipping") {
		t.Errorf("%q", o)
	}
	b.fails(exitUsage, "is there already", "train", "router", "--data", data, "--out", out)
	b.ok("train", "router", "--data", data, "--out", out, "--replace", "--kind", "mnb", "--json")
	b.embedder = nil // mnb reads only words
	b.ok("classify", "--classifier", out, "--json", "where is my parcel")
}

func TestTrainRouterRefuses(t *testing.T) {
	b := newBench(t)
	data, out := b.file("tickets.jsonl", tickets()), filepath.Join(b.dir, "router")
	one := b.file("one.jsonl", `{"text":"aa bb","label":"x"}`+"\n"+`{"text":"cc","label":"x"}`+"\n")
	b.fails(exitUsage, "--data is missing", "train", "router", "--out", out)
	b.fails(exitUsage, `route.kind: must be one of mnb, gnb, lr, svc, distilbert, given "knn"`, "train",
		"router", "--data", data, "--out", out, "--kind", "knn")
	b.fails(exitUsage, "mnb takes weights of words", "train", "router", "--data", data, "--out", out, "--kind", "mnb",
		"--features", "both")
	b.fails(exitFailure, "1 labels", "train", "router", "--data", one, "--out", out)
	b.fails(exitFailure, "bad.jsonl:1", "train", "router", "--data", b.file("bad.jsonl", "{}\n"), "--out", out)
	b.ok("train", "router", "--data", data, "--out", out, "--features", "embedding")
	b.embedder.Name = "another"
	b.fails(exitFailure, "made with another encoder", "classify", "--classifier", out, "x")
}
