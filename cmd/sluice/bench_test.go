package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestBenchHelp(t *testing.T) {
	b := newBench(t)
	golden(t, "help_bench", b.ok("bench", "--help"))
	golden(t, "help_bench_compute", b.ok("bench", "compute", "--help"))
	golden(t, "help_bench_embed", b.ok("bench", "embed", "--help"))
	golden(t, "help_bench_generate", b.ok("bench", "generate", "--help"))
}

func TestBenchUsage(t *testing.T) {
	b := newBench(t)
	for name, c := range map[string]struct {
		says string
		args []string
	}{
		"unknown workload": {"--workload must be one of w1, w2, w3, w4, cover, matrix, memory, incremental, all",
			[]string{"--workload", "w5"}},
		"unknown peer":    {"--peers must be all, none, or some of numpy,", []string{"--peers", "numpy,torch"}},
		"negative rounds": {"--rounds must not be negative", []string{"--rounds", "-1"}},
		"an argument":     {"unknown command", []string{"w1"}},
		"threads":         {"threads", []string{"--threads", "-1"}},
	} {
		t.Run(name, func(t *testing.T) {
			b.t = t
			if o := b.fails(exitUsage, c.says, append([]string{"bench", "compute"}, c.args...)...); o.stdout != "" {
				t.Errorf("%+v", o)
			}
		})
	}
}

// TestBenchCompute runs a tiny benchmark without peers.
func TestBenchCompute(t *testing.T) {
	b := newBench(t)
	t.Setenv("SLUICE_CACHE", t.TempDir())
	out := filepath.Join(t.TempDir(), "results")
	o := b.run("bench", "compute", "--workload", "matrix", "--short", "--rounds", "1", "--peers", "numpy", "--json",
		"--out", out)
	if o.code != exitOK {
		t.Fatalf("%+v", o)
	}
	rows := objects(t, o.stdout)
	if len(rows) == 0 || rows[0]["impl"] != "sluice" || rows[0]["workload"] != "matrix" ||
		rows[0]["shape"] != "96x288x384" {
		t.Errorf("%v", rows)
	}
	if !strings.Contains(o.stderr, "numpy") || !strings.Contains(o.stderr, "make bench-compute") {
		t.Errorf("the missing peer is not said: %s", o.stderr)
	}
	if _, err := os.Stat(filepath.Join(out, "report.md")); err != nil {
		t.Error(err)
	}
	text := b.ok("bench", "compute", "--workload", "w3", "--short", "--rounds", "1", "--peers", "none", "--data",
		t.TempDir())
	if !strings.Contains(text, "| 3000x384 mixture q=1 tau=0.55 in scope | **sluice** |") ||
		!strings.Contains(text, "only the seeded mixture") {
		t.Error(text)
	}
}

func TestBenchGenerateUsage(t *testing.T) {
	b := newBench(t)
	model := b.file("model.gguf", "no GGUF")
	for name, c := range map[string]struct {
		says string
		args []string
	}{
		"unknown workload": {"--workload must be all, none, or some of single,concurrent,prefix",
			[]string{"--workload", "ask"}},
		"no workload": {"leaves nothing to run", []string{"--workload", "none"}},
		"unknown peer": {"--peers must be all, none, or some of llama-bench,llama-server",
			[]string{"--peers", "vllm"}},
		"not a number":       {"--concurrency must be whole numbers", []string{"--concurrency", "1,many"}},
		"no tokens":          {"--tokens must be whole numbers", []string{"--tokens", "0"}},
		"prompt tokens":      {"--prompt-tokens must be whole numbers", []string{"--prompt-tokens", ""}},
		"too many at once":   {"concurrency 65", []string{"--concurrency", "65", "--model", model}},
		"batch":              {"a batch of 4 tokens", []string{"--batch", "4", "--model", model}},
		"rounds":             {"0 rounds", []string{"--rounds", "0", "--model", model}},
		"more threads":       {"threads", []string{"--threads", "4096", "--model", model}},
		"an argument":        {"unknown command", []string{"single"}},
		"a remote model":     {"must be a model of this machine", []string{"--model", "http://localhost:1/v1#m"}},
		"threads not number": {"is not a whole number", []string{"--threads", "all"}},
	} {
		t.Run(name, func(t *testing.T) {
			b.t = t
			if o := b.fails(exitUsage, c.says, append([]string{"bench", "generate"}, c.args...)...); o.stdout != "" {
				t.Errorf("%+v", o)
			}
		})
	}
	b.t = t
	b.fails(exitUsage, "gone.gguf", "bench", "generate", "--model", filepath.Join(b.dir, "gone.gguf"))
	if o := b.fails(exitFailure, "", "bench", "generate", "--model", model, "--peers",
		"none"); !strings.Contains(o.stderr, "model.gguf") && !strings.Contains(o.stderr, "built without llama.cpp") {
		t.Errorf("%+v", o)
	}
}

func TestBenchEmbedUsage(t *testing.T) {
	b := newBench(t)
	for name, c := range map[string]struct {
		says string
		args []string
	}{
		"workload":  {`--workload must be all, none, or some of mixed,`, []string{"--workload", "w1"}},
		"nothing":   {"leaves nothing to run", []string{"--workload", "none"}},
		"peer":      {"--peers must be all, none, or some of onnxruntime,", []string{"--peers", "numpy"}},
		"precision": {"--precision must be all, none, or some of f32,", []string{"--precision", "f16"}},
		"no mode":   {"leaves nothing to compare with", []string{"--precision", "none"}},
		"rounds":    {"--rounds must not be negative", []string{"--rounds", "-1"}},
		"argument":  {"", []string{"mixed"}},
	} {
		t.Run(name, func(t *testing.T) {
			b.fails(exitUsage, c.says, append([]string{"bench", "embed"}, c.args...)...)
		})
	}
	b.fails(exitUsage, "/nowhere/model", "bench", "embed", "--encoder", "/nowhere/model")
}
