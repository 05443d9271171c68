package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestIngestSync checks that a sync reports what became of documents, for people and as JSON, and that a dry run
// reports the same and changes nothing.
func TestIngestSync(t *testing.T) {
	b := newBench(t)
	folder := filepath.Dir(b.file("kb/a.md", "About herrings in the northern sea."))
	b.file("kb/b.md", "About lighthouses and their lamps.")
	b.file("kb/c.md", "About tides and currents.")
	kinds := func(out string) map[string]int {
		found := map[string]int{}
		for _, l := range objects(t, out) {
			for kind, v := range l {
				if kind == "change" {
					kind = v.(map[string]any)["change"].(string)
				}
				found[kind]++
			}
		}
		return found
	}
	if k := kinds(b.ok("ingest", "--chunk", "32/0", "--sync", "--json", folder)); k["new"] != 3 ||
		k["committed"] != 1 || k["summary"] != 1 {
		t.Errorf("%v", k)
	}
	if err := os.Rename(filepath.Join(folder, "a.md"), filepath.Join(folder, "d.md")); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(folder, "b.md")); err != nil {
		t.Fatal(err)
	}
	b.file("kb/c.md", "About tides and other currents.")
	want := "changed  kb/c.md\nmoved    kb/d.md from kb/a.md\nremoved  kb/b.md\n"
	if out := b.ok("ingest", "--chunk", "32/0", "--sync", "--dry-run", folder); out != want {
		t.Errorf("%q", out)
	}
	if out := b.ok("docs", "list"); !strings.Contains(out, "kb/b.md") {
		t.Errorf("a dry run removed it: %s", out)
	}
	if k := kinds(b.ok("ingest", "--chunk", "32/0", "--sync", "--json", folder)); k["changed"] != 1 ||
		k["moved"] != 1 || k["removed"] != 1 {
		t.Errorf("%v", k)
	}
	b.fails(exitUsage, "go with --sync", "ingest", "--dry-run", folder)
	for _, name := range []string{"c.md", "d.md"} {
		if err := os.Remove(filepath.Join(folder, name)); err != nil {
			t.Fatal(err)
		}
	}
	b.fails(exitFailure, "all 2 documents", "ingest", "--chunk", "32/0", "--sync", folder)
	b.ok("ingest", "--chunk", "32/0", "--sync", "--delete-all", folder)
	if out := b.ok("docs", "list", "--json"); out != "" {
		t.Errorf("%s", out)
	}
}

// TestIngestWatch checks that a watch commits new documents and removes deleted ones while others read, until it is
// interrupted, which is not a failure.
func TestIngestWatch(t *testing.T) {
	b := newBench(t)
	folder := filepath.Dir(b.file("kb/a.md", "About herrings in the northern sea."))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan outcome, 1)
	go func() { ended <- b.runContext(ctx, "ingest", "--chunk", "32/0", "--watch", "--json", folder) }()
	until := func(what string, is func(list string) bool) {
		t.Helper()
		for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
			if o := b.run("docs", "list", "--json"); o.code == exitOK && is(o.stdout) {
				return
			}
			if time.Since(began) > 30*time.Second {
				stop()
				t.Fatalf("not seen: %s; %+v", what, <-ended)
			}
		}
	}
	until("the first file", func(list string) bool { return strings.Contains(list, "kb/a.md") })
	b.file("kb/b.md", "About lighthouses and their lamps.")
	until("a new file", func(list string) bool { return strings.Contains(list, "kb/b.md") })
	if err := os.Remove(filepath.Join(folder, "a.md")); err != nil {
		t.Fatal(err)
	}
	until("a removed file", func(list string) bool { return !strings.Contains(list, "kb/a.md") })
	stop()
	o := <-ended
	kinds := map[string]int{}
	for _, l := range objects(t, o.stdout) {
		for kind := range l {
			kinds[kind]++
		}
	}
	if o.code != exitOK || kinds["committed"] != 2 || kinds["change"] != 3 || kinds["summary"] < 3 {
		t.Errorf("%d %v %s", o.code, kinds, o.stderr)
	}
}

// TestIngestCalibrates checks that with --calibrate the calibration is updated, that without it an existing one is
// updated by a few questions, and that otherwise the calibration is reported as stale.
func TestIngestCalibrates(t *testing.T) {
	b := newBench(t)
	b.model.Answers = []string{" live in the northern sea and eat plankton?", " warn ships of rocks?"}
	folder := filepath.Dir(b.file("kb/a.md", "About herrings in the northern sea, which eat plankton."))
	b.file("kb/b.md", "About lighthouses and their lamps, which warn ships.")
	sync := []string{"ingest", "--chunk", "32/0", "--sync", folder}
	if o := b.run(sync...); o.code != exitOK || strings.Contains(o.stderr, "calibration") {
		t.Fatalf("there is no calibration: %+v", o)
	}
	if o := b.run(append(sync, "--calibrate")...); o.code != exitOK ||
		!strings.Contains(o.stderr, "calibration default") {
		t.Fatalf("%+v", o)
	}
	b.file("kb/c.md", "About tides and currents of the harbour.")
	asked := len(b.model.Requests())
	if o := b.run(append(sync, "--calibrate=false")...); o.code != exitOK || len(b.model.Requests()) != asked ||
		!strings.Contains(o.stderr, "has not seen 33.3 % of the chunks, and") {
		t.Errorf("%+v", o)
	}
	b.env = append(b.env, "SLUICE_INGEST_CALIBRATE=true")
	if o := b.run(sync...); o.code != exitOK || !strings.Contains(o.stderr, "calibration default: cut-off") {
		t.Errorf("%+v", o)
	}
	perContext := asked / 2
	if n := len(b.model.Requests()) - asked; n == 0 || n > perContext {
		t.Errorf("%d requests for one new chunk, %d for two before", n, asked)
	}
	if o := b.run(sync...); o.code != exitOK || strings.Contains(o.stderr, "calibration") {
		t.Errorf("nothing has changed: %+v", o)
	}
	b.env, asked = nil, len(b.model.Requests())
	b.file("kb/d.md", "About the pilots of the harbour, and their boats.")
	if o := b.run(sync...); o.code != exitOK || !strings.Contains(o.stderr, "has not seen 25 % of the chunks: it is "+
		"brought up to date") || !strings.Contains(o.stderr, "calibration default: cut-off") ||
		len(b.model.Requests()) == asked {
		t.Errorf("%+v", o)
	}
	b.file("kb/e.md", "About buoys, which are red or green.")
	b.model.Digest = strings.Repeat("1", 64)
	if o := b.run(sync...); o.code != exitOK || !strings.Contains(o.stderr, "written by script") ||
		!strings.Contains(o.stderr, "warning: the calibration stays as it is") {
		t.Errorf("another model: %+v", o)
	}
	if o := b.run("gate", "Where are buoys?"); !strings.Contains(o.stderr, "stale by 20 %") {
		t.Errorf("%+v", o)
	}
}
