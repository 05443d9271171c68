package tidy

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// bare are goroutines without internal/panics, by file: they only wait, or what they call makes errors of panics
// itself.
var bare = map[string]int{
	"rag/corpus/doc/pulse.go":            1, // abortable
	"engine/internal/workers/workers.go": 1, // work, whose tasks run in do
	"engine/gpus.go":                     1, // look, which starts GPUs in lookLocked
	"engine/internal/index/search.go":    1, // help, which visits units in assist
	"embed/batcher.go":                   1, // work, which computes in computed
	"embed/model_native.go":              1, // waits for what was opened too late
	"llm/generate.go":                    1, // predict, which has llama.cpp answer in ask
	"serve/server.go":                    5, // guarded: follow, jobs.run, waitForUploads; releaseMemory; Serve
	"serve/jobs.go":                      1, // run, which works in attempt
}

// TestPanicsOfGoroutines: a panic in a goroutine that a request or a job has started ends the process, unless the
// goroutine recovers.
func TestPanicsOfGoroutines(t *testing.T) {
	found, total := map[string]int{}, 0
	walk(t, func(file string) {
		if !isGo(file) || strings.HasSuffix(file, "_test.go") || !slices.ContainsFunc(
			[]string{"rag/", "engine/", "embed/", "llm/", "serve/"},
			func(dir string) bool { return strings.HasPrefix(file, dir) }) {
			return
		}
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root(t), file), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			var started ast.Node
			switch n := n.(type) {
			case *ast.GoStmt:
				started = n.Call
			case *ast.CallExpr:
				if s, ok := n.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "Go" && len(n.Args) == 1 {
					started = n.Args[0]
				}
			}
			if started == nil {
				return true
			}
			if total++; !guarded(started) {
				found[file]++
			}
			return true
		})
	})
	for _, file := range slices.Sorted(maps.Keys(found)) {
		if found[file] != bare[file] {
			t.Errorf("%s starts %d goroutines that do not use internal/panics, the list of this test has %d", file,
				found[file], bare[file])
		}
	}
	for file := range bare {
		if found[file] == 0 {
			t.Errorf("%s is on the list of this test for nothing", file)
		}
	}
	if total < 20 {
		t.Errorf("only %d goroutines are found", total)
	}
}

// guarded reports whether code names the package panics.
func guarded(n ast.Node) (yes bool) {
	ast.Inspect(n, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok && x.Name == "panics" {
				yes = true
			}
		}
		return !yes
	})
	return yes
}
