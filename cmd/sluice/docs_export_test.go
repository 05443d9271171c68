package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestExportedStoreAnswersAsBefore checks that a restored store gives the same gate decisions, passages and citations
// as the exported one, and that export and restore need no encoder.
func TestExportedStoreAnswersAsBefore(t *testing.T) {
	b := calibrated(t)
	file := filepath.Join(b.dir, "all.jsonl")
	if text := b.ok("docs", "export", "--out", file); !strings.Contains(text, "exported 4 documents, 4 chunks and ") {
		t.Error(text)
	}
	if piped := b.ok("docs", "export"); piped != readText(t, file) {
		t.Error("standard output and --out differ")
	}
	ask := [][]string{{"gate", "--json", "--explain", "When does a deferred function run?"},
		{"retrieve", "--json", "Which lamp rotates?"}, {"calibrate", "list", "--json"}, {"docs", "list", "--json"},
		{"docs", "list", "--chunks", "--json"}}
	var before []string
	for _, args := range ask {
		before = append(before, steady(b.run(args...).stdout))
	}
	encoder := b.embedder
	old := b.store
	b.store, b.embedder = filepath.Join(b.dir, "restored"), nil
	if text := b.ok("docs", "restore", file); !strings.Contains(text, "restored 4 documents, 4 chunks and ") ||
		!strings.Contains(text, "into a new store") {
		t.Error(text)
	}
	b.embedder = encoder
	for i, args := range ask {
		after := strings.ReplaceAll(steady(b.run(args...).stdout), b.store, old)
		if diff := cmp.Diff(before[i], after); diff != "" {
			t.Errorf("%v: %s", args, diff)
		}
	}
	if text := b.ok("docs", "restore", file, "--json"); !strings.Contains(text, `"held":4`) ||
		!strings.Contains(text, `"restored":0`) {
		t.Error(text)
	}

	// A single document through standard input, and input that is not an export.
	b.stdin = b.ok("docs", "export", "c2")
	b.ok("docs", "rm", "c2")
	if text := b.ok("docs", "restore", "-"); !strings.Contains(text, "restored 1 documents") {
		t.Error(text)
	}
	if text := b.ok("docs", "show", "c2"); text == "" {
		t.Error("c2 did not come back")
	}
	b.fails(exitFailure, "c9", "docs", "export", "c9")
	all := readText(t, file)
	b.fails(exitFailure, "cut short", "docs", "restore", b.file("cut.jsonl", all[:len(all)-20]))
	b.fails(exitFailure, "not a readable export", "docs", "restore", b.file("contexts.txt", "no export\n"))
	b.fails(exitFailure, "no such file", "docs", "restore", filepath.Join(b.dir, "gone"))
	b.fails(exitUsage, "is a folder", "docs", "restore", b.dir)
}

// steady removes what depends on the time of a call.
func steady(text string) string {
	var out []string
	for _, line := range strings.SplitAfter(text, ",") {
		if !strings.Contains(line, "milliseconds") && !strings.Contains(line, `_ms"`) &&
			!strings.Contains(line, `"id":"20`) {
			out = append(out, line)
		}
	}
	return strings.Join(out, "")
}

func readText(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
