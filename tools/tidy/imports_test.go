package tidy

import (
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// edges is the way of the data (docs/architecture.md). A line is a package and what it and those below it may import of
// this module, unless a longer path below it has a line of its own; "." is the root package. Packages below itself may
// be imported by every package.
const edges = `
kernels: kernels
cuda:
cuda/drivertest: internal/filelock
engine: kernels cuda engine internal/durable internal/panics
engine/cores:
engine/gorgonia: kernels cuda engine
engine/kmeans: kernels engine
engine/internal/device/devicetest: kernels cuda engine internal/test
embed/remote: embed llm internal/panics
embed/gguf: embed engine/cores llm internal/filehash internal/regular
embed/ops: kernels embed/onnx
embed: cuda engine third_party internal/durable internal/filehash internal/manifest internal/regular internal/safetensors internal/panics
embed/train: kernels embed engine eval/squad internal/buildinfo internal/durable internal/filehash internal/filelock internal/jsonl internal/regular internal/safetensors
llm: engine/cores internal/filehash internal/panics
llm/gguf:
llm/grammar:
llm/kept: llm internal/durable internal/jsonl
llm/remote: llm internal/upstream
rag/corpus: internal/jsonl internal/regular
rag/corpus/doc: internal/panics
rag/corpus/build: rag/corpus/doc
rag/corpus/drawn: rag/corpus/doc
rag/corpus/charset: rag/corpus/doc
rag/corpus/sentence: rag/corpus/doc
rag/corpus/chunk: kernels rag/corpus/doc rag/corpus/sentence
rag/corpus/clean: rag/corpus/doc
rag/corpus/code: rag/corpus/charset rag/corpus/doc
rag/corpus/html: rag/corpus/build rag/corpus/charset rag/corpus/doc
rag/corpus/markdown: rag/corpus/build rag/corpus/charset rag/corpus/doc rag/corpus/drawn rag/corpus/html
rag/corpus/markup: rag/corpus/build rag/corpus/charset rag/corpus/doc rag/corpus/drawn
rag/corpus/mail: rag/corpus/build rag/corpus/charset rag/corpus/doc rag/corpus/html
rag/corpus/table: rag/corpus/build rag/corpus/charset rag/corpus/doc
rag/corpus/plain: rag/corpus/build rag/corpus/charset rag/corpus/doc
rag/corpus/office: rag/corpus/build rag/corpus/charset rag/corpus/doc rag/corpus/html rag/corpus/mail rag/corpus/table
rag/corpus/office/number:
rag/corpus/pdf: rag/corpus/build rag/corpus/clean rag/corpus/doc
rag/corpus/ignore: internal/regular
rag/ocr: embed engine rag/corpus internal/panics
rag/store: kernels engine embed/identity rag/corpus internal/durable internal/filelock internal/panics
rag/pairs: kernels engine internal/filelock internal/filemap internal/durable internal/panics
rag/gate: kernels engine embed/identity rag/pairs rag/postings rag/retrieve internal/npy internal/regular internal/durable internal/panics
rag/gate/figure: kernels rag/gate internal/durable
rag/pseudo: kernels engine embed llm rag/corpus rag/postings rag/prompt internal/jsonl internal/filelock internal/durable internal/language internal/panics
rag/postings: kernels internal/durable
rag/retrieve: kernels engine rag/postings internal/settings
rag/route: kernels engine embed internal/buildinfo internal/durable internal/jsonl internal/regular internal/safetensors
rag/domains: kernels engine embed rag/corpus rag/knowledge rag/route
rag/excerpt: kernels engine rag/corpus
rag/quote: kernels engine rag/excerpt rag/postings
rag/check: kernels engine rag/entities rag/corpus rag/prompt
rag/prompt: kernels llm rag/corpus rag/excerpt
rag/calibrate: engine embed llm rag/corpus rag/exam rag/gate rag/pairs rag/knowledge rag/prompt rag/pseudo rag/retrieve rag/store internal/buildinfo internal/filelock internal/durable
rag/flow: llm internal/spans
rag/exam: kernels engine embed llm rag/corpus rag/flow rag/postings rag/prompt rag/pseudo rag/quote internal/language internal/panics
rag/answer: kernels engine embed llm internal/settings rag/check rag/exam rag/excerpt rag/flow rag/gate rag/knowledge rag/prompt rag/quote rag/retrieve internal/panics
rag/decisions: kernels internal/durable internal/filelock rag/gate rag/store
rag/entities: embed
rag/web: embed llm/remote rag/corpus rag/knowledge rag/prompt rag/retrieve rag/store internal/upstream internal/panics
rag/ingest: kernels embed engine rag/corpus rag/entities rag/knowledge rag/route rag/store internal/buildinfo internal/panics
rag/knowledge: kernels engine embed rag/corpus rag/gate rag/postings rag/retrieve rag/route rag/store rag/check rag/entities rag/excerpt rag/quote internal/language internal/panics
.: kernels engine embed llm rag internal
eval/squad:
eval/metric: kernels llm rag/corpus rag/prompt
eval/dataset: internal/durable internal/jsonl
eval/experiment: . kernels engine embed llm eval/metric eval/squad eval/dataset rag internal/durable internal/filehash internal/filelock internal/jsonl internal/models internal/scorecards
eval/preset: eval/experiment
eval/crsb: . embed engine eval/dataset rag/corpus rag/ingest rag/pseudo internal/durable
eval/rating: eval/metric internal/jsonl
eval/report: eval/experiment eval/rating internal/buildinfo internal/durable
serve: . kernels engine embed llm rag internal/durable internal/filelock internal/panics internal/printable internal/spans
serve/openai: llm internal/settings
serve/mcp: . rag internal/panics internal/printable internal/settings
serve/page:
bench: kernels engine embed rag/gate rag/pairs rag/postings internal
bench/harness: engine/cores internal
bench/peers: bench/harness
bench/encode: kernels embed bench/harness bench/limits bench/peers internal
bench/serve: kernels engine embed rag/corpus rag/knowledge rag/store bench/harness bench/peers internal
bench/gpu: cuda kernels engine bench/harness bench/peers internal/npy
bench/generate: llm bench/harness
cluster/objects:
cluster/worker: embed engine
cluster/base: kernels engine embed/identity rag/postings cluster/objects
cluster/calibrate: kernels engine rag/gate rag/postings cluster/base cluster/objects cluster/worker
cluster/ingest: kernels embed rag/corpus rag/ingest rag/knowledge cluster/base cluster/objects cluster/worker
cluster/pipeline: engine rag/gate cluster/calibrate cluster/ingest cluster/objects
cluster/cmd: . kernels rag/calibrate rag/corpus rag/gate cluster/ingest cluster/objects cluster/pipeline cluster/worker
cmd: . kernels engine embed llm rag serve eval bench internal
examples: . rag
third_party:
internal: internal
internal/models: embed/onnx internal third_party
internal/testmodels/doubles: embed engine llm rag/knowledge
internal/testmodels/minilm: embed internal/models
tools: internal tools third_party
tools/gpubundle: cuda/drivertest kernels/cuda/image
tools/cudaimage: cuda tools/cudaimage tools/setup
internal/config: . llm/remote rag serve internal/regular internal/settings
internal/scorecards: llm/remote rag/exam internal/models
internal/doctor: . kernels cuda engine embed llm rag internal
`

// edgeTable parses edges.
func edgeTable(t *testing.T) map[string][]string {
	t.Helper()
	table := map[string][]string{}
	for line := range strings.Lines(strings.TrimSpace(edges)) {
		pkg, allowed, ok := strings.Cut(strings.TrimSpace(line), ":")
		if _, twice := table[pkg]; twice || !ok {
			t.Fatalf("the edge table has %q twice, or no colon", line)
		}
		table[pkg] = strings.Fields(allowed)
	}
	return table
}

// inside reports whether a package is dir or below it.
func inside(pkg, dir string) bool {
	return pkg == dir || dir != "." && strings.HasPrefix(pkg, dir+"/")
}

// line returns the package in the edge table that decides for pkg.
func line(table map[string][]string, pkg string) (string, bool) {
	for p := pkg; ; p = path.Dir(p) {
		if _, ok := table[p]; ok && (p != "." || pkg == ".") {
			return p, true
		}
		if p == "." {
			return "", false
		}
	}
}

// imports returns the packages of this module that a file imports.
func imports(t *testing.T, file string) []string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root(t), file), nil, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, spec := range f.Imports {
		p, _ := strconv.Unquote(spec.Path.Value)
		if p == module {
			list = append(list, ".")
		} else if p, ok := strings.CutPrefix(p, module+"/"); ok {
			list = append(list, p)
		}
	}
	return list
}

