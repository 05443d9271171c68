package main

import (
	"fmt"
	"strings"
	"testing"
)

// TestEvalCoverage: of a store's calibration and of a dataset, with a refused policy and with domains.
func TestEvalCoverage(t *testing.T) {
	b := newBench(t)
	var contexts, queries strings.Builder
	for i := range 60 {
		topic, text := "bread", fmt.Sprintf("dough number%d rises in the warm oven as loaf%d", i, i*7)
		if i%2 == 0 {
			topic, text = "ships", fmt.Sprintf("vessel number%d sails over the cold sea to port%d", i, i*7)
		}
		fmt.Fprintf(&contexts, `{"id":"c%d","topic":%q,"text":%q}`+"\n", i, topic, text)
		fmt.Fprintf(&queries, `{"id":"q%d","context_id":"c%[1]d","text":%[2]q}`+"\n", i, strings.Join(
			strings.Fields(text)[i%5:], " ")+" when")
	}
	file := b.file("data/contexts.jsonl", contexts.String())
	questions := b.file("data/queries.jsonl", queries.String())
	folder := strings.TrimSuffix(file, "/contexts.jsonl")
	b.ok("ingest", "--no-chunk", file)
	b.ok("calibrate", "--queries", questions, "--second", "off", "--policy", "conformal:0.2")
	said := b.ok("eval", "coverage", "--levels", "0.01,0.2", "--splits", "200")
	for _, want := range []string{"default: 60 contexts with a question, score cosine+cover, 200 splits",
		"refused: takes 99", "conformal:0.2:0.05  ", "holds"} {
		if !strings.Contains(said, want) {
			t.Errorf("%q is not in\n%s", want, said)
		}
	}
	line := objects(t, b.ok("eval", "coverage", "--data", folder, "--by-domain", "--contexts", "30", "--levels", "0.2",
		"--confident", "0.3", "--splits", "100", "--json"))[0]
	rows, _ := line["rows"].([]any)
	if len(rows) != 2 || line["contexts"] != 60. {
		t.Fatalf("%v", line)
	}
	row, _ := rows[0].(map[string]any)
	byDomain, _ := row["domains"].([]any)
	if len(byDomain) != 2 || row["rank"] != 6. || row["tested"] != 30. || row["refused"] != false {
		t.Errorf("%v", row)
	}
	b.fails(exitUsage, "60 of 60 contexts", "eval", "coverage", "--contexts", "60")
	b.fails(exitUsage, "--by-domain goes with --data", "eval", "coverage", "--by-domain")
	b.fails(exitUsage, "goes without --data", "eval", "coverage", "--name", "x", "--data", folder)
	b.fails(exitFailure, "dataset: not usable", "eval", "coverage", "--data", b.dir)
}
