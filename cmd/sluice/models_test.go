package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/testmodels/generator"
)

// TestModelsListReadsHeaders checks that the list has the template and memory of a GGUF's header, and that a damaged
// file is reported without ending the list.
func TestModelsListReadsHeaders(t *testing.T) {
	b := newBench(t)
	t.Setenv("SLUICE_CACHE", b.dir)
	for _, name := range []string{"SmolLM2-135M-Instruct", "zephyr-7b-beta", "gemma-2-2b-it"} {
		b.file("models/"+name+"/.files.json",
			`{"files":[{"path":"m.gguf","sha256":"","size":1234567,"mtime":"2026-01-02T03:04:05Z"}]}`)
	}
	b.file("models/gemma-2-2b-it/m.gguf", "GGUF, but no more")
	for name, preset := range map[string]string{"SmolLM2-135M-Instruct": "qwen2", "zephyr-7b-beta": "mistral"} {
		m, ok := generator.Preset(preset)
		if !ok {
			t.Fatal("no preset", preset)
		}
		if err := generator.Write(filepath.Join(b.dir, "models", name, "m.gguf"), m); err != nil {
			t.Fatal(err)
		}
	}
	byName := map[string]map[string]any{}
	for _, o := range objects(t, b.ok("models", "list", "--json")) {
		byName[o["name"].(string)] = o
	}
	small, gone, bad := byName["SmolLM2-135M-Instruct"], byName["Llama-3.1-8B-Instruct"], byName["gemma-2-2b-it"]
	st, err := os.Stat(filepath.Join(b.dir, "models", "SmolLM2-135M-Instruct", "m.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	memory, _ := small["memory"].(map[string]any)
	weights, _ := memory["weights"].(float64)
	if small["chat_template"] != "chatml" || small["architecture"] != "qwen2" || weights <= 0 ||
		weights > float64(st.Size()) ||
		memory["total"] != memory["weights"].(float64)+memory["kv_cache"].(float64)+memory["compute"].(float64) {
		t.Errorf("%v", small)
	}
	if gone["memory"] != nil || gone["dir"] != nil || gone["licence"] != "Llama 3.1 Community License" ||
		gone["bytes"] != 4920739232.0 || gone["pinned"] != true {
		t.Errorf("%v", gone)
	}
	if byName["zephyr-7b-beta"]["pinned"] != false || byName["zephyr-7b-beta"]["chat_template"] == "mistral-v1" {
		t.Errorf("the manifest's template does not replace the file's: %v", byName["zephyr-7b-beta"])
	}
	if problem, _ := bad["problem"].(string); !strings.Contains(problem, "m.gguf") || bad["memory"] != nil {
		t.Errorf("%v", bad)
	}
	o := b.run("models", "list")
	if o.code != exitOK || !strings.Contains(o.stderr, "gemma-2-2b-it") {
		t.Errorf("%d %s", o.code, o.stderr)
	}
	columns := map[string][]string{}
	for line := range strings.SplitSeq(o.stdout, "\n") {
		if f := strings.Fields(line); len(f) > 7 {
			columns[f[0]] = f
		}
	}
	const titles = "NAME KIND DEFAULT HERE MB MEMORY ANSWERS TEMPLATE DIGEST LICENCE SOURCE"
	if c := columns["NAME"]; strings.Join(c, " ") != titles {
		t.Error(c)
	}
	for name, want := range map[string]string{"SmolLM2-135M-Instruct": "pinned",
		"zephyr-7b-beta":   "trusted on first use",
		"bge-base-en-v1.5": "trusted on first use", "all-MiniLM-L6-v2": "pinned"} {
		if got := strings.Join(columns[name], " "); !strings.Contains(got, " "+want+" ") {
			t.Errorf("%s: %q does not say %q", name, got, want)
		}
	}
	for name, want := range map[string]string{"SmolLM2-135M-Instruct": "yes 1.2 [0-9.]+ quoted chatml",
		"gemma-2-2b-it":              "yes 1.2 ? - -",
		"Mixtral-8x7B-Instruct-v0.1": "- 28448.5 ? - -", "all-MiniLM-L6-v2": "- 91.6 - - -"} {
		got := strings.Join(columns[name][3:8], " ")
		if before, after, ok := strings.Cut(want, "[0-9.]+"); ok {
			if !strings.HasPrefix(got, before) || !strings.HasSuffix(got, after) {
				t.Errorf("%s: %q", name, got)
			}
		} else if got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
