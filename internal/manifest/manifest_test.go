package manifest

import (
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"

	thirdparty "github.com/sluice-rag/sluice/third_party"
)

func parsed(t *testing.T) *Manifest {
	t.Helper()
	m, err := Parse(thirdparty.Manifest())
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestOurManifest(t *testing.T) {
	m := parsed(t)
	enc, ok := m.DefaultModel(Encoder)
	if !ok || enc.Name != "all-MiniLM-L6-v2" || enc.Encoder.MaxTokens != 256 || enc.Encoder.Pooling != "mean" ||
		!enc.Encoder.Normalise {
		t.Errorf("default encoder: %+v", enc)
	}
	gen, ok := m.DefaultModel(Generator)
	if !ok || gen.Name != "SmolLM2-135M-Instruct" {
		t.Errorf("default generator: %+v", gen)
	}
	for _, name := range []string{"BGE-base-en-v1.5", "uae-large-v1", "bge-m3", "all-mpnet-base-v2",
		"bge-small-en-v1.5", "bge-large-en-v1.5", "multilingual-e5-small", "multilingual-e5-base"} {
		x, ok := m.Model(name)
		if !ok || x.Kind != Encoder || x.Package != "" {
			t.Errorf("%s: %v %+v", name, ok, x)
		}
	}
	for _, name := range []string{"Qwen2.5-7B-Instruct", "Llama-3.1-8B-Instruct", "Llama-3.2-3B-Instruct",
		"gemma-2-9b-it", "gemma-2-2b-it",
		"Mistral-7B-Instruct-v0.2", "zephyr-7b-beta", "Mixtral-8x7B-Instruct-v0.1"} {
		x, ok := m.Model(name)
		if !ok || x.Kind != Generator || x.Package != "" || len(x.Files) == 0 {
			t.Errorf("%s: %v %+v", name, ok, x)
		}
		for _, f := range x.Files { // a revision in the URL: the digest is of a file that does not change
			if !strings.HasSuffix(f.Path, ".gguf") || !strings.HasSuffix(f.URL, "/"+f.Path) ||
				!regexp.MustCompile(`^https://huggingface\.co/[^/]+/[^/]+/resolve/[0-9a-f]{40}/`).MatchString(f.URL) {
				t.Errorf("%s: %+v", name, f)
			}
		}
	}
	for name, null := range map[string]bool{"minilm-uncased-squad2": true, "tinyroberta-squad2": true,
		"roberta-base-squad2": true, "distilbert-base-cased-distilled-squad": false} {
		x, ok := m.Model(name)
		if !ok || x.Kind != Reader || null != (x.NullAnswer == nil || *x.NullAnswer) {
			t.Errorf("%s: %v %+v", name, ok, x)
		}
	}
	if _, ok := m.Model("no-such-model"); ok {
		t.Error("found a model that is not there")
	}
}

// TestModulesAgreeWithGoMod checks that recipes build the module versions that the binary is compiled against.
func TestModulesAgreeWithGoMod(t *testing.T) {
	mod, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	m := parsed(t)
	for module, version := range map[string]string{m.Native.Tokenizers.Module: m.Native.Tokenizers.Version,
		m.Native.Llama.Module: m.Native.Llama.Version} {
		line := regexp.MustCompile(`(?m)^\s*(?:require )?` + regexp.QuoteMeta(module) + " " +
			regexp.QuoteMeta(version) + `(\s|$)`)
		if !line.Match(mod) {
			t.Errorf("go.mod does not require %s %s", module, version)
		}
	}
}

// Every Python from 3.11 on that the manifest knows gets one wheel of each package of the test environment.
func TestWheelsCoverPythons(t *testing.T) {
	m := parsed(t)
	for minor := 11; minor <= 14; minor++ {
		for _, name := range m.Python.Packages {
			p, _ := m.Package(name)
			if b, ok := p.WheelFor(minor); !ok {
				t.Errorf("no wheel of %s for Python 3.%d", name, minor)
			} else if w, _ := ParseWheel(b.File); !w.Pure() && w.ABI != "abi3" && w.Minor() != minor {
				t.Errorf("%s for Python 3.%d is %s", name, minor, b.File)
			}
		}
	}
	tomli, _ := m.Package("tomli")
	if !tomli.NeededBy(10) || tomli.NeededBy(11) {
		t.Error("tomli is needed below 3.11 only")
	}
}

func TestParseRefuses(t *testing.T) {
	text := thirdparty.Manifest()
	for name, edit := range map[string][2]string{
		"unknown key":        {"schema: 1", "schema: 1\nsurprise: 2"},
		"unknown nested key": {"kind: encoder\n", "kind: encoder\n    colour: red\n"},
		"another schema":     {"schema: 1", "schema: 2"},
		"duplicate key":      {"schema: 1", "schema: 1\nschema: 1"},
		"short digest":       {"5752bd508126ae7c", "5752bd50"},
		"no digest":          {"sha256: 7f4f959a467692db50bdd1ea7ce1507f2c7972e6023b753ee302d169bc4cec85, ", ""},
		"size of zero":       {"size: 295520", "size: 0"},
		"duplicate package":  {"name: pathspec", "name: packaging"},
		"unknown back-end":   {"backend: [scikit-build-core,", "backend: [no-such-thing,"},
		"unknown wheel":      {"packages: [numpy,", "packages: [nonumpy,"},
		"not a wheel":        {"packaging-26.3-py3-none-any.whl", "packaging-26.3.zip"},
		"path leaves":        {"{path: vocab.txt", "{path: ../vocab.txt"},
		"absolute path":      {"{path: vocab.txt", "{path: /vocab.txt"},
		"reserved path":      {"{path: vocab.txt", "{path: model.yaml"},
		"file twice":         {"{path: vocab.txt", "{path: config.json"},
		"pooling":            {"pooling: cls", "pooling: max"},
		"max tokens":         {"max_tokens: 256", "max_tokens: 1"},
		"kind":               {"kind: generator", "kind: oracle"},
		"encoder settings": {"kind: generator",
			"kind: generator\n    encoder: {pooling: cls, normalise: true, max_tokens: 9}"},
		"limit of a generator": {"kind: generator", "kind: generator\n    max_tokens: 9"},
		"negative limit":       {"kind: generator", "kind: reranker\n    max_tokens: -1"},
		"two defaults": {"name: bge-m3\n    kind: encoder",
			"name: bge-m3\n    kind: encoder\n    default: true"},
		"model twice": {"name: bge-m3", "name: BGE-base-en-v1.5"},
		"url": {"url: https://huggingface.co/BAAI/bge-m3/resolve/main/config.json",
			"url: file:///etc/passwd"},
		"source":            {"source: https://huggingface.co/BAAI/bge-m3", "source: bge-m3"},
		"no licence":        {"licence: PSF-2.0", "licence: \"\""},
		"commit":            {"commit: 0c1e5709", "commit: main0c1e"},
		"second document":   {"schema: 1", "---\nschema: 1\n---\nschema: 1"},
		"wrong type":        {"schema: 1", "schema: [1]"},
		"tree leaves":       {"tree: llama_cpp", "tree: ../llama_cpp"},
		"a part is missing": {"{path: qwen2.5-7b-instruct-q4_k_m-00002-of-00002.gguf", "{path: other.gguf"},
		"template of encoder": {"name: bge-m3\n    kind: encoder",
			"name: bge-m3\n    kind: encoder\n    chat_template: zephyr"},
		"member's bad URL": {"url: https://huggingface.co/sentence", "url: ftp://huggingface.co/sentence"},
		"member of nothing": {"{path: config.json, url: https://huggingface.co/BAAI",
			"{path: config.json, member: x, url: https://huggingface.co/BAAI"},
		"library without pin": {", sha256: fc44112fbe06d7d689c57e11d3862031f64711007e4ee020f8eed5185fd2c1d3, size: " +
			"29352200", ""},
	} {
		t.Run(name, func(t *testing.T) {
			bad := strings.Replace(text, edit[0], edit[1], 1)
			if bad == text {
				t.Fatalf("%q is not in the manifest", edit[0])
			}
			if m, err := Parse(bad); !errors.Is(err, ErrInvalid) {
				t.Errorf("accepted: %v %v", m != nil, err)
			}
		})
	}
	for _, text := range []string{"", "[]", "\x00", "schema: 1"} {
		if _, err := Parse(text); !errors.Is(err, ErrInvalid) {
			t.Errorf("Parse(%q) = %v", text, err)
		}
	}
}

func TestParseWheel(t *testing.T) {
	w, err := ParseWheel("numpy-2.3.5-cp311-cp311-manylinux_2_27_x86_64.manylinux_2_28_x86_64.whl")
	if err != nil || w.Minor() != 11 || len(w.Platforms) != 2 || w.Pure() || !w.Fits(11) || w.Fits(12) {
		t.Errorf("%+v %v", w, err)
	}
	w, err = ParseWheel("safetensors-0.8.0-cp310-abi3-manylinux_2_17_x86_64.whl")
	if err != nil || !w.Fits(10) || !w.Fits(14) || w.Fits(9) {
		t.Errorf("%+v %v", w, err)
	}
	for _, bad := range []string{"", "a.whl", "a-1-py3-none-any", "a-1-2-py3-none-any.whl", "a-1---.whl"} {
		if w, err := ParseWheel(bad); err == nil {
			t.Errorf("ParseWheel(%q) = %+v", bad, w)
		}
	}
}

// small is as little as a valid manifest needs, so that the fuzzer makes many tries a second.
const small = `schema: 1
packages:
  - {name: w, version: "1", licence: MIT, wheels: [{file: w-1-py3-none-any.whl, sha256: &d 0000000000000000000000000000000000000000000000000000000000000000, size: 1}]}
  - {name: s, version: "1", licence: MIT, sdist: {file: s.tar.gz, sha256: *d, size: 1}, backend: [w]}
native:
  onnxruntime: {package: w, libraries: {amd64: {path: l.so, member: m/l.so, sha256: *d, size: 1}}}
  tokenizers: {module: m/t, version: v1, licence: MIT}
  llama: {package: s, tree: s/t, commit: 0000000000000000000000000000000000000000, licence: MIT, module: m/l, version: v0}
  cuda: {package: w, header: {path: c.h, member: m/c.h, sha256: *d, size: 1}}
python: {packages: [w]}
models:
  - {name: e, kind: encoder, licence: MIT, source: https://h/e, encoder: {pooling: cls, normalise: true, max_tokens: 9}, files: [{path: a/b, url: https://h/e/b}]}
`

func TestSmallManifest(t *testing.T) {
	if _, err := Parse(small); err != nil {
		t.Error(err)
	}
}

func TestPart(t *testing.T) {
	if stem, part, of, ok := Part("a/b-00002-of-00003.gguf"); stem != "a/b" || part != 2 || of != 3 || !ok {
		t.Error(stem, part, of, ok)
	}
	for _, bad := range []string{"", "a.gguf", "a-00000-of-00002.gguf", "a-00003-of-00002.gguf", "a-1-of-2.gguf",
		"a-00001-of-00002.bin", "a-00001-of-99999.gguf"} {
		if _, _, _, ok := Part(bad); ok {
			t.Errorf("Part(%q)", bad)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(small)
	f.Add("schema: 1\npackages: [{name: a, version: '1', licence: MIT, wheels: [{file: a-1-py3-none-any.whl}]}]")
	f.Add("schema: 1\nmodels:\n  - &a {name: x}\n  - *a")
	f.Fuzz(func(t *testing.T, text string) {
		m, err := Parse(text)
		if err != nil {
			if !errors.Is(err, ErrInvalid) {
				t.Errorf("error without ErrInvalid: %v", err)
			}
			return
		}
		for _, x := range m.Models {
			for _, file := range x.Files {
				if strings.HasPrefix(file.Path, "/") || strings.Contains("/"+file.Path+"/", "/../") {
					t.Errorf("path %q leaves its folder", file.Path)
				}
			}
		}
	})
}
