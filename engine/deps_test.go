package engine_test

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/cuda"
	"github.com/sluice-rag/sluice/internal/test/race"
)

// TestDependencies checks that engine depends only on the standard library, golang.org/x, this project's compute core
// and the few lines that make files durable, and on no more C kernels than the engine calls. With the build tag
// native, it also depends on the bindings of the CUDA driver.
func TestDependencies(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", ".").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	const module = "github.com/sluice-rag/sluice/"
	allowed := []string{module + "engine", module + "kernels/ref", module + "kernels/cpu/scores",
		module + "kernels/cpu/tiles", module + "kernels/cpu/scan", module + "kernels/cpu/slc", module + "kernels/cuda",
		module + "cuda", module + "internal/durable", module + "internal/panics",
		"golang.org/x/sync", "golang.org/x/sys"}
	if cuda.Available {
		allowed = append(allowed, "gorgonia.org/cu", "github.com/google/uuid", "github.com/pkg/errors")
	}
	whole := []string{module + "kernels", module + "kernels/cpu"} // but not what is below
	count := 0
	for path := range strings.FieldsSeq(string(out)) {
		ok := slices.Contains(whole, path)
		for _, a := range allowed {
			ok = ok || path == a || strings.HasPrefix(path, a+"/")
		}
		if !ok {
			t.Errorf("engine depends on %s", path)
		}
		count++
	}
	if count < 5 {
		t.Errorf("only %d packages listed", count)
	}
}

// TestVendoring: a throw-away module that imports engine and makes every option vendors and builds, without
// the network. The kernels are compiled with -O0, in an eighth of the time of -O3: what is tested is that everything
// they need comes along.
func TestVendoring(t *testing.T) {
	race.Skip(t)
	if testing.Short() {
		t.Skip("SKIP: builds a module of its own; not under -short")
	}
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("main.go", `package main

import (
	"context"
	"fmt"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/engine/cores"
	"github.com/sluice-rag/sluice/kernels"
)

func main() {
	e, err := engine.New(engine.Options{Cores: cores.New(1)})
	if err != nil {
		panic(err)
	}
	c := engine.Vectors{Data: []float32{1, 0, 0, 1, 1, 1}, Rows: 3, Dim: 2}
	best, _, err := e.Max(context.Background(), []float32{0, 2}, c, kernels.Cosine, nil)
	fmt.Println(best.Row, best.Score, err)
}
`)
	env := append(os.Environ(), "GOFLAGS=", "GOPROXY=off", "GOWORK=off")
	if compiler, err := exec.LookPath(cmp.Or(os.Getenv("CC"), "gcc")); err == nil {
		wrapper := filepath.Join(dir, "cc")
		text := "#!/bin/sh\nexec '" + compiler + "' \"$@\" -O0\n"
		if err := os.WriteFile(wrapper, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
		env = append(env, "CC="+wrapper)
	}
	run := func(name string, args ...string) string {
		t.Helper()
		cmd := exec.Command(name, args...)
		cmd.Dir = dir
		cmd.Env = env
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %v: %v\n%s", name, args, err, out)
		}
		return string(out)
	}
	write("go.mod", "module throwaway\n\ngo 1.26.0\n")
	write("go.sum", string(sums))
	run("go", "mod", "edit", "-require=github.com/sluice-rag/sluice@v0.0.0",
		"-replace=github.com/sluice-rag/sluice="+root,
		"-require=golang.org/x/sys@"+version(t, root, "golang.org/x/sys"),
		// not built without the tag native, but go mod vendor looks at all tags
		"-require=gorgonia.org/cu@"+version(t, root, "gorgonia.org/cu"),
		"-require=github.com/google/uuid@"+version(t, root, "github.com/google/uuid"),
		"-require=github.com/pkg/errors@"+version(t, root, "github.com/pkg/errors"))
	run("go", "mod", "vendor")
	if got := run("go", "run", "-mod=vendor", "."); got != "1 1 <nil>\n" {
		t.Errorf("the program printed %q", got)
	}
}

// version returns the version of a module in the project's go.mod.
func version(t *testing.T, root, module string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) >= 2 && f[0] == module {
			return f[1]
		}
	}
	t.Fatalf("%s is not in go.mod", module)
	return ""
}
