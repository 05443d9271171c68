package models

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/manifest"
	"github.com/sluice-rag/sluice/internal/testmodels/hub"
)

const ollamaModel = `{"layers":[{"mediaType":"application/vnd.ollama.image.model","digest":"sha256:%s"}]}`

// others fills a cache of Hugging Face's programs and a store of Ollama, and returns both.
func others(t *testing.T) (cache, store string) {
	t.Helper()
	cache, store = filepath.Join(os.Getenv("HF_HOME"), "hub"), os.Getenv("OLLAMA_MODELS")
	config := func(repo, text string) {
		put(t, filepath.Join(cache, "models--"+strings.ReplaceAll(repo, "/", "--"), "blobs", "config.json"), text)
	}
	for repo, c := range map[string]string{"o/encoder": `{"model_type":"bert","architectures":["BertModel"]}`,
		"o/reader":  `{"model_type":"roberta","architectures":["RobertaForQuestionAnswering"]}`,
		"o/begun":   `{"model_type":"bert"}`, // AutoTokenizer alone was asked for
		"o/chat":    `{"model_type":"qwen3","architectures":["Qwen3ForCausalLM"]}`,
		"o/labels":  `{"model_type":"bert","architectures":["BertForSequenceClassification"]}`,
		"o/damaged": `{`} {
		names := []string{"config.json", "model.safetensors", "tokenizer.json"}
		if repo == "o/begun" {
			names = []string{"config.json", "tokenizer.json"}
		}
		snapshot(t, cache, repo, names...)
		config(repo, c)
	}
	snapshot(t, cache, "o/gen", "a-Q8_0.gguf", "a-Q4_K_M.gguf", "mmproj-a.gguf", "a-F16-00001-of-00002.gguf",
		"a-F16-00002-of-00002.gguf", "a-Q6_K-00001-of-00002.gguf")
	old := strings.Repeat("ab", 20)
	put(t, filepath.Join(cache, "models--o--old", "snapshots", old, "x.gguf"), "x.gguf")
	put(t, filepath.Join(cache, "models--o--tag", "snapshots", old, "x.gguf"), "x.gguf")
	put(t, filepath.Join(cache, "models--o--tag", "refs", "pr", "1"), old)
	put(t, filepath.Join(cache, "models--not a name", "snapshots", old, "x.gguf"), "x.gguf")
	put(t, filepath.Join(cache, "datasets--o--squad", "snapshots", old, "x.gguf"), "x.gguf")
	registry := filepath.Join(store, "manifests", "registry.ollama.ai")
	blob := hub.Sum("weights")
	put(t, filepath.Join(store, "blobs", "sha256-"+blob), "weights")
	put(t, filepath.Join(registry, "library", "llama3.2", "latest"), fmt.Sprintf(ollamaModel, blob))
	put(t, filepath.Join(registry, "me", "mine", "8b"), fmt.Sprintf(ollamaModel, blob))
	put(t, filepath.Join(registry, "library", "gone", "latest"), fmt.Sprintf(ollamaModel, hub.Sum("gone")))
	put(t, filepath.Join(registry, "library", "broken", "latest"), "{")
	return cache, store
}

// Models of other programs are listed by names that find them, marked, and nothing of theirs is changed.
func TestElsewhere(t *testing.T) {
	fx, _ := hubFixture(t)
	cache, store := others(t)
	before := listing(t, cache) + listing(t, store)
	old := strings.Repeat("ab", 20)
	want := map[string]manifest.Kind{"hf:o/encoder": manifest.Encoder, "hf:o/reader": manifest.Reader,
		"hf:o/labels": manifest.Classifier, "hf:o/gen:a-Q8_0.gguf": manifest.Generator,
		"hf:o/gen:a-Q4_K_M.gguf": manifest.Generator, "hf:o/gen:a-F16-00001-of-00002.gguf": manifest.Generator,
		"hf:o/old:x.gguf@" + old: manifest.Generator, "hf:o/tag:x.gguf@pr/1": manifest.Generator,
		"ollama:llama3.2": manifest.Generator, "ollama:me/mine:8b": manifest.Generator}
	list := fx.Elsewhere()
	for _, i := range list {
		if want[i.Name] != manifest.Kind(i.Kind) || !i.ReadOnly || i.Bytes == 0 || i.Pinned {
			t.Errorf("%+v", i)
		}
		if got, err := fx.Locate(i.Name); err != nil || got != i.Dir {
			t.Errorf("%s: %q %v, listed as %q", i.Name, got, err, i.Dir)
		}
		if got, err := fx.Pull(t.Context(), i.Name, nil); err != nil || got != i.Dir {
			t.Errorf("pull %s: %q %v", i.Name, got, err)
		}
		delete(want, i.Name)
	}
	if len(want) > 0 {
		t.Errorf("not listed: %v", want)
	}
	all, err := fx.List()
	must(t, err)
	if slices.ContainsFunc(all, func(i Info) bool { return IsReference(i.Name) }) {
		t.Errorf("%+v", all)
	}
	if after := listing(t, cache) + listing(t, store); after != before {
		t.Errorf("changed:\n%s\n%s", before, after)
	}
}

