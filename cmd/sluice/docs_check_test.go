package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDocsCheck checks that an intact store passes, that each damage is named with its remedy, and that the exit code
// is then 1.
func TestDocsCheck(t *testing.T) {
	b := calibrated(t)
	b.ok("retrieve", "--mode", "bm25", "lamp")
	if text := b.ok("docs", "check"); text != "checked 4 documents, 4 texts, 4 vectors in 1 blocks: 0 damaged\n" {
		t.Error(text)
	}
	damage := func(name string, at int) {
		t.Helper()
		found, err := filepath.Glob(filepath.Join(b.store, name))
		if err != nil || len(found) != 1 {
			t.Fatal(found, err)
		}
		path := found[0]
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		data[len(data)-at] ^= 0x55
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	damage("calibration/default.cal.positive.*.npy", 4)
	o := b.run("docs", "check", "--json")
	if o.code != exitFailure || !strings.Contains(o.stdout, `"damaged":1`) ||
		!strings.Contains(o.stdout, "sluice calibrate --name default") {
		t.Error(o)
	}
	damage("segments/000000.vec", 6)
	o = b.run("docs", "check")
	if o.code != exitFailure || !strings.Contains(o.stdout, "damaged: vectors: ") ||
		!strings.Contains(o.stdout, "'sluice docs repair'") || !strings.Contains(o.stdout, ": 2 damaged\n") {
		t.Error(o)
	}
	b.fails(exitFailure, "'sluice docs repair'", "docs", "export", "--out", filepath.Join(b.dir, "x"))
	if _, err := os.Stat(filepath.Join(b.dir, "x")); err == nil {
		t.Error("a failed export leaves a file")
	}
	b.ok("docs", "repair")
	b.ok("calibrate", "--queries", filepath.Join(b.dir, "questions.jsonl"))
	if text := b.ok("docs", "check"); !strings.Contains(text, ": 0 damaged\n") {
		t.Error(text)
	}
}
