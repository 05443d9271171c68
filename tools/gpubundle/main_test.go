package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// bundle returns a folder with run-gpu and programs that record their calls. doctor prints the content of the file gpu.
func bundle(t *testing.T) string {
	t.Helper()
	if _, err := os.Stat("/bin/sh"); err != nil {
		t.Skip("SKIP: needs a POSIX system")
	}
	dir := t.TempDir()
	put := func(name, text string, mode os.FileMode) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	put("run-gpu", string(script), 0o755)
	program := "#!/bin/sh\necho \"$(basename \"$0\") $*\" >>'" + filepath.Join(dir, "calls") + "'\n"
	put("sluice", program+"[ \"$1\" != doctor ] || cat '"+filepath.Join(dir, "gpu")+"'\n", 0o755)
	for _, name := range []string{"gpu.test", "engine.test", "embed.test"} {
		put(name, program+"[ ! -e '"+filepath.Join(dir, "broken")+"' ]\n", 0o755)
	}
	return dir
}

func runGPU(t *testing.T, dir string, args ...string) (summary, calls string, code int) {
	t.Helper()
	out := filepath.Join(dir, "out")
	err := exec.CommandContext(t.Context(), filepath.Join(dir, "run-gpu"),
		append([]string{"--out", out}, args...)...).Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if exit != nil {
		code = exit.ExitCode()
	}
	text, _ := os.ReadFile(filepath.Join(out, "summary.txt"))
	called, _ := os.ReadFile(filepath.Join(dir, "calls"))
	_ = os.RemoveAll(out)
	_ = os.Remove(filepath.Join(dir, "calls"))
	return string(text), string(called), code
}

var stages = []string{"device", "engine", "cases", "fused", "decision", "bench", "pairs", "ladder", "encoder",
	"generator", "sanitizer"}

// TestRunWithoutGPU checks that without a GPU every stage reports that it was not run, and why.
func TestRunWithoutGPU(t *testing.T) {
	dir := bundle(t)
	line := `{"name":"GPU","status":"missing","detail":"none: no CUDA driver: it is not there","hint":"nothing to do"}`
	if err := os.WriteFile(filepath.Join(dir, "gpu"), []byte(line+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	summary, _, code := runGPU(t, dir)
	for _, s := range stages {
		if !strings.Contains(summary, s+": not run: no CUDA driver: it is not there\n") {
			t.Errorf("%s: %q", s, summary)
		}
	}
	if code != 69 || !strings.Contains(summary, "machine: exit 0") {
		t.Errorf("exit code %d, %q", code, summary)
	}
}

// TestRunOnStandIn checks that on the stand-in everything runs except what needs NVIDIA's own libraries, and that
// failures are counted.
func TestRunOnStandIn(t *testing.T) {
	dir := bundle(t)
	if err := os.WriteFile(filepath.Join(dir, "gpu"), []byte(`{"name":"GPU","status":"ok","detail":"0: it"}`),
		0o644); err != nil {
		t.Fatal(err)
	}
	summary, calls, code := runGPU(t, dir, "--stand-in")
	for _, says := range []string{"device: exit 0", "engine: exit 0", "cases: exit 0", "bench-search: exit 0",
		"bench-distribution: exit 0", "bench-matrix: exit 0", "fused: exit 0", "decision: exit 0",
		"pairs-interval: exit 0", "pairs-exact: exit 0", "ladder: exit 0",
		"encoder: not run: NVIDIA's libraries", "generator: not run: NVIDIA's libraries"} {
		if !strings.Contains(summary, says) {
			t.Errorf("%q does not say %q", summary, says)
		}
	}
	if code != 0 || !strings.Contains(calls, "bench gpu --workload fused --contexts 70") {
		t.Errorf("exit code %d\n%s", code, calls)
	}
	if err := os.WriteFile(filepath.Join(dir, "broken"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if summary, _, code = runGPU(t, dir, "--stand-in", "device", "engine"); code != 2 {
		t.Errorf("exit code %d, %q", code, summary)
	}
	if err := os.WriteFile(filepath.Join(dir, "sluice.fatbin"), []byte("image"), 0o644); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "failed")
	cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "run-gpu"), "--out", out, "device")
	_ = cmd.Run()                                                  // it fails
	kept, err := filepath.Glob(filepath.Join(out, "[ks]*.[sf]a*")) // kernels.sass or sluice.fatbin
	if err != nil || len(kept) != 1 {
		t.Errorf("a stage that failed has left %v: %v", kept, err)
	}
	if _, _, code = runGPU(t, dir, "poems"); code != 64 {
		t.Errorf("an unknown stage: exit code %d", code)
	}
}

// TestRunUnpacksPieces checks that with a GPU, encoder and generator use the pieces of the second bundle, or report
// what is missing.
func TestRunUnpacksPieces(t *testing.T) {
	dir := bundle(t)
	if err := os.WriteFile(filepath.Join(dir, "gpu"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	summary, _, _ := runGPU(t, dir, "encoder", "generator")
	if strings.Count(summary, "not run: there ") != 2 {
		t.Errorf("%q", summary)
	}
	from := t.TempDir()
	for _, path := range []string{"models/m/m.gguf", "lib-cuda/libonnxruntime.so.1.31.1",
		"llama-cuda/libggml-cuda.so"} {
		path = filepath.Join(from, path)
		err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(path), 0o644))
		if err != nil {
			t.Fatal(err)
		}
	}
	packed, err := exec.CommandContext(t.Context(), "tar", "-C", from, "-czf", "-", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	n, err := split(bytes.NewReader(packed), filepath.Join(dir, "gpu-models.tar.gz."), 100)
	if err != nil || n != (len(packed)+99)/100 {
		t.Fatalf("%d pieces of %d bytes, %v", n, len(packed), err)
	}
	summary, calls, code := runGPU(t, dir, "encoder", "generator")
	for _, says := range []string{"embed.test -test.v -test.run ^TestOnGPU$", "sluice bench embed --encoder",
		"--precision f32,cuda", "sluice bench generate --model", "m.gguf --peers sluice-gpu"} {
		if !strings.Contains(calls, says) {
			t.Errorf("%q does not say %q", calls, says)
		}
	}
	if code != 0 || strings.Count(summary, ": exit 0") != 3 {
		t.Errorf("exit code %d, %q", code, summary)
	}
}

func TestSplit(t *testing.T) {
	for size, want := range map[int]int{0: 1, 99: 1, 100: 1, 101: 2, 200: 2, 250: 3} {
		prefix := filepath.Join(t.TempDir(), "p.")
		data := bytes.Repeat([]byte{7}, size)
		n, err := split(bytes.NewReader(data), prefix, 100)
		if err != nil || n != want {
			t.Errorf("%d bytes: %d pieces, %v", size, n, err)
		}
		var all []byte
		found, _ := filepath.Glob(prefix + "*")
		for _, path := range found {
			part, err := os.ReadFile(path)
			if err != nil || len(part) > 100 {
				t.Errorf("%s: %d bytes, %v", path, len(part), err)
			}
			all = append(all, part...)
		}
		if !bytes.Equal(all, data) {
			t.Errorf("%d bytes came back as %d", size, len(all))
		}
	}
}