// TestImportsGoOneWay checks every file against the edge table, and that nothing in the table is without use. Tests may
// reach for references and doubles.
func TestImportsGoOneWay(t *testing.T) {
	table := edgeTable(t)
	used := map[string]bool{} // "package: allowed"
	files := 0
	walk(t, func(file string) {
		if !isGo(file) || strings.HasSuffix(file, "_test.go") {
			return
		}
		files++
		pkg := path.Dir(file)
		decides, known := line(table, pkg)
		if !known {
			t.Errorf("%s: package %q is not in the edge table", file, pkg)
			return
		}
		used[decides] = true
		for _, p := range imports(t, file) {
			if inside(p, pkg) && pkg != "." {
				continue
			}
			i := slices.IndexFunc(table[decides], func(allowed string) bool { return inside(p, allowed) })
			if i < 0 {
				t.Errorf("%s imports %q, which the edge table does not allow for %q", file, p, pkg)
				continue
			}
			used[decides+": "+table[decides][i]] = true
		}
	})
	if files < 100 {
		t.Errorf("only %d files were looked at", files)
	}
	for pkg, allowed := range table {
		if !used[pkg] {
			t.Errorf("the edge table has %q, which is no package", pkg)
		}
		for _, a := range allowed {
			if !used[pkg+": "+a] {
				t.Errorf("the edge table allows %q to import %q, and nothing there does", pkg, a)
			}
		}
	}
}

// ofTests reports whether a folder is for tests: its name, or a parent's, begins or ends with "test" (testmodels,
// drivertest).
func ofTests(dir string) bool {
	return slices.ContainsFunc(strings.Split(dir, "/"), func(name string) bool {
		return strings.HasPrefix(name, "test") || strings.HasSuffix(name, "test")
	})
}

// TestTheTreeSaysWhatIsOfTests checks that what imports package testing lies in a folder whose name says so, and that
// nothing else imports such a folder but the tool that packs tests for another machine.
func TestTheTreeSaysWhatIsOfTests(t *testing.T) {
	walk(t, func(file string) {
		pkg := path.Dir(file)
		if !isGo(file) || strings.HasSuffix(file, "_test.go") || ofTests(pkg) || pkg == "tools/gpubundle" {
			return
		}
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root(t), file), nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range f.Imports {
			p, _ := strconv.Unquote(spec.Path.Value)
			own, ours := strings.CutPrefix(p, module+"/")
			if p == "testing" || ours && ofTests(own) {
				t.Errorf("%s, whose folder's name does not say that it is of tests, imports %q", file, p)
			}
		}
	})
}
