package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
)

// bench is a folder with a store, and the command to run there.
type bench struct {
	t        *testing.T
	dir      string
	store    string
	embedder *doubles.Encoder
	model    *doubles.Model
	stdin    string
	env      []string
}

func newBench(t *testing.T) *bench {
	dir := t.TempDir()
	return &bench{t: t, dir: dir, store: filepath.Join(dir, "store"), embedder: doubles.NewEncoder(),
		model: doubles.NewModel("It says so [1].")}
}

type outcome struct {
	code           int
	stdout, stderr string
}

// run executes a command line with the doubles.
func (b *bench) run(args ...string) outcome { return b.runContext(b.t.Context(), args...) }

func (b *bench) runContext(ctx context.Context, args ...string) outcome {
	b.t.Helper()
	var stdout, stderr bytes.Buffer
	a := &app{stdin: strings.NewReader(b.stdin), stdout: &stdout, stderr: &stderr,
		env: append(b.env, "SLUICE_STORE="+b.store, "SLUICE_CONFIG="+b.file("empty.yaml", ""))}
	if b.embedder != nil {
		a.embedder = b.embedder
	}
	if b.model != nil {
		a.generator = b.model
	}
	code := a.run(ctx, args)
	return outcome{code, stdout.String(), stderr.String()}
}

// ok runs a command line that must succeed, and returns its standard output.
func (b *bench) ok(args ...string) string {
	b.t.Helper()
	o := b.run(args...)
	if o.code != exitOK {
		b.t.Fatalf("sluice %v: exit code %d\n%s%s", args, o.code, o.stdout, o.stderr)
	}
	return o.stdout
}

// fails runs a command line that must fail with an exit code and a text in its message.
func (b *bench) fails(code int, says string, args ...string) outcome {
	b.t.Helper()
	o := b.run(args...)
	if o.code != code || !strings.Contains(o.stderr, says) {
		b.t.Errorf("sluice %v: exit code %d, want %d; %q does not say %q", args, o.code, code, o.stderr, says)
	}
	return o
}

// file writes a file into the folder and returns its path.
func (b *bench) file(name, text string) string {
	b.t.Helper()
	path := filepath.Join(b.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
	return path
}

const contexts = `{"id":"c1","topic":"go","text":"A deferred function runs when the surrounding function returns, in last in first out order."}
{"id":"c2","topic":"go","text":"Sending on a closed channel causes a run time panic, receiving from it gives the zero value."}
{"id":"c3","topic":"sea","text":"The herring lives in large schools and feeds on plankton of the northern sea."}
{"id":"c4","topic":"sea","text":"Lighthouses warn ships of rocks and shallow water with a rotating lamp."}
`

const questions = `{"context_id":"c1","text":"When does a deferred function run, in which order?"}
{"context_id":"c1","text":"Does a deferred function run before the surrounding function returns?"}
{"context_id":"c2","text":"What does sending on a closed channel cause, a panic?"}
{"context_id":"c3","text":"Which plankton of the northern sea does the herring feed on?"}
{"context_id":"c4","text":"Why do lighthouses warn ships of rocks?"}
`

// filled returns a bench whose store has contexts.
func filled(t *testing.T) *bench {
	b := newBench(t)
	b.ok("ingest", "--no-chunk", b.file("contexts.jsonl", contexts))
	return b
}

// calibrated returns a filled bench with a calibration.
func calibrated(t *testing.T) *bench {
	b := filled(t)
	b.ok("calibrate", "--queries", b.file("questions.jsonl", questions))
	return b
}
