package models

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const commit = "0123456789abcdef0123456789abcdef01234567"

// listing returns the name, mode, size and time of everything below a folder.
func listing(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	must(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		st, err := os.Lstat(path)
		if err == nil {
			fmt.Fprintln(&b, path, st.Mode(), st.Size(), st.ModTime())
		}
		return err
	}))
	return b.String()
}

func put(t *testing.T, path, text string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.WriteFile(path, []byte(text), 0o644))
}

// snapshot prepares a repository in a cache of Hugging Face's programs.
func snapshot(t *testing.T, cache, repo string, files ...string) string {
	t.Helper()
	base := filepath.Join(cache, "models--"+strings.ReplaceAll(repo, "/", "--"))
	put(t, filepath.Join(base, "refs", "main"), commit)
	dir := filepath.Join(base, "snapshots", commit)
	must(t, os.MkdirAll(dir, 0o755))
	for _, f := range files {
		put(t, filepath.Join(base, "blobs", f), f)
		must(t, os.Symlink(filepath.Join("..", "..", "blobs", f), filepath.Join(dir, f)))
	}
	return dir
}

func TestModelsOfTheHubsCache(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("HF_HUB_CACHE", cache)
	enc := snapshot(t, cache, "o/encoder", "config.json", "model.safetensors")
	gen := snapshot(t, cache, "o/gen", "a-Q8_0.gguf", "a-Q4_K_M.gguf", "a-IQ4_K_M.gguf", "a-F16-00001-of-00002.gguf",
		"a-F16-00002-of-00002.gguf", "a-Q6_K-00001-of-00002.gguf")
	bad := snapshot(t, cache, "o/bad")
	must(t, os.Symlink("/etc/passwd", filepath.Join(bad, "config.json")))
	must(t, os.Chmod(cache, 0o555))
	t.Cleanup(func() { _ = os.Chmod(cache, 0o755) })
	before := listing(t, cache)
	fx := newFixture(t)
	for name, want := range map[string]string{
		"hf:o/encoder":               enc,
		"hf:o/encoder@" + commit:     enc,
		"hf:o/gen":                   filepath.Join(gen, "a-Q4_K_M.gguf"),
		"hf:o/gen:q8_0":              filepath.Join(gen, "a-Q8_0.gguf"),
		"hf:o/gen:a-Q8_0.gguf":       filepath.Join(gen, "a-Q8_0.gguf"),
		"hf:o/gen:F16@main":          filepath.Join(gen, "a-F16-00001-of-00002.gguf"),
		"hf:o/gen:IQ4_K_M@" + commit: filepath.Join(gen, "a-IQ4_K_M.gguf"),
	} {
		if got, err := fx.Locate(name); err != nil || got != want {
			t.Errorf("%s: %q %v, want %q", name, got, err, want)
		}
		if got, err := fx.Pull(t.Context(), name, nil); err != nil || got != want {
			t.Errorf("pull %s: %q %v", name, got, err)
		}
	}
	for name, want := range map[string]error{
		"hf:o/gen:Q5_0": ErrNotPulled, "hf:o/gen:Q6_K": ErrNotPulled, "hf:o/none": ErrNotPulled,
		"hf:o/gen@v2": ErrNotPulled, "hf:o/bad": ErrReference, "hf:": ErrReference, "hf:o/../x": ErrReference,
		"hf:../x": ErrReference, "hf:o/gen@../../x": ErrReference, "hf:o/gen:../x": ErrReference,
		"hf:o/gen:": ErrReference, "ollama:": ErrReference, "hf:gen@": ErrReference, "hf:gen": ErrReference,
	} {
		if got, err := fx.Locate(name); !errors.Is(err, want) {
			t.Errorf("%s: %q %v, want %v", name, got, err, want)
		}
	}
	if after := listing(t, cache); after != before {
		t.Errorf("the cache was changed:\n%s\n%s", before, after)
	}
}

func TestModelsOfOllama(t *testing.T) {
	store := t.TempDir()
	t.Setenv("OLLAMA_MODELS", store)
	sum := strings.Repeat("ab", 32)
	of := func(sum string) string {
		return `{"layers":[{"mediaType":"application/vnd.ollama.image.license","digest":"sha256:` +
			strings.Repeat("cd", 32) + `"},{"mediaType":"application/vnd.ollama.image.model","digest":"` + sum + `"}]}`
	}
	registry := filepath.Join(store, "manifests", "registry.ollama.ai")
	put(t, filepath.Join(registry, "library", "llama3.2", "latest"), of("sha256:"+sum))
	put(t, filepath.Join(registry, "me", "mine", "8b"), of("sha256:"+sum))
	put(t, filepath.Join(registry, "library", "gone", "latest"), of("sha256:"+strings.Repeat("ef", 32)))
	put(t, filepath.Join(registry, "library", "evil", "latest"), of("sha256:../../../etc/passwd"))
	put(t, filepath.Join(registry, "library", "broken", "latest"), "{")
	blob := filepath.Join(store, "blobs", "sha256-"+sum)
	put(t, blob, "weights")
	before := listing(t, store)
	fx := newFixture(t)
	for _, name := range []string{"ollama:llama3.2", "ollama:llama3.2:latest", "ollama:me/mine:8b"} {
		if got, err := fx.LocateGGUF(name); err != nil || got != blob {
			t.Errorf("%s: %q %v", name, got, err)
		}
	}
	for name, want := range map[string]error{"ollama:llama3.2:1b": ErrNotPulled, "ollama:gone": ErrNotPulled,
		"ollama:evil": ErrReference, "ollama:broken": ErrReference, "ollama:../x": ErrReference} {
		if got, err := fx.LocateGGUF(name); !errors.Is(err, want) {
			t.Errorf("%s: %q %v, want %v", name, got, err, want)
		}
	}
	if after := listing(t, store); after != before {
		t.Errorf("the store was changed:\n%s\n%s", before, after)
	}
}
