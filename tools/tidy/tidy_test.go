// Package tidy checks what a reviewer should not have to: which package may import which, how long
// files and functions are, that nothing unfinished or machine-specific is committed, and that links
// in the documentation lead somewhere.
package tidy

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/sluice-rag/sluice"

// edges is the way of the data (docs/architecture.md): a package may import the packages named for
// the longest prefix of its path that is listed here, and nothing else of this module.
var edges = map[string][]string{
	"kernels":                     {"kernels"},
	"cuda":                        {"kernels", "cuda"},
	"engine":                      {"kernels", "cuda", "engine"},
	"engine/cores":                {},
	"engine/gorgonia":             {"kernels", "engine"},
	"embed":                       {"kernels", "engine", "embed", "internal/filehash", "internal/safetensors"},
	"llm":                         {"llm", "engine/cores"},
	"llm/gguf":                    {},
	"llm/grammar":                 {},
	"llm/remote":                  {"llm"},
	"rag/corpus":                  {"rag/corpus", "internal/jsonl"},
	"rag/store":                   {"kernels", "engine", "embed/identity", "rag/corpus"},
	"rag/gate":                    {"kernels", "engine", "embed/identity", "rag/retrieve", "internal/npy"},
	"rag/pseudo":                  {"kernels", "engine", "embed", "llm", "rag/corpus", "rag/prompt", "internal/jsonl"},
	"rag/retrieve":                {"kernels", "engine"},
	"rag/prompt":                  {"llm", "rag/corpus"},
	"rag/calibrate":               {"engine", "embed", "llm", "rag/gate", "rag/knowledge", "rag/prompt", "rag/pseudo", "rag/store", "internal/buildinfo"},
	"rag/answer":                  {"engine", "embed", "llm", "rag/gate", "rag/knowledge", "rag/prompt", "rag/retrieve"},
	"rag/ingest":                  {"embed", "rag/corpus", "rag/knowledge", "rag/store"},
	"rag/knowledge":               {"kernels", "engine", "embed", "rag/gate", "rag/retrieve", "rag/store"},
	"":                            {"kernels", "engine", "embed", "llm", "rag", "internal"},
	"bench":                       {"kernels", "engine", "embed", "internal"},
	"bench/generate":              {"engine/cores", "llm", "bench/harness", "internal"},
	"cmd":                         {"", "kernels", "engine", "embed", "llm", "rag", "bench", "internal", "third_party"},
	"examples":                    {""},
	"third_party":                 {},
	"internal":                    {"internal", "third_party"},
	"internal/testmodels/doubles": {"embed", "engine", "llm", "rag/knowledge"},
	"tools":                       {"internal", "tools", "third_party"},
	"internal/config":             {"engine", "kernels", "llm/remote", "rag"},
	"internal/doctor":             {"kernels", "engine", "embed", "llm", "rag", "internal"},
}

// TestImportsGoOneWay checks every non-test file against the edge table.
func TestImportsGoOneWay(t *testing.T) {
	for file, f := range goFiles(t) {
		if strings.HasSuffix(file, "_test.go") {
			continue // tests may reach for judges and doubles
		}
		pkg := path.Dir(file)
		if pkg == "." {
			pkg = ""
		}
		allowed, known := edges[longestPrefix(pkg)]
		if !known {
			t.Errorf("%s: package %q is not in the edge table", file, pkg)
			continue
		}
		for _, spec := range f.Imports {
			p, _ := strconv.Unquote(spec.Path.Value)
			if p != module && !strings.HasPrefix(p, module+"/") {
				continue
			}
			p = strings.TrimPrefix(strings.TrimPrefix(p, module), "/")
			if p == pkg || strings.HasPrefix(p, pkg+"/") && pkg != "" {
				continue
			}
			if !slices.ContainsFunc(allowed, func(a string) bool { return p == a || a != "" && strings.HasPrefix(p, a+"/") }) {
				t.Errorf("%s imports %q, which the edge table does not allow for %q", file, p, pkg)
			}
		}
	}
}

func longestPrefix(pkg string) string {
	for p := pkg; p != "." && p != ""; p = path.Dir(p) {
		if _, ok := edges[p]; ok {
			return p
		}
	}
	if strings.Contains(pkg, "/") || pkg != "" {
		return "?" + pkg
	}
	return ""
}