// What another program has only a part of is pulled into our cache, and nothing is written in theirs.
func TestPullBesideAnotherCache(t *testing.T) {
	fx, s := hubFixture(t)
	cache, _ := others(t)
	begun, gen := encoder(), ggufs("a-Q8_0.gguf", "a-Q5_0.gguf", "a-Q4_K_M.gguf", "a-F16-00001-of-00002.gguf",
		"a-F16-00002-of-00002.gguf", "a-Q6_K-00001-of-00002.gguf", "a-Q6_K-00002-of-00002.gguf")
	begun.Commit, gen.Commit = strings.Repeat("cd", 20), strings.Repeat("ef", 20)
	s.Add("o/begun", begun)
	s.Add("o/gen", gen)
	before := listing(t, cache)
	for _, name := range []string{"hf:o/begun", "hf:o/gen:Q5_0", "hf:o/gen:Q6_K", "hf:o/gen:Q8_0@" + gen.Commit} {
		path, err := fx.Pull(t.Context(), name, nil)
		if err != nil || !strings.HasPrefix(path, fx.hubDir()) {
			t.Errorf("%s: %q %v", name, path, err)
		}
		if got, err := fx.Locate(name); err != nil || got != path {
			t.Errorf("%s: %q %v", name, got, err)
		}
	}
	if _, err := fx.Locate("hf:o/gen:IQ1_S"); err == nil || !strings.Contains(err.Error(), "a-Q4_K_M.gguf") {
		t.Errorf("the error does not list what is there: %v", err)
	}
	if got, err := fx.Locate("hf:o/gen"); err != nil || !strings.HasPrefix(got, cache) {
		t.Errorf("theirs is not found first: %q %v", got, err)
	}
	if after := listing(t, cache); after != before {
		t.Errorf("changed:\n%s\n%s", before, after)
	}
	list, err := fx.List()
	must(t, err)
	var ours []string
	for _, i := range list {
		if IsReference(i.Name) {
			ours = append(ours, i.Name)
			if i.ReadOnly || i.Bytes < 20_000 || i.Source != hubHost+strings.TrimPrefix(i.Source, hubHost) {
				t.Errorf("%+v", i)
			}
		}
	}
	want := []string{"hf:o/begun", "hf:o/gen:a-Q5_0.gguf", "hf:o/gen:a-Q6_K-00001-of-00002.gguf",
		"hf:o/gen:a-Q8_0.gguf"}
	if !slices.Equal(ours, want) {
		t.Errorf("%q, want %q", ours, want)
	}
}

// The files of other programs are verified against the digests by which those name them.
func TestVerifyTheirs(t *testing.T) {
	fx, _ := hubFixture(t)
	cache, store := filepath.Join(os.Getenv("HF_HOME"), "hub"), os.Getenv("OLLAMA_MODELS")
	base := filepath.Join(cache, "models--o--e")
	put(t, filepath.Join(base, "refs", "main"), commit)
	for name, text := range map[string]string{"config.json": bert, "model.safetensors": text(5000, 1),
		"tokenizer.json": "{}\n"} {
		sum := hub.Sum(text)
		if name == "tokenizer.json" {
			sum = "0967ef424bce6791893e9a57bb952f80fd536e93" // git hash-object
		}
		put(t, filepath.Join(base, "blobs", sum), text)
		must(t, os.MkdirAll(filepath.Join(base, "snapshots", commit), 0o755))
		must(t, os.Symlink(filepath.Join("..", "..", "blobs", sum), filepath.Join(base, "snapshots", commit, name)))
	}
	blob := hub.Sum("weights")
	put(t, filepath.Join(store, "blobs", "sha256-"+blob), "weights")
	put(t, filepath.Join(store, "manifests", "registry.ollama.ai", "library", "l", "latest"),
		fmt.Sprintf(ollamaModel, blob))
	for _, name := range []string{"hf:o/e", "ollama:l"} {
		if err := fx.Verify(t.Context(), name); err != nil {
			t.Error(err)
		}
	}
	put(t, filepath.Join(store, "blobs", "sha256-"+blob), "weightS")
	put(t, filepath.Join(base, "blobs", "0967ef424bce6791893e9a57bb952f80fd536e93"), "[]\n")
	for _, name := range []string{"hf:o/e", "ollama:l"} {
		if err := fx.Verify(t.Context(), name); !strings.Contains(fmt.Sprint(err), "corrupt: "+name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if st, err := os.Stat(filepath.Join(store, "blobs", "sha256-"+blob)); err != nil || st.Size() != 7 {
		t.Errorf("the damaged file is gone: %v", err)
	}
}