// TestFilesAndFunctionsStayReadable keeps files and functions at a length one can hold in the head.
func TestFilesAndFunctionsStayReadable(t *testing.T) {
	const fileMax, testMax, funcMax = 520, 820, 80
	fset := token.NewFileSet()
	for file := range goFiles(t) {
		src, err := os.ReadFile(filepath.Join(root(t), file))
		if err != nil {
			t.Fatal(err)
		}
		limit := fileMax
		if strings.HasSuffix(file, "_test.go") {
			limit = testMax
		}
		if n := strings.Count(string(src), "\n"); n > limit {
			t.Errorf("%s has %d lines, more than %d", file, n, limit)
		}
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, file, src, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil {
				if n := fset.Position(fn.End()).Line - fset.Position(fn.Pos()).Line + 1; n > funcMax {
					t.Errorf("%s: function %s has %d lines, more than %d", file, fn.Name.Name, n, funcMax)
				}
			}
		}
	}
}

// The words are put together here so that this file does not match itself.
var (
	unfinished = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|X` + `XX)\b`)
	machine    = regexp.MustCompile(`(/ho` + `me/[a-z]|/ro` + `ot/|/wo` + `rk/)`)
	registry   = regexp.MustCompile(`(files\.python` + `hosted|pypi\.` + `org|proxy\.go` + `lang\.org|static\.cra` + `tes\.io|registry\.npm` + `js)`)
)

// TestNothingUnfinishedOrMachineSpecific looks through every text file that is committed.
func TestNothingUnfinishedOrMachineSpecific(t *testing.T) {
	walk(t, func(file string) {
		switch path.Ext(file) {
		case ".go", ".c", ".h", ".inc", ".cpp", ".py", ".sh", ".md", ".yaml", ".yml", ".tmpl", ".json", "":
		default:
			return
		}
		src, err := os.ReadFile(filepath.Join(root(t), file))
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(src), "\n") {
			for what, re := range map[string]*regexp.Regexp{"an unfinished mark": unfinished, "a machine's path": machine, "a registry's host": registry} {
				if m := re.FindString(line); m != "" {
					t.Errorf("%s:%d holds %s: %q", file, i+1, what, m)
				}
			}
		}
	})
}

var link = regexp.MustCompile(`\]\(([^)#\s]+)(#[^)]*)?\)`)

// TestLinksInDocumentationResolve checks relative links of Markdown files.
func TestLinksInDocumentationResolve(t *testing.T) {
	walk(t, func(file string) {
		if path.Ext(file) != ".md" || strings.Contains(file, "testdata/") {
			return
		}
		src, err := os.ReadFile(filepath.Join(root(t), file))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(src), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			if _, err := os.Stat(filepath.Join(root(t), path.Dir(file), m[1])); err != nil {
				t.Errorf("%s: link to %q leads nowhere", file, m[1])
			}
		}
	})
}

func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// skipped are folders that hold nothing of ours: what set-up assembles, builds and stores.
func skippedDir(p, name string) bool {
	if name == ".git" || name == "bin" || name == ".sluice" || name == "testdata" && strings.Contains(p, "fuzz") {
		return true
	}
	return strings.HasPrefix(p, "third_party/") && (name == "lib" || name == "include" || name == "python") || p == "build/out"
}

func walk(t *testing.T, visit func(file string)) {
	t.Helper()
	base := root(t)
	err := filepath.WalkDir(base, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(base, p)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if d.IsDir() {
			if rel != "." && skippedDir(rel, d.Name()) {
				return filepath.SkipDir
			}
			return nil
		}
		if d.Type().IsRegular() {
			visit(rel)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func goFiles(t *testing.T) map[string]*ast.File {
	t.Helper()
	files, fset := map[string]*ast.File{}, token.NewFileSet()
	walk(t, func(file string) {
		if path.Ext(file) != ".go" || strings.Contains(file, "testdata/") {
			return
		}
		f, err := parser.ParseFile(fset, filepath.Join(root(t), file), nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		files[file] = f
	})
	return files
}
